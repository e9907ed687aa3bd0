"""What is wrong in a data file, where, and what was done about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from windlass.core.errors import DataError, as_message

Action = Literal["skipped", "kept", "mended", "refused"]

MOST = 10_000
"""So many findings of a kind are kept; the others are counted, or a large and bad file would fill the memory."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with one line.

    >>> str(Finding("pairs.tsv", 3, "blank", "target is blank", "skipped"))
    'pairs.tsv:3: target is blank -> skipped'
    """

    file: str
    line: int  # from 1; 0 where it concerns the whole file
    kind: str
    what: str
    action: Action

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return as_message(f"{place}: {self.what} -> {self.action}")


def blank_line(file: str, line: int) -> Finding:
    """The finding of a blank line.

    >>> str(blank_line("pairs.tsv", 3))
    'pairs.tsv:3: the line is blank -> skipped'
    """
    return Finding(file, line, "blank", "the line is blank", "skipped")


@dataclass
class Findings:
    """Collects findings while a file is read; where it is strict, the first one is an error.

    >>> found = Findings(strict=True)
    >>> found.add(Finding("pairs.tsv", 3, "blank", "target is blank", "skipped"))
    Traceback (most recent call last):
    windlass.core.errors.DataError: pairs.tsv:3: target is blank (strict; without it: skipped)
    """

    strict: bool = False
    entries: list[Finding] = field(default_factory=list)
    counts: Counter[tuple[str, Action]] = field(default_factory=Counter)  # of all, by kind and action

    def add(self, finding: Finding) -> None:
        """Note a finding, or refuse the file."""
        if self.strict:
            what = f"{finding.file}:{finding.line}: {finding.what}"
            raise DataError(f"{what} (strict; without it: {finding.action})")
        which = finding.kind, finding.action
        self.counts[which] += 1
        if self.counts[which] <= MOST:
            self.entries.append(finding)

    def count(self, kind: str, action: Action, more: int) -> None:
        """Count some that are beyond what is kept."""
        self.counts[kind, action] += more

    @property
    def beyond(self) -> Counter[tuple[str, Action]]:
        """How many there are of a kind that were counted only."""
        return self.counts - Counter(dict.fromkeys(self.counts, MOST))


def tally(findings: Iterable[Finding]) -> str:
    """Count findings by kind and action, most frequent first.

    >>> blank = Finding("pairs.tsv", 3, "blank", "target is blank", "skipped")
    >>> tally([blank, blank])
    '2 blank (skipped)'
    """
    counts = Counter((f.kind, f.action) for f in findings)
    return ", ".join(f"{n} {kind} ({action})" for (kind, action), n in counts.most_common())
