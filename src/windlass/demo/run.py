"""The demo: train a transliterator of place names, from data to alignments, in a few minutes."""

from __future__ import annotations

import shlex
from pathlib import Path

from windlass.baseline.language import LanguageBaselines
from windlass.bundle import Bundle
from windlass.core.errors import WindlassError
from windlass.core.program import program
from windlass.core.tensors import atomic_write
from windlass.demo.names import PlaceNames, place_names
from windlass.experiment.baselines import baseline_metrics
from windlass.experiment.data import read_data
from windlass.experiment.loaders import fit_sides, training_loader
from windlass.experiment.run import run
from windlass.explain.attention import draw
from windlass.inference.evaluate import evaluate
from windlass.recipe import Recipe, compose
from windlass.training.estimate import estimate
from windlass.training.observe import Observer

EXAMPLES = 10
HEATMAPS = 6
MIN_EPOCHS = 8
"""Epochs planned at least, however slow the machine; the time limit still holds."""
EVALUATION_OVERHEAD = 0.25
"""Time of the evaluations, relative to training."""


def run_demo(script: str, minutes: float, out: Path, seed: int, observer: Observer) -> bool:
    """Prepare data, train, evaluate and draw alignments, in a folder named after the script.

    Returns False if the user stopped it.

    >>> run_demo("klingon", 1.0, Path("runs"), 1, None)
    Traceback (most recent call last):
    windlass.core.errors.DataError: no place names in the script 'klingon': known: arabic, ...
    """
    folder = out / script
    if (folder / "model").exists():
        raise WindlassError(f"{folder / 'model'}: already there: choose another --out, or remove it to start again")
    names = place_names(script)
    files = _write_names(names, folder)
    observer.note(
        f"{len(names.pairs):,} place names in Latin and {script} (GeoNames, CC BY 4.0): {len(names.train):,} train, "
        f"{len(names.dev):,} dev, {len(names.test):,} test"
    )
    dropped = ", ".join(f"{count:,} {rule}" for rule, count in names.dropped.items())
    observer.note(f"places dropped, by rule: {dropped}")
    recipe = compose("transliterate", None, [{"seed": seed, "data": {"train": [files[0]], "dev": files[1]}}])
    recipe = _fit_to_time(recipe, minutes)
    outcome = run(recipe, read_data(recipe), folder / "model", observer)
    if outcome.fit.reason == "interrupted":
        observer.note(
            f"stopped and saved; resume with: {program()} train --resume --out {shlex.quote(str(folder / 'model'))}"
        )
        return False
    test = recipe.model_copy(update={"data": recipe.data.model_copy(update={"train": (files[2],), "dev": files[1]})})
    test_examples = read_data(test).train
    evaluation = evaluate([outcome.bundle], test_examples)
    assert not isinstance(outcome.baseline, LanguageBaselines)  # those of another task
    baseline = baseline_metrics(outcome.baseline, recipe.task, test_examples)
    print(f"\ntest: {evaluation.examples} names")
    for name, value in evaluation.metrics.items():
        print(f"  {name:9} {value:6.1f}   (baseline, {outcome.baseline.name}: {baseline[name]:.1f})")
    print("\nten of them:")
    for example, prediction in list(zip(test_examples, evaluation.predictions, strict=True))[:EXAMPLES]:
        verdict = "correct" if prediction.text in example.targets else f"should be {example.target}"
        confidence = 100 * (prediction.confidence or 0)
        print(f"  {example.source:24} {prediction.text:24} {verdict}   (confidence {confidence:.0f} %)")
    model = shlex.quote(str(folder / "model"))
    print("\nwhich letter wrote which, source letters across, output letters down:")
    for suffix in ("png", "html"):
        print(f"  {draw(list(evaluation.predictions[:HEATMAPS]), folder / f'alignment.{suffix}')}")
    windlass = program()
    print("\nnext:")
    print(f"  echo Windhoek | {windlass} predict {model} --nbest 3")
    print(f"  {windlass} explain {model} Windhoek --out windhoek.png")
    print(f"  {windlass} evaluate {model} {shlex.quote(files[2])}")
    print(f"  {windlass} train your-pairs.tsv --out your-model")
    return True


def _write_names(names: PlaceNames, folder: Path) -> list[str]:
    """Write train, dev and test as tab-separated files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for part, pairs in (("train", names.train), ("dev", names.dev), ("test", names.test)):
        path = folder / f"{part}.tsv"
        atomic_write(path, "".join(f"{latin}\t{other}\n" for latin, other in pairs).encode())
        files.append(str(path))
    return files


def _fit_to_time(recipe: Recipe, minutes: float) -> Recipe:
    """Set the number of epochs to what this machine can do in the time, so that the schedule completes."""
    data = read_data(recipe)
    bundle = Bundle.new(recipe, fit_sides(recipe, data.train))
    loader = training_loader(bundle, data.train)
    seconds = estimate(bundle.model, loader, recipe.train).seconds * (1 + EVALUATION_OVERHEAD)
    # A machine that is busy for a moment seems slow: plan enough epochs to learn something all the same.
    fewest = min(MIN_EPOCHS, recipe.train.epochs)
    epochs = max(fewest, min(recipe.train.epochs, int(60 * minutes / seconds)))
    # The warm-up must be a small part of a short run.
    warmup = min(recipe.train.schedule.warmup, epochs * loader.batches(0) // 10)
    schedule = recipe.train.schedule.model_copy(update={"warmup": warmup})
    train = recipe.train.model_copy(update={"epochs": epochs, "minutes": 1.15 * minutes, "schedule": schedule})
    return recipe.model_copy(update={"train": train})
