"""Batches by tokens, bucketed by length, in an order that depends on nothing but (seed, epoch).

A loader has no position: a run that stopped after n batches of an epoch goes on with `epoch(e, start=n)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import torch
from torch import Tensor

from windlass.core.errors import DataError
from windlass.core.marks import EOS
from windlass.core.records import Batch, Padded
from windlass.data.codecs import Ids
from windlass.data.examples import Alignment
from windlass.data.plan import Plan, Planner
from windlass.data.store import Encoded, Tokens, nested

__all__ = ["Encoded", "Loader", "collate"]


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


def _padded(rows: Sequence[Ids], end: bool = False) -> Padded:
    if any(nested(row) for row in rows):
        return Padded.nested(cast("Sequence[list[list[int]]]", rows))
    flat = cast("Sequence[list[int]]", rows)
    return Padded.of([[*row, EOS] if end else row for row in flat])


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
        examples: Tokens | Iterable[Encoded | tuple[list[int], list[int] | None, Alignment | None]],
        batch_tokens: int,
        seed: int,
        shuffle: bool,
        source_end: bool = True,
        target_end: bool = True,
    ) -> None:
        if batch_tokens < 1:
            raise DataError(f"batch_tokens must be at least 1, not {batch_tokens}")
        self.examples = examples if isinstance(examples, Tokens) else Tokens(Encoded(*e) for e in examples)
        self.planner = Planner(self.examples, source_end, target_end, batch_tokens, seed, shuffle)
        self.source_end, self.target_end = source_end, target_end
        self._planned: tuple[int, Plan] | None = None  # that of one epoch is kept, as it is asked for again and again

    def _plan(self, number: int) -> Plan:
        if self._planned is None or self._planned[0] != number:
            self._planned = None  # before another is made
            self._planned = number, self.planner.plan(number)
        return self._planned[1]

    def batches(self, number: int) -> int:
        """How many batches an epoch has.

        >>> Loader([Encoded([5], [6])], batch_tokens=8, seed=1, shuffle=True).batches(0)
        1
        """
        return len(self._plan(number).turns)

    def cells(self, number: int) -> list[int]:
        """How many places every batch of an epoch has, padding too, without making the batches; of other inputs none.

        >>> Loader([Encoded([5], [6]), Encoded([5, 6], [6])], batch_tokens=8, seed=1, shuffle=True).cells(0)
        [10]
        """
        plan = self._plan(number)
        found: list[int] = plan.cells[plan.turns].tolist()
        return found

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from batch `start` on.

        >>> loader = Loader([Encoded([5], [6])], batch_tokens=8, seed=1, shuffle=True)
        >>> [batch.size for batch in loader.epoch(0)]
        [1]
        """
        plan = self._plan(number)
        for turn in plan.turns[start:]:
            keys = plan.keys(turn)
            yield collate([self.examples[k] for k in keys], keys, self.source_end, self.target_end)
