"""Examples, and the place in a file that each came from."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from windlass.core.errors import DataError
from windlass.data.growing import GrowingArray
from windlass.data.repeats import firsts, hashes

Alignment = tuple[tuple[int, int], ...]
"""Gold links (source place, target place), both counted from 0."""


Value = Any
"""What one side of an example holds, as its side reads it: a text, or a tuple of texts (the words of a sentence, the
sentences of a document, a pair). It is hashable, and can be written as JSON."""
Pairs = Sequence[tuple[Value, Value]]
"""Sources and targets in memory."""

EXACT = 2.0**53
"""Below it, floats hold every integer."""
MANY = 2**17
"""Examples beyond which a split goes by hashes."""


def as_text(value: Value) -> str:
    """A value as one text, for reports, splits and cheap baselines.

    A whole number has no decimals, as data frames turn integers into floats where one is missing.

    >>> as_text("a cat"), as_text(("a", "cat")), as_text(4.5), as_text(4.0)
    ('a cat', 'a cat', '4.5', '4')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT:
        return str(int(value))
    try:
        return " ".join(value)
    except TypeError:
        return str(value)


def frozen(value: Any) -> Value:
    """A value with tuples for lists, as JSON and users have them.

    >>> frozen(["a", ["b"]])
    ('a', ('b',))
    """
    if isinstance(value, str):
        return value
    try:
        return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value
    except RecursionError:
        raise DataError("a list is nested too deep to be data") from None


@dataclass(frozen=True)
class Place:
    """A line of a file, counted from 1 (in a parquet file, a row); 0 for a file that is one example.

    >>> str(Place("pairs.tsv", 3))
    'pairs.tsv:3'
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True)
class Example:
    """A source and its right answers, of which the first is used for training.

    >>> Example("cat", ("k a t", "k ae t"), None, Place("pairs.tsv", 1)).target
    'k a t'
    """

    source: Value
    targets: tuple[Value, ...]
    alignment: Alignment | None  # between the source and the first target
    place: Place

    @property
    def text(self) -> str:
        """The source as one text."""
        return as_text(self.source)

    @property
    def target(self) -> Value:
        """The first right answer."""
        return self.targets[0]


def group(examples: Iterable[Example]) -> list[Example]:
    """Merge examples of the same source, in order of first appearance, with every different target kept.

    >>> here = Place("pairs.tsv", 1)
    >>> merged = group(Example("a", (t,), None, here) for t in ("x", "y", "x"))
    >>> [(e.source, e.targets) for e in merged]
    [('a', ('x', 'y'))]
    """
    first: dict[Value, Example] = {}
    targets: dict[Value, dict[Value, None]] = {}
    for example in examples:
        first.setdefault(example.source, example)
        targets.setdefault(example.source, {}).update(dict.fromkeys(example.targets))
    return [replace(example, targets=tuple(targets[source])) for source, example in first.items()]


def expand(examples: Iterable[Example]) -> list[Example]:
    """Make one example of every right answer, so that training sees them all.

    An alignment belongs to the first target only.

    >>> one = Example("a", ("x", "y"), ((0, 0),), Place("pairs.tsv", 1))
    >>> [(e.targets, e.alignment) for e in expand([one])]
    [(('x',), ((0, 0),)), (('y',), None)]
    """
    return [
        replace(example, targets=(target,), alignment=example.alignment if n == 0 else None)
        for example in examples
        for n, target in enumerate(example.targets)
    ]


def split(
    examples: Sequence[Example], fraction: float, seed: int, whole: Sequence[str] | None = None
) -> tuple[list[Example], list[Example]]:
    """Split off about `fraction` of the examples as a dev set; no source is on both sides.

    `whole` names what else must not be on both sides, for every example: the dialog that it is of.

    Returns (train, dev).

    >>> data = [Example(s, ("x",), None, Place("pairs.tsv", n)) for n, s in enumerate("aabbccddee", 1)]
    >>> train, dev = split(data, 0.2, seed=1)
    >>> len(train), len(dev), {e.source for e in train} & {e.source for e in dev}
    (8, 2, set())
    """
    held = list(aside((e.text for e in examples) if whole is None else whole, len(examples), fraction, seed))
    return (
        [e for e, out in zip(examples, held, strict=True) if not out],
        [e for e, out in zip(examples, held, strict=True) if out],
    )


def aside(sources: Iterable[str], count: int, fraction: float, seed: int, disk: bool = False) -> Iterator[bool]:
    """Which of `count` examples go to the dev set, by their sources: all of one source, or none.

    Up to `MANY` the sources are drawn by chance, but one of more than half of the examples is for training. Of more
    they go by a hash, and with `disk` nothing is held in memory.

    >>> sum(aside("aabbccddee", 10, 0.2, seed=1))
    2
    """
    if not 0 < fraction < 1:
        raise DataError(f"the dev set's share must lie between 0 and 1, not {fraction}")
    normal = (unicodedata.normalize("NFC", source) for source in sources)
    if count <= MANY:
        yield from _drawn(normal, fraction, seed).tolist()
        return
    key, digests = seed.to_bytes(8, "big"), GrowingArray(np.int64, disk)
    for source in normal:
        digest = hashlib.blake2b(source.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest()
        digests.append(int.from_bytes(digest, "big", signed=True))
    last = _last(digests, max(1, round(fraction * count)))
    for block in digests.blocks():
        yield from (block <= last).tolist()


def _last(digests: GrowingArray[np.int64], wanted: int) -> int:
    """The largest digest that is taken, so that the number taken is reached with the least excess and some are left."""
    counts = np.zeros(2**16, dtype=np.int64)  # by their first bits, so that few have to be sorted
    largest = [int(block.max()) for block in digests.blocks()]
    for block in digests.blocks():
        counts += np.bincount((block >> 48) + 2**15, minlength=2**16)
    upto = np.cumsum(counts)
    group = int(np.searchsorted(upto, wanted))
    near = np.concatenate([block[(block >> 48) + 2**15 == group] for block in digests.blocks()])
    last = int(np.sort(near)[wanted - 1 - int(upto[group] - counts[group])])
    if last < max(largest):
        return last
    left = [int(smaller.max()) for block in digests.blocks() if len(smaller := block[block < last])]
    if not left:
        raise _one_source(len(digests))
    return max(left)


def _one_source(count: int) -> DataError:
    return DataError(f"cannot split off a dev set: {count} examples have fewer than two sources; give a dev file")


def _drawn(sources: Iterable[str], fraction: float, seed: int) -> NDArray[np.bool_]:
    first = firsts(hashes(sources))
    heads = np.flatnonzero(first == np.arange(len(first)))  # the different sources, where they first appear
    if len(heads) < 2:
        raise _one_source(len(first))
    order = heads[np.random.default_rng([seed, 0x5EED]).permutation(len(heads))]
    counts = np.bincount(first, minlength=len(first))
    order = order[np.argsort(2 * counts[order] > len(first), kind="stable")]  # a source of most examples comes last
    sizes = counts[order]
    before = np.cumsum(sizes) - sizes  # dev examples before each source is added
    taken = int(np.searchsorted(before, fraction * len(first) - 0.5))
    out = np.zeros(len(first), dtype=np.bool_)
    out[order[: min(max(taken, 1), len(heads) - 1)]] = True
    found: NDArray[np.bool_] = out[first]
    return found
