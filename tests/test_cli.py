"""The command line: evaluate, predict, score, explain, doctor and recipes, as a user meets them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from command import refused, windlass

COMMANDS = """train evaluate predict score generate chat explain units gradients info compare distance bench quantise
doctor features recipes demo""".split()


def test_windlass_alone_lists_its_commands_in_the_order_of_their_use():
    ran = windlass("--help")
    assert ran.code == 0
    assert [line.split()[0] for line in ran.out.split("Commands:")[1].splitlines() if line] == COMMANDS
    assert "..." not in ran.out.split("Commands:")[1]  # no summary is cut off


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_has_a_help_text(command):
    ran = windlass(command, "--help")
    assert ran.code == 0
    lines = ran.out.split("Options:")[1].splitlines()
    for at, line in enumerate(lines):
        if line.startswith("  --"):
            after = lines[at + 1] if at + 1 < len(lines) else ""
            assert len(line.split("  ")) > 2 or after.startswith("     "), line


@pytest.mark.parametrize(
    "arguments", [["nosuch"], ["predict"], ["predict", "x", "--nosuch"], ["predict", "x", "--beam", "0"]]
)
def test_wrong_usage_is_told_without_a_traceback(arguments):
    ran = windlass(*arguments)
    assert ran.code == 2
    assert "Error" in ran.err
    assert "Traceback" not in ran.err


def test_evaluate_prints_figures_beside_the_baseline(tiny_model, tiny_data):
    ran = windlass("evaluate", tiny_model, tiny_data / "test.tsv")
    assert ran.code == 0
    assert ran.out.startswith("accuracy")
    assert "(baseline " in ran.out
    assert "20 examples" in ran.out


def test_evaluate_json_is_all_that_stdout_holds(tiny_model, tiny_data):
    ran = windlass("evaluate", tiny_model, tiny_data / "test.tsv", "--json")
    content = json.loads(ran.out)
    assert content["metrics"]["accuracy"] > 60  # as papers print it: of 100
    assert set(content["baseline"]) == set(content["metrics"]) == {"accuracy", "cer"}
    assert content["examples"] == 20
    assert content["search"]["kind"] == "beam"


def test_evaluate_tells_of_bad_lines_on_stderr(tiny_model, tmp_path):
    file = tmp_path / "bad.tsv"
    file.write_text("ab\tba\n\t\nabc\tcba\nxy\tyx\n")
    ran = windlass("evaluate", tiny_model, file, "--json")
    assert json.loads(ran.out)["examples"] == 3
    assert json.loads(ran.out)["unknown"] == 1
    assert "bad.tsv:2" in ran.err


def test_an_ensemble_of_a_model_with_itself_is_the_model(tiny_model, tiny_data):
    alone = json.loads(windlass("evaluate", tiny_model, tiny_data / "test.tsv", "--json").out)
    both = json.loads(windlass("evaluate", tiny_model, tiny_data / "test.tsv", "--json", "--also", tiny_model).out)
    assert both["metrics"] == alone["metrics"]
    assert len(both["models"]) == 2


def test_predict_gives_a_line_for_every_line_whatever_it_holds(tiny_model):
    text = b"\xef\xbb\xbfabc\r\n\r\n  \nabcq\ncaf\xe9\n\ncba"
    ran = windlass("predict", tiny_model, stdin=text)
    assert ran.code == 0
    lines = ran.out.split("\n")
    assert len(lines) == 8  # the last is empty: every line was ended
    assert lines[1] == lines[2] == lines[5] == ""
    assert lines[0] == windlass("predict", tiny_model, stdin=b"abc").out.strip()  # no mark, no line end
    assert "line 4: the model has never seen 'q'" in ran.err
    assert "stdin:5: not valid UTF-8" in ran.err


def test_predict_reads_a_file_as_it_reads_stdin(tiny_model, tmp_path):
    file = tmp_path / "ein Wörterbuch.txt"
    file.write_text("ab\n\ncd\n")
    assert windlass("predict", tiny_model, file).out == windlass("predict", tiny_model, "-", stdin=b"ab\n\ncd\n").out


def test_output_is_utf8_whatever_the_locale(tiny_model):
    ran = subprocess.run(
        [sys.executable, "-m", "windlass", "predict", str(tiny_model), "--json"],
        input="é\n".encode(),
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        check=True,
    )
    assert json.loads(ran.stdout.decode())["input"] == "é"


def test_nothing_in_nothing_out(tiny_model):
    ran = windlass("predict", tiny_model, stdin=b"")
    assert (ran.code, ran.out) == (0, "")


def test_a_line_that_is_far_too_long_is_cut_and_said_so(tiny_model):
    ran = windlass("predict", tiny_model, "--search", "greedy", stdin=b"abcd" * 5000 + b"\nab\n")
    assert ran.code == 0
    assert len(ran.out.splitlines()) == 2
    assert "stdin:1: 20,000 characters, truncated to 1,000" in ran.err


def test_many_unknown_lines_are_told_in_one(tiny_model):
    ran = windlass("predict", tiny_model, stdin=b"q\n" * 20)
    assert ran.err.count("never seen 'q'") == 5
    assert "and 15 more lines" in ran.err


def test_n_best_outputs_stand_side_by_side(tiny_model):
    ran = windlass("predict", tiny_model, "--nbest", "3", stdin=b"abc\n\ncd\n")
    first, blank, second = ran.out.splitlines()
    assert len(first.split("\t")) == len(set(first.split("\t"))) == len(second.split("\t")) == 3
    assert blank == ""
    one = json.loads(windlass("predict", tiny_model, "--nbest", "3", "--json", stdin=b"abc\n").out)
    assert [one["text"], *(other["text"] for other in one["alternatives"])] == first.split("\t")


def test_predict_json_holds_all_that_a_prediction_does(tiny_model):
    one = json.loads(windlass("predict", tiny_model, "--json", stdin=b"abq\n").out)
    assert one["unknown"] == ["q"]
    assert one["places"]["names"] == ["a", "b", "q", "</s>"]
    assert len(one["attention"]) == len(one["answer"]["probabilities"])
    assert all(abs(sum(row) - 1) < 1e-4 for row in one["attention"])
    assert 0 < one["confidence"] <= 1


def test_samples_depend_on_their_seed_and_on_nothing_else(tiny_model):
    def drawn(*options: str) -> str:
        words = b"abcd\nab\ncd\ndcba\n"
        return windlass("predict", tiny_model, "--search", "sample", "--temperature", "3", *options, stdin=words).out

    assert drawn("--seed", "1") == drawn("--seed", "1")
    assert drawn("--seed", "1") != drawn("--seed", "2")
    assert drawn("--seed", "1", "--top-k", "1") == drawn("--seed", "2", "--top-k", "1")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--search", "greedy", "--nbest", "2"], "greedy search finds one output"),
        (["--beam", "2", "--nbest", "3"], "add --beam 3"),
        (["--top-k", "3"], "--top-k has no use in beam search; it belongs to: sample"),
        (["--search", "sample", "--beam", "2"], "--beam has no use in sample search"),
        (["--search", "bean"], "did you mean 'beam'?"),
        (["--search", "sample", "--top-p", "2"], "--top-p: input should be less than or equal to 1"),
        (["--search", "sample", "--temperature", "0"], "--temperature: input should be greater than 0"),
        (["--length-penalty", "-1"], "--length-penalty"),
        (["--device", "warp"], "no device 'warp'"),
        (["no-such-file.txt"], "no-such-file.txt: no such file"),
        (["."], ".: this is a folder"),
    ],
)
def test_predict_refuses_what_it_cannot_do(tiny_model, options, said):
    assert said in refused("predict", tiny_model, *options, stdin=b"ab\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such.tsv"], "no such file"),
        (["pairs.tsv", "--source", "0"], "data.source: input should be greater than or equal to 1, not 0"),
        (["pairs.tsv", "--format", "xml"], "data.format"),
        (["pairs.tsv", "--source", "word"], "no column is called 'word'"),
        (["pairs.tsv", "--search", "sample", "--beam", "2"], "--beam has no use"),
    ],
)
def test_evaluate_refuses_what_it_cannot_do(tiny_model, tiny_data, monkeypatch, arguments, said):
    monkeypatch.chdir(tiny_data)
    assert said in refused("evaluate", tiny_model, *arguments)


def test_score_gives_a_right_answer_more_than_a_wrong_one(tiny_model, tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("abc\tcba\nabc\tddd\n")
    ran = windlass("score", tiny_model, file)
    right, wrong = (float(line.split("\t")[0]) for line in ran.out.splitlines())
    assert wrong < right < 0


def test_score_prints_the_given_text_as_it_was_given(tiny_model, tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("abc\tcq€\n")
    ran = windlass("score", tiny_model, file)
    assert ran.out.split("\t")[1] == "cq€\n"
    assert "the model never writes 'q', '€': read as unknown" in ran.err
    assert json.loads(windlass("score", tiny_model, file, "--json").out)["text"] == "cq€"


@pytest.mark.parametrize("suffix", ["png", "html", "json"])
def test_explain_writes_pictures_pages_and_data(tiny_model, tmp_path, suffix):
    out = tmp_path / "neuer Ordner ü" / f"a.{suffix}"
    ran = windlass("explain", tiny_model, "abc", "--out", out)
    assert ran.code == 0, ran.err
    assert out.stat().st_size > 100
    assert "abc -> " in ran.err


def test_explain_can_look_at_a_given_target(tiny_model, tmp_path):
    out = tmp_path / "a.json"
    assert windlass("explain", tiny_model, "abc", "--target", "dd", "--out", out).code == 0
    assert json.loads(out.read_text())["answer"]["tokens"] == ["d", "d"]
    ran = windlass("explain", tiny_model, "abq", "--target", "qa", "--out", out)
    assert "never seen 'q'" in ran.err
    assert "never writes 'q'" in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["abc", "--out", "a.gif"], "name it .png, .svg, .html or .json"),
        (["", "--out", "a.png"], "blank text"),
        (["abc", "--out", "a.png", "--target", " "], "blank target"),
        (["abc", "--out", "a.png", "--target", "c", "--beam", "2"], "no use where the target is given"),
    ],
)
def test_explain_refuses_what_it_cannot_do(tiny_model, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    assert said in refused("explain", tiny_model, *arguments)
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_one_line(tiny_model, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    assert "file" in refused("explain", tiny_model, "abc", "--out", tmp_path / "file" / "a.png")
    assert (tmp_path / "file").read_text() == "not a folder"


def test_doctor_names_line_and_action_and_fails_only_when_told(tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_bytes(b"ab\tba\r\n\tx\r\nab\tba\r\n")
    ran = windlass("doctor", file)
    assert ran.code == 0
    assert "pairs.tsv:2: the source is blank -> skipped" in ran.out
    assert windlass("doctor", file, "--strict").code == 1
    content = json.loads(windlass("doctor", file, "--json").out)
    assert content["train"] == 2
    assert any(finding["line"] == 2 for finding in content["findings"])


def test_doctor_refuses_an_unusable_file_but_says_why(tmp_path):
    ran = windlass("doctor", tmp_path / "nosuch.tsv")
    assert ran.code == 1
    assert "no such file" in ran.out
    assert "data.source" in refused("doctor", tmp_path / "nosuch.tsv", "--source", "0")


def test_a_printed_recipe_can_be_used(tmp_path):
    assert "pronounce" in windlass("recipes").out
    recipe = yaml.safe_load(windlass("recipes", "pronounce").out)
    assert recipe["task"] == "pronounce"
    assert "did you mean 'pronounce'?" in refused("recipes", "prnounce")


def test_a_reader_that_goes_away_is_no_error(tiny_model):
    """As in `windlass predict model | head -1`."""
    code = "from windlass.cli import main; main()"
    started = subprocess.Popen(
        [sys.executable, "-c", code, "predict", str(tiny_model), "--search", "greedy"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent / "src"), "OMP_NUM_THREADS": "1"},
    )
    assert started.stdout is not None
    started.stdout.close()
    _, err = started.communicate(b"ab\n" * 3000, timeout=120)
    assert b"Traceback" not in err
    assert err == b""
