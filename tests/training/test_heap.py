"""Memory is given back when that gains something, and else left alone."""

from __future__ import annotations

from windlass.training.heap import ALLOWED, Heap

MB = 2**20


class Told(Heap):
    """A process that holds what it is told, and twenty megabytes less when it has given gaps back."""

    def __init__(self) -> None:
        super().__init__()
        self.held = 0
        self.trim = self._give_back

    def _give_back(self, _: int) -> None:
        self.held -= 20 * MB

    def resident(self) -> int:
        return self.held

    def holding(self, megabytes: int) -> bool:
        self.held = megabytes * MB
        return self.between()


def test_before_a_step_that_is_larger_than_all_before():
    heap = Told()
    assert [heap.before(size) for size in (10, 5, 10, 11, 11)] == [True, False, False, True, False]


def test_when_more_is_held_than_was_ever_in_use():
    heap, allowed = Told(), ALLOWED // MB
    assert heap.holding(100)  # of which 80 are in use
    assert not heap.holding(80 + allowed)
    assert heap.holding(81 + allowed)  # 61 + allowed are in use
    assert not heap.holding(61 + 2 * allowed)
    assert heap.holding(62 + 2 * allowed)


def test_where_the_system_does_not_tell_nothing_is_done():
    heap = Told()
    heap.trim = None
    assert not heap.before(1)
    assert not heap.holding(1000)
