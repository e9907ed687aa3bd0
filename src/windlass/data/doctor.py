"""Finds bad data: what the reader found, plus what whole files show (duplicates, leaks, rare letters)."""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np

from windlass.core.errors import visible
from windlass.core.wording import counted
from windlass.data import findings
from windlass.data.examples import Example, Place, Value, as_text
from windlass.data.findings import Action, Finding, Findings
from windlass.data.forms import several_forms, short
from windlass.data.inspection import Inspection, duplicates
from windlass.data.readers import ReadResult
from windlass.data.repeats import RepeatFinder
from windlass.data.sides import SourceSide, TargetSide
from windlass.data.store import View, joined_views

SHOWN, MOST = 3, 100_000
"""Examples that are shown, and that are judged as a whole."""
RARE = 2  # a character seen at most so often has little chance of being learned


@dataclass(frozen=True)
class Lengths:
    """Characters a side: the shortest, the median, the 95th percentile, and the longest.

    >>> str(Lengths.of(["a", "bb", "ccc"]))
    'median 2 characters, 95th percentile 3, from 1 to 3'
    """

    shortest: int
    median: int
    most: int
    longest: int

    @classmethod
    def of(cls, texts: Iterable[str]) -> Lengths:
        """Measure texts, of which there must be at least one."""
        counts = Counter(map(len, texts))
        sizes = sorted(counts)
        upto = np.cumsum([counts[size] for size in sizes])
        # Places in the order of size, from 0, rounded up.
        places = [-(-share * (int(upto[-1]) - 1) // 100) for share in (0, 50, 95, 100)]
        return cls(*(sizes[int(np.searchsorted(upto, place, side="right"))] for place in places))

    def __str__(self) -> str:
        return (
            f"median {self.median:,} character{'s' if self.median != 1 else ''}, 95th percentile {self.most:,}, "
            f"from {self.shortest:,} to {self.longest:,}"
        )


@dataclass(frozen=True)
class RareCharacter:
    """A character that the training data hardly has.

    >>> str(RareCharacter("q", 1, "source", Place("pairs.tsv", 7)))
    "'q' U+0071 LATIN SMALL LETTER Q: 1 in the source, first at pairs.tsv:7"
    """

    character: str
    count: int
    side: str
    place: Place

    def __str__(self) -> str:
        name = unicodedata.name(self.character, "(no name)")
        return (
            f"{self.character!r} U+{ord(self.character):04X} {name}: {self.count} in the {self.side}, "
            f"first at {self.place}"
        )


@dataclass(frozen=True)
class Report:
    """What is in the data and what is wrong with it.

    >>> report = survey([ReadResult((Example("cat", ("k",), None, Place("pairs.tsv", 1)),), ())])
    >>> print(report.render())
    1 training example
      source: median 3 characters, 95th percentile 3, from 3 to 3
      target: median 1 character, 95th percentile 1, from 1 to 1
    first rows, as they are understood:
      'cat' -> 'k'
    4 characters seen at most 2 times:
      'c' U+0063 LATIN SMALL LETTER C: 1 in the source, first at pairs.tsv:1
      'a' U+0061 LATIN SMALL LETTER A: 1 in the source, first at pairs.tsv:1
      't' U+0074 LATIN SMALL LETTER T: 1 in the source, first at pairs.tsv:1
      'k' U+006B LATIN SMALL LETTER K: 1 in the target, first at pairs.tsv:1
    nothing wrong was found
    """

    train: int  # examples that can be used
    dev: int
    lengths: dict[str, Lengths]  # by side, of the training data
    findings: tuple[Finding, ...]
    rare: tuple[RareCharacter, ...]
    notes: tuple[str, ...]
    beyond: Mapping[tuple[str, Action], int] = field(default_factory=dict)  # findings that were only counted
    symbols: Mapping[str, int] = field(default_factory=dict)  # labels or tags of the training data
    rows: tuple[str, ...] = ()  # the first examples
    title: str | None = None  # of data that is not examples
    sizes: Mapping[str, str] = field(default_factory=dict)  # of sources that are no text, by what is measured
    opened: bool = True  # False where the files that sources name are still to be read

    @property
    def counts(self) -> dict[str, int]:
        """How many findings there are of each kind."""
        counts = Counter(finding.kind for finding in self.findings)
        for (kind, _), count in self.beyond.items():
            counts[kind] += count
        return dict(counts.most_common())

    @property
    def refused(self) -> bool:
        """Whether some file cannot be used at all."""
        return any(finding.action == "refused" for finding in self.findings)

    def render(self, limit: int = 5) -> str:
        """The report as text, with at most `limit` findings of a kind written out."""
        title = counted(self.train, "training example") + (f", {counted(self.dev, 'dev example')}" if self.dev else "")
        out = [self.title or title]
        out += [f"  {side}: {told}" for side, told in chain(self.sizes.items(), self.lengths.items())]
        if self.symbols:
            out.append(f"  {len(self.symbols):,} different: {_shares(self.symbols)}")
        if self.rows:
            out += ["first rows, as they are understood:", *(f"  {row}" for row in self.rows)]
        out += [f"assumed: {note}" for note in self.notes]
        if self.rare:
            out.append(f"{counted(len(self.rare), 'character')} seen at most {RARE} times:")
            out += _clipped([str(rare) for rare in self.rare], limit)
        groups: dict[tuple[Action, str], list[Finding]] = {}
        for finding in self.findings:
            groups.setdefault((finding.action, finding.kind), []).append(finding)
        order = ("refused", "skipped", "mended", "kept")
        for (action, kind), group in sorted(groups.items(), key=lambda item: order.index(item[0][0])):
            more = self.beyond.get((kind, action), 0)
            out.append(f"{kind}: {len(group) + more} {action}")
            out += _clipped([str(finding) for finding in group], limit, more)
        if not self.findings and self.opened:
            out.append("nothing wrong was found")
        return "\n".join(out)


def _shares(symbols: Mapping[str, int], most: int = 8) -> str:
    """How often each label occurs, the most frequent first."""
    whole, ordered = sum(symbols.values()), Counter(symbols).most_common()
    told = ", ".join(f"{visible(name)} {count:,} ({count / whole:.0%})" for name, count in ordered[:most])
    return f"{told}, and {len(ordered) - most} more" if len(ordered) > most else told


def _clipped(told: list[str], limit: int, more: int = 0) -> list[str]:
    rest = len(told) - min(limit, len(told)) + more
    return [f"  {line}" for line in told[:limit]] + ([f"  and {rest} more"] if rest > 0 else [])


Key = Callable[[Example], str]
"""What sources are compared by."""


def _repeats(examples: Sequence[Example], found: Findings, key: Key, conflicts: bool) -> None:
    """Pairs that come again, and sources whose answers differ. Both are kept: they may well be meant."""
    finder = RepeatFinder(((key(e), e.targets) for e in examples), disk=isinstance(examples, View))
    again, other = finder.repeats(findings.MOST)
    for kind, what, repeats in (
        ("duplicate", "the same pair as", again),
        *((("conflicting targets", "another target for the source of", other),) if conflicts else ()),
    ):
        for owner, first in zip(repeats.owners, repeats.firsts, strict=True):
            found.add(_finding(examples[owner], kind, f"{what} {examples[first].place}"))
        found.count(kind, "kept", repeats.total - len(repeats.owners))


def _each_once(results: Sequence[ReadResult], found: Findings) -> list[Sequence[Example]]:
    """The examples of files, without those of a file that is named twice, which is told."""
    first: dict[tuple[object, ...], str] = {}
    once: list[Sequence[Example]] = []
    for examples in (result.examples for result in results):
        if not examples:
            continue
        begin, end = examples[0], examples[-1]
        file = begin.place.file
        # Parallel files may share one side.
        key = (os.path.realpath(file), begin.place.line, len(examples), begin.targets, end.source, end.targets)
        if key in first:
            what = "the file is named twice" if first[key] == file else f"the same file as {first[key]}"
            found.add(Finding(file, 0, "same file", f"{what}: every row counts twice", "kept"))
            continue
        first[key] = file
        once.append(examples)
    return once


def _leaks(train: Sequence[Sequence[Example]], dev: Sequence[Example], found: Findings, key: Key) -> None:
    """Sources of the dev set that are trained on too, which makes its score too good."""
    asked = set(map(key, dev))
    seen: dict[str, Place] = {}
    for example in chain.from_iterable(train) if asked else ():
        if key(example) in asked:
            seen.setdefault(key(example), example.place)
    for example in dev:
        if key(example) in seen:
            what = f"the source is in the training data, {seen[key(example)]}"
            found.add(_finding(example, "in train and dev", what))


def _finding(example: Example, kind: str, what: str) -> Finding:
    return Finding(example.place.file, example.place.line, kind, what, "kept")


def rare_characters(
    files: Sequence[Sequence[Example]], sides: Sequence[str] = ("source", "target")
) -> list[RareCharacter]:
    """The characters that some sides of the examples of files hold at most twice.

    >>> rare_characters([[Example("a", ("b",), None, Place("pairs.tsv", 1))]], ("target",))[0].character
    'b'
    """
    found: list[RareCharacter] = []
    for side in sides:
        counts: Counter[str] = Counter()
        first: dict[str, Place] = {}
        for example in chain.from_iterable(files):
            for text in (example.text,) if side == "source" else map(as_text, example.targets):
                counts.update(text)
                for character in text:
                    if character not in first:
                        first[character] = example.place
        rare = [character for character in first if counts[character] <= RARE]
        found += [RareCharacter(c, counts[c], side, first[c]) for c in sorted(rare, key=lambda c: counts[c])]
    return found


def _suspicions(train: Sequence[Example], symbols: Counter[str], per_place: bool) -> Iterator[tuple[str, str]]:
    """What is odd about the targets as a whole: the kind of the finding, and what it says."""
    count = len(train)
    sources, targets = len({e.text for e in train}), len({as_text(e.target) for e in train})
    if symbols and len(symbols) == 1:
        yield "one label", f"every target is {next(iter(symbols))!r}: there is nothing to learn"
    elif symbols and not per_place and targets == count > 2:
        yield (
            "labels differ",
            f"each of the {targets:,} labels has one example: there is nothing to learn; add examples",
        )
    elif count < 20:
        return
    elif symbols and not per_place and sources <= count / 5 and targets > count / 2:
        yield "swapped columns", f"{targets:,} different targets for {sources:,} sources: swap --source and --target"
    elif symbols and not per_place and targets > count / 2:
        yield "labels differ", f"{targets:,} different labels in {count:,} examples: if they are texts, set --task text"
    elif not symbols and targets <= count / 10 and targets < 100:
        yield (
            "few targets",
            f"{targets:,} different targets in {count:,} examples: if they are labels, set --task classify",
        )


def survey(
    train: Sequence[ReadResult],
    dev: Sequence[ReadResult] = (),
    target: type[TargetSide] | None = None,
    source: type[SourceSide] | None = None,
    inspection: Inspection | None = None,
) -> Report:
    """Report on files that have been read; the side of the target says whether there are labels to count.

    Sources that are no text have no characters to count; an inspection tells what they hold.

    >>> both = [ReadResult((Example("a", ("x",), None, Place(f, 1)),), ()) for f in ("train.tsv", "dev.tsv")]
    >>> survey(both[:1], both[1:]).counts
    {'in train and dev': 1}
    """
    opened = inspection is not None or source is None or not source.extensions
    found, inspection = Findings(), inspection or Inspection()
    findings = [finding for result in (*train, *dev) for finding in result.findings] + inspection.findings
    textual, contents = source is None or source.textual, inspection.contents
    captions = not textual and target is not None and target.written  # of one picture there may be several
    once = _each_once(train, found)
    for examples in (joined_views(once), *(result.examples for result in dev)):
        _repeats(examples, found, _by_text if captions else _by_content(contents), not captions)
        if captions:
            duplicates(examples, contents, found)
    learned = [result.examples for result in train]
    held = [example for result in dev for example in result.examples]
    _leaks(learned, held, found, _by_content(contents))
    count = sum(map(len, learned))
    lengths = {}
    symbols: Counter[str] = Counter()
    rows: list[str] = []
    if count:
        if textual:
            lengths["source"] = Lengths.of(e.text for e in chain.from_iterable(learned))
        lengths["target"] = Lengths.of(as_text(t) for e in chain.from_iterable(learned) for t in e.targets)
        if target is not None:
            symbols.update(s for e in chain.from_iterable(learned) for s in target.symbols_in(e.target))
            judged = [*islice(chain.from_iterable(learned), MOST)]
            odd = _suspicions(judged, symbols, target.per_place)
            file = learned[0][0].place.file
            findings += [Finding(file, 0, kind, what, "kept") for kind, what in odd]
            if textual and target.written:
                findings += several_forms(judged)
        shown = islice(chain.from_iterable(learned), SHOWN)
        rows = [f"{short(as_text(e.source))} -> {short(as_text(e.target))}" for e in shown]
    notes = tuple(note for result in (*train, *dev) for note in result.notes)
    beyond = sum((Counter(result.beyond) for result in (*train, *dev)), found.beyond)
    rare = tuple(rare_characters(learned, ("source", "target") if textual else ("target",)))
    every = (*findings, *found.entries)
    sizes = {f"source, {name}": str(spread) for name, spread in inspection.sizes.items()}
    return Report(
        count, len(held), lengths, every, rare, notes, beyond, symbols, tuple(rows), sizes=sizes, opened=opened
    )


def _by_text(example: Example) -> str:
    return example.text


def _by_content(contents: Mapping[Value, str]) -> Key:
    return (lambda example: contents.get(example.source) or example.text) if contents else _by_text
