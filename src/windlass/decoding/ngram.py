"""An interpolated Kneser-Ney n-gram model, and what a search sees of it.

    p_n(w | h) = max(c(h w) - D, 0) / c(h)  +  D t(h) / c(h) * p_{n-1}(w | h')          (Kneser and Ney 1995)

c is the count at the highest order and the number of distinct preceding tokens below it (Chen and Goodman 1999); t(h)
is the number of distinct tokens that follow h; h' is h without its first token; p_0 is uniform. An unseen history backs
off. N-grams are counted and looked up in sorted arrays, a whole text at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from windlass.core.marks import BOS, PAD
from windlass.core.records import Batch, Memory, Record

Ints = NDArray[np.int64]
UNUSED = (PAD, BOS)  # ids that no text contains


def concatenate(sequences: Sequence[Sequence[int]], before: int) -> tuple[Ints, Ints]:
    """Join sequences, each after `before` start marks; return the ids and the positions of the tokens proper.

    >>> ids, places = concatenate([[5, 6], [7]], before=1)
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
    """The n-grams of every order, sorted, with their counts.

    The key of a k-gram is (index of its first k - 1 tokens among the (k - 1)-grams) * V + last token, so that keys stay
    small at any order.

    >>> model = KneserNey.fit([[4, 5, 4, 5, 4, 4]], vocabulary=6, order=2)
    >>> p = [float(np.exp(model.logprobs([[4, w]])[1])) for w in (1, 3, 4, 5)]  # unknown, end, and two tokens
    >>> round(sum(p), 9), p[3] > p[2]
    (1.0, True)
    """

    vocabulary: int
    keys: tuple[Ints, ...]  # by order, sorted
    counts: tuple[Ints, ...]  # by order; 0 for an n-gram that is only a history
    discounts: tuple[float, ...]

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return len(self.keys)

    @property
    def name(self) -> str:
        """The name shown to users."""
        return f"{self.order}-gram"

    @classmethod
    def fit(cls, sequences: Sequence[Sequence[int]], vocabulary: int, order: int) -> KneserNey:
        """Count n-grams."""
        ids, places = concatenate(sequences, order)
        keys: list[Ints] = []
        numbers: list[Ints] = [np.zeros(len(ids), dtype=np.int64)]  # by order: the n-gram that ends at each position
        firsts: list[Ints] = []
        for _ in range(order):
            joined = _shift(numbers[-1]) * vocabulary + ids
            found, first, number = np.unique(joined, return_index=True, return_inverse=True)
            keys.append(found)
            firsts.append(first)
            numbers.append(number.reshape(-1))
        counts = []
        for k in range(1, order + 1):
            if k == order:
                ends = numbers[k][places]
            else:  # one per distinct preceding token
                longer = np.intersect1d(firsts[k], places, assume_unique=True)
                ends = numbers[k][longer]
            counts.append(np.bincount(ends, minlength=len(keys[k - 1])).astype(np.int64))
        return cls(vocabulary, tuple(keys), tuple(counts), tuple(map(_discount, counts)))

    @cached_property
    def _histories(self) -> tuple[tuple[NDArray[np.float64], NDArray[np.float64]], ...]:
        """By order: c(h) and t(h) of every history."""
        histories = tuple(keys // self.vocabulary for keys in self.keys)
        return tuple(
            (np.bincount(h, counts).astype(np.float64), np.bincount(h, counts > 0).astype(np.float64))
            for h, counts in zip(histories, self.counts, strict=True)
        )

    def logprobs(self, sequences: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """Return the log probabilities of all tokens, sequence by sequence."""
        ids, places = concatenate(sequences, self.order)
        p = np.full(len(places), 1 / (self.vocabulary - len(UNUSED)))
        number = np.zeros(len(ids), dtype=np.int64)  # of the n-gram that ends at each position; -1: unseen
        for keys, counts, discount, (total, kinds) in zip(
            self.keys, self.counts, self.discounts, self._histories, strict=True
        ):
            history = _shift(number)
            number = _find(keys, np.where(history < 0, -1, history * self.vocabulary + ids))
            at, of = number[places], history[places]
            known = (of >= 0) & (of < len(total))
            known[known] = total[of[known]] > 0
            count = np.where(at >= 0, counts[np.maximum(at, 0)], 0)[known]
            c, t = total[of[known]], kinds[of[known]]
            p[known] = np.maximum(count - discount, 0) / c + discount * t / c * p[known]
        found: NDArray[np.float64] = np.log(p)
        return found

    def next_logprobs(self, last: Ints) -> NDArray[np.float64]:
        """Return the log probabilities of all tokens (N, V) after the last tokens (N, order) of some texts.

        >>> model = KneserNey.fit([[4, 5, 4, 5, 4, 4]], vocabulary=6, order=2)
        >>> after = model.next_logprobs(np.array([[BOS, 4]]))[0]
        >>> bool(np.isclose(after[5], model.logprobs([[4, 5]])[1]))
        True
        """
        size = self.vocabulary
        p = np.full((len(last), size), 1 / (size - len(UNUSED)))
        p[:, UNUSED] = 0
        number = np.zeros(last.shape, dtype=np.int64)
        for keys, counts, discount in zip(self.keys, self.counts, self.discounts, strict=True):
            for row, history in enumerate(number[:, -1]):
                first, end = np.searchsorted(keys, (history * size, (history + 1) * size)) if history >= 0 else (0, 0)
                count = counts[first:end]
                if total := count.sum():
                    p[row] *= discount * (count > 0).sum() / total
                    p[row, keys[first:end] - history * size] += np.maximum(count - discount, 0) / total
            before = np.concatenate([number[:, :1], number[:, :-1]], axis=1)
            number = _find(keys, np.where(before < 0, -1, before * size + last))
        with np.errstate(divide="ignore"):
            found: NDArray[np.float64] = np.log(p)
        return found

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the parameters by name, for saving."""
        named: dict[str, NDArray[np.generic]] = {"vocabulary": np.array([self.vocabulary])}
        named["discounts"] = np.array(self.discounts)
        for k, (keys, counts) in enumerate(zip(self.keys, self.counts, strict=True), 1):
            named |= {f"keys.{k}": keys, f"counts.{k}": counts.astype(np.int32)}
        return named

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> KneserNey:
        """The inverse of `arrays`."""
        discounts = tuple(float(d) for d in arrays["discounts"])
        orders = range(1, len(discounts) + 1)
        keys = tuple(np.asarray(arrays[f"keys.{k}"], dtype=np.int64) for k in orders)
        counts = tuple(np.asarray(arrays[f"counts.{k}"], dtype=np.int64) for k in orders)
        vocabulary = int(np.asarray(arrays["vocabulary"])[0])
        sizes = [(k.ndim, k.size, c.shape) for k, c in zip(keys, counts, strict=True)]
        if vocabulary <= len(UNUSED) or not sizes or any(n != 1 or not k or c != (k,) for n, k, c in sizes):
            raise ValueError("its n-grams and their counts do not match")
        if any(bool((k < 0).any()) for k in (*keys, *counts)) or any(bool((np.diff(k) <= 0).any()) for k in keys):
            raise ValueError("its n-grams are not in order")
        if not all(0 <= d < 1 for d in discounts) or any(int(c.sum()) < 1 for c in counts):
            raise ValueError("its counts and discounts are not probabilities")
        return cls(vocabulary, keys, counts, discounts)


@dataclass(frozen=True)
class LastTokens(Record):
    """The state of an n-gram model in a search.

    >>> LastTokens(torch.tensor([[2, 2], [2, 5]])).select(torch.tensor([1])).tokens.tolist()
    [[2, 5]]
    """

    tokens: Tensor  # (N, order)


@final
class NgramDecoder:
    """An n-gram model as a decoder of a search.

    >>> decoder = NgramDecoder(KneserNey.fit([[4, 5, 4, 5, 4, 4]], vocabulary=6, order=2))
    >>> source, state = decoder.begin(Memory.empty(1))
    >>> logprobs, state, weights = decoder.step(torch.tensor([BOS]), state, source)
    >>> logprobs.shape, weights
    (torch.Size([1, 6]), None)
    """

    def __init__(self, model: KneserNey):
        self.model = model

    def begin(self, memory: Memory, batch: Batch | None = None) -> tuple[Memory, LastTokens]:
        """The start marks of every row."""
        rows, device = memory.mask.size(0), memory.mask.device
        return memory, LastTokens(torch.full((rows, self.model.order), BOS, device=device))

    def step(self, tokens: Tensor, state: LastTokens, source: Memory) -> tuple[Tensor, LastTokens, None]:
        """Return the log probabilities (N, V) after tokens (N,), and the new state."""
        last = torch.cat([state.tokens[:, 1:], tokens[:, None]], dim=1)
        logprobs = torch.from_numpy(self.model.next_logprobs(last.cpu().numpy()))
        return logprobs.to(tokens.device, torch.get_default_dtype()), LastTokens(last), None


def _shift(numbers: Ints) -> Ints:
    """The number of the position before, at every position."""
    return np.concatenate([numbers[:1], numbers[:-1]])


def _find(keys: Ints, wanted: Ints) -> Ints:
    """The indices of keys in a sorted array; -1 for missing ones."""
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, place, -1)


def _discount(counts: Ints) -> float:
    """D = n1 / (n1 + 2 n2), where n1 and n2 are the numbers of n-grams seen once and twice (Ney et al. 1994)."""
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return once / (once + 2 * twice) if once and twice else 0.5
