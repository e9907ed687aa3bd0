"""Cutoffs that training chooses on the validation data."""

import pytest
import torch

from task_models import task_model
from windlass.bundle import Bundle
from windlass.core.weights import weights
from windlass.data.examples import Example, Place
from windlass.experiment.cutoff import ENOUGH, choose_cutoff
from windlass.inference.evaluate import evaluate
from windlass.inference.info import describe
from windlass.training.finetune import extend_bundle

NUMBER = {"tag": "head.factor.number", "multilabel": "head.threshold.number"}


def unsure(task):
    """A model that gives every output nearly the same probability, and dev data whose outputs are never empty."""
    bundle, source = task_model(task)
    last = bundle.model.head.output[-1]
    with torch.no_grad():
        last.weight.mul_(0.01)
        last.bias.zero_()
        if task == "tag":
            last.bias[bundle.model.head.outside] = 0.8  # O is about twice as probable as any other tag
        else:
            last.bias.fill_(-1.2)  # a probability of 0.23
    target = " ".join(["B-x"] * len(source)) if task == "tag" else ",".join(bundle.sides.target.symbols)
    return bundle, [Example(source, (target,), None, Place("x", n)) for n in range(ENOUGH)]


@pytest.mark.parametrize(
    ("task", "option", "metric"), [("tag", "outside", "span_f1"), ("multilabel", "threshold", "micro_f1")]
)
def test_the_best_cutoff_on_dev_is_chosen_said_and_saved_with_the_weights(task, option, metric, tmp_path):
    bundle, dev = unsure(task)
    before, said = evaluate([bundle], dev).metrics[metric], []
    chosen = choose_cutoff(bundle, dev, metric, said.append)
    assert chosen.scores[metric] == evaluate([bundle], dev).metrics[metric] > before
    assert [line.partition(":")[0] for line in said] == [f"model.head.{option}"]
    assert f"{before:.1f} with" in said[0]
    chosen.save(tmp_path)
    loaded = Bundle.load(tmp_path)
    assert evaluate([loaded], dev).metrics == chosen.scores
    assert f"{option} {loaded.model.get_buffer(NUMBER[task]).item():g}" in describe(loaded)["head"]
    extended = extend_bundle(loaded, loaded.recipe, dev, said.append)  # finetuning starts from it
    assert weights(extended.model)[NUMBER[task]] == weights(loaded.model)[NUMBER[task]]


def test_few_dev_examples_or_a_number_in_the_recipe_keep_the_cutoff():
    bundle, dev = unsure("tag")
    assert choose_cutoff(bundle, dev[1:], "span_f1", print) is bundle
    fixed, _ = task_model("multilabel", model={"head": {"kind": "labels", "threshold": 0.4}})
    assert choose_cutoff(fixed, dev, "micro_f1", print) is fixed
    assert NUMBER["multilabel"] not in weights(fixed.model)


def test_of_equal_cutoffs_the_one_of_before_is_kept_and_said_to_be_the_default():
    (bundle, dev), said = unsure("tag"), []
    nothing = [Example(e.source, (" ".join("O" * len(e.source)),), None, e.place) for e in dev]
    assert choose_cutoff(bundle, nothing, "span_f1", said.append).model.head.factor.value == 1
    assert said == ["model.head.outside: 1, the default, is best: span_f1 0.0 on dev"]
