"""Good files of every format, and how columns and headers are found."""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from windlass.core.errors import DataError, WindlassError
from windlass.data.examples import Example, Place
from windlass.data.frames import as_frame, read_columns
from windlass.data.readers import DataOptions, ReadResult, read
from windlass.data.sides import SideOptions

PAIRS = [("cat", "k a t"), ("dög", "d ö g")]


def pairs(result: ReadResult) -> list[tuple[str, str]]:
    return [(e.source, e.target) for e in result.examples]


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


CONTENT = {
    "p.tsv": "cat\tk a t\ndög\td ö g\n",
    "p.txt": "cat\tk a t\ndög\td ö g",  # no end of line at the end
    "p.csv": 'cat,k a t\n"dög","d ö g"\n',
    "p.jsonl": '{"s": "cat", "t": "k a t"}\n{"s": "dög", "t": "d ö g"}\n',
    "p.tsv.gz": "cat\tk a t\ndög\td ö g\n",
    "p.csv.gz": "cat,k a t\ndög,d ö g\n",
    "p.jsonl.gz": '{"s": "cat", "t": "k a t"}\n{"s": "dög", "t": "d ö g"}\n',
}


@pytest.mark.parametrize("name", sorted(CONTENT))
def test_the_same_pairs_come_out_of_every_format(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name, CONTENT[name])
    result = read(path)
    assert pairs(result) == PAIRS
    assert result.findings == ()
    assert [e.place for e in result.examples] == [Place(str(path), 1), Place(str(path), 2)]


@pytest.mark.parametrize("end", ["", ".gz"])
def test_parallel_files_are_read_line_by_line(tmp_path: Path, end: str) -> None:
    a = write(tmp_path, f"t.en{end}", "cat\ndög\n")
    b = write(tmp_path, f"t.ph{end}", "k a t\nd ö g\n")
    assert pairs(read(f"{a},{b}")) == PAIRS
    assert pairs(read((a, b))) == PAIRS
    assert read((a, b)) == read([str(a), str(b)], DataOptions(format="parallel"))


def test_a_third_parallel_file_holds_alignments(tmp_path: Path) -> None:
    files = [write(tmp_path, n, t) for n, t in (("s", "a b\n"), ("t", "x y\n"), ("l", "0-1 1-0\n"))]
    assert read(files).examples[0].alignment == ((0, 1), (1, 0))


def test_a_file_with_a_comma_in_its_name_is_one_file(tmp_path: Path) -> None:
    assert pairs(read(str(write(tmp_path, "a,b.tsv", CONTENT["p.tsv"])))) == PAIRS


def test_parquet_columns_by_name_and_by_number(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "p.parquet"
    parquet.write_table(arrow.table({"id": [1, 2], "s": ["cat", "dög"], "t": ["k a t", "d ö g"]}), path)
    assert pairs(read(path, DataOptions(source="s", target="t"))) == PAIRS
    result = read(path, DataOptions(source=2, target=3))
    assert pairs(result) == PAIRS
    assert result.notes == (f"{path}: the source is 's' and the target 't', by their order",)
    assert result.examples[1].place.line == 2
    with pytest.raises(DataError, match=r"no column is called 'tt'; did you mean|no column is called 'tt'; known"):
        read(path, DataOptions(source="s", target="tt"))


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(WindlassError, match=r"pip install 'windlass\[parquet\]'"):
        read(write(tmp_path, "p.parquet", "x"))


def test_a_quote_is_text_in_tsv_and_quoting_in_csv(tmp_path: Path) -> None:
    assert pairs(read(write(tmp_path, "p.tsv", 'a "b\t"c\n'))) == [('a "b', '"c')]
    assert pairs(read(write(tmp_path, "p.csv", '"a, ""b""",c\n'))) == [('a, "b"', "c")]


def test_a_line_separator_of_unicode_ends_no_line(tmp_path: Path) -> None:
    assert pairs(read(write(tmp_path, "p.tsv", "a\u2028b\tc\u0085d\n"))) == [("a\u2028b", "c\u0085d")]


def test_a_csv_may_be_separated_by_semicolons_and_says_so(tmp_path: Path) -> None:
    found = read(write(tmp_path, "p.csv", 'word;sound\ncat;"k; t"\n'), DataOptions(source="word", target="sound"))
    assert pairs(found) == [("cat", "k; t")]
    assert any("semicolons" in note for note in found.notes)
    assert pairs(read(write(tmp_path, "q.csv", "a;b,c\n"))) == [("a;b", "c")]


def test_a_csv_record_may_span_lines_and_keeps_its_first_line(tmp_path: Path) -> None:
    path = write(tmp_path, "p.csv", 'a,"x\ny"\nb,z\n')
    result = read(path)
    assert pairs(result) == [("a", "x y"), ("b", "z")]
    assert [e.place.line for e in result.examples] == [1, 3]
    assert [(f.line, f.kind, f.action) for f in result.findings] == [(1, "line break", "mended")]


def test_columns_are_chosen_by_number_or_name(tmp_path: Path) -> None:
    path = write(tmp_path, "p.csv", "count,sound,word\n3,k a t,cat\n")
    by_name = read(path, DataOptions(source="word", target="sound"))
    assert pairs(by_name) == [("cat", "k a t")]
    assert pairs(read(path, DataOptions(source=3, target=2, header=True))) == [("cat", "k a t")]
    assert pairs(read(path, DataOptions(source="3", target="2", header=False)))[0] == ("word", "sound")


@pytest.mark.parametrize("title", ["Lexicon, draft 3;;", "Lexicon", "Lexicon;;\n;;\nby M. K.;;", "\nLexicon"])
@pytest.mark.parametrize("named", [{}, {"source": "Headword", "target": "IPA"}, {"header": True}])
def test_a_title_above_the_header_is_no_row(tmp_path: Path, title: str, named: dict[str, Any]) -> None:
    path = write(tmp_path, "p.csv", f"{title}\nHeadword;IPA;Notes\ncat;kæt;\ndog;;\nfox;fɒks;\n")
    result, line = read(path, DataOptions(**named)), 2 + title.count("\n")
    assert pairs(result) == [("cat", "kæt"), ("fox", "fɒks")]
    told = (
        f"line {2 if title[0] == chr(10) else 1} is a title; the names of the columns are in line {line}: Headword, IPA"
    )
    assert any(told in note for note in result.notes)
    assert [f.line for f in result.findings if f.what == "the target is blank"] == [line + 2]
    assert result.examples[1].place.line == line + 3


def test_a_first_row_with_one_cell_is_no_title_unless_names_follow(tmp_path: Path) -> None:
    path = write(tmp_path, "p.csv", "cat;;\ndog;dɒɡ;x\nfox;fɒks;x\n")
    result = read(path)
    assert (len(result.examples), any("title" in note for note in result.notes)) == (2, False)
    titled = write(tmp_path, "q.csv", "Lexicon;;\nHeadword;IPA;Notes\nfox;fɒks;x\n")
    assert len(read(titled, DataOptions(header=False)).examples) == 2


def test_a_csv_with_tabs_has_quotes_as_excel_writes_them(tmp_path: Path) -> None:
    path = write(tmp_path, "p.csv", 'word\tmeaning\ncat\t"small, ""furry"""\ndog\t"one\nfox"\nfox\tred\n')
    result = read(path)
    assert pairs(result) == [("cat", 'small, "furry"'), ("dog", "one fox"), ("fox", "red")]
    assert [e.place.line for e in result.examples] == [2, 3, 5]


def test_cells_in_quotes_are_text_in_a_tsv_and_told(tmp_path: Path) -> None:
    for name in ("p.tsv", "p.txt"):
        path = write(tmp_path, name, "word\tmeaning\n" + "".join(f'cat{n}\t"small, furry {n}"\n' for n in range(5)))
        result = read(path)
        assert pairs(result)[0] == ("cat0", '"small, furry 0"')
        assert "cells on 5 lines are in quotes, which are read as text" in str(result.findings[0])
        assert pairs(read(path, DataOptions(format="csv")))[0] == ("cat0", "small, furry 0")
    spoken = write(tmp_path, "q.tsv", "".join(f"he said so\t{n}\n" for n in range(200)) + '"Yes."\t1\n')
    assert not read(spoken).findings


def test_quotes_around_every_cell_of_a_tsv_are_taken_off(tmp_path: Path) -> None:
    path = write(tmp_path, "p.tsv", '"word"\t"score"\n"cat"\t4\n"a ""dog"""\t5\n')
    result = read(path)
    assert pairs(result) == [("cat", "4"), ('a "dog"', "5")]
    assert "every cell is in quotes, which are taken off; else: --format tsv" in result.notes[0]
    assert pairs(read(path, DataOptions(format="tsv")))[0] == ('"word"', '"score"')


@pytest.mark.parametrize("columns", [("word", "word"), ("word", 1), (2, 2), ("word,ipa", "ipa"), ("1-3", 2)])
def test_a_column_is_not_source_and_target_at_once(tmp_path: Path, columns: tuple[str | int, str | int]) -> None:
    path = write(tmp_path, "p.csv", "word,ipa,note\ncat,kæt,x\n")
    with pytest.raises(DataError, match=r"source and target are the same column, .*: choose another"):
        read(path, DataOptions(source=columns[0], target=columns[1]))
    frame = as_frame({"word": ["cat"], "ipa": ["kæt"], "note": ["x"]})
    with pytest.raises(DataError, match="source and target are the same column"):
        list(read_columns(frame, {"source": columns[0], "target": columns[1]}))


def test_words_are_not_their_own_tags(tmp_path: Path) -> None:
    path = write(tmp_path, "p.conll", "the D\ncat N\n")
    with pytest.raises(DataError, match="source and target are the same column, 1"):
        read(path, DataOptions(source=1, target=1), SideOptions(source="words", target="tags"))


def test_known_columns_are_listed_in_their_order_without_blank_names(tmp_path: Path) -> None:
    path = write(tmp_path, "p.csv", "word;;ipa;gloss\ncat;;kæt;x\n")
    with pytest.raises(DataError, match=r"known: word, ipa, gloss$"):
        read(path, DataOptions(source="zzz"))


def test_well_known_names_are_taken_for_a_header_unless_told_otherwise(tmp_path: Path) -> None:
    path = write(tmp_path, "p.tsv", "Source\ttarget\na\tb\n")
    result = read(path)
    assert pairs(result) == [("a", "b")]
    assert result.notes[0].startswith(f"{path}: the first line is read as a header, as these are names of columns")
    assert pairs(read(path, DataOptions(header=False))) == [("Source", "target"), ("a", "b")]
    plain = write(tmp_path, "q.tsv", "word\tw e r d\na\tb\n")  # one well-known cell is no header
    assert len(read(plain).examples) == 2
    assert read(plain).notes == ()
    same = write(tmp_path, "r.tsv", "text\ttext\na\tb\n")  # a word and its loan, not two names
    assert len(read(same).examples) == 2


def test_a_wrong_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    path = write(tmp_path, "p.tsv", "word\tsound\na\tb\n")
    with pytest.raises(DataError, match=r"p\.tsv:1: no column is called 'sund'; did you mean 'sound'\?"):
        read(path, DataOptions(source="word", target="sund"))
    with pytest.raises(DataError, match="choose by number"):
        read(path, DataOptions(source="word", target="sound", header=False))


def test_alignments_are_read_where_a_column_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "p.tsv", "a b\tx y\t0-0 1-1\na\tx\t\n")
    result = read(path, DataOptions(alignment=3))
    assert [e.alignment for e in result.examples] == [((0, 0), (1, 1)), None]
    assert [e.alignment for e in read(path).examples] == [None, None]
    lists = write(tmp_path, "p.jsonl", '{"s": "a b", "t": "x y", "l": [[0, 0], [1, 1]]}\n')
    assert read(lists, DataOptions(alignment="l")).examples[0].alignment == ((0, 0), (1, 1))


def test_a_jsonl_target_may_be_a_list_of_right_answers(tmp_path: Path) -> None:
    path = write(tmp_path, "p.jsonl", json.dumps({"s": 7, "t": ["x", "y", "x"]}) + "\n")
    assert read(path).examples == (Example("7", ("x", "y"), None, Place(str(path), 1)),)


def test_an_unknown_ending_is_read_as_tsv_and_said(tmp_path: Path) -> None:
    path = write(tmp_path, "pairs.dat", CONTENT["p.tsv"])
    result = read(path)
    assert pairs(result) == PAIRS
    assert result.notes == (f"{path}: read as tsv, as its name does not tell the format",)


def test_the_format_option_beats_the_name(tmp_path: Path) -> None:
    path = write(tmp_path, "p.txt", CONTENT["p.csv"])
    assert pairs(read(path, DataOptions(format="csv"))) == PAIRS


def test_gzip_is_told_by_content_not_by_name(tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    path.write_bytes(gzip.compress(CONTENT["p.tsv"].encode()))
    assert pairs(read(path)) == PAIRS


@pytest.mark.parametrize("options", [{"source": 2}, {"alignment": 3}, {"header": True}])
def test_columns_of_parallel_text_are_refused(tmp_path: Path, options: dict[str, object]) -> None:
    files = [write(tmp_path, "a", "a\n"), write(tmp_path, "b", "b\n")]
    with pytest.raises(DataError, match="line-parallel files have no columns; leave out"):
        read(files, DataOptions.model_validate(options))


def test_one_file_is_not_parallel(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="parallel text is two files"):
        read(write(tmp_path, "a", "a\n"), DataOptions(format="parallel"))


def test_columns_count_from_one() -> None:
    with pytest.raises(ValidationError):
        DataOptions(source=0)
