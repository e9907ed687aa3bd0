"""What the doctor finds in sources that are no text: their sizes, and what is unreadable, tiny or there twice."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain

from windlass.core.errors import DataError
from windlass.data.examples import Example, Place, Value
from windlass.data.findings import Finding, Findings
from windlass.data.sides import SideOptions
from windlass.data.sides.base import Track

PORTION = 64
"""Values that are read at once."""


@dataclass(frozen=True)
class Spread:
    """Sizes: the least, the median, the 95th percentile, and the greatest.

    >>> str(Spread.of([1.5, 2, 30]))
    'median 2, 95th percentile 30, from 1.5 to 30'
    """

    least: float
    median: float
    most: float
    greatest: float

    @classmethod
    def of(cls, sizes: Iterable[float]) -> Spread:
        """Measure sizes, of which there must be at least one."""
        ordered = sorted(sizes)
        last = len(ordered) - 1
        return cls(ordered[0], ordered[-(-last // 2)], ordered[-(-95 * last // 100)], ordered[-1])

    def __str__(self) -> str:
        median, most, least, greatest = (
            f"{size:,.0f}" if size >= 100 or size == int(size) else f"{size:.3g}"
            for size in (self.median, self.most, self.least, self.greatest)
        )
        return f"median {median}, 95th percentile {most}, from {least} to {greatest}"


@dataclass
class Inspection:
    """What was seen in values.

    >>> Inspection().sizes
    {}
    """

    sizes: dict[str, Spread] = field(default_factory=dict)  # of the training data, by what is measured
    contents: dict[Value, str] = field(default_factory=dict)  # equal for values that hold the same
    findings: list[Finding] = field(default_factory=list)


def inspect(
    train: Sequence[Sequence[Example]], dev: Sequence[Sequence[Example]], sides: SideOptions, track: Track
) -> Inspection:
    """Read every source once.

    >>> from windlass.media.samples import sample_sounds
    >>> data = [Example(path, ("a",), None, Place(path, 0)) for path in sample_sounds()]
    >>> found = inspect([data], [], SideOptions(source="sound", target="label"), lambda numbers, count, what: numbers)
    >>> str(found.sizes["seconds"])
    'median 0.15, 95th percentile 0.2, from 0.1 to 0.2'
    """
    side, found = sides.source_side, Inspection()
    places: dict[Value, Place] = {}
    for example in chain(*train, *dev):
        places.setdefault(example.source, example.place)
    values, sizes = list(places), dict[Value, dict[str, float]]()

    def read(value: Value) -> tuple[str, dict[str, float] | DataError]:
        try:
            return side.content(value), side.measure(sides.source, value)
        except DataError as error:
            return "", error
        except OSError as error:
            return "", DataError(f"{value}: cannot be read: {error.strerror}")

    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        for start in track(range(0, len(values), PORTION), -(-len(values) // PORTION), f"reading {side.what}s"):
            part = values[start : start + PORTION]
            for value, (content, measured) in zip(part, pool.map(read, part), strict=True):
                if isinstance(measured, DataError):
                    found.findings.append(_finding(places[value], *_kind(measured), "skipped"))
                else:
                    found.contents[value], sizes[value] = content, measured
    learned = {e.source for e in chain(*train)}
    names = list(dict.fromkeys(name for measured in sizes.values() for name in measured))
    for name in names:
        known = [measured[name] for value, measured in sizes.items() if value in learned and name in measured]
        if known:
            found.sizes[name] = Spread.of(known)
    usual = Counter(m[side.fixed] for m in sizes.values() if side.fixed in m).most_common(1) if side.fixed else []
    for value, measured in sizes.items():
        for name, least in side.least.items():
            if measured.get(name, least) < least:
                told = ", ".join(f"{what}: {size:g}" for what, size in measured.items())
                found.findings.append(_finding(places[value], "tiny", f"{_called(value)}{told}", "kept"))
                break
        if usual and side.fixed and measured[side.fixed] != usual[0][0]:
            what = f"{_called(value)}{measured[side.fixed]:g} {side.fixed}, where most have {usual[0][0]:g}"
            found.findings.append(_finding(places[value], "another size", what, "refused"))
    return found


def _called(value: Value) -> str:
    return f"{value}: " if isinstance(value, str) else ""


def _kind(error: DataError) -> tuple[str, str]:
    return getattr(error, "kind", "unreadable"), str(error)


def _finding(place: Place, kind: str, what: str, action: str) -> Finding:
    what = what.removeprefix(f"{place.file}: ") if not place.line else what
    return Finding(place.file, place.line, kind, what, action)  # type: ignore[arg-type]


def duplicates(examples: Sequence[Example], contents: dict[Value, str], found: Findings) -> None:
    """Find values of different names that hold the same.

    >>> found, place = Findings(), Place("photos.csv", 2)
    >>> both = [Example(name, ("x",), None, place) for name in ("a.jpg", "b.jpg")]
    >>> duplicates(both, {"a.jpg": "7", "b.jpg": "7"}, found)
    >>> found.entries[0].what
    'b.jpg has the same content as a.jpg'
    """
    first: dict[str, Value] = {}
    seen: set[Value] = set()
    for example in examples:
        if example.source in seen or example.source not in contents:
            continue
        seen.add(example.source)
        original = first.setdefault(contents[example.source], example.source)
        if original != example.source:
            what = f"{example.source} has the same content as {original}"
            found.add(_finding(example.place, "duplicate", what, "kept"))
