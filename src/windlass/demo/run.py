"""The demo: a place-name transliterator, from real names to attention heatmaps, in a few minutes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from windlass.baseline.language import LanguageBaselines
from windlass.bundle import Bundle
from windlass.core.errors import WindlassError
from windlass.core.program import program
from windlass.core.records import Prediction
from windlass.core.tensors import atomic_write
from windlass.data.loader import Loader
from windlass.demo.names import PlaceNames, place_names
from windlass.experiment.run import baseline_metrics, encode, fit_codecs, read_data, run
from windlass.explain.attention import draw
from windlass.inference.evaluate import evaluate
from windlass.recipe import Recipe, compose
from windlass.training.estimate import estimate
from windlass.training.observe import Observer

SHOWN = 10
DRAWN = 6
LEAST = 8
"""Epochs that are planned however slow the machine looks; the time limit holds all the same."""
EVALUATION = 0.25
"""What the evaluations after each epoch add to the time of training, roughly."""


def demonstrate(script: str, minutes: float, out: Path, seed: int, observer: Observer) -> bool:
    """Make the data, train, score, and draw; everything goes to a folder named after the script.

    False where the user stopped it.

    >>> demonstrate("klingon", 1.0, Path("runs"), 1, None)
    Traceback (most recent call last):
    windlass.core.errors.DataError: no place names in the script 'klingon': known: arabic, ...
    """
    folder = out / script
    if (folder / "model").exists():
        raise WindlassError(f"{folder / 'model'}: already there: choose another --out, or remove it to begin anew")
    names = place_names(script)
    files = write_names(names, folder)
    observer.note(
        f"{len(names.pairs):,} place names in Latin and {script} (GeoNames, CC BY 4.0): {len(names.train):,} to learn "
        f"from, {len(names.dev):,} to choose by, {len(names.test):,} held out"
    )
    left_out = ", ".join(f"{count:,} {rule}" for rule, count in names.dropped.items())
    observer.note(f"places left out, by rule: {left_out}")
    recipe = compose("transliterate", None, [{"seed": seed, "data": {"train": [files[0]], "dev": files[1]}}])
    recipe = fit_to_time(recipe, minutes)
    outcome = run(recipe, read_data(recipe), folder / "model", observer)
    if outcome.fit.reason == "interrupted":
        observer.note(
            f"stopped and saved; go on with: {program()} train --resume --out {shlex.quote(str(folder / 'model'))}"
        )
        return False
    test = recipe.model_copy(update={"data": recipe.data.model_copy(update={"train": (files[2],), "dev": files[1]})})
    held_out = read_data(test).train
    found = evaluate([outcome.bundle], held_out)
    assert not isinstance(outcome.baseline, LanguageBaselines)  # which are for another task
    cheap = baseline_metrics(outcome.baseline, recipe.task, held_out)
    print(f"\nheld out: {found.examples} names")
    for name, value in found.metrics.items():
        print(f"  {name:9} {value:6.1f}   (baseline, {outcome.baseline.name}: {cheap[name]:.1f})")
    print("\nten of them:")
    for example, prediction in list(zip(held_out, found.predictions, strict=True))[:SHOWN]:
        right = "right" if prediction.text in example.targets else f"should be {example.target}"
        print(f"  {example.source:24} {prediction.text:24} {right}   (sure {100 * prediction.confidence:.0f} %)")
    pictures = draw_names(found.predictions, folder)
    model = shlex.quote(str(folder / "model"))
    print("\nattention, a column a letter of the source, a row a letter of the output:")
    for picture in pictures:
        print(f"  {picture}")
    windlass = program()
    print("\nnext:")
    print(f"  echo Windhoek | {windlass} predict {model} --nbest 3")
    print(f"  {windlass} explain {model} Windhoek --out windhoek.png")
    print(f"  {windlass} evaluate {model} {shlex.quote(files[2])}")
    print(f"  {windlass} train your-pairs.tsv --out your-model")
    return True


def write_names(names: PlaceNames, folder: Path) -> list[str]:
    """Write the three parts as tab-separated files, which the user can look at and train on.

    >>> from tempfile import mkdtemp
    >>> names = PlaceNames("greek", (("Athína", "Αθήνα"),), (), (), {})
    >>> [Path(f).name for f in write_names(names, Path(mkdtemp()))]
    ['train.tsv', 'dev.tsv', 'test.tsv']
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for part, pairs in (("train", names.train), ("dev", names.dev), ("test", names.test)):
        path = folder / f"{part}.tsv"
        atomic_write(path, "".join(f"{latin}\t{other}\n" for latin, other in pairs).encode())
        files.append(str(path))
    return files


def fit_to_time(recipe: Recipe, minutes: float) -> Recipe:
    """Choose the number of epochs that this machine can do in the time, so that the schedule runs to its end.

    >>> from windlass.data.examples import Example
    >>> callable(fit_to_time)
    True
    """
    data = read_data(recipe)
    codecs = fit_codecs(recipe, data.train)
    loader = Loader(encode(codecs, data.train), recipe.train.batch_tokens, recipe.seed, shuffle=True)
    seconds = estimate(Bundle.new(recipe, codecs).model, loader, recipe.train).seconds * (1 + EVALUATION)
    # A machine that is busy for a moment looks slow: fewer epochs than teach anything are not planned for it.
    fewest = min(LEAST, recipe.train.epochs)
    epochs = max(fewest, min(recipe.train.epochs, int(60 * minutes / seconds)))
    # Of a short run, most must be left for learning.
    warmup = min(recipe.train.schedule.warmup, epochs * loader.batches(0) // 10)
    schedule = recipe.train.schedule.model_copy(update={"warmup": warmup})
    train = recipe.train.model_copy(update={"epochs": epochs, "minutes": 1.15 * minutes, "schedule": schedule})
    return recipe.model_copy(update={"train": train})


def draw_names(predictions: Sequence[Prediction], folder: Path) -> list[Path]:
    """Draw the attention of a few names as a picture and as a page.

    >>> callable(draw_names)
    True
    """
    chosen = list(predictions[:DRAWN])
    return [draw(chosen, folder / f"attention.{suffix}") for suffix in ("png", "html")]
