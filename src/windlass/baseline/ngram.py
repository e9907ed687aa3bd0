"""An interpolated Kneser-Ney n-gram model: the language model to beat.

    p_n(w | h) = max(c(h w) - D, 0) / c(h)  +  D t(h) / c(h) * p_{n-1}(w | h')          (Kneser and Ney 1995)

c counts how often, at the highest order; below it, after how many different tokens (Chen and Goodman 1999). t(h) is how
many different tokens follow h, h' is h without its first token, and the last p_0 is the same for every token. A history
never seen is passed over. Everything is counted and looked up in sorted arrays, a whole text at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from windlass.core.marks import BOS, PAD

Ints = NDArray[np.int64]
NEVER = (PAD, BOS)  # ids that no text holds


def laid_out(sequences: Sequence[Sequence[int]], before: int) -> tuple[Ints, Ints]:
    """All sequences in one, each with `before` start marks in front, and the places of their own tokens.

    >>> ids, places = laid_out([[5, 6], [7]], before=1)
    >>> ids.tolist(), places.tolist()
    ([2, 5, 6, 2, 7], [1, 2, 4])
    """
    marks = np.full(before, BOS, dtype=np.int64)
    parts = [part for sequence in sequences for part in (marks, np.asarray(sequence, dtype=np.int64))]
    ids = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
    real = np.concatenate([np.zeros(0, dtype=bool), *(np.full(len(part), n % 2 == 1) for n, part in enumerate(parts))])
    return ids, np.flatnonzero(real)


@dataclass(frozen=True)
class KneserNey:
    """The model: for every order its runs of tokens, sorted, and how often each counts.

    A run of k tokens has the key (number of its first k - 1 tokens among the runs of that length) * V + last token, so
    that keys stay small whatever the order.

    >>> model = KneserNey.fit([[4, 5, 4, 5, 4, 4]], vocabulary=6, order=2)
    >>> p = [float(np.exp(model.logprobs([[4, w]])[1])) for w in (1, 3, 4, 5)]  # unknown, end, and two tokens
    >>> round(sum(p), 9), p[3] > p[2]
    (1.0, True)
    """

    vocabulary: int
    keys: tuple[Ints, ...]  # by order, sorted
    counts: tuple[Ints, ...]  # by order, of every run; 0 where it only serves as a history
    discounts: tuple[float, ...]

    @property
    def order(self) -> int:
        """How many tokens a run has at most: a token and the history that it is judged by."""
        return len(self.keys)

    @property
    def name(self) -> str:
        """What to call it."""
        return f"{self.order}-gram"

    @classmethod
    def fit(cls, sequences: Sequence[Sequence[int]], vocabulary: int, order: int) -> KneserNey:
        """Count."""
        ids, places = laid_out(sequences, order)
        keys: list[Ints] = []
        numbers: list[Ints] = [np.zeros(len(ids), dtype=np.int64)]  # by length: the run that ends at each place
        firsts: list[Ints] = []
        for _ in range(order):
            joined = _after(numbers[-1]) * vocabulary + ids
            found, first, number = np.unique(joined, return_index=True, return_inverse=True)
            keys.append(found)
            firsts.append(first)
            numbers.append(number.reshape(-1))
        counts = []
        for k in range(1, order + 1):
            if k == order:
                ends = numbers[k][places]
            else:  # one for every different run that is longer by a token in front
                longer = np.intersect1d(firsts[k], places, assume_unique=True)
                ends = numbers[k][longer]
            counts.append(np.bincount(ends, minlength=len(keys[k - 1])).astype(np.int64))
        return cls(vocabulary, tuple(keys), tuple(counts), tuple(map(_discount, counts)))

    def logprobs(self, sequences: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """The log probability of every token, one sequence after the other."""
        ids, places = laid_out(sequences, self.order)
        p = np.full(len(places), 1 / (self.vocabulary - len(NEVER)))
        number = np.zeros(len(ids), dtype=np.int64)  # of the run that ends at each place; -1: never seen
        for keys, counts, discount in zip(self.keys, self.counts, self.discounts, strict=True):
            history = _after(number)
            number = _find(keys, np.where(history < 0, -1, history * self.vocabulary + ids))
            at, of = number[places], history[places]
            histories = keys // self.vocabulary
            size = int(histories.max()) + 1
            total = np.bincount(histories, weights=counts, minlength=size)
            kinds = np.bincount(histories, weights=counts > 0, minlength=size)
            known = (of >= 0) & (of < size)
            known[known] = total[of[known]] > 0
            count = np.where(at >= 0, counts[np.maximum(at, 0)], 0)[known]
            c, t = total[of[known]], kinds[of[known]]
            p[known] = np.maximum(count - discount, 0) / c + discount * t / c * p[known]
        found: NDArray[np.float64] = np.log(p)
        return found

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """All of it by name, to be saved."""
        named: dict[str, NDArray[np.generic]] = {"vocabulary": np.array([self.vocabulary])}
        named["discounts"] = np.array(self.discounts)
        for k, (keys, counts) in enumerate(zip(self.keys, self.counts, strict=True), 1):
            named |= {f"keys.{k}": keys, f"counts.{k}": counts.astype(np.int32)}
        return named

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[np.generic]]) -> KneserNey:
        """What `arrays` gave."""
        discounts = tuple(float(d) for d in arrays["discounts"])
        orders = range(1, len(discounts) + 1)
        keys = tuple(np.asarray(arrays[f"keys.{k}"], dtype=np.int64) for k in orders)
        counts = tuple(np.asarray(arrays[f"counts.{k}"], dtype=np.int64) for k in orders)
        return cls(int(np.asarray(arrays["vocabulary"])[0]), keys, counts, discounts)


def _after(numbers: Ints) -> Ints:
    """At every place, the number that belongs to the place before."""
    return np.concatenate([numbers[:1], numbers[:-1]])


def _find(keys: Ints, wanted: Ints) -> Ints:
    """The places of keys in a sorted array, -1 for those that are not there."""
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, place, -1)


def _discount(counts: Ints) -> float:
    """D = n1 / (n1 + 2 n2), by how many runs count once and twice (Ney et al. 1994)."""
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return once / (once + 2 * twice) if once and twice else 0.5
