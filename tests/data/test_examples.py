"""Examples, their grouping and their splitting."""

import unicodedata

import pytest

from windlass.core.errors import DataError
from windlass.data import examples
from windlass.data.examples import Example, Place, expand, group, split


def example(source: str, *targets: str, line: int = 1) -> Example:
    return Example(source, targets, None, Place("pairs.tsv", line))


def test_grouping_keeps_order_places_and_every_target_once() -> None:
    merged = group([example("b", "1", line=1), example("a", "2", line=2), example("b", "3", "1", line=3)])
    assert merged == [example("b", "1", "3", line=1), example("a", "2", line=2)]


def test_expanding_undoes_grouping() -> None:
    flat = [example("b", "1"), example("b", "3"), example("a", "2")]
    assert expand(group(flat)) == flat


def test_a_split_is_complete_and_in_order_and_shares_no_source() -> None:
    data = [example(f"s{n % 40}", f"t{n}", line=n) for n in range(200)]
    train, dev = split(data, 0.1, seed=3)
    assert sorted(train + dev, key=lambda e: e.place.line) == data
    assert train == sorted(train, key=lambda e: e.place.line)
    assert not {e.source for e in train} & {e.source for e in dev}
    assert len(dev) == 20


def test_the_same_letter_written_in_two_ways_is_the_same_source() -> None:
    data = [example(s, "x") for n in range(30) for s in (f"\u00e9{n}", f"e\u0301{n}")]
    train, dev = split(data, 0.3, seed=0)
    assert not {e.source.replace("e\u0301", "\u00e9") for e in train} & {
        e.source.replace("e\u0301", "\u00e9") for e in dev
    }


def test_a_split_depends_on_the_seed_alone() -> None:
    data = [example(f"s{n}", "t") for n in range(100)]
    assert split(data, 0.2, seed=1) == split(data, 0.2, seed=1)
    assert split(data, 0.2, seed=1) != split(data, 0.2, seed=2)


def test_neither_side_of_a_split_is_empty() -> None:
    data = [example("a", "x"), example("b", "x")]
    for fraction in (0.001, 0.999):
        train, dev = split(data, fraction, seed=0)
        assert len(train) == len(dev) == 1


@pytest.mark.parametrize("fraction", [0.0, 1.0, -1.0])
def test_a_share_of_nothing_or_all_is_refused(fraction: float) -> None:
    with pytest.raises(DataError, match="between 0 and 1"):
        split([example("a", "x"), example("b", "x")], fraction, seed=0)


def test_many_are_split_by_a_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "MANY", 999)
    data = [example(f"{word}{n % 700}", "x") for n in range(1000) for word in ("\u00e9", "e\u0301")]
    train, dev = split(data, 0.2, seed=1)
    assert len(train) + len(dev) == 2000
    assert 400 <= len(dev) <= 403  # whole sources
    assert not {unicodedata.normalize("NFC", e.text) for e in train} & {
        unicodedata.normalize("NFC", e.text) for e in dev
    }
    assert (train, dev) == split(data, 0.2, seed=1) != split(data, 0.2, seed=2)
    for fraction, sizes in ((1e-6, [699, 1]), (1 - 1e-6, [1, 699])):
        parts = split(data, fraction, seed=1)
        assert [len({unicodedata.normalize("NFC", e.text) for e in part}) for part in parts] == sizes
    skewed = [example(f"s{n}", "x") for n in range(1000)] + [example("often", "x")] * 5000
    assert all(600 <= len(split(skewed, 0.1, seed)[1]) <= 5600 for seed in range(9))
    with pytest.raises(DataError, match="fewer than two sources; give a dev file"):
        split([example("a", "x")] * 1000, 0.2, seed=1)


def test_one_source_cannot_be_split() -> None:
    with pytest.raises(DataError, match="give a dev file"):
        split([example("a", "x"), example("a", "y")], 0.5, seed=0)


@pytest.mark.parametrize("often", ["a", "b"])
def test_a_source_of_most_examples_is_for_training(often: str) -> None:
    sources = [often] * 138 + ["ab".replace(often, "")] * 62
    train, dev = split([Example(s, ("x",), None, Place("a.tsv", n)) for n, s in enumerate(sources, 1)], 0.1, seed=1)
    assert (len(train), len(dev), train[0].source) == (138, 62, often)
