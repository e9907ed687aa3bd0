"""Batches by tokens, bucketed by length, in an order that depends on nothing but (seed, epoch).

A loader has no position: a run that stopped after n batches of an epoch goes on with `epoch(e, start=n)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from windlass.core.errors import DataError
from windlass.core.records import Batch
from windlass.data.encoded import Encoded, EncodedStore
from windlass.data.plan import EpochPlan, EpochPlanner

Collate = Callable[[Sequence[Encoded], Sequence[int]], Batch]
"""Rows and their keys to a batch."""


class Loader:
    """Serves examples as batches whose cost, rows x the longest sequence, is at most `batch_tokens`.

    An example longer than that is a batch of its own; none is left out. Without `shuffle` batches run from
    short to long, always the same; `keys` says which examples they hold.

    >>> from windlass.data.sides import Sides
    >>> sides = Sides.tiny()
    >>> rows = [sides.encode("a" * n, "b" * n) for n in (1, 2, 3, 9)]
    >>> loader = Loader(sides.store(rows), sides.collate, batch_tokens=12, seed=1, shuffle=False)
    >>> [batch.keys.tolist() for batch in loader.epoch(0)]
    [[0, 1, 2], [3]]
    >>> [batch.keys.tolist() for batch in loader.epoch(0, start=1)]
    [[3]]
    """

    def __init__(self, examples: EncodedStore, collate: Collate, batch_tokens: int, seed: int, shuffle: bool) -> None:
        if batch_tokens < 1:
            raise DataError(f"batch_tokens must be at least 1, not {batch_tokens}")
        self.examples, self.collate = examples, collate
        self.planner = EpochPlanner(examples.source_costs, examples.target_costs, batch_tokens, seed, shuffle)
        self._planned: tuple[int, EpochPlan] | None = None  # of the last epoch, which is asked for several times

    def _plan(self, number: int) -> EpochPlan:
        if self._planned is None or self._planned[0] != number:
            self._planned = None  # before another is made
            self._planned = number, self.planner.plan(number)
        return self._planned[1]

    def batches(self, number: int) -> int:
        """How many batches an epoch has.

        >>> from windlass.data.sides import Sides
        >>> sides = Sides.tiny()
        >>> sides.loader([sides.encode("a", "b")], batch_tokens=8).batches(0)
        1
        """
        return len(self._plan(number).turns)

    def cells(self, number: int) -> list[int]:
        """How many places every batch of an epoch has, padding too, without making the batches; of other inputs none.

        >>> from windlass.data.sides import Sides
        >>> sides = Sides.tiny()
        >>> sides.loader([sides.encode("a", "b"), sides.encode("ab", "b")], batch_tokens=8).cells(0)
        [10]
        """
        plan = self._plan(number)
        found: list[int] = plan.cells[plan.turns].tolist()
        return found

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from batch `start` on.

        >>> from windlass.data.sides import Sides
        >>> sides = Sides.tiny()
        >>> [batch.size for batch in sides.loader([sides.encode("a", "b")], batch_tokens=8).epoch(0)]
        [1]
        """
        plan = self._plan(number)
        for turn in plan.turns[start:]:
            keys = plan.keys(turn)
            yield self.collate([self.examples[k] for k in keys], keys)
