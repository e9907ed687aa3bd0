"""Comparing: every recipe with every seed, once; a run that fails or is stopped loses nothing of the others."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from command import TINY, refused, windlass
from windlass import compare
from windlass.bundle import Bundle
from windlass.comparing import trial as trials
from windlass.comparing.candidates import candidates, parse_vary
from windlass.comparing.progress import ComparisonProgress
from windlass.comparing.table import Comparison, Spread
from windlass.comparing.trial import FailedTrial, Trial
from windlass.core.errors import DataError, RecipeError, WindlassError
from windlass.experiment.data import as_data
from windlass.inference.evaluate import evaluate
from windlass.recipe import compose, setting
from windlass.training.observe import Step

SMALL_LABELS = {"model.encoder.size": 8, "train.epochs": 1, "train.threads": 1}
QUICK = [*TINY, "--set", "train.epochs=1", "--set", "search=greedy"]


def trial(name: str, seed: int, wer: float, seconds: float = 10.0, group: str = "", rate: float | None = 90.0) -> Trial:
    dev, cheap = {"wer": wer, "per": wer / 4}, {"wer": 95.0, "per": 60.0}
    return Trial(group, name, seed, "pronounce", "wer", 1200, 0.5, seconds, 50, 5.0, rate, dev, None, "copy", cheap)


# -- what is compared


def test_keys_joined_by_plus_change_together_and_others_with_every_one():
    vary = [parse_vary("model.encoder.cell+model.decoder.cell=gru,lstm"), parse_vary("train.epochs=1,2,3")]
    found = candidates(task="pronounce", vary=vary)
    assert [c.name for c in found][:4] == ["gru, epochs=1", "gru, epochs=2", "gru, epochs=3", "lstm, epochs=1"]
    assert all(c.recipe.model.encoder.cell.kind == c.recipe.model.decoder.cell.kind for c in found)


def test_a_value_may_be_a_mapping_with_commas_in_it():
    assert parse_vary("a=gru,{kind: gru, reset: before},[1, 2]")[1] == (
        "gru",
        {"kind": "gru", "reset": "before"},
        [1, 2],
    )


def test_recipes_of_different_data_are_groups_of_their_own(tmp_path: Path):
    for name, task in (("one", "pronounce"), ("two", "classify")):
        (tmp_path / f"{name}.yaml").write_text(f"task: {task}\n")
    files = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    found = candidates(files, vary=[parse_vary("model.encoder.cell=gru,lstm")])
    names = [("pronounce", "gru"), ("pronounce", "lstm"), ("classify", "gru"), ("classify", "lstm")]
    assert [(c.group, c.name) for c in found] == names


def test_recipes_of_the_same_data_are_named_by_their_files(tmp_path: Path):
    for name, size in (("small", 8), ("large", 16)):
        (tmp_path / f"{name}.yaml").write_text(f"task: pronounce\nmodel: {{encoder: {{size: {size}}}}}\n")
    found = candidates([tmp_path / "small.yaml", tmp_path / "large.yaml"])
    assert [(c.group, c.name) for c in found] == [("", "small"), ("", "large")]


def test_what_train_recognises_is_compared(tmp_path: Path):
    path = tmp_path / "reviews.csv"
    path.write_text("n,text,label\n" + "\n".join(f"{n},it is {w} {n},{w}" for n in range(30) for w in ("good", "bad")))
    said: list[str] = []
    vary = [parse_vary("model.encoder.cell=gru,lstm")]
    found = candidates(settings=[{"data": {"train": [str(path)]}}], vary=vary, note=said.append)
    assert [(c.name, c.recipe.task, c.recipe.data.source) for c in found] == [
        ("gru", "classify", "text"),
        ("lstm", "classify", "text"),
    ]
    assert [text.split(": ")[1] for text in said] == [
        "task classify, as column 'label' holds 2 labels (good 30, bad 30); else",
        "columns",
    ]
    quick = [f"--set={key}={value}" for key, value in SMALL_LABELS.items()]
    done = windlass(
        "compare", path, "--vary", "model.encoder.cell=gru,lstm", "--seeds", "1", "--out", tmp_path / "out", *quick
    )
    assert done.code == 0
    assert sorted(p.name for p in (tmp_path / "out" / "runs").iterdir()) == ["gru", "lstm"]


def test_the_task_of_data_in_memory_is_recognised():
    rows = ({"text": f"it is {w} {n}", "label": w} for n in range(30) for w in ("good", "bad"))
    found = compare(train=rows, vary={"model.encoder.cell": ["gru"]}, settings=SMALL_LABELS, seeds=1, quiet=True)
    assert [(trial.name, trial.task) for trial in found.trials] == [("gru", "classify")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to compare"),
        (["--task", "pronounce", "--vary", "train.epochs"], "write it as key=value,value"),
        (["--task", "pronounce", "--vary", "train.epoch=1,2"], "train.epoch: unknown key; did you mean 'epochs'?"),
        (["--task", "pronounce", "--seeds", "x"], "give a number, such as 3"),
        (["no-such.yaml"], "no-such.yaml: cannot read the recipe"),
        (["--task", "pronounce", "--test", "a.tsv", "--test", "b.tsv"], "2 test files for 0 recipes"),
        (["--task", "pronounce", "--vary", "train.epochs=1,1"], "two candidates are called 'epochs=1'"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_trained(tmp_path: Path, arguments, said):
    assert said in refused("compare", *arguments, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


# -- means and deviations


def test_mean_and_deviation_are_over_seeds_with_one_less_than_their_number():
    assert Spread.of([10.0, 12.0, 14.0]) == Spread(12.0, 2.0)
    assert Spread.of([10.0]) == Spread(10.0, 0.0)


def test_the_best_goes_by_the_mean_and_by_which_way_is_up():
    found = Comparison((trial("gru", 1, 20), trial("gru", 2, 30), trial("lstm", 1, 26), trial("lstm", 2, 26)))
    assert found.best() == "gru"  # 25 against 26, of an error rate
    assert "| gru | 2 | 1,200 | 0.50 | 10s ± 0s | 90 | 25.00 ± 7.07 |" in found.markdown()
    assert "| baseline: copy |" in found.markdown()


def test_a_single_seed_has_no_deviation():
    single = Comparison((trial("gru", 1, 20), trial("lstm", 1, 30))).markdown()
    assert "| gru | 1 | 1,200 | 0.50 | 10s | 90 | 20.00 | 5.00 |" in single
    assert "±" not in single
    assert "Mean ± standard deviation over seeds." in Comparison((trial("gru", 1, 20), trial("gru", 2, 30))).markdown()


def test_failed_runs_are_named_and_counted_out():
    found = Comparison((trial("gru", 1, 20),), (FailedTrial("", "gru", 2, "the loss is not a number"),))
    assert found.rows[0].seeds == (1,)
    assert "- gru, seed 2 failed: the loss is not a number" in found.markdown()


def test_time_left_counts_what_runs_and_what_waits():
    progress = ComparisonProgress([("", "a", 1), ("", "b", 1), ("", "a", 2), ("", "b", 2)], jobs=1, quiet=True)
    assert progress.seconds_left is None
    progress.ended(("", "a", 1), trial("a", 1, 20, seconds=10.0))
    progress.update(("", "b", 1), fraction=0.25, left=30.0)
    assert progress.seconds_left == pytest.approx(30 + 10 + 40)  # a takes 10 s again, b what it will have taken


def test_groups_are_panels_and_tables_of_one_picture_and_page(tmp_path: Path):
    found = Comparison((trial("gru", 1, 20, group="one"), trial("gru", 1, 30, 400.0, group="two", rate=None)))
    assert found.draw(tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    assert "## one" in found.markdown()
    assert "## two" in found.markdown()
    with pytest.raises(WindlassError, match=r"use \.png"):
        found.draw(tmp_path / "c.gif")


# -- runs


@pytest.fixture(scope="module")
def compared(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Two cells, two seeds, and the command that did it."""
    out = tmp_path_factory.mktemp("compare") / "cells"
    files = ["--train", str(tiny_data / "pairs.tsv"), "--dev", str(tiny_data / "dev.tsv")]
    vary = ["--vary", "model.encoder.cell+model.decoder.cell=gru,rnn"]
    command = ["compare", "--task", "transliterate", *files, *vary, *QUICK, "--seeds", "2", "--out", str(out)]
    ran = windlass(*command)
    assert ran.code == 0, ran.err
    assert "4/4" in ran.err
    assert "left" in ran.err
    assert "gru" in ran.out
    assert "±" in ran.out
    return out, command


def test_every_recipe_is_trained_with_every_seed(compared):
    out, _ = compared
    content = json.loads((out / "comparison.json").read_text())
    assert [(row["name"], row["seeds"]) for row in content["rows"]] == [("gru", [1, 2]), ("rnn", [1, 2])]
    assert all(row["rate"]["mean"] > 0 and row["seconds"]["mean"] > 0 for row in content["rows"])
    assert content["rows"][0]["parameters"] > content["rows"][1]["parameters"]  # a GRU has three matrices
    assert content["rows"][0]["test"] is None
    assert (out / "comparison.png").stat().st_size > 5000
    assert (out / "curves.png").stat().st_size > 5000
    assert (out / "runs" / "gru" / "2" / "weights.safetensors").exists()


def test_finished_runs_are_not_repeated(compared, monkeypatch: pytest.MonkeyPatch):
    out, command = compared
    before = json.loads((out / "comparison.json").read_text())
    monkeypatch.setattr(trials, "run", None)  # whoever trains would fail
    ran = windlass(*command, "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out) == before
    assert "done before" in ran.err


def test_test_is_scored_only_when_asked_for_and_without_training(compared, tiny_data, monkeypatch):
    _, command = compared
    monkeypatch.setattr(trials, "run", None)
    ran = windlass(*command, "--json", "--quiet", "--test", tiny_data / "test.tsv")
    assert ran.code == 0, ran.err
    rows = json.loads(ran.out)["rows"]
    assert set(rows[0]["test"]) == {"accuracy", "cer"}
    monkeypatch.setattr(trials, "evaluate", None)  # and that is kept too
    assert json.loads(windlass(*command, "--json", "--quiet", "--test", tiny_data / "test.tsv").out)["rows"] == rows


def test_another_recipe_under_an_old_name_is_refused(compared):
    _, command = compared
    assert "another recipe or other data" in refused(*command, "--set", "train.clip=0.5")


def test_a_recipe_that_fails_does_not_lose_the_others(tiny_data: Path, tmp_path: Path):
    (tmp_path / "good.yaml").write_text(f"task: text\ndata: {{train: ['{tiny_data}/pairs.tsv']}}\n")
    (tmp_path / "bad.yaml").write_text(f"task: text\ndata: {{train: ['{tmp_path}/no.tsv']}}\n")
    files = [tmp_path / "bad.yaml", tmp_path / "good.yaml"]
    ran = windlass("compare", *files, *QUICK, "--seeds", "1", "--out", tmp_path / "out", "--json")
    assert ran.code == 1
    content = json.loads(ran.out)
    assert [row["name"] for row in content["rows"]] == ["good"]
    assert content["failed"][0]["name"] == "bad"
    assert "1 of 2 runs failed: bad, seed 1:" in ran.err.splitlines()[-1]
    assert "no such file" in ran.err.splitlines()[-1]


def test_an_error_that_nobody_foresaw_is_kept_in_a_file(tiny_data: Path, tmp_path: Path, monkeypatch):
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(trials, "run", broken)
    found = compare(train=tiny_data / "pairs.tsv", task="text", seeds=1, out=tmp_path / "out", quiet=True)
    assert "RuntimeError: out of memory; see" in found.failed[0].error
    assert "Traceback" in next((tmp_path / "out").rglob("*.error.txt")).read_text()


def test_an_interrupted_comparison_resumes(tiny_data: Path, tmp_path: Path, monkeypatch):
    arguments = [*QUICK, "--set", "train.epochs=2", "--seeds", "2", "--out", tmp_path / "out"]
    command = ["compare", "--task", "text", "--train", tiny_data / "pairs.tsv", *arguments]
    passed, steps = trials._ProgressObserver.step, []

    def stop(observer: trials._ProgressObserver, step: Step) -> None:
        passed(observer, step)
        steps.append(step.step)
        if len(steps) == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(trials._ProgressObserver, "step", stop)
        ran = windlass(*command)
    assert ran.code == 130
    assert "repeat the command to resume" in ran.err
    ran = windlass(*command, "--json")
    assert ran.code == 0, ran.err
    whole = windlass(*command[:-1], tmp_path / "whole", "--json")
    scores = [[run["dev"] for run in json.loads(r.out)["runs"]] for r in (ran, whole)]
    assert scores[0] == scores[1]


def test_parallel_runs_give_the_same_results(compared, tmp_path: Path):
    out, command = compared
    ran = windlass(*command[:-1], tmp_path / "jobs", "--jobs", "2", "--json")
    assert ran.code == 0, ran.err
    both = [json.loads(text)["runs"] for text in (ran.out, (out / "comparison.json").read_text())]
    assert [run["dev"] for run in both[0]] == [run["dev"] for run in both[1]]


def test_recipes_by_name_are_compared_from_python(tiny_data: Path):
    small = [*map(setting, (part for part in TINY if part != "--set")), setting("train.epochs=1")]
    files = {"data": {"train": [str(tiny_data / "pairs.tsv")], "dev": str(tiny_data / "dev.tsv")}}
    recipes = {
        cell: compose("text", None, [files, *small, setting(f"model.encoder.cell={cell}")]) for cell in ("gru", "rnn")
    }
    found = compare(recipes, seeds=[7], quiet=True, test=tiny_data / "test.tsv")
    assert [(row.name, row.seeds, set(row.test or {})) for row in found.rows] == [
        ("gru", (7,), {"accuracy", "cer", "chrf"}),
        ("rnn", (7,), {"accuracy", "cer", "chrf"}),
    ]
    with pytest.raises(WindlassError, match="recipes by name are complete"):
        compare(recipes, settings={"train.epochs": 2})
    with pytest.raises(RecipeError):
        parse_vary("=1")


# -- by length


def test_scores_by_length_are_those_of_the_examples_of_that_length(tmp_path: Path):
    pairs = [(text, text[::-1]) for text in ("ab", "ba", "aa", "abba", "baab", "bbbb", "aaab")]
    small = {"train.epochs": 1, "model.encoder.size": 8, "model.decoder.size": 8, "search": "greedy"}
    found = compare(
        train=pairs, dev=pairs, task="text", vary={"model.encoder.cell": ["gru", "rnn"]}, settings=small, seeds=1,
        out=tmp_path, quiet=True, by="length",
    )  # fmt: skip
    (lengths,) = found.lengths
    assert (lengths.ranges, lengths.examples) == (((3, 3), (5, 5)), (3, 4))  # with the end mark
    data = as_data(pairs, pairs[3:], compose("text", None))
    long = evaluate([Bundle.load(tmp_path / "runs" / "gru" / "1")], data.dev)
    assert lengths.scores["gru"][0][1] == long.metrics["cer"]
    assert "3 (3)" in found.markdown()
    assert found.draw_lengths(tmp_path / "lengths.png").stat().st_size > 5000


def test_what_has_no_length_is_refused(tmp_path: Path):
    assert "the only choice is length" in refused("compare", "--task", "text", "--by", "size", "--out", tmp_path / "o")
    with pytest.raises(DataError, match="a language model has no source"):
        compare(train=["some text", "another"] * 4, task="lm", by="length", quiet=True)


def test_scores_of_sources_of_one_length_are_not_lost(tmp_path: Path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("ab\tb\nba\ta\n" * 8)
    ran = windlass(
        "compare", "--task", "text", "--train", pairs, "--by", "length", "--seeds", "1", "--out", tmp_path / "o", *QUICK
    )
    assert ran.code == 0, ran.err
    assert "no scores by length: all sources have the same length (3)" in ran.err
    assert "dev cer" in ran.out
    assert (tmp_path / "o" / "comparison.md").exists()
    assert not (tmp_path / "o" / "lengths.png").exists()


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_parallel_runs_save_and_end_with_their_comparison(tiny_data: Path, tmp_path: Path, number: signal.Signals):
    endless = [*TINY, "--set", "train.epochs=100000", "--seeds", "2", "--jobs", "2", "--out", str(tmp_path / "out")]
    command = ["compare", "--task", "text", "--train", str(tiny_data / "pairs.tsv"), "--quiet", *endless]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    comparison = subprocess.Popen([sys.executable, "-m", "windlass", *command], stderr=subprocess.DEVNULL)
    signal.signal(signal.SIGINT, before)
    folders = [tmp_path / "out" / "runs" / "text" / seed / "training" for seed in "12"]
    wait_for(lambda: all((folder / "metrics.jsonl").exists() for folder in folders))
    children = [stat.parent for stat in Path("/proc").glob("[0-9]*/stat") if parent_of(stat) == comparison.pid]
    assert len(children) == 2
    comparison.send_signal(number)
    assert comparison.wait(60) == (130 if number == signal.SIGINT else -signal.SIGKILL)
    wait_for(lambda: not any(runs(child) for child in children))
    assert all([*folder.glob("checkpoint-*")] for folder in folders)
    assert not any(folder.parent.with_suffix(".log").read_text() for folder in folders)  # no traceback


def parent_of(stat: Path) -> int | None:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has ended
        return None


def runs(process: Path) -> bool:
    try:
        return b"windlass.comparing.trial" in (process / "cmdline").read_bytes()
    except OSError:
        return False


def wait_for(true: Callable[[], bool], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


# -- the data are recognised as for a single run


def tickets(path: Path, count: int, start: int = 0) -> Path:
    """A table as pandas writes it, with an index, an id and another label."""
    words = {"billing": "invoice refund".split(), "login": "password account".split()}
    rows = [",ticket_id,subject_text,category,priority"]
    for n in range(start, start + count):
        label = list(words)[n % 2]
        text = f"my {words[label][n % 4 // 2]} is wrong {n} times"
        rows.append(f"{n},T-{7919 * n % 9973},{text},{label},{'low high urgent'.split()[n * 7 % 3]}")
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("chosen", [["--target", "category"], []])
def test_columns_that_are_not_chosen_are_recognised_as_train_does_and_noted_once(tmp_path: Path, chosen):
    train, dev = tickets(tmp_path / "train.csv", 60), tickets(tmp_path / "dev.csv", 20, 60)
    small = ["--set", "model.encoder.size=8", "--set", "train.epochs=1", "--seeds", "1", "--out", tmp_path / "out"]
    vary = ["--vary", "model.encoder.cell=gru,min_gru"]
    ran = windlass("compare", "--task", "classify", "--train", train, "--dev", dev, *chosen, *vary, *small)
    assert ran.code == 0, ran.err
    assert ran.err.count("columns: source 'subject_text', target 'category'") == 1
    data = Bundle.load(tmp_path / "out" / "runs" / "gru" / "1").recipe.data
    assert (data.source, data.target) == ("subject_text", "category")


def test_names_are_compared_letter_by_letter_as_train_reads_them():
    names = [(f"{'iva' if n % 2 else 'ros'}{chr(97 + n)}", "ru" if n % 2 else "it") for n in range(20)]
    vary = {"model.encoder.cell": ["gru", "rnn"]}
    small = {"train.epochs": 1, "model.encoder.size": 8}
    found = compare(train=names, dev=names, task="classify", vary=vary, settings=small, seeds=1, quiet=True)
    words = small | {"source.tokens": "words"}
    other = compare(train=names, dev=names, task="classify", vary=vary, settings=words, seeds=1, quiet=True)
    assert found.rows[0].parameters != other.rows[0].parameters


def test_unclear_columns_are_refused_before_anything_is_trained(tmp_path: Path):
    table = tmp_path / "two.csv"
    table.write_text("a,b,c\n" + "".join(f"some text {n},another text {n},third text {n}\n" for n in range(30)))
    arguments = ["--task", "text", "--train", table, "--target", "b", "--vary", "train.epochs=1,2"]
    assert "several columns hold text: 'a', 'c'; choose with --source" in refused(
        "compare", *arguments, "--out", tmp_path / "out"
    )


def test_it_is_said_if_no_candidate_is_better_than_the_baseline():
    worse = Comparison((trial("gru", 1, 96.0), trial("lstm", 1, 95.0)))
    assert worse.below_baseline() == ["no candidate is better than the baseline: lstm has wer 95.00, copy 95.00"]
    said = "Best on dev by wer: lstm (95.00), which is not better than the baseline, copy 95.00.\n"
    assert said in worse.markdown()
    better = Comparison((trial("gru", 1, 96.0), trial("lstm", 1, 94.0)))
    assert better.below_baseline() == []
    assert "Best on dev by wer: lstm.\n" in better.markdown()


def test_a_key_that_is_varied_twice_is_refused(tmp_path: Path):
    vary = ["--vary", "model.encoder.cell=gru,min_gru", "--vary", "model.encoder.cell=lstm"]
    assert "--vary model.encoder.cell: given twice" in refused(
        "compare", "--task", "classify", *vary, "--out", tmp_path / "out"
    )


def test_a_single_candidate_is_told(tiny_data: Path, tmp_path: Path):
    arguments = ("compare", tiny_data / "pairs.tsv", "--task", "text", "--seeds", "1", *QUICK)
    assert "a single candidate" in windlass(*arguments, "--out", tmp_path / "a").err
    two = ("--vary", "model.encoder.cell=gru,lstm")
    assert "a single candidate" not in windlass(*arguments, *two, "--out", tmp_path / "b").err
