"""Text that only has to be read on: whole files or lines, a dev part from the end, and batches whose rows go on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from windlass.core.errors import DataError
from windlass.core.marks import BOS, EOS
from windlass.core.records import Batch, Padded
from windlass.data.doctor import Lengths, RareCharacter, Report, rare_characters
from windlass.data.examples import Example, Place
from windlass.data.files import lines, undecoded
from windlass.data.findings import Finding, Findings
from windlass.data.padding import pad
from windlass.data.readers import DataOptions, ReadResult

_HALF = re.compile("[\ud800-\udfff]")


def read_texts(path: str | Path, options: DataOptions | None = None, whole: bool = True) -> ReadResult:
    """Read a file as one text, line breaks and all; or, where it is not `whole`, every line that is not blank.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "text.txt"
    >>> _ = file.write_text("one\\n\\ntwo\\n")
    >>> read_texts(file).examples[0].target
    'one\\n\\ntwo\\n'
    >>> [e.target for e in read_texts(file, whole=False).examples]
    ['one', 'two']
    """
    options = options or DataOptions()
    name, found = str(path), Findings(strict=options.strict)
    kept: list[tuple[int, str]] = []
    for number, line in lines(path, found, options.encoding):
        if bad := undecoded(line):
            found.add(Finding(name, number, "invalid UTF-8", f"{bad}, now U+FFFD", "mended"))
            line = _HALF.sub("\ufffd", line)
        if not whole and (wrong := _unusable(line, options)):
            found.add(Finding(name, number, *wrong, "skipped"))
            continue
        kept.append((number, line))
    texts = [(1, "".join(f"{line}\n" for _, line in kept))] if whole else kept
    if not any(text.strip() for _, text in texts):
        raise DataError(f"{name}: holds no text but blanks; give a file with at least one word")
    examples = tuple(Example("", (text,), None, Place(name, number)) for number, text in texts)
    return ReadResult(examples, tuple(found.entries))


def _unusable(line: str, options: DataOptions) -> tuple[str, str] | None:
    if not line.strip():
        return "blank", "the line is blank"
    if len(line) > options.max_length:
        return "over-long", f"the line has {len(line)} characters, more than max_length {options.max_length}"
    return None


def from_memory(texts: Iterable[object], name: str, strict: bool = False) -> ReadResult:
    """Texts in memory as examples, without those that are blank.

    >>> from_memory(["to be", ""], "train").examples[0].target
    'to be'
    """
    examples, found = list[Example](), Findings(strict=strict)
    for n, text in enumerate(texts, 1):
        if isinstance(text, str) and text.strip():
            examples.append(Example("", (text,), None, Place(name, n)))
        elif text is None or isinstance(text, str):
            found.add(Finding(name, n, "blank", "the text is blank", "skipped"))
        else:
            found.add(Finding(name, n, "not text", f"it is not text but {type(text).__name__}", "skipped"))
    return ReadResult(tuple(examples), tuple(found.entries), beyond=found.beyond)


def split_end(examples: Sequence[Example], fraction: float) -> tuple[list[Example], list[Example]]:
    """Set the last `fraction` of all characters aside, in order: whole texts, and of one of them the end.

    A text is cut before a word, so that none is torn. Returns (train, dev).

    >>> train, dev = split_end(from_memory(["to be or not to be"], "train").examples, 0.3)
    >>> train[0].target, dev[0].target
    ('to be or not to', ' be')
    """
    if not 0 < fraction < 1:
        raise DataError(f"the dev set's share must lie between 0 and 1, not {fraction}")
    wanted = fraction * sum(len(e.target) for e in examples)
    held: list[Example] = []
    rest = list(examples)
    while rest and len(rest[-1].target) <= wanted and len(rest) > 1:
        wanted -= len(rest[-1].target)
        held.insert(0, rest.pop())
    if wanted < 1 and held:
        return rest, held
    last = rest[-1]
    text = last.target
    space = re.compile(r"\s").search(text, round(len(text) - wanted))
    cut = space.start() if space else round(len(text) - wanted)
    if text[:cut].strip() and text[cut:].strip():
        place = Place(last.place.file, last.place.line + text.count("\n", 0, cut))
        rest[-1] = replace(last, targets=(text[:cut],))
        held.insert(0, replace(last, targets=(text[cut:],), place=place))
    elif not held:
        raise DataError(f"{last.place}: too short to set a part of it aside; give a dev file")
    return rest, held


def _in_line(rare: RareCharacter, texts: Sequence[Example]) -> RareCharacter:
    """A rare character with the line that it is first in; a text is no target."""
    first = next(e for e in texts if rare.character in e.target)
    line = first.place.line + first.target.count("\n", 0, first.target.index(rare.character))
    return replace(rare, side="text", place=Place(first.place.file, line))


def survey_texts(train: Sequence[ReadResult], dev: Sequence[ReadResult] = ()) -> Report:
    """Report on texts that have been read.

    >>> survey_texts([from_memory(["to be"], "train")]).train
    1
    """
    learned = [e for result in train for e in result.examples]
    held = [e for result in dev for e in result.examples]
    findings = tuple(finding for result in (*train, *dev) for finding in result.findings)
    lines = [line for e in learned for line in e.target.splitlines() if line.strip()]
    lengths = {"lines": Lengths.of(lines)} if lines else {}
    words, characters = sum(len(line.split()) for line in lines), sum(len(e.target) for e in learned)
    title = f"running text of {characters:,} characters: {words:,} words on {len(lines):,} lines"
    rare = tuple(_in_line(one, learned) for one in rare_characters([learned], ("target",)))
    return Report(len(learned), len(held), lengths, findings, rare, (), title=title)


def joined_ids(texts: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    """Texts as one: where there are several, each ends with the end mark.

    >>> joined_ids([np.array([5, 6])]).tolist(), joined_ids([np.array([5, 6]), np.array([7])]).tolist()
    ([5, 6], [5, 6, 3, 7, 3])
    """
    if len(texts) == 1:
        return texts[0]
    end = np.array([EOS], dtype=np.int32)
    return np.concatenate([part for text in texts for part in (text, end)])


class Running:
    """One long text as batches: rows side by side, each of which goes on in the next batch where it stood.

    The text is cut into `rows` parts of equal length (or one less), and these into chunks of at most `chunk` places.
    With `shuffle` the first chunk of an epoch is shorter by chance, so that chunks do not always end at the same
    places; the order never changes. The input `before` holds the token before each chunk, which is fed in first:
    at the start of an epoch the start mark. Like every loader it has no position of its own.

    >>> loader = Running([4, 5, 6, 7, 8, 9, 10], rows=2, chunk=3, seed=1, shuffle=False)
    >>> [batch.target.values.tolist() for batch in loader.epoch(0)]
    [[[4, 5, 6], [8, 9, 10]], [[7], [0]]]
    >>> [batch.inputs["before"].values.tolist() for batch in loader.epoch(0)]
    [[[2], [2]], [[6], [10]]]
    """

    def __init__(self, ids: Sequence[int] | NDArray[np.int32], rows: int, chunk: int, seed: int, shuffle: bool) -> None:
        if not len(ids):
            raise DataError("there is no text to read")
        self.chunk, self.seed, self.shuffle = chunk, seed, shuffle
        parts = np.array_split(np.asarray(ids, dtype=np.int64), min(rows, len(ids)))
        self.rows, self.width = pad(parts), len(parts[0])

    def _bounds(self, number: int) -> list[int]:
        """Where chunks begin and end: none is much shorter than the others."""
        first = min(self.chunk, self.width)
        if self.shuffle and self.width > self.chunk:
            first = int(np.random.default_rng([self.seed, number]).integers((first + 1) // 2, first + 1))
        rest = self.width - first
        if not rest:
            return [0, first]
        if not self.shuffle:
            return [0, *range(first, self.width, self.chunk), self.width]
        chunks = -(-rest // self.chunk)
        return [0, *(first + rest * n // chunks for n in range(chunks + 1))]

    def batches(self, number: int) -> int:
        """How many batches an epoch has."""
        return len(self._bounds(number)) - 1

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from batch `start` on."""
        for begin, end in list(pairwise(self._bounds(number)))[start:]:
            yield chunk_of(self.rows.values, self.rows.mask, begin, end)


def chunk_of(values: Tensor, mask: Tensor, begin: int, end: int) -> Batch:
    """Some columns of rows (B, W) as a batch, which goes on from the one before unless it is the first.

    >>> chunk_of(torch.tensor([[4, 5, 6]]), torch.ones(1, 3) > 0, 1, 3).continues.tolist()
    [True]
    """
    rows = values.size(0)
    before = values[:, begin - 1 : begin] if begin else torch.full((rows, 1), BOS)
    return Batch(
        {"before": Padded(before, torch.ones(rows, 1, dtype=torch.bool))},
        Padded(values[:, begin:end], mask[:, begin:end]),
        torch.arange(rows),
        continues=torch.full((rows,), begin > 0),
    )
