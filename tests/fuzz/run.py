"""Fuzz bundles, recipes and data files: `make fuzz`.

Every case is drawn from its seed, kind and number alone, so that one can be run again.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from random import Random

import torch
from kinds import KINDS, Scratch, check_line

from windlass.core.errors import WindlassError
from windlass.recipe import recipe

LIMIT = 20
"""Seconds that a case may take."""
MEMORY = 12 << 30
"""Bytes that the process may take."""


@dataclass(frozen=True)
class Failure:
    """A case that neither worked nor was refused as it should be."""

    kind: str
    seed: int
    case: int
    error: str
    where: str
    trace: str

    def render(self) -> str:
        """What happened, and how to see it again."""
        again = f"make fuzz SEED={self.seed} KIND={self.kind} CASE={self.case}"
        trace = self.trace.rstrip()[-3000:]
        return f"{trace}\n{self.kind} case {self.case}: {self.error} at {self.where}; again: {again}\n"


class OutOfTimeError(BaseException):
    """A case that takes too long; not an Exception, so that nothing catches it."""


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Interrupt what takes longer."""

    def late(*_: object) -> None:
        raise OutOfTimeError(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run_case(kind: str, seed: int, case: int, scratch: Scratch) -> str | Failure:
    """Run one case: "works", "refused", or a failure."""
    try:
        with time_limit(LIMIT), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                KINDS[kind](Random(f"{seed} {kind} {case}"), scratch)
            except WindlassError as error:
                check_line(str(error))
                return "refused"
            return "works"
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a library may panic with an exception of its own
        at = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {str(error)[:200]}"
        return Failure(kind, seed, case, text, f"{Path(at.filename).name}:{at.lineno}", traceback.format_exc(limit=-6))


def fuzz(
    kinds: Sequence[str], seed: int, cases: int | None = None, minutes: float | None = None, first: int = 0
) -> tuple[Counter[tuple[str, str]], list[Failure]]:
    """Run cases of all kinds in turn, until there are enough of them or the time is up."""
    outcomes: Counter[tuple[str, str]] = Counter()
    failures: list[Failure] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Scratch(Path(folder))
        for number in count():
            if cases is not None and number >= cases:
                break
            if minutes is not None and time.monotonic() - began >= 60 * minutes:
                break
            kind = kinds[number % len(kinds)]
            outcome = run_case(kind, seed, first + number // len(kinds), scratch)
            if isinstance(outcome, Failure):
                failures.append(outcome)
            outcomes[kind, outcome if isinstance(outcome, str) else "failed"] += 1
    return outcomes, failures


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=None)
    parser.add_argument("--cases", type=int, default=None)
    parser.add_argument("--kind", choices=sorted(KINDS), default=None)
    parser.add_argument("--case", type=int, default=None, help="run this case only")
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.fsync = lambda _: None  # nothing here need survive a power cut
    recipe.read_yaml = cache(recipe.read_yaml)  # most cases leave the recipe as it is
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    kinds = [options.kind] if options.kind else list(KINDS)
    if options.case is not None:
        outcomes, failures = fuzz(kinds, options.seed, len(kinds), first=options.case)
    else:
        minutes = options.minutes if options.minutes or options.cases else 1.0
        outcomes, failures = fuzz(kinds, options.seed, options.cases, minutes)
    seen: Counter[tuple[str, str, str]] = Counter()
    for failure in failures:
        alike = failure.kind, failure.error.split(":")[0], failure.where
        seen[alike] += 1
        if seen[alike] == 1:
            print(failure.render())
    for (kind, error, where), times in seen.most_common():
        print(f"{times:6} x {kind}: {error} at {where}")
    for kind in kinds:
        told = {outcome: times for (one, outcome), times in sorted(outcomes.items()) if one == kind}
        print(f"{kind}: {', '.join(f'{times:,} {outcome}' for outcome, times in told.items())}")
    print(f"{outcomes.total():,} cases, {len(failures)} failures, seed {options.seed}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
