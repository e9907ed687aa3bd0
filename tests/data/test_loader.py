"""Batches: what is in them, what they cost, and in which order they come."""

import time
from pathlib import Path

import numpy as np
import pytest
import torch

from windlass.core.errors import DataError
from windlass.core.marks import EOS
from windlass.core.records import Batch
from windlass.data import Encoded, Loader, Sides, growing
from windlass.data.examples import Example, Place
from windlass.data.loader import NOISE
from windlass.data.sides.base import ids

RANDOM = np.random.default_rng(5)
SIDES = Sides.tiny()


def encoded(source: list[int], target: list[int] | None, links: list[tuple[int, int]] | None = None) -> Encoded:
    alignment = None if links is None else ids(links)
    return Encoded({"source": ids([*source, EOS])}, None if target is None else ids(target), alignment)


def serve(rows: list[Encoded], batch_tokens: int, seed: int = 1, shuffle: bool = True) -> Loader:
    return SIDES.loader(rows, batch_tokens, seed, shuffle)


IDS = [
    ([int(i) for i in RANDOM.integers(4, 30, n)], [int(i) for i in RANDOM.integers(4, 30, m)])
    for n, m in RANDOM.integers(0, 20, (300, 2))
]
DATA = [encoded(*pair) for pair in IDS]
LENGTHS = np.array([max(len(source), len(target)) + 1 for source, target in IDS])


def same(a: Batch, b: Batch) -> bool:
    return (
        torch.equal(a.keys, b.keys)
        and a.target is not None
        and b.target is not None
        and torch.equal(a.target.values, b.target.values)
        and torch.equal(a.inputs["source"].values, b.inputs["source"].values)
    )


def cost(batch: Batch) -> int:
    assert batch.target is not None
    return batch.size * max(batch.inputs["source"].values.shape[1], batch.target.values.shape[1])


@pytest.mark.parametrize("shuffle", [True, False])
def test_an_epoch_has_every_example_once_and_unchanged(shuffle: bool) -> None:
    loader = serve(DATA, batch_tokens=64, shuffle=shuffle)
    seen = []
    for batch in loader.epoch(0):
        source, target = batch.inputs["source"], batch.target
        assert target is not None
        for row, key in enumerate(batch.keys.tolist()):
            seen.append(key)
            assert source.values[row][source.mask[row]].tolist() == [*IDS[key][0], EOS]
            assert target.values[row][target.mask[row]].tolist() == [*IDS[key][1], EOS]
    assert sorted(seen) == list(range(len(DATA)))


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_batch_costs_at_most_its_tokens_and_is_filled(shuffle: bool) -> None:
    loader = serve(DATA, batch_tokens=100, seed=1, shuffle=shuffle)
    batches = list(loader.epoch(0))
    assert all(cost(batch) <= 100 for batch in batches)
    assert np.mean([cost(batch) for batch in batches]) > 80


def test_a_batch_may_cost_exactly_its_tokens() -> None:
    loader = serve([encoded([4, 4], [5, 5])] * 6, batch_tokens=9, seed=1, shuffle=True)
    assert [batch.size for batch in loader.epoch(0)] == [3, 3]


def test_one_example_over_the_limit_is_a_batch_of_its_own() -> None:
    loader = serve([encoded([4] * 50, [5]), encoded([4], [5])], batch_tokens=10, seed=1, shuffle=True)
    assert sorted(b.keys.tolist() for b in loader.epoch(0)) == [[0], [1]]


def test_the_same_seed_and_epoch_give_the_same_batches() -> None:
    one, two = (serve(DATA, batch_tokens=64, seed=7, shuffle=True) for _ in range(2))
    list(two.epoch(0))  # what was served before does not matter
    assert all(same(a, b) for a, b in zip(one.epoch(3), two.epoch(3), strict=True))


def test_epochs_and_seeds_differ_in_batches_not_only_in_their_order() -> None:
    def plan(seed: int, epoch: int) -> set[frozenset[int]]:
        loader = serve(DATA, batch_tokens=64, seed=seed, shuffle=True)
        return {frozenset(b.keys.tolist()) for b in loader.epoch(epoch)}

    assert plan(1, 0) != plan(1, 1)
    assert plan(1, 0) != plan(2, 0)


def test_batch_order_is_shuffled_only_if_told() -> None:
    def widths(shuffle: bool) -> list[int]:
        return [cost(b) // b.size for b in serve(DATA, batch_tokens=64, seed=1, shuffle=shuffle).epoch(0)]

    assert widths(False) == sorted(widths(False))
    shuffled = widths(True)
    assert abs(np.corrcoef(shuffled, np.arange(len(shuffled)))[0, 1]) < 0.5


@pytest.mark.parametrize("start", [0, 1, 17])
def test_an_epoch_goes_on_where_it_stopped(start: int) -> None:
    loader = serve(DATA, batch_tokens=64, seed=1, shuffle=True)
    whole = list(loader.epoch(2))
    rest = list(loader.epoch(2, start=start))
    assert len(rest) == len(whole) - start
    assert all(same(a, b) for a, b in zip(whole[start:], rest, strict=True))
    assert loader.batches(2) == len(whole)


def test_bucketing_wastes_little() -> None:
    loader = serve(DATA, batch_tokens=200, seed=1, shuffle=True)
    rows = sum(b.size * (cost(b) // b.size) for b in loader.epoch(0))
    assert LENGTHS.sum() / rows > 0.85


def test_gold_alignment_rows_sum_to_one_or_are_zero() -> None:
    batch = SIDES.collate([encoded([5, 6], [7, 8, 9], [(0, 0), (1, 0), (1, 2)]), encoded([5], [7])], keys=[3, 4])
    assert batch.alignment is not None
    assert batch.alignment.tolist() == [
        [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]],
        [[0.0, 0.0, 0.0]] * 4,
    ]
    assert batch.keys.tolist() == [3, 4]


def test_a_link_given_twice_counts_once() -> None:
    batch = SIDES.collate([encoded([5, 6], [7], [(0, 0), (0, 0), (1, 0)])], keys=[0])
    assert batch.alignment is not None
    assert batch.alignment[0, 0].tolist() == [0.5, 0.5, 0.0]


def test_without_alignments_there_is_none() -> None:
    assert SIDES.collate([encoded([5], [7])], keys=[0]).alignment is None


@pytest.mark.parametrize("link", [(2, 0), (0, 1), (-1, 0)])
def test_a_link_outside_the_example_is_refused_at_once(link: tuple[int, int]) -> None:
    with pytest.raises(DataError, match=r"a\.tsv:7: alignment point .* lies outside 2 source and 1 target tokens"):
        SIDES.encode_example(Example("ab", ("c",), (link,), Place("a.tsv", 7)))


def test_sources_alone_can_be_served_for_prediction() -> None:
    loader = serve([encoded([5, 6], None), encoded([], None)], batch_tokens=9, seed=1, shuffle=False)
    (batch,) = loader.epoch(0)
    assert batch.target is None
    assert batch.keys.tolist() == [1, 0]
    assert batch.inputs["source"].values.tolist() == [[EOS, 0, 0], [5, 6, EOS]]


def test_half_of_the_targets_missing_is_refused() -> None:
    with pytest.raises(DataError, match="all or none"):
        SIDES.collate([encoded([5], None), encoded([5], [6])], keys=[0, 1])


def reference(lengths: np.ndarray, tokens: int, seed: int, number: int, shuffle: bool) -> list[list[int]]:
    """An epoch's batches, all at once and one example after the other."""
    generator = np.random.default_rng([seed, number])
    blurred = lengths * generator.uniform(1 - NOISE, 1 + NOISE, len(lengths)) if shuffle else lengths
    batches: list[list[int]] = []
    for key in np.argsort(blurred, kind="stable").tolist():
        if batches and max(lengths[k] for k in [*batches[-1], key]) * (len(batches[-1]) + 1) <= tokens:
            batches[-1].append(key)
        else:
            batches.append([key])
    return [batches[turn] for turn in generator.permutation(len(batches))] if shuffle else batches


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("portion", [1, 2, 40, 299, 300])
@pytest.mark.parametrize("disk", [True, False])
def test_a_plan_in_portions_is_the_plan_in_one(
    shuffle: bool, portion: int, disk: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WINDLASS_CACHE", str(tmp_path))
    monkeypatch.setattr("windlass.data.loader.SORTED", portion)
    monkeypatch.setattr("windlass.data.loader.SAMPLE", 100)
    monkeypatch.setattr(growing, "BLOCK", 64)
    loader = SIDES.loader(SIDES.store(DATA, disk), batch_tokens=50, seed=3, shuffle=shuffle)
    for epoch in (0, 4):
        found = [batch.keys.tolist() for batch in loader.epoch(epoch)]
        assert found == reference(LENGTHS, 50, 3, epoch, shuffle)


def test_no_examples_are_no_batches() -> None:
    assert list(serve([], batch_tokens=9, seed=1, shuffle=True).epoch(0)) == []


def test_a_large_corpus_is_planned_quickly() -> None:
    loader = serve(DATA, batch_tokens=4096, seed=1, shuffle=True)
    sizes = np.random.default_rng(0).integers(1, 60, 1_000_000, dtype=np.int32)
    loader.examples.source_costs.extend(sizes)
    loader.examples.target_costs.extend(sizes)
    begin = time.process_time()
    assert loader.batches(0) > 5000
    assert time.process_time() - begin < 5
