"""Whether a model is better than its baseline, in words, and what to try if it is not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from windlass.baseline.history import History, read_history
from windlass.bundle import Bundle
from windlass.core.wording import counted
from windlass.inference.evaluate import Evaluation
from windlass.metrics import METRICS, best_possible, higher_is_better
from windlass.metrics.likelihood import format_metric
from windlass.nn.embedding import Vectors
from windlass.recipe import default
from windlass.recipe.train import TrainOptions

FEW = 5_000
"""With fewer training examples, more data is among the advice."""

MIN_STEPS = 500
"""A run of fewer steps is short: longer training is among the advice."""

LEAST_EPOCHS = 3
"""A run that its time limit ended earlier is not told to do with the epochs that it had."""

Standing = Literal["better", "not clearly better", "no better", "worse"]
"""How a model compares with its baseline."""

_SKILLS = {
    "copy": "copying the input",
    "most frequent": "giving the most frequent answer",
    "mean": "giving the mean of the training data",
    "last part": "repeating the last turn",
    "first words": "repeating the first words",
    "letter by letter": "replacing letter by letter",
    "bag of words": "counting words",
    "nearest": "giving the answer of the most similar input",
    "most frequent tag of a word": "giving every word its most frequent tag",
}


@dataclass(frozen=True)
class Verdict:
    """The score of a model beside that of its baseline, on as many examples.

    >>> verdict = Verdict("accuracy", 54.2, 100.0, "bag of words", examples=24)
    >>> verdict.standing
    'worse'
    >>> verdict.sentence(["more data"])
    'worse than its baseline: accuracy 54.20, bag of words 100.00: the model has not learned more than counting words;
    try more data'
    """

    metric: str
    model: float
    baseline: float
    name: str  # of the baseline
    examples: int

    @property
    def noise(self) -> float:
        """One standard error of the score.

        A mean of values from 0 to 100 (CIDEr: to 10) has at most that of a share of the same size; likelihoods and
        squared errors have none here.
        """
        n = max(2, self.examples)
        if self.metric in ("pearson", "spearman"):
            return (1 - min(1.0, self.model**2)) / math.sqrt(n - 1)
        if self.metric == "mse" or self.metric not in METRICS:
            return 0.0
        most = 10 if self.metric == "cider" else 100
        share = min(1.0, max(0.0, (self.model + self.baseline) / (2 * most)))
        return most * math.sqrt(share * (1 - share) / n)

    @property
    def standing(self) -> Standing:
        """How the model compares with its baseline; a gain within the noise is not clearly better."""
        if self.model == self.baseline == best_possible(self.metric):
            return "better"  # nothing is left to gain
        gain = self.model - self.baseline if higher_is_better(self.metric) else self.baseline - self.model
        if gain < -self.noise or math.isnan(gain):
            return "worse"
        if gain > self.noise:
            return "better"
        return "not clearly better" if gain > 0 else "no better"

    def sentence(self, advice: Sequence[str] = ()) -> str:
        """Say that a model is not better than its baseline; an empty text if it is."""
        if self.standing == "better":
            return ""
        unsure = self.standing == "not clearly better"
        on = f" on {counted(self.examples, 'example')}" if unsure else ""
        model, baseline = (format_metric(self.metric, score) for score in (self.model, self.baseline))
        text = f"{self.standing} than its baseline{on}: {self.metric} {model}, {self.name} {baseline}"
        if (skill := _SKILLS.get(self.name)) and not unsure:
            text += f": the model has not learned more than {skill}"
        return f"{text}; try {_either(advice)}" if advice else text


def judge(
    bundle: Bundle, result: Evaluation, baseline: dict[str, float], name: str, own: bool = False
) -> Verdict | None:
    """Compare by the metric of the task; None if the baseline does not have it, or the model knows no reference.

    Of the model's `own` run, no reference that it knows is told too: it has learned nothing that dev asks for.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> result = Evaluation({"cer": 90.0}, 100, ())
    >>> judge(Bundle.new(Recipe(), Sides.tiny()), result, {"cer": 20.0}, "copy").standing
    'worse'
    """
    metric = bundle.task.metric if bundle.task.metric in baseline else bundle.task.output_metric
    strange = result.unknown is not None and result.unknown.all and not own
    if metric not in result.metrics or metric not in baseline or strange:
        return None
    return Verdict(metric, result.metrics[metric], baseline[metric], name, result.examples)


def describe_order(bundle: Bundle, result: Evaluation, baseline: dict[str, float]) -> str | None:
    """Say that a model that writes in the order of its source may be asked for another: it finds the letters alone.

    Then fewer of them are wrong than those of the baseline, but no more texts are right.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> result = Evaluation({"accuracy": 0.0, "cer": 60.0}, 100, ())
    >>> describe_order(Bundle.new(Recipe(), Sides.tiny()), result, {"accuracy": 0.0, "cer": 90.0}) is None
    True
    """
    if not bundle.model.head.in_order or not {"accuracy", "cer"} <= {*result.metrics} & {*baseline}:
        return None
    right, letters = (
        Verdict(metric, result.metrics[metric], baseline[metric], "", result.examples).standing
        for metric in ("accuracy", "cer")
    )
    if letters != "better" or right not in ("no better", "worse"):
        return None
    head = bundle.recipe.model.head.kind
    own = default(bundle.recipe.task)["model"]["head"]["kind"] != head
    other = f"leave model.head={head} out" if own else "add --set model.head=text"
    return f"{head.upper()} writes in the order of the source; if outputs reorder it, {other}"


def advise(folder: Path, bundle: Bundle) -> list[str]:
    """Return what may help a model that is not better than its baseline, from what its folder keeps of the run.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> advise(Path("/nowhere"), Bundle.new(Recipe(), Sides.tiny()))
    ['more epochs (--epochs)', 'another learning rate (--lr)']
    """
    options = bundle.recipe.train
    if (history := read_history(folder, options)) is None:
        return ["more epochs (--epochs)", "another learning rate (--lr)"]
    epochs, steps = options.epochs, history.steps
    advice, improving = _rest(folder, history, options), history.improving
    if improving is None:
        improving = bundle.scores not in history.scores[:-1]
    if not advice and steps < MIN_STEPS and history.reason != "patience":
        enough = max(2 * epochs, math.ceil(epochs * MIN_STEPS / max(1, steps)))
        advice.append(f"more epochs (--epochs {enough}: the run had only {counted(steps, 'step')})")
    elif not advice and improving:
        advice.append(f"more epochs (--epochs {2 * epochs}: dev was still improving)")
    vocabulary, embedding = bundle.sides.source.vocabulary, bundle.recipe.model.encoder.source_embedding
    words = vocabulary is not None and vocabulary.spaced
    if words and not isinstance(embedding, Vectors):
        advice.append("pretrained vectors (--vectors FILE)")
    if history.examples < FEW and not bundle.task.language_model:
        advice.append(f"more data than {counted(history.examples, 'example')}")
    return advice or ["another learning rate (--lr)", "another size (windlass compare)"]


def minutes_for(folder: Path, options: TrainOptions, epochs: int | None = None) -> str:
    """The time limit for a run that its own one ended: what all its epochs take, or another number of them.

    Without a measured time it is twice the limit.

    >>> minutes_for(Path("/nowhere"), TrainOptions(minutes=0.7))
    '1.4'
    """
    history, limit = read_history(folder, options), options.minutes or 0.0
    needed = None if history is None else history.minutes(epochs or options.epochs, options.evaluate_steps)
    return f"{2 * limit:g}" if needed is None or needed <= limit else f"{needed}"


def _rest(folder: Path, history: History, options: TrainOptions) -> list[str]:
    """The advice for a run that ended before its epochs were over."""
    done, epochs = history.epochs, options.epochs
    if history.reason == "interrupted":
        return [f"the rest of its training (--resume: the run was stopped after {done:.3g} of {epochs} epochs)"]
    if history.reason != "minutes":
        return []
    if done > 0.8 * epochs:  # nearly all that was planned
        return [f"more time and epochs (--minutes {minutes_for(folder, options, 2 * epochs)} --epochs {2 * epochs})"]
    needed = minutes_for(folder, options)
    time = f"more time (--resume --minutes {needed}: the limit ended the run after {done:.3g} of {epochs} epochs)"
    fewer = options.schedule.spans_run and done >= LEAST_EPOCHS
    return [time, f"a whole decay of the learning rate in this time (--epochs {int(done)})"] if fewer else [time]


def _either(advice: Sequence[str]) -> str:
    *first, last = advice
    return f"{', '.join(first)} or {last}" if first else last
