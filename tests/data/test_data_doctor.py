"""The report on whole files."""

from pathlib import Path

import pytest

from windlass.data.corpus import examine
from windlass.data.doctor import Lengths, survey
from windlass.data.readers import DataOptions, read
from windlass.data.sides import SideOptions
from windlass.experiment.data import read_data
from windlass.recipe import compose


@pytest.fixture
def train(tmp_path: Path) -> Path:
    path = tmp_path / "train.tsv"
    path.write_bytes(b"aa\txx\nab\txx\naa\txx\naa\tyy\nq\t\nbb\txy\n")
    return path


def found(report_findings: object) -> list[tuple[int, str, str, str]]:
    return [(f.line, f.kind, f.what, f.action) for f in report_findings]  # type: ignore[attr-defined]


def test_duplicates_and_conflicts_inside_a_file_are_kept_and_told(train: Path) -> None:
    report = examine([train])
    assert report == examine(str(train))
    assert found(report.findings) == [
        (5, "blank", "the target is blank", "skipped"),
        (3, "duplicate", f"the same pair as {train}:1", "kept"),
        (4, "conflicting targets", f"another target for the source of {train}:1", "kept"),
    ]
    assert report.train == 5
    assert report.counts == {"blank": 1, "duplicate": 1, "conflicting targets": 1}


def test_duplicates_and_conflicts_across_files_are_kept_and_told(train: Path) -> None:
    more = train.with_name("more.tsv")
    more.write_bytes(b"new\txz\nab\txx\nbb\tyy\n")
    report = examine([train, more])
    assert [told for told in found(report.findings) if told[2].endswith((":2", ":6"))] == [
        (2, "duplicate", f"the same pair as {train}:2", "kept"),
        (3, "conflicting targets", f"another target for the source of {train}:6", "kept"),
    ]
    assert {f.file for f in report.findings if str(f).startswith(str(more))} == {str(more)}
    assert report.counts["duplicate"] == report.counts["conflicting targets"] == 2


def test_a_file_that_is_named_twice_is_told_once_and_not_row_by_row(train: Path) -> None:
    again = train.parent / ".." / train.parent.name / train.name
    for other, what in ((train, "the file is named twice"), (again, f"the same file as {train}")):
        report = examine([train, other])
        same = [f for f in report.findings if f.kind == "same file"]
        assert [str(f) for f in same] == [f"{other}: {what}: every row counts twice -> kept"]
        assert (report.counts["duplicate"], report.counts["conflicting targets"]) == (1, 1)
    copy = train.with_name("copy.tsv")
    copy.write_bytes(train.read_bytes())
    assert "same file" not in examine([train, copy]).counts


def test_a_source_in_train_and_dev_is_told_at_its_dev_line(train: Path, tmp_path: Path) -> None:
    dev = tmp_path / "dev.tsv"
    dev.write_bytes(b"new\tz\nbb\tz\n")
    report = examine([train], dev=dev)
    leaks = [f for f in report.findings if f.kind == "in train and dev"]
    assert [(f.file, f.line, f.what, f.action) for f in leaks] == [
        (str(dev), 2, f"the source is in the training data, {train}:6", "kept")
    ]
    assert report.dev == 2


def test_rare_characters_are_named_with_count_side_and_place(train: Path) -> None:
    assert examine([train]).rare == ()  # the rarest there is a y, three times
    rare = train.with_name("rare.tsv")
    rare.write_text("aaa\txxx\naaé\txxx\n", encoding="utf-8")
    assert [str(r) for r in examine([rare]).rare] == [
        f"'é' U+00E9 LATIN SMALL LETTER E WITH ACUTE: 1 in the source, first at {rare}:2"
    ]


def test_lengths_are_those_of_the_training_data(train: Path) -> None:
    assert examine([train]).lengths["source"] == Lengths(2, 2, 2, 2)
    assert Lengths.of(["x" * n for n in range(1, 101)]) == Lengths(1, 51, 96, 100)


def test_the_text_says_place_what_and_action_and_clips(tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    path.write_bytes(b"a\tb\n" + b"a\t\n" * 28)
    text = examine([path]).render(limit=5)
    assert "blank: 28 skipped" in text
    assert f"  {path}:2: the target is blank -> skipped" in text
    assert f"{path}:6: " in text
    assert f"{path}:7: " not in text
    assert "  and 23 more" in text
    assert "and" not in examine([path]).render(limit=28)


def test_a_refused_file_is_a_finding_and_comes_first(train: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_bytes(b'a,b\nc,"d\n')
    report = examine([train, bad, tmp_path / "none.tsv"])
    assert report.refused
    refused = [f for f in report.findings if f.action == "refused"]
    assert [(f.file, f.line) for f in refused] == [(str(bad), 2), (str(tmp_path / "none.tsv"), 0)]
    assert str(refused[1]).startswith(f"{tmp_path / 'none.tsv'}: no such file; ")
    lines = report.render().splitlines()
    assert lines.index("unusable: 2 refused") < lines.index("blank: 1 skipped")


def test_unequal_parallel_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x\n")
    (tmp_path / "b").write_bytes(b"x\ny\n")
    report = examine([f"{tmp_path / 'a'},{tmp_path / 'b'}"])
    assert report.refused
    assert "unequal line counts" in report.render()


def test_examining_is_never_strict_and_nothing_is_read_twice(train: Path) -> None:
    report = examine([train], DataOptions(strict=True))
    assert not report.refused
    assert report == survey([read(train)])


def test_a_label_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("a\tgood\nb\t\x1b[2Jbad\n" * 9, encoding="utf-8")
    report = examine([path], DataOptions(), None, SideOptions(target="label")).render()
    assert "\\x1b[2Jbad 9 (50%)" in report
    assert "\x1b" not in report


def test_assumptions_are_told(tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    path.write_bytes(b"source\ttarget\na\tb\n")
    assert f"assumed: {path}: the first line is read as a header" in examine([path]).render()


def test_clean_data_is_called_clean(tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    path.write_bytes(b"aaa\tbbb\n")
    assert examine([path]).render().endswith("nothing wrong was found")


def test_nothing_is_said_of_files_that_were_not_opened(tmp_path: Path) -> None:
    for label in ("cat", "dog"):
        (tmp_path / label).mkdir()
        for n in range(5):
            (tmp_path / label / f"{n}.jpg").write_bytes(b"no picture")
    report = read_data(compose("classify-picture", None, [{"data": {"train": [str(tmp_path)]}}])).report
    assert report.findings == ()
    assert "nothing wrong" not in report.render()


def test_a_few_cells_with_several_forms_are_told(tmp_path: Path) -> None:
    path, words = tmp_path / "lexicon.tsv", [(f"w{n}", f"v{n}") for n in range(40)]
    for odd, count in (
        ([("colour, color", "kʌlə"), ("grey", "ɡreɪ / ɡraɪ")], 2),
        ([("ka, ko", "ka"), ("lie down", "laɪ")], 0),  # a single one may be meant
        ([(f"a{n}, b{n}", "x") for n in range(20)], 0),  # so may many
        ([("to be, or", "x"), ("so it is, then", "y")], 0),
    ):
        path.write_text("".join(f"{a}\t{b}\n" for a, b in [*words, *odd]))
        told = [f for f in examine([path]).findings if f.kind == "several forms"]
        assert len(told) == bool(count)
        if told:
            assert str(told[0]).startswith(f"{path}:41: 2 rows seem to have several forms in a cell, such as 'colour,")


@pytest.mark.parametrize("between", [" / ", "/", ", ", " ~ ", "; ", " | "])
def test_targets_with_several_answers_are_told_with_their_share(tmp_path: Path, between: str) -> None:
    path, ipa = tmp_path / "lexicon.tsv", [f"{a}{b}o{c}a" for a in "bdfgl" for b in "aeiou" for c in "ptk"]
    cells = [f"ˈ{text}{between}ˈ{text[:-1]}ə" if n % 3 == 2 else f"ˈ{text}" for n, text in enumerate(ipa)]
    path.write_text("".join(f"w{n}\t{cell}\n" for n, cell in enumerate(cells)), encoding="utf-8")
    told = [f for f in examine([path]).findings if f.kind == "several forms"]
    what = f"{between.strip()!r} divides 33% of the targets into parts that are alike, such as {cells[2]!r}"
    assert [str(f) for f in told] == [f"{path}:3: {what}: if these are several answers, give each a row -> kept"]
    labels = examine([path], sides=SideOptions(target="label"))
    assert "several forms" not in labels.counts


@pytest.mark.parametrize(
    "cells",
    [
        ["well, I do not know", "a man, who had a dog", "no, no", "he came, and he went"],
        ["N;SG;NOM", "V;PST;3;SG", "ADJ;PL", "N;DU"],
        ["/bada/", "/laɣo/", "/deðo/"],
        ["1,234", "12/13", "1.5; 1.7"],
        ["read/write", "and/or", "un|happy", "this, that"],
    ],
)
def test_parts_of_one_answer_are_not_taken_for_several(tmp_path: Path, cells: list[str]) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"w{n}\t{cells[n % len(cells)]}\n" for n in range(30)), encoding="utf-8")
    assert "several forms" not in examine([path]).counts
