"""Dialogs from files: every turn after the first is an example, what was said before it and what it says.

jsonl    an object a line with a list `turns` (or the key that `source` names), of texts or of [speaker, text]
tsv      a dialog a line, a turn a column
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from windlass.core.errors import DataError
from windlass.data.examples import Example, Place, Value
from windlass.data.files import lines, undecoded
from windlass.data.findings import Finding, Findings, tally
from windlass.data.readers import DataOptions, DataPath, ReadResult
from windlass.data.sides import SideOptions

KEY = "turns"
Turn = tuple[str | None, str]
"""Who speaks, where that is told, and what."""


def said_before(turns: Sequence[str], history: int | None) -> Value:
    """The context of a reply: the last `history` turns, or all for None; of one turn, its text.

    >>> said_before(("Hi.", "Hello!", "A table for two."), 2), said_before(("Hi.", "Hello!"), 1)
    (('Hello!', 'A table for two.'), 'Hello!')
    """
    return turns[-1] if history == 1 else tuple(turns if history is None else turns[-history:])


def read_dialogs(path: DataPath, options: DataOptions, sides: SideOptions | None = None) -> ReadResult:
    """Read the examples of a file of dialogs, with everything that is wrong in it.

    `options.history` is how many turns before a reply are read, `options.speaker` whose turns are replies.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "talk.tsv"
    >>> _ = file.write_text("Hi.\\tHello!\\tA table for two.\\n")
    >>> [(e.source, e.target) for e in read_dialogs(file, DataOptions()).examples]
    [(('Hi.',), 'Hello!'), (('Hi.', 'Hello!'), 'A table for two.')]
    """
    if not isinstance(path, str | Path):
        raise DataError(f"{', '.join(map(str, path))}: a dialog is a line of one file, not of several side by side")
    name = str(path)
    found = Findings(strict=options.strict)
    tabs = _form(name, options) == "tsv"
    if tabs and options.speaker is not None:
        raise DataError(f"{name}: a tsv does not tell who speaks: leave data.speaker out, or use jsonl")
    examples: list[Example] = []
    speakers: set[str | None] = set()
    for number, line in lines(path, found, options.encoding):
        turns = _turns(name, number, line, tabs, options, found)
        speakers |= {speaker for speaker, _ in turns}
        examples += _examples(turns, options, sides or SideOptions(), Place(name, number))
    if not examples:
        if options.speaker is not None and speakers and options.speaker not in speakers:
            told = ", ".join(sorted(repr(s) for s in speakers if s is not None)) or "nobody by name"
            raise DataError(f"{name}: data.speaker {options.speaker!r} says nothing; there speak {told}")
        skipped = tally(found.entries)
        raise DataError(f"{name}: no dialog of two turns or more{f', {skipped}' if skipped else ''}; one line each")
    return ReadResult(tuple(examples), tuple(sorted(found.entries, key=lambda f: f.line)))


def _form(name: str, options: DataOptions) -> str:
    suffix = Path(name.removesuffix(".gz")).suffix.lower()
    form = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}.get(suffix, "tsv")
    form = form if options.format == "auto" else options.format
    if form not in ("jsonl", "tsv"):
        raise DataError(f"{name}: dialogs are read from jsonl or tsv, not from {form}")
    return form


def _turns(name: str, number: int, line: str, tabs: bool, options: DataOptions, found: Findings) -> list[Turn]:
    """The turns of a dialog; none, and a finding, where the line cannot be used."""

    def skip(kind: str, what: str) -> list[Turn]:
        found.add(Finding(name, number, kind, what, "skipped"))
        return []

    if bad := undecoded(line):
        return skip("invalid UTF-8", bad)
    if not line.strip():
        return skip("blank", "the line is blank")
    if tabs:
        turns: list[Turn] = [(None, cell) for cell in line.split("\t")]
    else:
        key = options.source if isinstance(options.source, str) else KEY
        try:
            given = json.loads(line)
        except (ValueError, RecursionError) as error:
            return skip("wrong JSON", f"not JSON ({error}); every line must be one whole object")
        parts = given.get(key) if isinstance(given, dict) else None
        if not isinstance(parts, list):
            return skip("no turns", f"no list {key!r}; name the key of the turns in data.source")
        pairs = [_turn(part) for part in parts]
        turns = [pair for pair in pairs if pair is not None]
        if len(turns) < len(pairs):
            return skip("not a turn", "a turn is neither a text nor [speaker, text]")
    turns = [(speaker, " ".join(text.split())) for speaker, text in turns]
    if any(undecoded(text) for _, text in turns):
        return skip("invalid UTF-8", "half a character in a turn")
    spoken = [turn for turn in turns if turn[1]]
    if len(spoken) < len(turns):
        what = f"{len(turns) - len(spoken)} blank turns left out"
        found.add(Finding(name, number, "blank turn", what, "mended"))
    if len(spoken) < 2:
        return skip("no reply", "fewer than two turns")
    if any(len(text) > options.max_length for _, text in spoken):
        return skip("over-long", f"a turn of more characters than max_length {options.max_length}")
    return spoken


def _turn(part: object) -> Turn | None:
    if isinstance(part, str):
        return None, part
    if isinstance(part, list) and len(part) == 2 and all(isinstance(p, str) for p in part):
        return part[0], part[1]
    return None


def _examples(turns: Sequence[Turn], options: DataOptions, sides: SideOptions, place: Place) -> Iterator[Example]:
    texts = [text for _, text in turns]
    for n in range(1, len(turns)):
        if options.speaker is None or turns[n][0] == options.speaker:
            source = sides.read_source(said_before(texts[:n], options.history))
            yield Example(source, (sides.read_target(texts[n]),), None, place)
