"""How `train` ends: the scores beside the baseline's, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePath
from textwrap import shorten

from windlass.baseline.verdict import Verdict, advise, describe_order, judge
from windlass.core.program import program
from windlass.core.wording import counted
from windlass.data.examples import Example, Value
from windlass.experiment.run import Outcome
from windlass.metrics.likelihood import format_metric
from windlass.training.progress import format_duration

SHOWN, LOOKED = 120, 1000
"""The longest input that a hint shows whole, in characters, and among how many examples it is looked for."""


def outcome_lines(outcome: Outcome, out: Path, seconds: float, example: Value) -> Iterator[str]:
    """Yield how a run ended, and commands to go on with that fit the task and its files.

    `example` is an input for the hints.

    >>> from tempfile import mkdtemp
    >>> from windlass.experiment.data import as_data
    >>> from windlass.experiment.run import run
    >>> from windlass.recipe import compose
    >>> from windlass.training.observe import Observer
    >>> small = {"train": {"epochs": 1}, "model": {"encoder": {"size": 8}, "decoder": {"size": 8}}}
    >>> recipe = compose("text", None, [small])
    >>> data = as_data([("ab", "ba"), ("cd", "dc")], [("ab", "ba")], recipe)
    >>> outcome = run(recipe, data, Path(mkdtemp()) / "model", Observer())
    >>> print("\\n".join(outcome_lines(outcome, Path("model"), 2.0, "ab")))
    done in 2s (1 step, best at step 1)
    dev  accuracy 0.00  cer ...   [baseline, ...]
    worse than its baseline: cer ...
    model in model; next:
      echo ab | windlass predict model
      windlass explain model ab --out attention.png
      windlass evaluate model test.tsv
    """
    result = outcome.fit
    assert outcome.dev is not None
    metrics, baseline = (
        "  ".join(f"{name} {format_metric(name, value)}" for name, value in scores.items())
        for scores in (outcome.dev.metrics, outcome.baseline_metrics)
    )
    yield f"done in {format_duration(seconds)} ({counted(result.steps, 'step')}, best at step {result.best_step})"
    yield f"dev  {metrics}   [baseline, {outcome.baseline.name}: {baseline}]"
    if (verdict := verdict_of(outcome)) is not None and verdict.standing != "better":
        yield verdict.sentence(advise(out, outcome.bundle))
    if told := describe_order(outcome.bundle, outcome.dev, outcome.baseline_metrics):
        yield told
    yield f"model in {out}; next:"
    for hint in _hints(outcome, shlex.quote(str(out)), example):
        yield f"  {hint}"


def verdict_of(outcome: Outcome) -> Verdict | None:
    """How the model compares with its baseline on dev; None if that says nothing.

    >>> from windlass.baseline import Baseline
    >>> from windlass.bundle import Bundle
    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> from windlass.training.observe import FitResult
    >>> result = FitResult(None, best_step=0, steps=3, epochs=1, seconds=1, reason="interrupted")
    >>> verdict_of(Outcome(Bundle.new(Recipe(), Sides.tiny()), result, None, Baseline("copy"), {}))
    """
    if outcome.dev is None:
        return None
    return judge(outcome.bundle, outcome.dev, outcome.baseline_metrics, outcome.baseline.name, own=True)


def _hints(outcome: Outcome, folder: str, example: Value) -> Iterator[str]:
    bundle, windlass = outcome.bundle, program()
    files = bundle.recipe.data.train
    test = shlex.quote(like("test", files[0] if files else "pairs.tsv"))
    if bundle.task.language_model:
        yield f"{windlass} generate {folder} --length 500"
        yield f"{windlass} evaluate {folder} {test}"
        return
    texts = [shlex.quote(_beginning(text)) for text in bundle.sides.source.columns(example)]
    if bundle.task.turns:
        yield f"{windlass} chat {folder}"
    elif bundle.sides.source.extensions and isinstance(example, str):
        yield f"{windlass} predict {folder} {shlex.quote(example)}"
    elif isinstance(bundle.recipe.data.source, str):  # a table, whose column it finds by name
        yield f"{windlass} predict {folder} {shlex.quote(like('new', files[0] if files else 'new.csv'))}"
    elif len(texts) > 1:
        yield f"printf '%s\\t%s\\n' {' '.join(texts)} | {windlass} predict {folder}"
    else:
        yield f"echo {texts[0]} | {windlass} predict {folder}"
    if picture := _picture(outcome):
        second = f" --second {texts[1]}" if len(texts) > 1 else ""
        yield f"{windlass} explain {folder} {texts[0]}{second} --out {picture}"
    yield f"{windlass} evaluate {folder} {test}"


def example_for_hints(examples: Sequence[Example]) -> Value:
    """The source of the first example that a hint can show whole; if there is none, the first.

    >>> from windlass.data.examples import Place
    >>> texts = ["long " * 100, "short"]
    >>> example_for_hints([Example(text, ("x",), None, Place("texts.csv", 1)) for text in texts])
    'short'
    """
    return next((e.source for e in islice(examples, LOOKED) if len(e.text) <= SHOWN), examples[0].source)


def _beginning(text: str) -> str:
    """The text, or as many of its first words as a hint shows: a command that is copied means what it shows."""
    return text if len(text) <= SHOWN else shorten(text, SHOWN, placeholder="") or text[:SHOWN]


def _picture(outcome: Outcome) -> str | None:
    """The name of a picture of what the model attends to, or of its tags; None if there is nothing to draw."""
    assert outcome.dev is not None
    first = next((p for p in outcome.dev.predictions if p.text), None)
    if first is None:
        return None
    if first.answer.per_place:
        return "tags.png"
    if first.places.within and not first.answer.written:
        return "document.html"
    return "attention.png" if first.attention is not None else None


def like(name: str, file: str) -> str:
    """Return the name of another file of the same format.

    >>> like("test", "data/train.csv"), like("test", "train.tsv.gz"), like("test", "train.en,train.de")
    ('test.csv', 'test.tsv.gz', 'test.en,test.de')
    """
    parts = [PurePath(part) for part in file.split(",")]
    endings = [part.suffixes[-2:] if part.suffix == ".gz" else [part.suffix] for part in parts]
    return ",".join(name + "".join(ending) for ending in endings)
