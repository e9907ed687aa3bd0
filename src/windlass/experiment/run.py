"""Run an experiment: fit the sides, build, train, and evaluate beside a baseline."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from windlass.baseline import AnyBaseline
from windlass.baseline.language import LanguageBaselines, language_baselines, language_metrics
from windlass.bundle import (
    DIVERGED,
    Bundle,
    check_device,
    load_definition,
    save_definition,
    save_interpolation,
    save_weights,
)
from windlass.core.errors import DataError, DivergedError, RecipeError, WindlassError
from windlass.core.tensors import atomic_write
from windlass.core.wording import counted
from windlass.data.examples import Example
from windlass.data.loader import Loader
from windlass.data.running import Running
from windlass.data.sides import Sides
from windlass.data.store import View
from windlass.data.unknown import unknown_labels
from windlass.experiment.auto import suggest_settings
from windlass.experiment.baselines import SAMPLE_SIZE, baseline_metrics, choose_baseline, sample
from windlass.experiment.cutoff import choose_cutoff
from windlass.experiment.data import Data, without
from windlass.experiment.folder import alone, check_folder, open_folder, recorded
from windlass.experiment.frames import frames_as_before, with_frames
from windlass.experiment.interpolation import interpolate
from windlass.experiment.loaders import dev_loss, fit_sides, load_vectors, scaled_loader, training_loader
from windlass.experiment.recognise import without_svm
from windlass.experiment.whole_targets import describe_whole_targets
from windlass.explain.curves import curves, read_rows
from windlass.inference.evaluate import Evaluation, alignment_metrics, evaluate
from windlass.inference.info import OUTCOME
from windlass.metrics import higher_is_better
from windlass.nn.fast.precision import pays
from windlass.recipe import Recipe, merge, parse
from windlass.training.checkpoint import flatten
from windlass.training.data_parallel import gradient_workers
from windlass.training.estimate import choose_processes, estimate
from windlass.training.finetune import Note, check_same_model, extend_bundle
from windlass.training.loop import Trainer
from windlass.training.observe import FitResult, Observer
from windlass.training.samples import SampleWriter
from windlass.training.track import TensorBoard

UNITS = {"label": "examples", "number": "examples", "labels": "labels"}
"""What the loss counts, by kind of target, if not tokens."""


@dataclass(frozen=True)
class Outcome:
    """A trained bundle, how training ended, and its dev metrics beside those of the best baseline.

    >>> from windlass.baseline import Baseline
    >>> result = FitResult({"cer": 20.0}, best_step=3, steps=3, epochs=1, seconds=1, reason="epochs")
    >>> Outcome(Bundle.new(Recipe(), Sides.tiny()), result, None, Baseline("copy"), {"cer": 90.0}).baseline.name
    'copy'
    """

    bundle: Bundle
    fit: FitResult
    dev: Evaluation | None  # None if the run was interrupted before its first evaluation
    baseline: AnyBaseline | LanguageBaselines
    baseline_metrics: dict[str, float]


def apply_suggestions(recipe: Recipe, data: Data, settings: Sequence[dict[str, Any]], note: Note) -> Recipe:
    """Apply the settings that the data suggest and note them; the user's own `settings` take precedence.

    >>> from windlass.experiment.data import as_data
    >>> data = as_data([("cat", "k a t")] * 50 + [("dog", "d o g")], None, Recipe())
    >>> apply_suggestions(Recipe(), data, [], note=lambda text: None).target.tokens.kind
    'words'
    """
    content = recipe.model_dump(mode="json")
    picked: dict[str, Any] = {}
    note("picked from the data:")
    for over, reason in suggest_settings(sample(data.train), len(data.train)):
        if "model" in over:  # CTC has no decoder
            over["model"] = {name: part for name, part in over["model"].items() if content["model"][name] is not None}
        content = merge(content, over)
        picked |= flatten(over)
        note(f"  {reason}")
    own = {key: value for setting in settings for key, value in flatten(setting).items()}
    for setting in settings:
        content = merge(content, setting)
    overridden = [f"{key}={value}" for key, value in own.items() if any(k.startswith(key) for k in picked)]
    if overridden:
        note(f"  but as you set it: {', '.join(overridden)}")
    return parse(content)


def _describe_unknown(sides: Sides, dev: Sequence[Example]) -> str | None:
    """Name the symbols of texts of the dev set that the training data lack."""
    parts = []
    sources = [set(sides.source.unknown(e.source)) for e in dev]
    targets = [] if sides.target.choices else [set(sides.target.unknown(e.target)) for e in dev]
    for side, found in (("source", sources), ("target", targets)):
        symbols = sorted(set().union(*found)) if found else []
        if symbols:
            shown = ", ".join(map(repr, symbols[:8])) + (" ..." if len(symbols) > 8 else "")
            count = sum(bool(f) for f in found)
            parts.append(f"{side} {shown} ({counted(count, 'example')})")
    return f"dev has symbols that train lacks, encoded as unknown: {'; '.join(parts)}" if parts else None


def _describe_too_long(bundle: Bundle, loader: Loader | Running) -> str | None:
    """How many targets of training are too long for their inputs, and so left out, if the head has such a limit."""
    head, joined = bundle.model.head, bundle.model.encoder.joined
    if not head.limits_targets:
        return None
    omitted = total = 0
    for batch in loader.epoch(0):
        too_long = head.too_long(batch, -(-batch.lengths // joined))
        omitted, total = omitted + int(too_long.sum()), total + too_long.numel()
    if omitted == total:
        raise DataError("every target is longer than its input: CTC needs more frames: raise model.head.frames")
    if not omitted:
        return None
    return (
        f"{omitted:,} of {total:,} targets are longer than their inputs and are left out of training: "
        "raise model.head.frames to use them"
    )


def run(
    recipe: Recipe,
    data: Data,
    out: Path,
    observer: Observer,
    resume: bool = False,
    base: Bundle | None = None,
    device: str = "cpu",
    draw: bool = True,
) -> Outcome:
    """Train in a folder, which becomes the bundle; checkpoints and logs go to its folder `training`.

    `base` is a bundle to finetune: training starts from its weights, and its vocabulary grows by new symbols.
    Without `draw` there are no pictures.

    >>> from tempfile import mkdtemp
    >>> from windlass.experiment.data import as_data
    >>> from windlass.recipe import compose, setting
    >>> recipe = compose("text", None, [setting("train.epochs=1"), setting("model.encoder.size=8")])
    >>> data = as_data([("ab", "ba"), ("cd", "dc")], [("ab", "ba")], recipe)
    >>> run(recipe, data, Path(mkdtemp()) / "model", Observer()).fit.reason
    'epochs'
    """
    with ExitStack() as until_the_end:

        def hold() -> None:
            until_the_end.enter_context(alone(out))

        return _run(recipe, data, out, observer, resume, base, device, draw, hold)


def _run(
    recipe: Recipe,
    data: Data,
    out: Path,
    observer: Observer,
    resume: bool,
    base: Bundle | None,
    device: str,
    draw: bool,
    hold: Callable[[], None],
) -> Outcome:
    """As `run`; `hold` keeps other runs out of the folder."""
    folder = out / "training"
    check_folder(out, resume)
    if resume:
        hold()
    device = check_device(device)
    if recipe.train.track == "tensorboard":
        observer = TensorBoard(observer, folder / "events")
    if recipe.loss.alignment and not any(e.alignment for e in data.train):
        raise DataError("loss.alignment is set, but no example has an alignment: name its column in data.alignment")
    before, sides = load_definition(out) if resume else (None, None)
    if before is not None and sides is not None:
        recipe = frames_as_before(_suited(recipe, len(data.train), lambda text: None), before)
        check_same_model(before, recipe, "a resumed run")
        bundle = Bundle.new(recipe, sides)
    elif base is not None:
        bundle = extend_bundle(base, recipe, data.train, observer.note)
    else:
        recipe = _suited(recipe, len(data.train), observer.note)
        bundle = Bundle.new(recipe, fit_sides(recipe, data.train))
    bundle, data = _prepared(bundle, data, observer)
    if before is None and base is None:
        bundle = with_frames(bundle, lambda: training_loader(bundle, data.train).epoch(0), observer.note)
        load_vectors(bundle, observer.note)
    bundle, loader = scaled_loader(bundle, data.train, observer.note)
    bundle.model.head.prepare(loader.epoch(0), anew=base is None)
    recipe, sides = bundle.recipe, bundle.sides
    baseline: AnyBaseline | LanguageBaselines
    if bundle.task.language_model:
        train_texts, dev_texts = [e.target for e in data.train], [e.target for e in data.dev]
        saved = LanguageBaselines.load(out) if resume else None
        if saved is not None and recipe.ngrams not in (None, saved.ngram.order):
            saved = None
        baseline = saved or language_baselines(bundle, train_texts, dev_texts, observer.note)
    else:
        if isinstance(data.train, View) and len(data.train) > SAMPLE_SIZE:
            observer.note(f"the corpus is kept on disk: its baseline is fitted on a sample of {SAMPLE_SIZE:,} examples")
        baseline = choose_baseline(recipe, data, observer.note, sides)
    open_folder(out, bundle, data, baseline, resume, device)
    if not resume:
        hold()
    for told in filter(None, (describe_whole_targets(recipe, data.train), _describe_unknown(sides, data.dev))):
        observer.note(told)
    if unknown := unknown_labels(sides.target, (e.target for e in data.dev)):
        observer.note(unknown.sentence(" of dev"))
    if message := sides.source.note(e.source for e in chain(data.train, data.dev)):
        observer.note(message)
    if message := _describe_too_long(bundle, loader):
        observer.note(message)
    if recipe.samples is not None:
        observer = SampleWriter(observer, bundle, folder / "samples.txt", recipe.samples)
    model = bundle.model.to(device)
    metric = recipe.choose_by or bundle.task.metric
    try:
        processes = _count_processes(bundle, loader, out, observer.note, resume, device)
        with gradient_workers(model, out, processes, recipe.seed) as compute_gradients:
            trainer = Trainer(
                model,
                loader,
                evaluate=lambda _: _dev_metrics(bundle, data.dev),  # the trainer swaps weights inside the one model
                metric=metric,
                higher_is_better=higher_is_better(metric),
                options=recipe.train,
                folder=folder,
                observer=observer,
                save_best=lambda m, scores: save_weights(out, m, scores),
                seed=recipe.seed,
                device=device,
                unit=UNITS.get(bundle.task.target, "tokens"),
                compute_gradients=compute_gradients,
                dev_loss=dev_loss(bundle, data.dev, device),
            )
            result = trainer.fit(resume)
    except WindlassError as error:
        if isinstance(error, DivergedError):
            atomic_write(out / DIVERGED, str(error).encode())
        if before is not None:  # the new settings failed: keep the old ones for the next resume
            save_definition(out, before, sides)
        raise
    if result.best is None:
        return Outcome(bundle, result, None, baseline, {})
    if result.reason == "minutes":
        observer.note("evaluating the best weights and the baseline on dev")
    if draw and (rows := read_rows(out)):
        curves(rows, folder / "curves.png", metric)
    bundle = replace(bundle, model=model.eval(), scores=result.best)  # `fit` leaves the best weights in the model
    if (chosen := choose_cutoff(bundle, data.dev, metric, observer.note)) is not bundle:
        bundle = chosen
        save_weights(out, bundle.model, bundle.scores)
    if isinstance(baseline, LanguageBaselines):
        bundle = interpolate(bundle, baseline.ngram, [e.target for e in data.dev], observer.note)
        save_interpolation(out, bundle.interpolation)
        save_weights(out, bundle.model, bundle.scores)
    dev = evaluate([bundle], data.dev)
    if isinstance(baseline, LanguageBaselines):
        beside = language_metrics(baseline, bundle, [e.target for e in data.dev])[baseline.name]
    else:
        beside = baseline_metrics(baseline, recipe.task, data.dev)
    content = {"dev": dev.metrics, "baseline": beside, "baseline_name": baseline.name, "epochs": result.epochs}
    content |= {"steps": result.steps, "best_step": result.best_step, "seconds": round(result.seconds, 1)}
    content |= {"reason": result.reason}
    atomic_write(out / OUTCOME, json.dumps(content, indent=1).encode())
    return Outcome(bundle, result, dev, baseline, beside)


def _suited(recipe: Recipe, texts: int, note: Note) -> Recipe:
    """The recipe, without a support vector machine if there are too few texts for it."""
    svm = getattr(recipe.model.head, "svm", None)
    if svm is None or texts >= svm.least:
        return recipe
    note(f"without a support vector machine: it takes {svm.least:,} texts, there are {texts:,} (model.head.svm.least)")
    return without_svm(recipe)


def _prepared(bundle: Bundle, data: Data, observer: Observer) -> tuple[Bundle, Data]:
    """Compute what the source needs before training; examples whose source cannot be read are left out.

    Labels of both parts are spelt in one way.
    """
    source, failed = bundle.sides.source.prepare(
        (e.source for e in chain(data.train, data.dev)), observer.note, observer.track
    )
    bundle = replace(bundle, sides=replace(bundle.sides, source=source))
    data = replace(data, train=bundle.sides.respell(data.train), dev=bundle.sides.respell(data.dev))
    if not failed:
        return bundle, data
    train = without(data.train, failed, observer.note)
    dev = without(data.dev, failed, lambda text: None)
    if not train or not dev:
        raise DataError(f"no {'dev' if train else 'training'} data left: {next(iter(failed.values()))}")
    return bundle, replace(data, train=train, dev=dev)


def _count_processes(bundle: Bundle, loader: Loader | Running, out: Path, note: Note, resume: bool, device: str) -> int:
    """Estimate the run and choose its number of processes; a resumed run keeps its own."""
    options, path = bundle.recipe.train, out / "training" / "processes.json"
    if options.precision == "bfloat16" and not pays(device):
        raise RecipeError("train.precision: bfloat16: this machine has no instructions for it; set float32")
    if resume and options.processes == "auto" and path.is_file():
        return int(recorded(path, "processes", int, "delete it, and their number is chosen anew"))
    expected = estimate(bundle.model, loader, options, device)
    if not resume:
        note(expected.render())
    count = choose_processes(bundle, loader, out, device, expected.total, note)
    atomic_write(path, json.dumps({"processes": count}).encode())
    return count


def _dev_metrics(bundle: Bundle, dev: Sequence[Example]) -> dict[str, float]:
    """The dev metrics during training, with the alignment error rate if there are gold links and attention."""
    metrics = evaluate([bundle], dev).metrics
    decoder = bundle.recipe.model.decoder
    if decoder is not None and decoder.aligns and any(e.alignment for e in dev):
        metrics = metrics | {"aer": alignment_metrics(bundle, dev)[0]["aer"]}
    return metrics
