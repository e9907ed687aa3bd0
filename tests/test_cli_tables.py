"""Tables in and out: the task is recognised, `predict` reads the column of the training data, and stdin streams."""

from __future__ import annotations

import codecs
import gzip
import json
import os
import subprocess
import sys
import zlib
from unittest.mock import patch

import pytest

from command import refused, windlass
from windlass.data.files import stdin_lines

ROWS = [(f"the {noun} was {word}", label) for noun in "film book meal hotel phone game trip plot".split()
        for word, label in (("fine", "good"), ("warm", "good"), ("dull", "bad"), ("cold", "bad"))]  # fmt: skip
TINY = ("--set", "train.epochs=1", "--set", "model.encoder.size=8", "--set", "model.encoder.embedding.size=8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("tables")
    rows = "".join(f"{n};{text};{label}\n" for n, (text, label) in enumerate(ROWS))
    (place / "reviews.csv").write_text("id;review, as written;opinion\n" + rows)
    done = windlass("train", place / "reviews.csv", "--out", place / "model", *TINY)
    assert "task classify, as column 'opinion' holds 2 labels" in done.err
    return place


def test_predict_reads_the_column_of_the_training_data(folder):
    rows = windlass("predict", folder / "model", folder / "reviews.csv", "--json").out.splitlines()
    first = json.loads(rows[0])
    assert len(rows) == len(ROWS)
    assert (first["input"], first["line"]) == (ROWS[0][0], 2)
    (folder / "texts.txt").write_text("".join(f"{text}\n" for text, _ in ROWS))
    lines = windlass("predict", folder / "model", folder / "texts.txt", "--json").out.splitlines()
    assert [json.loads(row)["score"] for row in rows] == [json.loads(line)["score"] for line in lines]


def test_other_formats_and_stdin_give_the_same(folder):
    expected = windlass("predict", folder / "model", folder / "reviews.csv").out
    objects = "".join(json.dumps({"k": n, "text": text}) + "\n" for n, (text, _) in enumerate(ROWS))
    (folder / "texts.jsonl").write_text(objects)
    assert windlass("predict", folder / "model", folder / "texts.jsonl", "--source", "text").out == expected
    whole = (folder / "reviews.csv").read_bytes()
    assert windlass("predict", folder / "model", stdin=whole).out == expected  # its first line has the column's name
    tabs = "".join(f"{text}\t{label}\n" for text, label in ROWS).encode()
    done = windlass("predict", folder / "model", stdin=tabs)
    assert (done.out, "lines have columns" in done.err) == (expected, True)
    assert (
        windlass("predict", folder / "model", "--format", "jsonl", "--source", "text", stdin=objects.encode()).out
        == expected
    )


def test_a_csv_with_tabs_has_quotes_on_stdin_too(folder):
    rows = "".join(f'{n}\t"{text}"\t{label}\n' for n, (text, label) in enumerate(ROWS))
    whole = f"id\treview, as written\topinion\n{rows}"
    (folder / "tabs.csv").write_text(whole)
    expected = windlass("predict", folder / "model", folder / "reviews.csv").out
    assert windlass("predict", folder / "model", folder / "tabs.csv").out == expected
    assert windlass("predict", folder / "model", "--format", "csv", stdin=whole.encode()).out == expected


def test_quotes_around_every_cell_are_taken_off_on_stdin_too(folder):
    rows = "".join(f'"{text}"\t"{label}"\n' for text, label in ROWS)
    expected = windlass("predict", folder / "model", folder / "reviews.csv").out
    for name in ("quoted.tsv", "quoted.txt"):
        (folder / name).write_text(rows)
        assert windlass("predict", folder / "model", folder / name, "--source", "1").out == expected
    headed = f'"review, as written"\t"opinion"\n{rows}'
    for whole in (rows, headed):
        ran = windlass("predict", folder / "model", "--json", stdin=whole.encode())
        assert [json.loads(line)["input"] for line in ran.out.splitlines()] == [text for text, _ in ROWS]
        assert "stdin: every cell of the first line is in quotes, which are taken off; else: --format tsv" in ran.err
    kept = windlass(
        "predict", folder / "model", "--json", "--format", "tsv", "--source", "1", stdin=rows.encode()
    ).out.splitlines()
    assert json.loads(kept[0])["input"] == f'"{ROWS[0][0]}"'


def test_quotes_on_stdin_are_text_from_the_first_row_on_that_has_others(folder):
    rows = b'"it ""was"" so"\t3\n\nit was\tx\n"it was"\ty\n"it is"\t"y"\n'
    ran = windlass("predict", folder / "model", "--source", "1", "--json", stdin=rows)
    told = 'it "was" so||it was|"it was"|"it is"'
    assert "|".join(json.loads(line)["input"] for line in ran.out.splitlines()) == told
    assert "stdin:4: not every cell is in quotes, which are text from here on" in ran.err


def test_lines_in_quotes_are_text_and_told(folder):
    lines = "".join(f'"{text}"\n' for text, _ in ROWS)
    (folder / "quoted lines.txt").write_text(lines)
    for argument, what in (("-", "the first line"), (folder / "quoted lines.txt", "every line")):
        ran = windlass("predict", folder / "model", argument, "--json", stdin=lines.encode())
        assert json.loads(ran.out.splitlines()[0])["input"] == f'"{ROWS[0][0]}"'
        told = f"{what} is in quotes, which are read as text; without them: "
        assert told in ran.err
        how = ran.err.partition(told)[2].split()
        ran = windlass("predict", folder / "model", argument, "--json", *how[:4], stdin=lines.encode())
        assert json.loads(ran.out.splitlines()[0])["input"] == ROWS[0][0]


@pytest.mark.parametrize("title", ["Reviews, 2021;;", "Reviews;;\n;;\nof things;;"])
def test_a_title_above_the_header_on_stdin_is_no_input(folder, title):
    rows = (folder / "reviews.csv").read_text()
    expected = windlass("predict", folder / "model", folder / "reviews.csv").out
    ran = windlass("predict", folder / "model", stdin=f"{title}\n{rows}".encode())
    line = 2 + title.count("\n")
    told = f"stdin: line 1 is a title; the names of the columns are in line {line}: id, review, as written, opinion"
    assert (ran.out, told in ran.err) == (expected, True)
    tabs = f"{title}\n{rows}".replace(";", "\t").encode()
    assert windlass("predict", folder / "model", stdin=tabs).out == expected
    plain = f"A title\n{rows}".encode()
    assert windlass("predict", folder / "model", "--source", "review, as written", stdin=plain).out == expected


def test_a_title_that_may_be_an_input_is_one_and_told(folder):
    rows = (folder / "reviews.csv").read_text()
    ran = windlass("predict", folder / "model", stdin=f"A title\n{rows}".encode())
    assert ran.out.splitlines()[1:] == windlass("predict", folder / "model", folder / "reviews.csv").out.splitlines()
    assert "the names of the columns are in line 2: id, review, as written, opinion; what is above it was" in ran.err
    texts = b"the film was dull\nit was review, as written; so it was\n"
    ran = windlass("predict", folder / "model", stdin=texts)
    assert (len(ran.out.splitlines()), "names of the columns" in ran.err) == (2, False)


def test_evaluate_reads_stdin(folder):
    a, b = (
        json.loads(
            windlass("evaluate", folder / "model", file, "--json", stdin=(folder / "reviews.csv").read_bytes()).out
        )
        for file in (folder / "reviews.csv", "-")
    )
    assert a["metrics"] == b["metrics"]


def test_a_column_that_is_not_there_is_told(folder):
    assert "no column is called 'text'; did you mean" in refused(
        "predict", folder / "model", folder / "reviews.csv", "--source", "text"
    ) or "known" in refused("predict", folder / "model", folder / "reviews.csv", "--source", "text")


def test_an_empty_file_gives_nothing(folder):
    ran = windlass("predict", folder / "model", os.devnull)
    assert (ran.code, ran.out) == (0, "")
    assert "there is nothing to predict" in ran.err
    assert "the file is empty" in refused("evaluate", folder / "model", os.devnull)


def test_a_line_in_is_a_line_out_at_once_and_a_closed_pipe_is_no_error(folder):
    program = [sys.executable, "-m", "windlass", "predict", str(folder / "model")]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        for text, _ in ROWS[:3]:
            process.stdin.write(text.encode() + b"\n")
            process.stdin.flush()
            assert process.stdout.readline().strip() in (b"good", b"bad")
        process.stdout.close()
        process.stdin.write(b"the trip was dull\n" * 3000)
        process.stdin.close()
        errors = process.stderr.read().decode()
        assert (process.wait(), errors) == (0, "")


def test_flags_of_training_and_overwriting(folder, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"{word} {n} 1 0.5\n" for n, word in enumerate(("the", "was", "fine", "dull"))))
    small = ("--set", "model.encoder.size=8", "--epochs", "1", "--seed", "7", "--lr", "0.01", "--batch-tokens", "50")
    train = ("train", folder / "reviews.csv", "--out", tmp_path / "m", *small)
    done = windlass(*train, "--vectors", vectors)
    assert "has vectors for 4 of" in done.err
    recipe = (tmp_path / "m" / "recipe.yaml").read_text()
    for line in ("epochs: 1", "seed: 7", "lr: 0.01", "batch_tokens: 50", "kind: vectors", "size: 3"):
        assert line in recipe
    assert "exists and is not empty" in refused(*train)
    assert "deleting the model that is there" in windlass(*train, "--overwrite").err
    assert "kind: vectors" not in (tmp_path / "m" / "recipe.yaml").read_text()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("years of work")
    assert "no model is in it" in refused("train", folder / "reviews.csv", "--overwrite", "--out", tmp_path / "other")
    assert (tmp_path / "other" / "thesis.txt").exists()


def table(path, header, rows):
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in [header, *rows]))
    return path


def test_a_task_does_not_change_which_columns_are_read(tmp_path):
    rows = [(f"TCK-{n}", text, label, 1 + n % 5) for n, (text, label) in enumerate(ROWS)]
    path = table(tmp_path / "tickets.csv", ("ticket_id", "message", "category", "stars"), rows)
    for task in ((), ("--task", "classify")):
        done = windlass("train", path, *task, "--target", "category", "--out", tmp_path / "m", "--overwrite", *TINY)
        assert "columns: source 'message', target 'category'" in done.err
    told = refused("train", path, "--task", "classify", "--source", "message", "--out", tmp_path / "n")
    assert "several columns could be the target: 'category' (a label), 'stars' (a label); choose with --target" in told


def test_a_model_knows_its_labels_with_decimals_and_without(tmp_path):
    rows = [(text, float(label == "good")) for text, label in ROWS]
    train = table(tmp_path / "train.csv", ("review", "label"), rows)
    test = table(tmp_path / "test.csv", ("review", "label"), [(text, int(label)) for text, label in rows])
    done = windlass("train", train, "--out", tmp_path / "m", *TINY)
    assert "task classify, as column 'label' holds 2 labels (1.0 16, 0.0 16); else: --task regress or text" in done.err
    same, other = (json.loads(windlass("evaluate", tmp_path / "m", file, "--json").out) for file in (train, test))
    assert (other["metrics"], other["baseline"]) == (same["metrics"], same["baseline"])
    assert (other["labels"], other["unknown_labels"]) == (same["labels"], None)
    done = windlass("train", test, "--from", tmp_path / "m", "--out", tmp_path / "n", *TINY[:2])
    assert "columns of the model: source 'review', target 'label'" in done.err
    assert "no new symbols" in done.err
    forgets = f"to keep it, give the earlier data, {train}, too"
    assert forgets in done.err
    both = windlass("train", train, test, "--from", tmp_path / "m", "--out", tmp_path / "o", *TINY[:2])
    assert "no new symbols" in both.err
    assert "forgets" not in both.err
    same = f"{tmp_path}/../{tmp_path.name}/train.csv"
    again = windlass("train", same, "--from", tmp_path / "o", "--out", tmp_path / "p", *TINY[:2])
    assert f"give the earlier data, {test}, too" in again.err


def test_the_doctor_shows_the_columns_where_training_would_refuse(tmp_path):
    rows = [(text, text[::-1], label, f"2024-01-{1 + n % 28:02d}") for n, (text, label) in enumerate(ROWS)]
    rows[3] = (*rows[3][:2], "", rows[3][3])
    path = table(tmp_path / "words.csv", ("Lema", "Glosa", "kind", "Fecha"), rows)
    done = windlass("doctor", path)
    assert done.code == 1
    assert "  'Glosa': texts, 32 different, such as " in done.out
    assert "  'kind': labels, 2 different, 1 blank, such as 'good'" in done.out
    assert "  'Fecha': dates, 28 different, such as '2024-01-01'" in done.out
    assert "choose the columns, for example --source Lema --target Glosa" in done.out
    assert "understood" not in done.out
    assert "nothing wrong" not in done.out
    content = json.loads(windlass("doctor", path, "--json").out)
    assert (content["task"], content["columns"][2]["holds"], content["counts"]) == (None, "labels", {"unclear": 1})
    assert windlass("doctor", path, "--source", "Lema", "--target", "kind").code == 0


def test_the_doctor_suggests_columns_that_its_error_names_and_none_that_are_chosen(tmp_path):
    numbers = [(f"{text} {n}", ("m", "f", "n")[n % 3], ("loan", "old")[n % 2]) for n, (text, _) in enumerate(ROWS)]
    path = tmp_path / "words.csv"
    path.write_text("".join(",".join(row) + "\n" for row in numbers))
    done = windlass("doctor", path)
    assert "several columns could be the target: 2 (a label), 3 (a label)" in done.out
    assert done.out.endswith("choose the columns, for example --source 1 --target 2\n")
    assert windlass("doctor", path, "--source", "1", "--target", "2").code == 0
    done = windlass("doctor", path, "--source", "3")
    assert done.code == 0  # which leaves two columns
    rows = [(text, f"word{n % 12}", text[::-1]) for n, (text, _) in enumerate(ROWS)]
    path = table(tmp_path / "texts.csv", ("Lema", "Glosa", "Eintrag"), rows)
    done = windlass("doctor", path, "--source", "Lema", "--target", "Glosa")
    assert done.code == 1
    assert "of which the task is not clear" in done.out
    assert done.out.endswith("the columns are chosen: name the task with --task\n")
    done = windlass("doctor", path, "--source", "Lema", "--target", "Glossa")
    assert "did you mean 'Glosa'?" in done.out
    assert "--task" not in done.out


# ---------------------------------------------------------------- a line in is a line out


BAD = ['{"review, as written": "the film was fine"}', "{bad", "[1, 2]", "", '{"text": "the film"}',
       '{"review, as written": null}', '{"review, as written": "the film was dull"}']  # fmt: skip


def test_a_bad_line_of_json_has_a_blank_line_and_is_named(folder):
    (folder / "bad.jsonl").write_text("\n".join(BAD) + "\n")
    for arguments, where in (([folder / "bad.jsonl"], str(folder / "bad.jsonl")), (["--format", "jsonl"], "stdin"),
                             ([], "stdin")):  # fmt: skip
        ran = windlass("predict", folder / "model", *arguments, stdin="\n".join(BAD).encode())
        lines = ran.out.split("\n")
        assert ran.code == 1
        assert [bool(line) for line in lines[:-1]] == [True, False, False, False, False, False, True]
        assert f"{where}:2: not JSON (" in ran.err
        assert f"{where}:3: not a JSON object but list" in ran.err
        assert f"{where}:5: no column 'review, as written' in this row" in ran.err
        assert "3 of 7 inputs cannot be read" in ran.err


def test_json_without_one_good_line_is_named_line_by_line(folder):
    (folder / "none.jsonl").write_text("{bad\n[1]\n")
    ran = windlass("predict", folder / "model", folder / "none.jsonl")
    assert (ran.code, ran.out) == (1, "\n\n")


def test_a_row_without_the_column_or_with_bad_quotes_has_a_blank_line_and_is_named(folder):
    rows = b'id;review, as written\n1;the film was fine\n2\n\n3;"the" film\n4;the film was dull\n'
    (folder / "short.csv").write_bytes(rows)
    for argument, where in ((str(folder / "short.csv"), str(folder / "short.csv")), ("-", "stdin")):
        ran = windlass("predict", folder / "model", argument, stdin=rows)
        assert ran.code == 1
        assert [bool(line) for line in ran.out.split("\n")[:-1]] == [True, False, False, False, True]
        assert f"{where}:3: no column 'review, as written' in this row" in ran.err
        assert f"{where}:5: malformed quotes" in ran.err


def test_a_json_array_on_stdin_is_read_whole(folder):
    values = [{"review, as written": text} for text, _ in ROWS[:3]]
    for indent in (None, 1):
        ran = windlass("predict", folder / "model", stdin=json.dumps(values, indent=indent).encode())
        if indent is None:
            assert len(ran.out.splitlines()) == 3
        ran = windlass(
            "predict", folder / "model", "--format", "jsonl", stdin=json.dumps(values, indent=indent).encode()
        )
        assert len(ran.out.splitlines()) == 3


def test_json_is_recognised_on_stdin(folder):
    objects = "".join(json.dumps({"review, as written": text, "opinion": label}) + "\n" for text, label in ROWS)
    ran = windlass("evaluate", folder / "model", "-", "--json", stdin=objects.encode())
    assert json.loads(ran.out)["examples"] == len(ROWS)
    ran = windlass("predict", folder / "model", stdin=objects.encode())
    assert "stdin: read as JSON lines, as the first has 'review, as written'" in ran.err
    assert ran.out == windlass("predict", folder / "model", folder / "reviews.csv").out


def test_json_on_stdin_without_the_column_names_its_keys(folder):
    objects = b'{"text": "the film was fine", "stars": 5}\n'
    said = "stdin:1: no key is called 'review, as written'; known: stars, text; choose by --source"
    assert refused("predict", folder / "model", stdin=objects) == said
    assert "no key is called 'txt'; did you mean 'text'?" in refused(
        "predict", folder / "model", "--source", "txt", stdin=objects
    )
    assert windlass("predict", folder / "model", "--source", "text", stdin=objects).code == 0
    lines = windlass("predict", folder / "model", "--format", "tsv", "--source", "1", "--json", stdin=objects)
    assert json.loads(lines.out)["input"] == objects.decode().strip()  # the text itself


def test_json_on_stdin_is_answered_line_by_line(folder):
    program = [sys.executable, "-m", "windlass", "predict", str(folder / "model"), "--format", "jsonl"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        for text, expected in ((BAD[0], (b"good", b"bad")), (BAD[1], (b"",)), (BAD[6], (b"good", b"bad"))):
            process.stdin.write(text.encode() + b"\n")
            process.stdin.flush()
            assert process.stdout.readline().strip() in expected
        process.stdin.close()
        assert process.wait(timeout=60) == 1


# ---------------------------------------------------------------- encodings


@pytest.fixture(scope="module")
def spanish(tmp_path_factory):
    place = tmp_path_factory.mktemp("spanish")
    words = [(f"{a}ñ{b}", "uno" if b < "h" else "dos") for a in "bcdfg" for b in "aeiouh"]
    text = "Palabra;Categoría\n" + "".join(f"{word};{label}\n" for word, label in words)
    (place / "words.csv").write_text(text, encoding="cp1252")
    (place / "utf8.csv").write_text(text, encoding="utf-8")
    assert windlass("train", place / "words.csv", "--encoding", "cp1252", "--out", place / "model", *TINY).code == 0
    return place


def test_a_model_of_another_encoding_reads_utf8_files_as_such(spanish):
    (spanish / "new.txt").write_text("baño\n", encoding="utf-8")
    for arguments, stdin in (([spanish / "new.txt"], b""), ([], "baño\n".encode())):
        ran = windlass("predict", spanish / "model", *arguments, "--json", stdin=stdin)
        assert json.loads(ran.out)["input"] == "baño"
        assert "cp1252" not in ran.err
    assert windlass("evaluate", spanish / "model", spanish / "utf8.csv").code == 0
    assert windlass("score", spanish / "model", spanish / "utf8.csv").code == 0


def test_a_file_that_is_not_utf8_is_read_in_the_encoding_of_the_training_data_and_said_so(spanish):
    (spanish / "old.txt").write_text("baño\n", encoding="cp1252")
    for arguments, stdin in (([spanish / "old.txt"], b""), ([], "baño\n".encode("cp1252"))):
        ran = windlass("predict", spanish / "model", *arguments, "--json", stdin=stdin)
        assert json.loads(ran.out)["input"] == "baño"
        assert "not UTF-8: read as cp1252, as the training data was; else: --encoding" in ran.err
    ran = windlass("evaluate", spanish / "model", spanish / "words.csv")
    assert "words.csv: not UTF-8: read as cp1252" in ran.err


def test_the_encoding_of_stdin_can_be_set_and_is_hinted_at(folder):
    stdin = "the café was fine\n".encode("cp1252")
    ran = windlass("predict", folder / "model", "--json", "--encoding", "cp1252", stdin=stdin)
    assert json.loads(ran.out)["input"] == "the café was fine"
    ran = windlass("predict", folder / "model", "--json", stdin=stdin)
    assert (
        "stdin:1: not valid UTF-8: invalid bytes are read as unknown; name its encoding, as in --encoding cp1252"
        in ran.err
    )


def as_utf16(data: bytes) -> bytes:
    return codecs.BOM_UTF16_LE + data.decode().encode("utf-16-le")


@pytest.mark.parametrize("packed", [gzip.compress, as_utf16, lambda data: gzip.compress(as_utf16(data))])
def test_gzip_and_utf16_are_told_on_stdin_by_their_first_bytes(folder, packed):
    whole = (folder / "reviews.csv").read_bytes()
    plain, same = (windlass("predict", folder / "model", stdin=data).out for data in (whole, packed(whole)))
    assert same == plain
    ran = windlass("evaluate", folder / "model", "-", "--json", stdin=packed(whole))
    assert json.loads(ran.out)["examples"] == len(ROWS)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (gzip.compress(b"the film was fine\n" * 9)[:-9], "stdin: damaged gzip"),
        (b"a\0b\n", "stdin: this is a binary file"),
        (b"PK\x03\x04 and so on", "stdin: this is a zip archive"),
    ],
    ids=["damaged gzip", "zeros", "zip"],  # gzip has the time in it, and two processes must collect the same tests
)
def test_what_is_no_text_is_refused_on_stdin(folder, data, said):
    ran = windlass("predict", folder / "model", stdin=data)
    assert (ran.code, ran.err.splitlines()[-1].startswith(f"windlass: {said}")) == (1, True)
    assert said in refused("evaluate", folder / "model", "-", stdin=data)


def test_gzip_on_stdin_is_answered_line_by_line_too():
    ends = os.pipe()
    with open(ends[0]) as given, open(ends[1], "wb", buffering=0) as writer, patch("sys.stdin", given):
        packing, got = zlib.compressobj(wbits=31), stdin_lines(None, None, print)
        for number, text in enumerate(("the film was fine", "the meal was cold"), 1):
            writer.write(packing.compress(f"{text}\n".encode()) + packing.flush(zlib.Z_SYNC_FLUSH))
            assert next(got) == (number, text)


# ---------------------------------------------------------------- options and files of no use


def test_columns_of_a_plain_list_are_refused(folder):
    (folder / "list.txt").write_text("the film was fine\nthe book was dull\n")
    assert "no header, so no column is called 'foo'" in refused(
        "predict", folder / "model", folder / "list.txt", "--source", "foo"
    )
    assert "--separator has no use" in refused(
        "predict", folder / "model", folder / "list.txt", "--separator", "semicolon"
    )


def test_nothing_in_a_file_is_nothing_out(folder):
    (folder / "empty.txt").write_text("")
    ran = windlass("predict", folder / "model", folder / "empty.txt")
    assert (ran.code, ran.out) == (0, "")
    assert "empty" in ran.err


def test_a_plain_text_is_told_to_be_no_table(folder):
    (folder / "plain.txt").write_text("the film was fine\nthe book was dull\n")
    told = refused("evaluate", folder / "model", folder / "plain.txt")
    assert "not a table with a column 'review, as written'" in told


def test_a_closed_pipe_is_no_error_of_any_command(folder):
    for command in (["evaluate", folder / "model", folder / "reviews.csv"], ["recipes", "classify"]):
        program = [sys.executable, "-m", "windlass", *map(str, command)]
        with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout
            process.stdout.close()
            _, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, b"")
