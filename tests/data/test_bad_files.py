"""Files that are made to break a reader: nested deep, of very many columns, or with what steers a terminal."""

from __future__ import annotations

import io
import json
import os
import time
from contextlib import redirect_stderr, suppress
from pathlib import Path

import pytest

from windlass.commands.shared import say
from windlass.core.errors import DataError, visible
from windlass.core.serialise import read_json
from windlass.data import conll, treebank
from windlass.data.examples import frozen
from windlass.data.files import existing, lines
from windlass.data.findings import Finding, Findings
from windlass.data.readers import DataOptions, read
from windlass.data.recognise_file import recognise_file
from windlass.data.sides import SideOptions
from windlass.data.trees import DEEPEST, Tree

TREES = SideOptions(source="words", target={"tokens": "tree"})


def nested(depth: int) -> str:
    return "(S " * depth + "(NN cat)" + ")" * depth


@pytest.mark.parametrize("depth", [DEEPEST, 1000, 100_000])
def test_a_tree_nested_too_deep_is_skipped(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "a.mrg"
    path.write_text(nested(DEEPEST - 1) + "\n" + nested(depth) + "\n")
    result = read(path, sides=TREES)
    assert [(f.line, f.kind) for f in result.findings] == [(2, "not a tree")]
    assert f"nested more than {DEEPEST} deep" in result.findings[0].what
    assert len(result.examples) == 1


def test_a_tree_as_deep_as_allowed_can_be_used() -> None:
    tree = Tree.read(nested(DEEPEST - 1))
    assert tree.words == ("cat",)
    assert len(tree.constituents()) == DEEPEST - 1
    assert Tree.read(str(tree)) == tree
    assert len(tree.tokens("placeholder", "plain")) == 2 * DEEPEST - 1


def test_brackets_that_are_never_closed_take_no_longer_than_others(tmp_path: Path) -> None:
    path = tmp_path / "a.mrg"
    path.write_text("(S\n" * 50_000 + "(S (NN cat))\n")
    began = time.monotonic()
    result = read(path, sides=TREES)
    assert time.monotonic() - began < 10
    assert len(result.examples) == 1


@pytest.mark.parametrize(
    "steps", [[1, -1, 0, 2, -3], [0], [1, 1, -1], [2, -1, -1, 1, 0, -1], [-1, 1, -1], [1, -2, 1, -1], []]
)
def test_the_end_of_a_tree_is_found_as_by_counting(steps: list[int]) -> None:
    def counted(begin: int) -> int | None:
        depth = 0
        for n in range(begin, len(steps)):
            depth += steps[n]
            if depth <= 0:
                return n if depth == 0 else None
        return None

    assert treebank._ends(steps) == [counted(begin) for begin in range(len(steps))]


@pytest.mark.parametrize("depth", [150, 900, 5000, 200_000])
def test_json_nested_too_deep_is_skipped(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"s": "a", "t": "b"}\n{"s": ' + "[" * depth + "]" * depth + ', "t": "b"}\n')
    result = read(path)
    assert [(f.line, f.kind) for f in result.findings] == [(2, "wrong JSON")]
    assert len(result.examples) == 1
    assert recognise_file(path, DataOptions()).task == "text"


def test_json_is_counted_by_its_depth_and_not_by_its_size() -> None:
    assert len(read_json(json.dumps([[n] for n in range(1000)]))) == 1000
    for bad in ("[" * 101 + "]" * 101, '{"a": ' * 101 + "1" + "}" * 101, "1e999", "-Infinity", "["):
        with pytest.raises(ValueError, match=r"finite|nested|Expecting"):
            read_json(bad)


def test_lists_of_a_user_that_are_nested_too_deep_are_refused() -> None:
    value: object = "a"
    for _ in range(5000):
        value = [value]
    with pytest.raises(DataError, match="nested too deep"):
        frozen(value)


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
def test_very_many_columns_are_answered_within_seconds(tmp_path: Path, name: str) -> None:
    path, count = tmp_path / name, 100_000
    mark = "," if name == "a.csv" else "\t"
    rows = ([f"w{row} {column}" for column in range(count)] for row in range(4))
    if name == "a.jsonl":
        path.write_text("".join(json.dumps({str(n): cell for n, cell in enumerate(row)}) + "\n" for row in rows))
    else:
        path.write_text("".join(mark.join(row) + "\n" for row in rows))
    began = time.monotonic()
    with pytest.raises(DataError, match=r"100,000 columns are too many .* --source and --target") as caught:
        recognise_file(path, DataOptions())
    assert len(str(caught.value)) < 400
    assert len(read(path, DataOptions(source=1, target=2)).examples) == 4
    with pytest.raises(DataError) as caught:
        read(path, DataOptions(source="no such column", target=2, strict=True))
    assert len(str(caught.value)) < 2000
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "text", ["id\ttext\tlabel\tscore\n", "".join(f"{n if n != 70 else 'x'}\tw{n} so\n" for n in range(99))]
)
def test_a_header_alone_and_a_stray_cell_among_numbers_are_answered(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(text)
    with suppress(DataError):
        assert recognise_file(path, DataOptions()).task


@pytest.mark.parametrize("text", ["hello\nworld\n", "1\t \t_\tX\n", "1\n2\n\n3\tcat\t_\tNN\n"])
def test_lines_without_words_are_written_as_they_are(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(text)
    block = next(iter(conll.blocks(str(path), "conllu", DataOptions(), Findings())))
    assert block.written(()) == list(block.lines)


# ---------------------------------------------------------------- what steers a terminal

CLEAR = "\x1b[2J\x9b\x07"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_control_characters_are_shown_to_a_terminal_only() -> None:
    assert visible(f"a\tb\n{CLEAR}", Terminal()) == "a\tb\n\\x1b[2J\\x9b\\x07"
    assert visible(CLEAR, io.StringIO()) == CLEAR
    assert visible("\udcff ü") == "\\udcff ü"
    assert visible(visible(CLEAR)) == visible(CLEAR)


def test_messages_never_hold_control_characters() -> None:
    with redirect_stderr(io.StringIO()) as stream:
        say(f"{CLEAR}: note")
    for text in (stream.getvalue(), str(DataError(CLEAR)), str(Finding(CLEAR, 1, "blank", CLEAR, "skipped"))):
        assert "\\x1b[2J" in text
        assert not set(CLEAR) & {"\x1b", "\x9b", "\x07"} & set(text)
    assert str(DataError("one\ntwo")) == "one\\ntwo"


def test_a_named_pipe_is_told_to_come_as_stdin(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="a pipe can be read only once; read it as stdin: name -"):
        existing(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("content", "encoding", "said"),
    [
        ("café\tkafe\n".encode(), "cp1252", "valid UTF-8; 'café' becomes 'cafÃ©'"),
        ("café\tkafe\n".encode("utf-8-sig"), "cp1252", "begins with the byte-order mark of UTF-8"),
        ("café\tkafe\n".encode("utf-16"), "cp1252", "begins with the byte-order mark of utf-16"),
        (b"abcd\tabcd\n", "utf-16-le", "valid UTF-8; 'abcd' becomes"),
        ("café\tkafe\n".encode("cp1252"), "cp1252", None),
        ("café\tkafe\n".encode("utf-16-le"), "utf-16-le", None),
        (b"cafe\tkafe\n", "cp1252", None),
        ("犬\tinu\n".encode("iso2022_jp"), "iso2022_jp", None),
    ],
)
def test_a_wrong_encoding_that_is_asked_for_is_told(tmp_path: Path, content: bytes, encoding: str, said: str | None):
    path = tmp_path / "a.tsv"
    path.write_bytes(content)
    found = Findings()
    list(lines(path, found, encoding))
    told = [f.what for f in found.entries if f.kind == "encoding"]
    assert [said in what for what in told] == ([] if said is None else [True])
    assert not told or told[0].startswith(f"read as {encoding}, but ")


def test_stdin_is_called_by_its_name() -> None:
    assert str(Finding("-", 3, "blank", "the line is blank", "skipped")).startswith("stdin:3: ")
    assert str(DataError("-: task text, as column 2 holds texts")).startswith("stdin: task")
    assert str(DataError("--source: no such column")).startswith("--source")
