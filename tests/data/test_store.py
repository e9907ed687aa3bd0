"""What is held in flat arrays, in memory or on disk, is what was put there."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from windlass.core.errors import DataError, RecipeError
from windlass.core.marks import EOS
from windlass.core.weights import weights
from windlass.data import doctor, findings, repeats
from windlass.data.encoded import Encoded, EncodedStore
from windlass.data.examples import Example, Place, expand
from windlass.data.growing import GrowingArray
from windlass.data.readers import read
from windlass.data.repeats import firsts, hashes
from windlass.data.sides import Sides
from windlass.data.sides.base import ids
from windlass.data.store import LARGE, ExampleStore, View, joined_views, keeping, some
from windlass.experiment.data import fingerprint, read_data
from windlass.experiment.run import run
from windlass.recipe import Recipe, compose, setting
from windlass.training.observe import Silent

SIDES = Sides.tiny()
FLAT = [
    Encoded({"source": ids([5, 6, 70_000])}, ids([7])),
    Encoded({"source": ids([])}, ids([8, 9]), ids([]).reshape(0, 2)),
    Encoded({"source": ids([4, 4])}, ids([4]), ids([[0, 0], [1, 0]])),
]
OF_ANY_TYPE = [
    Encoded({"letters": ids([4, 5, 6]), "path": np.frombuffer(b"a.png", np.uint8), "grid": np.ones((2, 3))}, None),
    Encoded({"letters": ids([]), "path": np.frombuffer(b"", np.uint8), "grid": np.zeros((0, 3))}, None),
    Encoded({"letters": ids([7]), "path": np.frombuffer(b"bc", np.uint8), "grid": np.eye(2)}, None),
]


def row(source: int, target: int) -> Encoded:
    return Encoded({"source": ids([5] * source + [EOS])}, ids([6] * target))


def same(one: Encoded, other: Encoded) -> bool:
    pairs = [(one.target, other.target), (one.alignment, other.alignment)]
    pairs += [(one.source[name], other.source[name]) for name in one.source]
    return list(one.source) == list(other.source) and all(
        (a is None and b is None) or (a is not None and b is not None and a.dtype == b.dtype and np.array_equal(a, b))
        for a, b in pairs
    )


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WINDLASS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("disk", [False, True])
@pytest.mark.parametrize("rows", [FLAT, OF_ANY_TYPE])
def test_arrays_come_back_as_they_were(rows: list[Encoded], disk: bool) -> None:
    store = EncodedStore(iter(rows), lambda row: (1, 0), disk)
    assert all(map(same, store, rows))
    assert same(store[-1], rows[-1])
    assert all(same(store[n], rows[n]) for n in (2, 0, 1))


def test_rows_of_one_store_are_alike() -> None:
    with pytest.raises(DataError, match="all with a target or none"):
        SIDES.store([SIDES.encode("a", "b"), SIDES.encode("a")])


def test_a_token_takes_four_bytes() -> None:
    store = SIDES.store(row(10, 10) for _ in range(100))
    assert store._bytes.size == 100 * 4 * (21 + 3)  # with the end mark, and three numbers an example


@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_from_disk_are_those_from_memory(shuffle: bool) -> None:
    chance = np.random.default_rng(1)
    rows = [row(int(n), int(m)) for n, m in chance.integers(1, 30, (200, 2))]
    memory, disk = (SIDES.loader(SIDES.store(rows, on), 120, seed=3, shuffle=shuffle) for on in (False, True))
    for epoch in (0, 1):
        pairs = list(zip(memory.epoch(epoch), disk.epoch(epoch), strict=True))
        assert len(pairs) == memory.batches(epoch) > 10
        for one, two in pairs:
            assert torch.equal(one.keys, two.keys)
            assert torch.equal(one.inputs["source"].values, two.inputs["source"].values)


def test_cells_are_those_of_the_batches() -> None:
    chance = np.random.default_rng(2)
    rows = [row(int(n), int(m)) for n, m in chance.integers(0, 30, (100, 2))]
    loader = SIDES.loader(rows, 120, seed=3, shuffle=True)
    made = [b.inputs["source"].values.numel() + b.target.values.numel() for b in loader.epoch(1) if b.target]
    assert loader.cells(1) == made


def examples() -> list[Example]:
    here = Place("pairs.tsv", 1)
    return [
        Example("a", ("x", "y"), ((0, 0),), here),
        Example(("b", "c"), ("é\u0301 \U0001f600",), None, Place("other.tsv", 7)),
        Example("d", ("z",), (), Place("pairs.tsv", 2)),
    ]


def test_examples_come_back_as_they_were(cache: Path) -> None:
    store = ExampleStore()
    first, second = store.take(iter(examples())), store.take(iter(examples()[:1]))
    assert list(first) == examples() == [first[n] for n in range(3)]
    assert list(second) == examples()[:1]
    assert list(first.expanded()) == expand(examples())
    assert first.expanded()[1] == expand(examples())[1]
    stay, out = first.parted([False, True, False])
    assert list(stay) == [examples()[0], examples()[2]]
    assert list(out) == [examples()[1]]
    assert stay[-1] == examples()[2]
    assert list(stay[::-1]) == [examples()[2], examples()[0]]
    assert list(first.expanded().expanded()) == expand(examples())
    assert list(stay.expanded()) == expand([examples()[0], examples()[2]])
    assert first[1:][0] == examples()[1]


def test_rows_far_apart_and_in_any_order_are_found() -> None:
    store = ExampleStore()
    store.take(Example(str(n), ("x",), None, Place("a", n)) for n in range(5000))
    rows = np.random.default_rng(1).permutation(5000)[:700].astype(np.int32)
    assert [e.source for e in View(store, rows)] == [str(n) for n in rows]


def test_nothing_is_left_on_disk(cache: Path) -> None:
    store = ExampleStore()
    store.take(examples())
    if os.name == "posix":
        assert list((cache / "windlass").iterdir()) == []  # while it is still in use


def test_large_files_go_to_disk_by_themselves(tmp_path: Path) -> None:
    file = tmp_path / "large.tsv"
    with file.open("wb") as out:
        out.truncate(LARGE + 1)
    small = tmp_path / "small.tsv"
    small.write_text("a\tb\n")
    assert keeping([str(small)]) is tuple
    assert keeping([str(file)]) is not tuple
    assert keeping([f"{small},{file}"]) is not tuple
    assert keeping([str(file)], "memory") is tuple
    assert keeping([str(small)], "disk") is not tuple


def corpus(folder: Path) -> Path:
    lines = [f"{chr(97 + n % 7)}{chr(97 + n % 5)} {n % 40}\t{n % 40} {chr(97 + n % 3)}" for n in range(120)]
    file = folder / "pairs.tsv"
    file.write_text("\n".join([*lines, lines[3], "", " ab 1 \tx"]), encoding="utf-8")
    return file


def test_data_on_disk_is_data_in_memory(tmp_path: Path) -> None:
    over = [{"data": {"train": [str(corpus(tmp_path))]}}]
    memory = read_data(compose("text", None, [*over, setting("data.store=memory")]))
    disk = read_data(compose("text", None, [*over, setting("data.store=disk")]))
    assert isinstance(disk.train, View)
    assert tuple(disk.train) == tuple(memory.train)
    assert tuple(disk.dev) == tuple(memory.dev)
    assert disk.report == memory.report
    assert fingerprint(disk, Recipe()) == fingerprint(memory, Recipe())


def test_training_from_disk_gives_the_weights_of_training_from_memory(tmp_path: Path) -> None:
    found = []
    for store in ("memory", "disk"):
        settings = [f"data.store={store}", "train.epochs=1", "model.encoder.size=8", "model.decoder.size=8"]
        recipe = compose(
            "text", None, [{"data": {"train": [str(corpus(tmp_path))]}}, *(setting(text) for text in settings)]
        )
        found.append(weights(run(recipe, read_data(recipe), tmp_path / store, Silent()).bundle.model))
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_a_language_model_has_no_store_on_disk() -> None:
    with pytest.raises(RecipeError, match="disk is for examples"):
        compose("lm", None, [setting("data.store=disk")])


def test_some_are_spread_evenly() -> None:
    assert list(some(list(range(10)), 5)) == [0, 2, 4, 6, 8]  # type: ignore[arg-type, comparison-overlap]


def test_first_places_are_those_of_a_search() -> None:
    keys = np.random.default_rng(1).integers(0, 50, 300).tolist()
    assert firsts(hashes(keys)).tolist() == [keys.index(key) for key in keys]


@pytest.mark.parametrize("disk", [False, True])
def test_repeats_are_those_of_a_search(disk: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "PARTS", 5)
    monkeypatch.setattr(repeats, "BLOCK", 7)
    chance = np.random.default_rng(1)
    data = [(str(n % 40), [str(x) for x in chance.integers(0, 4, 1 + n % 3)]) for n in chance.integers(0, 60, 150)]
    again, other, pairs, sources = [], [], {}, {}
    for owner, (source, answers) in enumerate(data):
        sources.setdefault(source, owner)
        for answer in answers:
            if (source, answer) in pairs:
                again.append((owner, pairs[source, answer]))
            elif sources[source] != owner:
                other.append((owner, sources[source]))
            pairs.setdefault((source, answer), owner)
    for found, right in zip(repeats.RepeatFinder(data, disk).repeats(most=9), (again, other), strict=True):
        assert found.total == len(right) > 20
        assert list(zip(found.owners, found.firsts, strict=True)) == right[:9]


@pytest.mark.parametrize("disk", [False, True])
def test_a_growing_array_holds_what_was_added_one_by_one_or_many_at_a_time(disk: bool) -> None:
    numbers = GrowingArray(np.int32, disk)
    numbers.append(-5)
    assert numbers[:].tolist() == [-5]
    numbers.extend(np.arange(4, dtype=np.int32))
    numbers.append(2**31 - 1)
    assert numbers[:].tolist() == [-5, 0, 1, 2, 3, 2**31 - 1]
    assert numbers[2:4].tolist() == numbers[-4:-2].tolist() == [1, 2]
    assert numbers[4:2].tolist() == numbers[9:].tolist() == []
    assert len(numbers) == 6


def test_files_read_one_after_the_other_are_one_view() -> None:
    store, other = ExampleStore(), ExampleStore()
    first, second, third = (store.take(iter(examples()[n:])) for n in (0, 1, 2))
    joined = joined_views([first, second, third])
    assert list(joined) == examples() + examples()[1:] + examples()[2:]
    assert isinstance(joined, View)
    assert isinstance(joined.rows, range)
    assert list(joined_views([third, first])) == examples()[2:] + examples()
    assert list(joined_views([first, tuple(examples())])) == examples() + examples()
    assert list(joined_views([other.take([])])) == []


def test_findings_beyond_the_most_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "MOST", 3)
    file = tmp_path / "bad.tsv"
    file.write_text("a\tb\n" * 6 + "\n" * 5)
    report = doctor.survey([read(file)])
    assert report.counts == {"duplicate": 5, "blank": 5}
    assert len(report.findings) == 6
    assert "duplicate: 5 kept" in report.render()
    assert "and 4 more" in report.render(limit=1)
