"""Every kind of bad data: file, line, what was done; and strictness; and random bytes."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.core.errors import DataError
from windlass.data.readers import DataOptions, ReadResult, read
from windlass.data.sides import SideOptions

GOOD = b"a\tb\n"
OBJECT = b'{"s": "a", "t": "b"}\n'
LONG = b"x" * 1001

# name: (file name, content, options, line, kind, action, examples that remain)
CASES: dict[str, tuple[str, bytes, dict[str, object], int, str, str, int]] = {
    "invalid UTF-8": ("p.tsv", GOOD + b"caf\xe9\tb\n" + GOOD, {}, 2, "invalid UTF-8", "skipped", 2),
    "invalid UTF-8 in csv": ("p.csv", b"a,b\ncaf\xe9,b\n", {}, 2, "invalid UTF-8", "skipped", 1),
    "invalid UTF-8 in jsonl": (
        "p.jsonl", b'{"s": "a", "t": "b"}\n{"s": "\xff", "t": "b"}\n', {}, 2, "invalid UTF-8", "skipped", 1,
    ),
    "half a character": (
        "p.jsonl", OBJECT + b'{"s": "\\ud800", "t": "b"}\n', {}, 2, "invalid UTF-8", "skipped", 1,
    ),
    "byte-order mark": ("p.tsv", b"\xef\xbb\xbf" + GOOD, {}, 1, "byte-order mark", "mended", 1),
    "CRLF": ("p.tsv", GOOD + b"a\tb\r\nc\td\r\n", {}, 2, "line ends", "mended", 3),
    "CRLF in csv": ("p.csv", b"a,b\r\n", {}, 1, "line ends", "mended", 1),
    "blank source": ("p.tsv", GOOD + b" \tb\n", {}, 2, "blank", "skipped", 1),
    "blank target": ("p.tsv", GOOD + b"a\t\n", {}, 2, "blank", "skipped", 1),
    "blank line": ("p.tsv", GOOD + b"\n" + GOOD, {}, 2, "blank", "skipped", 2),
    "blank line in csv": ("p.csv", b"a,b\n\nc,d\n", {}, 2, "blank", "skipped", 2),
    "null in jsonl": ("p.jsonl", OBJECT + b'{"s": "a", "t": null}\n', {}, 2, "blank", "skipped", 1),
    "over-long source": ("p.tsv", GOOD + LONG + b"\tb\n", {}, 2, "over-long", "skipped", 1),
    "over-long target": ("p.tsv", GOOD + b"a\tbcd\n", {"max_length": 2}, 2, "over-long", "skipped", 1),
    "control character": ("p.tsv", GOOD + b"a\x07\tb\n", {}, 2, "control character", "kept", 2),
    "missing column": ("p.tsv", GOOD + b"a\n", {}, 2, "missing column", "skipped", 1),
    "missing alignment": (
        "p.tsv", b"a\tb\t0-0\na\tb\n", {"alignment": 3}, 2, "missing column", "skipped", 1,
    ),
    "missing key": ("p.jsonl", b'{"s": "a", "t": "b"}\n{"s": "a"}\n', {}, 2, "missing column", "skipped", 1),
    "malformed alignment": (
        "p.tsv", b"a\tb\t0-0\na\tb\t0:0\n", {"alignment": 3}, 2, "malformed alignment", "skipped", 1,
    ),
    "half an alignment": (
        "p.tsv", b"a\tb\t0-0\na\tb\t0-0 1-\n", {"alignment": 3}, 2, "malformed alignment", "skipped", 1,
    ),
    "stray space": ("p.tsv", GOOD + b"a \tb\n", {}, 2, "stray space", "mended", 2),
    "malformed quotes": ("p.csv", b'a,b\n"a"x,b\nc,d\n', {}, 2, "malformed quotes", "skipped", 2),
    "not JSON": ("p.jsonl", b'{"s": "a", "t": "b"}\n{"s": \n', {}, 2, "wrong JSON", "skipped", 1),
    "not an object": ("p.jsonl", b'{"s": "a", "t": "b"}\n[1, 2]\n', {}, 2, "wrong JSON", "skipped", 1),
    "true is not text": (
        "p.jsonl", OBJECT + b'{"s": true, "t": "b"}\n', {}, 2, "not text", "skipped", 1,
    ),
    "not text": ("p.jsonl", b'{"s": "a", "t": "b"}\n{"s": {}, "t": "b"}\n', {}, 2, "not text", "skipped", 1),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(CASES))
def test_a_finding_names_file_line_kind_and_action(tmp_path: Path, case: str) -> None:
    name, content, options, line, kind, action, remaining = CASES[case]
    path = tmp_path / name
    path.write_bytes(content)
    result = read(path, DataOptions.model_validate(options))
    assert [(f.file, f.line, f.kind, f.action) for f in result.findings] == [(str(path), line, kind, action)]
    assert len(result.examples) == remaining


@pytest.mark.parametrize("case", sorted(CASES))
def test_strict_refuses_what_is_otherwise_found(tmp_path: Path, case: str) -> None:
    name, content, options, line, _, action, _ = CASES[case]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read(path, DataOptions.model_validate({**options, "strict": True}))
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert str(caught.value).endswith(f"(strict; without it: {action})")


def test_a_side_of_exactly_max_length_is_used(tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    path.write_bytes(b"abc\tabc\n")
    assert read(path, DataOptions(max_length=3)).findings == ()


def test_strict_accepts_a_clean_file(tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    path.write_bytes(b"source\ttarget\na\tb\n")
    assert len(read(path, DataOptions(strict=True)).examples) == 1


def test_what_is_mended_is_gone_from_the_text(tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    path.write_bytes(b"\xef\xbb\xbfa\t b\r\nc\td\r\n")
    result = read(path)
    assert [(e.source, e.target) for e in result.examples] == [("a", "b"), ("c", "d")]
    assert {f.kind: f.what for f in result.findings}["line ends"] == ("Windows line ends (CRLF) on 2 lines from here")


def test_the_byte_at_fault_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    path.write_bytes(GOOD + b"caf\xe9\tb\n")
    assert read(path).findings[0].what == "invalid UTF-8: byte 0xE9 at character 4"


def test_the_side_at_fault_of_parallel_text_is_named(tmp_path: Path) -> None:
    a, b = tmp_path / "t.en", tmp_path / "t.de"
    a.write_bytes(b"x\ny\nz\n")
    b.write_bytes(b"x\n\n\xff\n")
    result = read((a, b))
    assert [(f.file, f.line, f.kind) for f in result.findings] == [
        (str(b), 2, "blank"),
        (str(b), 3, "invalid UTF-8"),
    ]
    assert len(result.examples) == 1


REFUSED: dict[str, tuple[str, bytes, str]] = {
    "empty": ("p.tsv", b"", "the file is empty"),
    "empty gzip": ("p.tsv.gz", gzip.compress(b""), "the file is empty"),
    "only a header": ("p.tsv", b"source\ttarget\n", "no line but the header"),
    "binary": ("p.tsv", b"\x7fELF\x00\x01\n", "this is a binary file"),
    "zip": ("p.csv", b"PK\x03\x04rest", "a zip archive"),
    "parquet by another name": ("p.tsv", b"PAR1....", "a parquet file"),
    "not gzip": ("p.tsv.gz", GOOD, "named .gz but not gzip"),
    "truncated gzip": ("p.tsv.gz", gzip.compress(GOOD * 500)[:-12], "damaged gzip"),
    "broken gzip": ("p.tsv.gz", gzip.compress(GOOD)[:10] + b"\xff" * 20, "damaged gzip"),
    "no second column anywhere": ("p.tsv", b"a b\nc d\n", "columns of a tsv are separated by tabs"),
    "no such key anywhere": ("p.jsonl", b'{"s": "a"}\n', "no column 2; there is 1: s"),
    "latin-1 throughout": ("p.tsv", b"\xe9\t\xe9\n" * 3, "save the file as UTF-8"),
    "a JSON array": ("p.jsonl", b'[\n{"s": "a", "t": "b"},\n]\n', "every line must be one whole object"),
    "an unclosed quote": ("p.csv", b'a,b\nc,"d\ne,f\n', "p.csv:2: a quote opened here is never closed"),
    "a field without end": ("p.csv", b'"' + b"x\n" * 100_000, "p.csv:1: a quote opened here is never closed"),
    "not parquet": ("p.parquet", b"hello world, this is text", "not a parquet file, or a damaged one"),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_a_file_of_no_use_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    name, content, message = REFUSED[case]
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_name_that_no_object_has_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'{"s": "a", "t": "b"}\n')
    with pytest.raises(DataError, match=r"1 missing column \(skipped\).*check the spelling"):
        read(path, DataOptions(source="s", target="tt"))


@pytest.mark.parametrize(("a", "b"), [(3, 2), (2, 4)])
def test_unequal_line_counts_are_refused_with_both(tmp_path: Path, a: int, b: int) -> None:
    one, two = tmp_path / "t.en", tmp_path / "t.de"
    one.write_bytes(b"x\n" * a)
    two.write_bytes(b"x\n" * b)
    with pytest.raises(DataError) as caught:
        read((one, two))
    assert f"unequal line counts: {one} has {a}, {two} has {b};" in str(caught.value)


def test_a_missing_file_is_answered_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_bytes(GOOD)
    with pytest.raises(DataError, match=r"trian\.tsv: no such file; did you mean .*train\.tsv\?"):
        read(tmp_path / "trian.tsv")
    with pytest.raises(DataError, match="does not exist either"):
        read(tmp_path / "nowhere" / "train.tsv")
    with pytest.raises(DataError, match="this is a folder"):
        read(tmp_path)


SUFFIXES = ("tsv", "csv", "jsonl", "parquet", "tsv.gz")
MARKS = [b"a", b"\t", b"\n", b"\r", b",", b'"', b"\xff", b"\x00", b"{", b"}", b"[", b":", b" ", b"\xf0\x9f"]
PARTS = [b"\xef\xbb\xbf", OBJECT, b"source\ttarget", b"1-1", b"PAR1", b"\x1f\x8b", b'"\\ud800"']
LIKELY = st.lists(st.sampled_from(MARKS + PARTS), max_size=30).map(b"".join)


def attempt(path: Path, options: DataOptions) -> ReadResult | str:
    try:
        return read(path, options)
    except DataError as error:
        return str(error)


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=120)
@given(content=st.binary(max_size=80) | LIKELY, wrapped=st.booleans(), strict=st.booleans())
def test_random_bytes_give_examples_or_a_data_error(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, content: bytes, wrapped: bool, strict: bool
) -> None:
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path_factory.getbasetemp() / f"fuzz.{suffix}"
    path.write_bytes(gzip.compress(content) if wrapped else content)
    result = attempt(path, DataOptions(strict=strict, alignment=3 if len(content) % 3 == 0 else None))
    if isinstance(result, str):
        assert "\n" not in result
    else:
        assert result.examples
        assert not (strict and result.findings)
        for example in result.examples:
            for text in (example.source, *example.targets):
                assert text.strip() == text != ""
                text.encode()


@settings(max_examples=60)
@given(value=st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda s: st.lists(s, max_size=3)))
def test_any_json_value_gives_examples_or_a_data_error(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.jsonl"
    path.write_text(json.dumps({"s": "a", "t": value, "l": value}) + "\n")
    for alignment in (None, 3):
        result = attempt(path, DataOptions(alignment=alignment))
        assert "\n" not in result if isinstance(result, str) else result.examples


def test_line_parallel_files_without_a_comma_are_told_how_they_are_given(tmp_path: Path):
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("one line\n\nanother line\n")
    with pytest.raises(DataError, match=r"a comma and no space between: \S*a\.en,\S*a\.de$"):
        read(tmp_path / "a.en")
    (tmp_path / "a.de").unlink()
    with pytest.raises(DataError, match=r"a\.en,OTHER$"):
        read(tmp_path / "a.en")
    (tmp_path / "labels.txt").write_text("one line\nanother line\n")
    with pytest.raises(DataError, match="separated by tabs"):
        read(tmp_path / "labels.txt", sides=SideOptions(target="label"))
