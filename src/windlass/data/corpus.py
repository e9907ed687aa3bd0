"""How the data of a task is read, split and reported on: as examples, as dialogs, or as running text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, final

from windlass.core.errors import DataError
from windlass.data.dialogs import read_dialogs
from windlass.data.doctor import Report, survey
from windlass.data.examples import Example, Place, Value, as_text, aside, frozen, split
from windlass.data.findings import Finding, Findings, tally
from windlass.data.frames import as_frame, read_columns
from windlass.data.inspection import Inspection, inspect
from windlass.data.readers import DataOptions, DataPath, ReadResult, read
from windlass.data.running import from_memory, read_texts, split_end, survey_texts
from windlass.data.sides import CellError, SideOptions
from windlass.data.sides.base import Track
from windlass.data.sniff import SAMPLE
from windlass.data.store import Keep, View, keeping

SPLIT_SEED = 1
"""The dev set does not depend on the recipe's seed, so that models of several seeds can be compared and joined."""
TENTH, ENOUGH = 0.1, 10_000
"""A tenth of the examples is set aside by default, but no more than this many: all are scored every epoch."""

Parts = tuple[Sequence[Example], Sequence[Example]]
"""Train and dev."""
SplitKey = Callable[[Value], str]
"""What of a source must not be in both."""


class CorpusReader(ABC):
    """Reads the data of a task.

    >>> EXAMPLES.from_memory([("a", "b")], "train", SideOptions()).examples[0].target
    'b'
    """

    dialogs: ClassVar[bool] = False
    """Whether examples are the turns of dialogs."""

    @abstractmethod
    def read(
        self, path: DataPath, options: DataOptions, sides: SideOptions, whole: bool = True, keep: Keep = tuple
    ) -> ReadResult:
        """Read a file. Running text is read `whole`, or line by line; `keep` holds examples in memory or on disk."""

    def columns(self, options: DataOptions, sides: SideOptions) -> dict[str, int | str | None]:
        """The columns that a table must have, by the part of an example; those that are not chosen are None."""
        second = {"second": options.second} if sides.source_side.texts > 1 else {}
        return {"source": options.source, **second, "target": options.target}

    @abstractmethod
    def from_memory(self, items: Any, name: str, sides: SideOptions, options: DataOptions | None = None) -> ReadResult:
        """Make examples of data in memory: a table, pairs, or texts. Rows that cannot be used are skipped."""

    def survey(
        self,
        train: Sequence[ReadResult],
        dev: Sequence[ReadResult] = (),
        sides: SideOptions | None = None,
        inspection: Inspection | None = None,
    ) -> Report:
        """Report on data that has been read."""
        if sides is None:
            return survey(train, dev)
        return survey(train, dev, sides.target_side, sides.source_side, inspection)

    @abstractmethod
    def split(
        self, examples: Sequence[Example], fraction: float | None, whole: bool = True, by: SplitKey = as_text
    ) -> Parts:
        """Set a dev set aside, of a `fraction` of the examples or of as many as is usual. Returns (train, dev).

        Examples whose sources are the same by `by` stay together.
        """

    def amount(self, dev: Sequence[Example]) -> str:
        """How much was set aside, for people."""
        return f"{len(dev):,} of the examples {'is' if len(dev) == 1 else 'are'}"

    @property
    def in_memory(self) -> CorpusReader:
        """The reader of the same data in memory."""
        return self


def _share(fraction: float | None, count: int) -> float:
    return fraction or min(TENTH, ENOUGH / max(1, count))


@final
class _Examples(CorpusReader):
    def read(
        self, path: DataPath, options: DataOptions, sides: SideOptions, whole: bool = True, keep: Keep = tuple
    ) -> ReadResult:
        return read(path, options, sides, keep)

    def from_memory(self, items: Any, name: str, sides: SideOptions, options: DataOptions | None = None) -> ReadResult:
        options = options or DataOptions()
        rows = read_columns(as_frame(items, name), self.columns(options, sides), name)
        examples, found = list[Example](), Findings(strict=options.strict)
        for n, row in enumerate(rows, 1):
            try:
                examples.append(_pair(row, Place(name, n), sides))
            except CellError as error:
                found.add(Finding(name, n, error.kind, str(error), "skipped"))
        return _some_usable(ReadResult(tuple(examples), tuple(found.entries), beyond=found.beyond))

    def split(
        self, examples: Sequence[Example], fraction: float | None, whole: bool = True, by: SplitKey = as_text
    ) -> Parts:
        share = _share(fraction, len(examples))
        if isinstance(examples, View):
            keys = (by(e.source) for e in examples)
            return examples.parted(aside(keys, len(examples), share, SPLIT_SEED, disk=True))
        return split(examples, share, SPLIT_SEED, [by(e.source) for e in examples])


def _pair(row: dict[str, Any], place: Place, sides: SideOptions) -> Example:
    cell = (row["source"], row["second"]) if "second" in row else row["source"]
    source = sides.source_side.locate(sides.source, sides.read_source(frozen(cell)), Path())
    answers = sides.target_side.answers(list(row["target"]) if isinstance(row["target"], tuple) else row["target"])
    targets = [sides.read_target(frozen(answer)) for answer in answers]
    if sides.source_side.blank(source):
        raise CellError("blank", "the source is blank")
    if any(map(sides.target_side.blank, targets)):
        raise CellError("blank", "the target is blank")
    return sides.match(Example(source, tuple(dict.fromkeys(targets)), None, place))


def _some_usable(result: ReadResult) -> ReadResult:
    if result.findings and not result.examples:
        first = result.findings[0]
        raise DataError(
            f"{first.file}: no usable row, {tally(result.findings)}; first is row {first.line}: {first.what}"
        )
    return result


@final
class _Dialogs(CorpusReader):
    dialogs = True

    def read(
        self, path: DataPath, options: DataOptions, sides: SideOptions, whole: bool = True, keep: Keep = tuple
    ) -> ReadResult:
        return read_dialogs(path, options, sides)

    def from_memory(self, items: Any, name: str, sides: SideOptions, options: DataOptions | None = None) -> ReadResult:
        return self.in_memory.from_memory(items, name, sides, options)

    def split(
        self, examples: Sequence[Example], fraction: float | None, whole: bool = True, by: SplitKey = as_text
    ) -> Parts:
        return split(examples, _share(fraction, len(examples)), SPLIT_SEED, [str(e.place) for e in examples])

    @property
    def in_memory(self) -> CorpusReader:
        return EXAMPLES  # what was said and the reply are a pair like any other


@final
class _RunningText(CorpusReader):
    def read(
        self, path: DataPath, options: DataOptions, sides: SideOptions, whole: bool = True, keep: Keep = tuple
    ) -> ReadResult:
        if not isinstance(path, str | Path):
            raise DataError(f"{', '.join(map(str, path))}: running text is one file, not several side by side")
        return read_texts(path, options, whole)

    def columns(self, options: DataOptions, sides: SideOptions) -> dict[str, int | str | None]:
        return {"target": None if options.target == 2 else options.target}  # 2: the default of older bundles

    def from_memory(self, items: Any, name: str, sides: SideOptions, options: DataOptions | None = None) -> ReadResult:
        options = options or DataOptions()
        rows = read_columns(as_frame(items, name), self.columns(options, sides), name)
        return _some_usable(from_memory((row["target"] for row in rows), name, options.strict))

    def survey(
        self,
        train: Sequence[ReadResult],
        dev: Sequence[ReadResult] = (),
        sides: SideOptions | None = None,
        inspection: Inspection | None = None,
    ) -> Report:
        return survey_texts(train, dev)

    def split(
        self, examples: Sequence[Example], fraction: float | None, whole: bool = True, by: SplitKey = as_text
    ) -> Parts:
        if whole:
            return split_end(examples, fraction or TENTH)
        last = max(1, round(len(examples) * _share(fraction, len(examples))))
        if last >= len(examples):
            raise DataError(f"cannot set lines aside of {len(examples)}; give a dev file")
        return examples[:-last], examples[-last:]

    def amount(self, dev: Sequence[Example]) -> str:
        return f"the last {sum(len(e.target) for e in dev):,} characters are"


EXAMPLES: CorpusReader = _Examples()
"""Sources and targets, from tables or parallel files; no source is in both train and dev."""
DIALOGS: CorpusReader = _Dialogs()
"""Dialogs, of which every turn after the first is an example; no dialog is in both train and dev."""
RUNNING_TEXT: CorpusReader = _RunningText()
"""Texts without a source; dev is their end, never lines from among the others."""


def examine(
    paths: Sequence[DataPath],
    options: DataOptions | None = None,
    dev: DataPath | None = None,
    sides: SideOptions | None = None,
    reader: CorpusReader = EXAMPLES,
    track: Track = lambda numbers, count, what: numbers,
    look: Callable[[Sequence[Example]], object] = len,
) -> Report:
    """Read files as training data (and one as dev set) and report on them; a refused file is a finding too.

    Pictures, clips, sounds and arrays are all read; `track` shows how far this is. `look` is given the training
    examples; of many, the first.

    >>> examine(["no-such-file.tsv"]).refused
    True
    """
    if isinstance(paths, str):
        paths = [paths]  # or its letters would be taken for files
    lenient = (options or DataOptions()).model_copy(update={"strict": False})
    sides, keep = sides or SideOptions(), keeping(paths)

    def tried(path: DataPath, keep: Keep) -> ReadResult:
        try:
            return reader.read(path, lenient, sides, keep=keep)
        except DataError as error:
            return _refused(path, error)

    held = [] if dev is None else [tried(dev, tuple)]
    read, inspection = [tried(path, keep) for path in paths], None
    if not sides.source_side.textual:
        inspection = inspect([r.examples for r in read], [r.examples for r in held], sides, track)
    look([*islice(chain.from_iterable(r.examples for r in read), SAMPLE)])
    return reader.survey(read, held, sides, inspection)


def _refused(path: DataPath, error: DataError) -> ReadResult:
    name = path if isinstance(path, str) else str(path)
    place, _, what = str(error).partition(": ")
    file, _, line = place.rpartition(":")
    if line.isdigit():
        return ReadResult((), (Finding(file, int(line), "unusable", what, "refused"),))
    what = what if place == name else str(error)
    return ReadResult((), (Finding(name, 0, "unusable", what, "refused"),))
