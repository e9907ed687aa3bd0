"""Batches by tokens, bucketed by length, in an order that depends on nothing but (seed, epoch).

A loader has no position: a run that stopped after n batches of an epoch goes on with `epoch(e, start=n)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from windlass.core.errors import DataError
from windlass.core.records import Batch, Padded
from windlass.data.codecs import EOS, Ids, Inputs
from windlass.data.examples import Alignment

NOISE = 0.1  # lengths are blurred by up to this share before sorting, so that batches differ between epochs


class Encoded(NamedTuple):
    """An example as ids, without marks. A target of None means that there is none (prediction).

    `source` is the main input, by whose length batches are made: places, or places of places. `more` are other inputs.

    >>> Encoded([5, 6], [7]).alignment is None
    True
    """

    source: Ids
    target: list[int] | None
    alignment: Alignment | None = None
    more: Inputs | None = None


def collate(rows: Sequence[Encoded], keys: Sequence[int], source_end: bool = True, target_end: bool = True) -> Batch:
    """Make a batch of examples; if told, the end mark is put on every target and on every (flat) source.

    >>> batch = collate([Encoded([5, 6], [7]), Encoded([5], [7, 8])], keys=[0, 1])
    >>> batch.inputs["source"].values.tolist(), batch.target.values.tolist()
    ([[5, 6, 3], [5, 3, 0]], [[7, 3, 0], [7, 8, 3]])
    """
    source = _padded([row.source for row in rows], source_end)
    others = {name: _padded([(row.more or {})[name] for row in rows]) for name in rows[0].more or {}}
    targets = [[*row.target, EOS] if target_end else row.target for row in rows if row.target is not None]
    if targets and len(targets) != len(rows):
        raise DataError("some examples of a batch have a target and others have none; give all or none of them")
    target = Padded.of(targets) if targets else None
    alignment = None
    if target is not None and any(row.alignment is not None for row in rows):
        alignment = _gold(rows, target.values.shape[1], source.values.shape[1])
    return Batch({"source": source, **others}, target, torch.tensor(keys, dtype=torch.long), alignment)


def _nested(ids: Ids) -> bool:
    return bool(ids) and isinstance(ids[0], list)


def _padded(rows: Sequence[Ids], end: bool = False) -> Padded:
    if any(_nested(row) for row in rows):
        return Padded.nested(cast("Sequence[list[list[int]]]", rows))
    flat = cast("Sequence[list[int]]", rows)
    return Padded.of([[*row, EOS] if end else row for row in flat])


def _places(ids: Ids) -> int:
    """How many places a row has; of places of places, such as the words of sentences, all of these."""
    return sum(len(cast("list[int]", part)) for part in ids) if _nested(ids) else len(ids)


def _longest(example: Encoded) -> int:
    """How many places a row needs for the longest of its inputs; letters of words are no places of their own."""
    places = _places(example.source)
    if example.more is None:
        return places
    return max([places, *(len(ids) for ids in example.more.values() if not _nested(ids))])


def _gold(rows: Sequence[Encoded], width_target: int, width_source: int) -> Tensor:
    gold = torch.zeros(len(rows), width_target, width_source)
    links = [(b, j, i) for b, row in enumerate(rows) for i, j in row.alignment or ()]
    if links:
        b, j, i = torch.tensor(links).unbind(1)
        gold[b, j, i] = 1.0
    return gold / gold.sum(2, keepdim=True).clamp(min=1.0)


class Loader:
    """Serves examples as batches whose cost, rows x the longest sequence, is at most `batch_tokens`.

    An example longer than that is a batch of its own; none is left out. Without `shuffle` batches run from
    short to long, always the same; `keys` says which examples they hold.

    >>> data = [Encoded([5] * n, [6] * n) for n in (1, 2, 3, 9)]
    >>> loader = Loader(data, batch_tokens=12, seed=1, shuffle=False)
    >>> [batch.keys.tolist() for batch in loader.epoch(0)]
    [[0, 1, 2], [3]]
    >>> [batch.keys.tolist() for batch in loader.epoch(0, start=1)]
    [[3]]
    """

    def __init__(
        self,
        examples: Sequence[Encoded | tuple[list[int], list[int] | None, Alignment | None]],
        batch_tokens: int,
        seed: int,
        shuffle: bool,
        source_end: bool = True,
        target_end: bool = True,
    ) -> None:
        if batch_tokens < 1:
            raise DataError(f"batch_tokens must be at least 1, not {batch_tokens}")
        self.examples = [Encoded(*example) for example in examples]
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.shuffle = shuffle
        self.source_end, self.target_end = source_end, target_end
        sources = np.array([_longest(e) for e in self.examples], dtype=np.int64) + int(source_end)
        targets = np.array(
            [0 if e.target is None else len(e.target) + target_end for e in self.examples], dtype=np.int64
        )
        self.lengths: NDArray[np.int64] = np.maximum(np.maximum(sources, targets), 1)
        self._check_alignments()

    def _check_alignments(self) -> None:
        for key, (source, target, alignment, _) in enumerate(self.examples):
            for i, j in alignment or ():
                if not (0 <= i < len(source) and 0 <= j < len(target or ())):
                    raise DataError(
                        f"example {key}: alignment point {i}-{j} lies outside {len(source)} source and "
                        f"{len(target or ())} target tokens; alignments must count the tokens the model sees"
                    )

    def _plan(self, number: int) -> list[NDArray[np.int64]]:
        """The keys of every batch of an epoch, in order."""
        lengths, count = self.lengths, len(self.lengths)
        generator = np.random.default_rng([self.seed, number])
        if self.shuffle:
            order = np.argsort(lengths * generator.uniform(1 - NOISE, 1 + NOISE, count), kind="stable")
        else:
            order = np.argsort(lengths, kind="stable")
        ordered = lengths[order]
        batches, begin = [], 0
        while begin < count:
            most = max(1, self.batch_tokens // int(ordered[begin]))
            longest = np.maximum.accumulate(ordered[begin : begin + most])
            cost = longest * np.arange(1, len(longest) + 1)
            rows = max(1, int(np.searchsorted(cost, self.batch_tokens, side="right")))
            batches.append(order[begin : begin + rows])
            begin += rows
        if self.shuffle:
            return [batches[n] for n in generator.permutation(len(batches))]
        return batches

    def batches(self, number: int) -> int:
        """How many batches an epoch has.

        >>> Loader([Encoded([5], [6])], batch_tokens=8, seed=1, shuffle=True).batches(0)
        1
        """
        return len(self._plan(number))

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from batch `start` on.

        >>> loader = Loader([Encoded([5], [6])], batch_tokens=8, seed=1, shuffle=True)
        >>> [batch.size for batch in loader.epoch(0)]
        [1]
        """
        for keys in self._plan(number)[start:]:
            yield collate([self.examples[k] for k in keys], keys.tolist(), self.source_end, self.target_end)
