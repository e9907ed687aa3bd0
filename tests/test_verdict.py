"""A model beside its baseline, in words, and what to try."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from task_models import CTC, task_model
from windlass.baseline.verdict import Verdict, advise, describe_order, judge, minutes_for
from windlass.bundle import Bundle
from windlass.data import Sides
from windlass.data.examples import Example, Place
from windlass.data.sides import SideOptions
from windlass.data.unknown import UnknownLabels
from windlass.inference.evaluate import Evaluation
from windlass.recipe import Recipe, compose
from windlass.recipe.schedule import Cosine
from windlass.training.estimate import Estimate


@pytest.mark.parametrize(
    ("metric", "model", "baseline", "examples", "standing"),
    [
        ("accuracy", 54.2, 100.0, 24, "worse"),
        ("accuracy", 90.0, 50.0, 24, "better"),
        ("accuracy", 48.0, 50.0, 100, "no better"),  # one standard error is 5
        ("accuracy", 52.0, 50.0, 100, "not clearly better"),
        ("accuracy", 48.0, 50.0, 10_000, "worse"),
        ("wer", 20.0, 60.0, 100, "better"),  # less is better
        ("wer", 60.0, 20.0, 100, "worse"),
        ("cer", 150.0, 90.0, 100, "worse"),
        ("nats", 1.31, 1.30, 3, "worse"),
        ("nats", 1.30, 1.30, 3, "no better"),
        ("perplexity", 20.0, 30.0, 3, "better"),
        ("pearson", 0.75, 0.0, 50, "better"),
        ("pearson", 0.05, 0.0, 50, "not clearly better"),
        ("mse", 2.0, 1.0, 50, "worse"),
        ("accuracy", float("nan"), 50.0, 10, "worse"),
    ],
)
def test_a_model_is_compared_by_the_direction_and_the_noise_of_its_metric(metric, model, baseline, examples, standing):
    assert Verdict(metric, model, baseline, "copy", examples).standing == standing


def test_the_sentence_names_scores_baseline_and_advice():
    worse = Verdict("accuracy", 54.17, 100.0, "bag of words", 24)
    assert worse.sentence(["a", "b", "c"]) == (
        "worse than its baseline: accuracy 54.17, bag of words 100.00: "
        "the model has not learned more than counting words; try a, b or c"
    )
    assert Verdict("wer", 50.0, 50.0, "6-gram", 24).sentence() == "no better than its baseline: wer 50.00, 6-gram 50.00"
    assert Verdict("wer", 5.0, 50.0, "copy", 24).sentence(["a"]) == ""


def test_a_gain_within_the_noise_is_told_as_such():
    verdict = Verdict("cer", 86.54, 90.38, "letter by letter", 11)
    assert verdict.sentence(["a"]) == (
        "not clearly better than its baseline on 11 examples: cer 86.54, letter by letter 90.38; try a"
    )
    loss = Verdict("cer", 90.38, 86.54, "letter by letter", 11)
    assert loss.sentence().startswith("no better than its baseline: cer 90.38, letter by letter 86.54: ")


def test_the_metric_of_the_task_is_compared():
    bundle = Bundle.new(Recipe(), Sides.tiny())  # text: by cer
    result = Evaluation({"accuracy": 0.0, "cer": 10.0}, 100, ())
    verdict = judge(bundle, result, {"accuracy": 50.0, "cer": 90.0}, "copy")
    assert verdict is not None
    assert (verdict.metric, verdict.standing) == ("cer", "better")
    assert judge(bundle, result, {}, "") is None


def test_a_score_on_labels_that_the_model_does_not_know_says_nothing():
    unknown = UnknownLabels(2, 2, ("0", "1"), ("0.0", "1.0"))
    result = Evaluation({"accuracy": 0.0}, 2, (), unknown)
    assert judge(classifier(50.0), result, {"accuracy": 0.0}, "bag of words") is None
    own = judge(classifier(50.0), result, {"accuracy": 0.0}, "bag of words", own=True)
    assert own.sentence().startswith("no better than its baseline: accuracy 0.00, bag of words 0.00")
    some = replace(result, unknown=replace(unknown, count=1))
    assert judge(classifier(50.0), some, {"accuracy": 0.0}, "bag of words") is not None


@pytest.mark.parametrize(
    ("accuracy", "cer", "told"),
    [(0.0, 60.0, True), (0.0, 95.0, False), (40.0, 20.0, False), (100.0, 0.0, False)],
)
def test_a_model_that_finds_letters_and_no_texts_may_be_asked_for_another_order(accuracy, cer, told):
    bundle, _ = task_model("text", **CTC)
    result = Evaluation({"accuracy": accuracy, "cer": cer}, 100, ())
    said = describe_order(bundle, result, {"accuracy": accuracy and 1.0, "cer": 90.0})
    assert (said is not None) == told
    if said:
        assert said == "CTC writes in the order of the source; if outputs reorder it, leave model.head=ctc out"
        usual, _ = task_model("transliterate")
        said = describe_order(usual, result, {"accuracy": 0.0, "cer": 90.0})
        assert said is not None
        assert said.endswith("; if outputs reorder it, add --set model.head=text")
    decoder, _ = task_model("text")
    assert describe_order(decoder, result, {"accuracy": 0.0, "cer": 90.0}) is None
    assert describe_order(bundle, replace(result, metrics={"wer": 90.0}), {"wer": 95.0}) is None


def folder_of(path: Path, steps: list[int], scores: list[float], examples: int) -> Path:
    (path / "training").mkdir()
    (path / "training" / "data.json").write_text(json.dumps({"train": examples}))
    rows = [json.dumps({"step": step, "dev": {"accuracy": score}}) for step, score in zip(steps, scores, strict=True)]
    (path / "training" / "metrics.jsonl").write_text("\n".join(rows) + "\n")
    return path


def classifier(best: float) -> Bundle:
    recipe = compose("classify", None, [{"train": {"epochs": 10}, "source": {"tokens": {"min_count": 1}}}])
    examples = [Example(text, (label,), None, Place("", 1)) for text, label in (("a b", "x"), ("c", "y"))]
    sides = Sides.fit(SideOptions(source=recipe.source, target=recipe.target), examples)
    bundle = Bundle.new(recipe, sides)
    bundle.scores["accuracy"] = best
    return bundle


def test_a_short_run_is_told_to_train_longer(tmp_path):
    advice = advise(folder_of(tmp_path, [50, 100], [50.0, 40.0], 200), classifier(50.0))
    assert advice == [
        "more epochs (--epochs 50: the run had only 100 steps)",
        "pretrained vectors (--vectors FILE)",
        "more data than 200 examples",
    ]


def test_a_run_that_still_improved_is_told_to_train_longer(tmp_path):
    advice = advise(folder_of(tmp_path, [500, 1000], [50.0, 60.0], 90_000), classifier(60.0))
    assert advice == ["more epochs (--epochs 20: dev was still improving)", "pretrained vectors (--vectors FILE)"]


@pytest.mark.parametrize("best", [500, 1000])
def test_scores_that_changed_after_training_say_nothing_of_improvement(tmp_path, best):
    folder = folder_of(tmp_path, [500, 1000], [50.0, 60.0], 90_000)
    content = {"steps": 1000, "epochs": 10, "seconds": 60, "reason": "epochs", "best_step": best}
    (folder / "training" / "outcome.json").write_text(json.dumps(content))
    advice = advise(folder, classifier(70.0))  # by a cutoff, or interpolated
    assert any("still improving" in one for one in advice) == (best == 1000)


def test_a_run_that_improved_no_more_is_not(tmp_path):
    advice = advise(folder_of(tmp_path, [500, 1000], [60.0, 50.0], 90_000), classifier(60.0))
    assert advice == ["pretrained vectors (--vectors FILE)"]


def test_a_run_that_its_time_limit_ended_is_told_of_time_and_not_of_epochs(tmp_path):
    folder, bundle = folder_of(tmp_path, [50, 100], [50.0, 40.0], 200), classifier(50.0)
    (folder / "training" / "outcome.json").write_text(json.dumps({"reason": "minutes", "epochs": 8.3}))
    train = bundle.recipe.train.model_copy(update={"minutes": 2.0, "epochs": 40, "schedule": Cosine()})
    bundle = replace(bundle, recipe=bundle.recipe.model_copy(update={"train": train}))
    assert advise(folder, bundle)[:2] == [
        "more time (--resume --minutes 4: the limit ended the run after 8.3 of 40 epochs)",
        "a whole decay of the learning rate in this time (--epochs 8)",
    ]


def test_a_run_that_had_nearly_all_its_epochs_is_told_of_more_and_not_of_fewer(tmp_path):
    folder, bundle = folder_of(tmp_path, [50, 100], [50.0, 40.0], 200), classifier(50.0)
    (folder / "training" / "outcome.json").write_text(json.dumps({"reason": "minutes", "epochs": 11.2}))
    train = bundle.recipe.train.model_copy(update={"minutes": 1.5, "epochs": 12, "schedule": Cosine()})
    bundle = replace(bundle, recipe=bundle.recipe.model_copy(update={"train": train}))
    assert advise(folder, bundle)[0] == "more time and epochs (--minutes 3 --epochs 24)"


def ended(path: Path, outcome: dict[str, object] | None, **options: object) -> tuple[Path, Bundle]:
    """A run that was evaluated after 2 of 27 steps, for 3 of its 41 seconds, and ended in some way."""
    bundle, folder = classifier(50.0), folder_of(path, [2], [50.0], 200)
    row = {"step": 2, "epoch": 2 / 27, "dev": {"accuracy": 50.0}, "seconds": 41.0, "evaluation_seconds": 3.0}
    (folder / "training" / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    if outcome is not None:
        (folder / "training" / "outcome.json").write_text(json.dumps(outcome))
    train = bundle.recipe.train.model_copy(update=options)
    return folder, replace(bundle, recipe=bundle.recipe.model_copy(update={"train": train}))


@pytest.mark.parametrize(
    "outcome",
    [
        None,  # it was killed
        {"reason": "interrupted", "epochs": 2 / 27, "steps": 2, "seconds": 41.0},
        {"reason": "epochs", "epochs": 2 / 27, "steps": 2, "seconds": 41.0},  # resumed for more epochs, and killed
        {"reason": "epochs", "epochs": 1 / 27, "steps": 1, "seconds": 40.0},  # before it was resumed
    ],
)
def test_a_run_that_was_stopped_is_told_to_go_on_and_not_of_more_epochs(tmp_path, outcome):
    advice = advise(*ended(tmp_path, outcome, epochs=38))
    assert advice[0] == "the rest of its training (--resume: the run was stopped after 0.0741 of 38 epochs)"
    assert not any("--epochs" in part for part in advice)


def test_a_run_whose_end_was_cut_is_told_of_its_time_limit(tmp_path):
    advice = advise(*ended(tmp_path, None, epochs=2, minutes=0.7))
    # 38 s in 2 of 27 steps: 2 epochs take 1026 s, three evaluations 9 s
    assert advice[0] == "more time (--resume --minutes 18: the limit ended the run after 0.0741 of 2 epochs)"
    assert not any("--epochs" in part for part in advice)


def test_the_advised_time_is_what_all_epochs_take(tmp_path):
    outcome = {"reason": "minutes", "epochs": 1.0, "steps": 27, "seconds": 39.0}
    folder, bundle = ended(tmp_path, outcome, epochs=12, minutes=0.7, schedule=Cosine())
    advice = advise(folder, bundle)
    # 36 s an epoch and 3 s an evaluation, of which there are 12, and the limit reserves one more: 471 s
    assert advice[0] == "more time (--resume --minutes 8: the limit ended the run after 1 of 12 epochs)"
    assert not any("--epochs" in part for part in advice)
    assert minutes_for(folder, bundle.recipe.train, 300) == "200"  # 195 of them, rounded up


def test_a_run_that_stopped_early_is_not_told_of_more_epochs(tmp_path):
    outcome = {"reason": "patience", "epochs": 4.0, "steps": 108, "seconds": 99.0}
    folder, bundle = ended(tmp_path, outcome, epochs=38)
    rows = [json.dumps({"step": n, "dev": {"accuracy": score}}) for n, score in ((2, 50.0), (108, 40.0))]
    (folder / "training" / "metrics.jsonl").write_text("\n".join(rows) + "\n")
    assert not any("--epochs" in part for part in advise(folder, bundle))


def test_an_estimate_tells_how_many_epochs_a_time_limit_allows():
    expected = Estimate(parameters=900, batches=5, epochs=40, seconds=8.0, megabytes=1.0, minutes=2.0, decays=True)
    assert "so the limit of 2m00s allows about 15 of 40 epochs, without evaluation" in expected.render()
    assert "; for a whole decay of the learning rate in this time: --epochs 15; about 1 MB" in expected.render()
    assert "decay" not in replace(expected, decays=False).render()
    assert "at most 5m20s for 40 epochs" in replace(expected, minutes=9.0).render()
