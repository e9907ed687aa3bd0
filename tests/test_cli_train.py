"""`windlass train`: every way to call it, to stop it and to go on, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml

from command import TINY, refused, windlass
from windlass.api import fit
from windlass.bundle import load_definition, load_weights
from windlass.core.errors import DataError, RecipeError
from windlass.experiment.recognise import compose_for
from windlass.recipe import setting

ONE = [*TINY, "--set", "train.epochs=1"]


def train(folder: Path, *arguments: str | Path, out: str = "model") -> Path:
    ran = windlass("train", *arguments, "--out", folder / out)
    assert ran.code == 0, ran.err
    assert ran.out == ""  # what is not a result goes to stderr
    return folder / out


def test_a_file_is_enough_and_what_was_picked_is_said(tiny_data, tmp_path):
    ran = windlass("train", tiny_data / "pairs.tsv", "--out", tmp_path / "model", *ONE)
    assert ran.code == 0
    assert "picked from the data:" in ran.err
    assert "source: characters" in ran.err
    assert "but as you set it: " in ran.err
    assert "train.epochs=1" in ran.err
    assert "20 of the examples are held out" in ran.err
    assert "[baseline, " in ran.err
    assert f"windlass predict {tmp_path / 'model'}" in ran.err
    recipe, _ = load_definition(tmp_path / "model")
    assert (recipe.task, recipe.train.epochs, recipe.model.encoder.size) == ("text", 1, 32)


def test_a_run_leaves_its_recipe_log_curves_and_environment(tiny_model):
    names = {str(path.relative_to(tiny_model)) for path in tiny_model.rglob("*") if path.is_file()}
    assert names >= {"recipe.yaml", "codecs.json", "bundle.json", "weights.safetensors", "baseline.json"}
    assert names >= {f"training/{name}" for name in ("metrics.jsonl", "curves.png", "environment.json", "data.json")}
    rows = [json.loads(line) for line in (tiny_model / "training" / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == list(range(1, 17))
    assert rows[-1]["loss"] < rows[0]["loss"]


def test_a_task_is_not_second_guessed(tiny_data, tmp_path):
    files = ("--train", tiny_data / "pairs.tsv", "--dev", tiny_data / "dev.tsv")
    ran = windlass("train", "--task", "pronounce", *files, "--out", tmp_path / "m", *ONE)
    assert ran.code == 0
    assert "picked" not in ran.err
    assert "held out" not in ran.err
    assert "target: characters, as " in ran.err
    recipe, _ = load_definition(tmp_path / "m")
    assert (recipe.task, recipe.target.tokens.kind) == ("pronounce", "characters")


def test_a_recipe_file_is_laid_over_its_tasks_own_and_set_over_both(tiny_data, tmp_path):
    recipe = tmp_path / "mein Rezept.yaml"
    content = {"task": "transliterate", "seed": 7, "model": {"encoder": {"cell": "gru"}}, "train": {"epochs": 9}}
    recipe.write_text(yaml.safe_dump(content))
    folder = train(tmp_path, tiny_data / "pairs.tsv", "--recipe", recipe, *ONE, "--quiet", out="Modell ü")
    made = load_definition(folder)[0]
    assert (made.seed, made.train.epochs, made.model.encoder.cell.kind) == (7, 1, "gru")
    assert made.model.decoder.cell.kind == "lstm"


def test_quiet_shows_no_progress(tiny_data, tmp_path):
    ran = windlass("train", "--task", "text", tiny_data / "pairs.tsv", "--out", tmp_path / "m", *ONE, "--quiet")
    assert "tokens/s" not in ran.err
    assert "training examples" not in ran.err


def test_three_pairs_are_enough_to_run(tmp_path):
    (tmp_path / "three.tsv").write_text("a\tb\nc\td\ne\tf\n")
    train(tmp_path, tmp_path / "three.tsv", *ONE)


def test_further_training_adds_symbols_and_keeps_the_recipe(tiny_model, tmp_path):
    (tmp_path / "more.tsv").write_text("".join(f"a{c}x\tx{c}a\n" for c in "abcd" * 3) + "xb\tbx\n")
    ran = windlass(
        "train", tmp_path / "more.tsv", "--from", tiny_model, "--out", tmp_path / "m", "--set", "train.epochs=1"
    )
    assert ran.code == 0, ran.err
    assert "new symbols: source 'x'; target 'x'" in ran.err
    assert "picked" not in ran.err
    old, new = load_definition(tiny_model), load_definition(tmp_path / "m")
    assert new[0].model == old[0].model
    assert new[1].source.vocabulary.symbols == (*old[1].source.vocabulary.symbols, "x")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("model.encoder.size=8", "model.encoder.size: 32 is now 8, but finetuning cannot change it"),
        ("source.tokens=words", "source.tokens.kind: characters is now words"),
        ("vocabulary=joint", "vocabulary: separate is now joint"),
        ("model.encoder.cell=gru", "model.encoder.cell"),
    ],
)
def test_finetuning_keeps_the_network(tiny_model, tiny_data, tmp_path, change, said):
    told = refused("train", tiny_data / "pairs.tsv", "--from", tiny_model, "--out", tmp_path / "m", "--set", change)
    assert said in told
    assert not (tmp_path / "m").exists()


BAD_SETTINGS = [
    ("train.epoch=3", "train.epoch: unknown key; did you mean 'epochs'?"),
    ("train.epochs=x", "train.epochs: input should be a valid integer"),
    ("train.epochs=0", "train.epochs: input should be greater than or equal to 1, not 0"),
    ("train.epochs", "write it as key=value"),
    (".=3", "write it as key=value"),
    ("train.epochs=[", "not valid YAML"),
    ("train=3", "train: holds options of its own"),
    ("model.encoder.cell=gruu", "model.encoder.cell: unknown kind 'gruu'; did you mean 'gru'?"),
    ("model.encoder.cell={kind: gru, peepholes: true}", "model.encoder.cell.peepholes: unknown key"),
    ("model.decoder.context=none", "never sees the source"),
    ("source.tokens=letters", "source.tokens: unknown kind 'letters'"),
    ("search={kind: greedy, size: 3}", "search.size: unknown key"),
    ("loss.alignment=1", "no example has an alignment"),
    ("data.source=0", "data.source: input should be greater than or equal to 1, not 0"),
]


@pytest.mark.parametrize(("change", "said"), BAD_SETTINGS)
def test_a_bad_setting_is_told_in_one_line_and_leaves_nothing_behind(tiny_data, tmp_path, change, said):
    arguments = ("train", "--task", "text", tiny_data / "pairs.tsv", "--out", tmp_path / "m", "--set", change)
    assert said in refused(*arguments)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"a\nb\n", "a model needs a source and a target"),
        (b"a\tb\n", "give a dev file"),
        (b"a\tb\na\tc\na\td\n", "give a dev file"),
        (b"\xff\xfea\x00\x00", "not utf-16"),
    ],
)
def test_data_that_cannot_be_used_is_told_in_one_line(tmp_path, content, said):
    (tmp_path / "data.tsv").write_bytes(content)
    assert said in refused("train", tmp_path / "data.tsv", "--out", tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_a_form_that_the_model_does_not_read_advises_what_can_be_done(tiny_model, tmp_path):
    (tmp_path / "a.conllu").write_text("1\tGo\t_\tVERB\n")
    mend = "a task that tags, and this model predicts text: give it a table, or train a new model"
    assert refused("train", tmp_path / "a.conllu", "--from", tiny_model, "--out", tmp_path / "m").endswith(mend)
    with pytest.raises(DataError, match=mend):
        fit(tmp_path / "a.conllu", base=tiny_model, quiet=True)


def test_other_calls_that_cannot_be_meant_are_refused(tiny_model, tiny_data, tmp_path):
    pairs, out = tiny_data / "pairs.tsv", tmp_path / "m"
    assert "no training data" in refused("train", "--out", out)
    assert "no such file" in refused("train", tmp_path / "nosuch.tsv", "--out", out)
    assert "folder" in refused("train", tmp_path, "--out", out)
    assert "no task 'nosuch'" in refused("train", pairs, "--task", "nosuch", "--out", out)
    assert "cannot read the recipe" in refused("train", pairs, "--recipe", tmp_path / "nosuch.yaml", "--out", out)
    assert "recipe of the model" in refused("train", pairs, "--from", tiny_model, "--task", "text", "--out", out)
    assert "no such folder" in refused("train", pairs, "--from", tmp_path / "nosuch", "--out", out)
    assert "no device 'warp'" in refused("train", pairs, "--device", "warp", "--out", out)
    assert "no such folder" in refused("train", "--resume", "--out", out)
    told = refused("train", "--resume", pairs, "--out", tiny_model)
    assert "give only --out, --epochs, --minutes and --set with it" in told
    assert not out.exists()


def test_a_recipe_of_another_task_than_told_is_refused(tiny_data, tmp_path):
    (tmp_path / "r.yaml").write_text("task: pronounce")
    arguments = ("train", tiny_data / "pairs.tsv", "--recipe", tmp_path / "r.yaml", "--task", "text")
    assert "its task is pronounce, but --task is text" in refused(*arguments, "--out", tmp_path / "m")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_there_is_never_overwritten(tiny_model, tiny_data, tmp_path):
    before = contents(tiny_model)
    assert "nothing was changed" in refused("train", tiny_data / "pairs.tsv", "--out", tiny_model)
    assert contents(tiny_model) == before
    (tmp_path / "notes.txt").write_text("mine")
    assert "nothing was changed" in refused("train", tiny_data / "pairs.tsv", "--out", tmp_path)
    assert "nothing was changed" in refused("train", tiny_data / "pairs.tsv", "--out", tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_resume_that_cannot_be_leaves_the_run_as_it_was(tiny_data, tmp_path):
    folder = train(tmp_path, "--task", "text", tiny_data / "pairs.tsv", *ONE)
    before = contents(folder)
    resume = ("train", "--resume", "--out", folder, "--set")
    assert "model.encoder.size: 32 is now 8" in refused(*resume, "model.encoder.size=8")
    assert contents(folder) == before
    assert "cannot resume" in refused(*resume, "train.batch_tokens=99")
    assert contents(folder) == before
    assert windlass(*resume, "train.epochs=2").code == 0
    assert load_definition(folder)[0].train.epochs == 2


@pytest.fixture(scope="module")
def tiny_run(tiny_data, tmp_path_factory):
    return train(tmp_path_factory.mktemp("run"), "--task", "text", tiny_data / "pairs.tsv", *ONE)


def test_a_model_without_its_run_is_not_resumed_wherever_its_data_is(tiny_run, tmp_path, monkeypatch):
    shutil.copytree(tiny_run, tmp_path / "copy", ignore=shutil.ignore_patterns("training"))
    monkeypatch.chdir(tmp_path)
    assert refused("train", "--resume", "--out", "copy") == "copy: no run to resume: drop --resume to start one"


def test_a_run_is_not_resumed_on_other_data(tiny_data, tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_bytes((tiny_data / "pairs.tsv").read_bytes())
    folder = train(tmp_path, "--task", "text", pairs, *ONE)
    pairs.write_bytes((tiny_data / "pairs.tsv").read_bytes() + b"abab\tbaba\n")
    assert "the data changed" in refused("train", "--resume", "--out", folder)


@pytest.mark.parametrize("content", [b"", b'{"sha256": "ab', b"[]", b"{}", b'{"sha256": 3, "processes": "2"}', b"\xff"])
@pytest.mark.parametrize(
    ("name", "remedy"),
    [("data.json", "restore it, or train with another --out"), ("processes.json", "delete it, and their number is")],
)
def test_a_damaged_file_of_a_run_is_told_in_one_line(tiny_run, tmp_path, name, remedy, content):
    folder = tmp_path / "m"
    shutil.copytree(tiny_run, folder)
    (folder / "training" / name).write_bytes(content)
    before = contents(folder)
    told = refused("train", "--resume", "--out", folder, "--set", "train.epochs=2")
    assert f"{folder / 'training' / name}: missing or damaged: {remedy}" in told
    assert contents(folder) == before


def test_without_its_number_of_processes_a_run_resumes(tiny_run, tmp_path):
    folder = tmp_path / "m"
    shutil.copytree(tiny_run, folder)
    (folder / "training" / "processes.json").unlink()
    assert windlass("train", "--resume", "--out", folder, "--set", "train.epochs=2").code == 0


# -- stopped runs, in processes of their own


def begin(*arguments: str | Path) -> subprocess.Popen[bytes]:
    source = str(Path(__file__).parent.parent / "src")
    code = f"import sys; sys.path.insert(0, {source!r}); from windlass.cli import main; main()"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], env=environment, stderr=subprocess.PIPE)


def wait_for(log: Path, rows: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(3000):
        if log.is_file() and len(log.read_text().splitlines()) >= rows:
            return
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    raise AssertionError("the run did not get under way")


def same_weights(one: Path, other: Path) -> bool:
    (first, scores), (second, other_scores) = load_weights(one), load_weights(other)
    return (
        scores == other_scores
        and first.keys() == second.keys()
        and all(torch.equal(first[n], second[n]) for n in first)
    )


@pytest.fixture(scope="module")
def unbroken(tiny_data, tmp_path_factory) -> tuple[Path, list[str | Path]]:
    """A run that nothing stopped, and how it was called."""
    call = ["train", "--task", "text", "--train", tiny_data / "pairs.tsv", *TINY]
    call += ["--set", "train.epochs=30", "--set", "model.encoder.dropout=0.2", "--set", "train.sampling=constant"]
    out = tmp_path_factory.mktemp("unbroken") / "model"
    assert windlass(*call, "--out", out).code == 0
    return out, call


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_a_stopped_and_resumed_run_ends_with_the_same_weights(unbroken, tmp_path, sent):
    whole, call = unbroken
    out = tmp_path / "model"
    process = begin(*call, "--out", out)
    wait_for(out / "training" / "metrics.jsonl", 3, process)
    process.send_signal(sent)
    _, err = process.communicate(timeout=60)
    assert b"Traceback" not in err
    if sent == signal.SIGINT:
        assert process.returncode == 130
        assert b"resume with: windlass train --resume --out" in err
    rows = len((out / "training" / "metrics.jsonl").read_text().splitlines())
    assert rows < 30  # it was really stopped in the middle
    assert windlass("predict", out, stdin=b"ab\n").code == 0  # the best so far is there to be used
    ran = windlass("train", "--resume", "--out", out)
    assert ran.code == 0, ran.err
    assert same_weights(out, whole)


@pytest.mark.skipif(sys.platform == "win32", reason="a folder cannot be locked there")
def test_two_runs_never_write_into_one_folder(tiny_data, tmp_path):
    out = tmp_path / "model"
    call = ["train", "--task", "text", tiny_data / "pairs.tsv", *TINY, "--set", "train.epochs=3000", "--out", out]
    process = begin(*call)
    try:
        wait_for(out / "training" / "metrics.jsonl", 1, process)
        for second in (["train", "--resume", "--out", out], [*call, "--overwrite"]):
            assert "another run is writing there" in refused(*second)
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()
    assert (out / "weights.safetensors").is_file()


def test_a_run_stopped_before_its_first_evaluation_says_so_and_can_go_on(tiny_data, tmp_path):
    out = tmp_path / "model"
    call = ["train", "--task", "text", tiny_data / "pairs.tsv", *TINY, "--set", "train.epochs=400"]
    process = begin(*call, "--set", "train.evaluate_steps=100000", "--out", out)
    wait_for(out / "training" / "metrics.jsonl", 0, process)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) is not None
    assert process.returncode == 130
    assert "stopped before the first evaluation; resume it" in refused("predict", out)
    assert windlass("train", "--resume", "--out", out, "--set", "train.minutes=0.001").code == 0
    assert windlass("predict", out, stdin=b"ab\n").code == 0


def test_ctrl_c_anywhere_is_one_line(tiny_data, tmp_path, monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr("windlass.experiment.run.estimate", interrupted)  # before training
    ran = windlass("train", tiny_data / "pairs.tsv", "--out", tmp_path / "m", *ONE)
    assert (ran.code, ran.err.splitlines()[-1]) == (130, "interrupted")
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("own", ["model.decoder.size=8", "target.tokens=words", "model.decoder=transformer"])
def test_running_text_is_recognised_whatever_options_are_set(tmp_path: Path, own: str):
    lines = [f"{chr(97 + n % 26)}{n} goes the tale of a {n} year old king" for n in range(200)]
    (tmp_path / "play.txt").write_text("\n".join(lines))
    ran = windlass("doctor", tmp_path / "play.txt")
    assert "task lm" in ran.err
    composed = compose_for(None, None, [{"data": {"train": [str(tmp_path / "play.txt")]}}, setting(own)], print)
    assert composed.task == "lm"


def test_what_a_file_can_only_be_is_not_changed_by_options_and_a_missing_file_comes_first(tmp_path: Path):
    (tmp_path / "a.conllu").write_text("".join(f"{n}\tdog{n}\t_\tNOUN" + "\t_" * 6 + "\n\n" for n in range(9)))
    over = [{"data": {"train": [str(tmp_path / "a.conllu")]}}, setting("model.decoder.cell=gru")]
    with pytest.raises(RecipeError, match=r"model\.decoder"):
        compose_for(None, None, over, print)
    with pytest.raises(DataError, match="no such file"):
        compose_for(None, None, [{"data": {"train": ["nofile.txt"]}}, over[1]], print)


def test_an_option_that_the_recognised_task_lacks_is_said(tmp_path: Path):
    table, notes = tmp_path / "reviews.csv", list[str]()
    table.write_text("id,review,label\n" + "".join(f"{n},it was {n},{'good bad'.split()[n % 2]}\n" for n in range(40)))
    over = [{"data": {"train": [str(table)]}}, setting("model.decoder.size=8")]
    composed = compose_for(None, None, over, notes.append)
    assert (composed.task, composed.data.source, composed.data.target) == ("text", "review", "label")
    assert "task text, as model.decoder is set; without it: classify, as column 'label' holds 2 labels" in notes[0]


def test_a_run_that_diverged_before_it_had_weights_is_to_be_trained_anew(tmp_path: Path, tiny_data: Path):
    out = tmp_path / "m"
    call = ["train", "--task", "text", tiny_data / "pairs.tsv", *ONE, "--out", out]
    broken = ["--set", "train.optimiser.kind=sgd", "--lr", "1e30"]
    assert "lower train.optimiser.lr (--lr)" in refused(*call, *broken)
    assert "training diverged before the first evaluation; train again with --overwrite" in refused("info", out)
    said = refused(*call)
    assert "training diverged there: delete it with --overwrite, and train with a lower learning rate (--lr)" in said
    assert "--resume" not in said
    assert windlass(*call, "--overwrite").code == 0
    assert windlass("info", out).code == 0


def test_a_run_that_its_time_limit_has_ended_tells_how_to_go_on(tmp_path: Path, tiny_data: Path):
    ran = windlass(
        "train", tiny_data / "pairs.tsv", *TINY, "--epochs", "9999", "--minutes", "0.02", "--out", tmp_path / "m"
    )
    assert ran.code == 0, ran.err
    assert load_definition(tmp_path / "m")[0].train.minutes == 0.02
    again = windlass("train", "--resume", "--out", tmp_path / "m")
    for said in (ran.err, again.err):
        assert "evaluating the best weights and the baseline on dev" in said
        told = re.search(
            r"time limit of 1s ended the run; to go on: windlass train --resume --minutes (\d+) --out", said
        )
        assert told is not None
        assert int(told[1]) > 1  # 9999 epochs
