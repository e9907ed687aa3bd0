"""Run an experiment: fit the sides, build, train, and evaluate beside a baseline."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from torch import nn

from windlass.baseline import AnyBaseline, best_baseline, save_baseline
from windlass.baseline.language import LanguageBaselines, language_baselines, language_metrics
from windlass.bundle import Bundle, check_device, load_definition, save_definition, save_weights
from windlass.core.errors import DataError, RecipeError, TrainingError, WindlassError
from windlass.core.serialise import read_json
from windlass.core.tensors import atomic_write
from windlass.core.wording import counted
from windlass.data.augment import Augmentation, BpeDropout, CharacterNoise, Recut, UnigramSampling
from windlass.data.examples import Example, group
from windlass.data.loader import Loader
from windlass.data.running import Running, joined_ids
from windlass.data.sides import TARGETS, Sides
from windlass.data.store import View, some
from windlass.data.tokenizer import Tokenizer
from windlass.data.unknown import unknown_labels
from windlass.experiment.auto import scale_training, suggest_settings
from windlass.experiment.cutoff import choose_cutoff
from windlass.experiment.data import PAIRS, Data, fingerprint, pairs_digest, sides_of, without
from windlass.experiment.frames import frames_as_before, with_frames
from windlass.experiment.recognise import without_svm
from windlass.experiment.whole_targets import describe_whole_targets
from windlass.explain.curves import curves, read_rows
from windlass.inference.evaluate import Evaluation, alignment_metrics, evaluate
from windlass.inference.info import OUTCOME
from windlass.metrics import higher_is_better
from windlass.nn.embedding import Embedding, Vectors, words_of
from windlass.nn.fast.precision import pays
from windlass.recipe import Recipe, merge, parse
from windlass.tasks import TASKS, Task
from windlass.training.checkpoint import flatten
from windlass.training.data_parallel import gradient_workers
from windlass.training.environment import environment
from windlass.training.estimate import choose_processes, estimate
from windlass.training.finetune import Note, check_same_model, extend_bundle
from windlass.training.loop import Trainer
from windlass.training.observe import FitResult, Observer
from windlass.training.samples import SampleWriter
from windlass.training.track import TensorBoard

DEV_TOKENS = 2000
"""Batch size in tokens, at least, with which the dev loss is computed."""
SAMPLE_SIZE = 200_000
"""Examples of a corpus on disk that baselines are fitted on and settings are suggested from."""


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
    for over, reason in suggest_settings(_sample(data.train), len(data.train)):
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


def fit_sides(recipe: Recipe, train: Sequence[Example]) -> Sides:
    """Fit both sides to the training data.

    >>> from windlass.experiment.data import as_data
    >>> sides = fit_sides(Recipe(), as_data([("a", "b"), ("c", "d")], None, Recipe()).train)
    >>> sides.source.sizes
    {'source': 5}
    """
    sides = Sides.fit(sides_of(recipe), train, recipe.vocabulary == "joint")
    embedding = recipe.model.encoder.source_embedding
    if isinstance(embedding, Vectors) and embedding.more:
        source = sides.source.with_words(words_of(embedding.path, embedding.size), embedding.more)
        sides = replace(sides, source=source)
    return sides


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


def load_vectors(bundle: Bundle, note: Note) -> None:
    """Load the pretrained vectors that the recipe names, and note how many words they cover.

    >>> load_vectors(Bundle.new(Recipe(), Sides.tiny()), print)
    """
    options = bundle.recipe.model
    tables: list[tuple[str, Any, nn.Module | None, Tokenizer | None]] = [
        ("source", options.encoder.source_embedding, table, bundle.sides.source.vocabulary)
        for table in bundle.model.encoder.embeddings()
    ]
    if options.decoder is not None:
        own = getattr(bundle.model.head, "embedding", None)
        tables.append(("target", options.decoder.embedding, own, bundle.sides.tokenizer))
    for side, embedding, module, vocabulary in tables:
        if isinstance(embedding, Vectors) and isinstance(module, Embedding) and vocabulary is not None:
            words = [vocabulary.token(i) for i in range(len(vocabulary))]
            covered = module.load(embedding.path, words)
            count = len(vocabulary.symbols)
            share = 100 * covered / max(1, count)
            note(f"{side}: {embedding.path} has vectors for {covered} of {count} words ({share:.1f} %)")
            if not covered:
                raise DataError(f"{embedding.path}: has none of the {side}'s words: is it the right file?")


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
    folder = out / "training"
    check_folder(out, resume)
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
    bundle, loader = _scaled(bundle, data.train, observer.note)
    bundle.model.head.prepare(loader.epoch(0), anew=base is None)
    recipe, sides = bundle.recipe, bundle.sides
    baseline: AnyBaseline | LanguageBaselines
    if bundle.task.language_model:
        train_texts, dev_texts = [e.target for e in data.train], [e.target for e in data.dev]
        saved = LanguageBaselines.load(out) if resume else None
        baseline = saved or language_baselines(bundle, train_texts, dev_texts, observer.note)
    else:
        if isinstance(data.train, View) and len(data.train) > SAMPLE_SIZE:
            observer.note(f"the corpus is kept on disk: its baseline is fitted on a sample of {SAMPLE_SIZE:,} examples")
        baseline = choose_baseline(recipe, data, observer.note, sides)
    _open_folder(out, bundle, data, baseline, resume, device)
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
                dev_loss=_dev_loss(bundle, data.dev, device),
            )
            result = trainer.fit(resume)
    except WindlassError:
        if before is not None:  # the new settings failed: keep the old ones for the next resume
            save_definition(out, before, sides)
        raise
    if result.best is None:
        return Outcome(bundle, result, None, baseline, {})
    if draw and (rows := read_rows(out)):
        curves(rows, folder / "curves.png", metric)
    bundle = replace(bundle, model=model.eval(), scores=result.best)  # `fit` leaves the best weights in the model
    if (chosen := choose_cutoff(bundle, data.dev, metric, observer.note)) is not bundle:
        bundle = chosen
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


def training_loader(bundle: Bundle, train: Sequence[Example]) -> Loader | Running:
    """Return the loader of the training data: examples bucketed by length, or running text in order.

    >>> from windlass.experiment.data import as_data
    >>> bundle = Bundle.new(Recipe(), Sides.tiny())
    >>> training_loader(bundle, as_data([("a", "b")], [], Recipe()).train).batches(0)
    1
    """
    return _loaders(bundle, train)[0](bundle.recipe.train.batch_tokens)


def _loaders(bundle: Bundle, train: Sequence[Example]) -> tuple[Callable[[int], Loader | Running], int]:
    """The loaders of the training data by batch size in tokens, and the number of examples or chunks."""
    seed, sides, chunk = bundle.recipe.seed, bundle.sides, bundle.recipe.train.chunk
    if chunk is None:
        disk = bundle.recipe.data.store == "disk" or isinstance(train, View)
        encoded = sides.store((sides.encode_example(e) for e in train if sides.target.can_learn(e.target)), disk)
        augment = _augmentation(bundle)
        return cache(lambda tokens: sides.loader(encoded, tokens, seed, True, augment)), len(encoded)
    ids = joined_ids([sides.target.encode(e.target) for e in train])
    return cache(lambda tokens: Running(ids, max(1, tokens // chunk), chunk, seed, shuffle=True)), len(ids) // chunk


def _augmentation(bundle: Bundle) -> Augmentation | None:
    """What training does to the tokens of its examples, anew in every epoch."""
    options, sides = bundle.recipe.train, bundle.sides
    source: list[Recut | CharacterNoise] = []
    target: list[Recut] = []
    read, written = sides.source.vocabulary, sides.tokenizer if sides.target.written else None
    if options.character_noise and read is not None:
        source.append(CharacterNoise(read, options.character_noise))
    for vocabulary, changes in ((read, source), (written, target)):
        kind = None if vocabulary is None else vocabulary.options.tokens.kind
        if vocabulary is not None and options.bpe_dropout and kind == "bpe":
            changes.append(BpeDropout(vocabulary, options.bpe_dropout))
        if vocabulary is not None and options.unigram_sampling and kind == "unigram":
            changes.append(UnigramSampling(vocabulary, options.unigram_sampling))
    return Augmentation(bundle.recipe.seed, source, target) if source or target else None


def _scaled(bundle: Bundle, train: Sequence[Example], note: Note) -> tuple[Bundle, Loader | Running]:
    """The bundle with a training length that suits the data, and its loader."""
    recipe, (loader, count) = bundle.recipe, _loaders(bundle, train)
    options = recipe.train
    if options.chunk is None and (rare := len(train) - count):
        kept = f"the {len(bundle.sides.target)} most frequent labels are kept"
        note(f"left out {counted(rare, 'example')} of training: {kept} (target.most)")
    if options.auto and count:
        what = "examples" if options.chunk is None else f"chunks of {options.chunk} tokens"
        options, reason = scale_training(options, count, lambda tokens: loader(tokens).batches(0), what)
        bundle = replace(bundle, recipe=recipe.model_copy(update={"train": options}))
        if reason is not None:
            note(reason)
    return bundle, loader(options.batch_tokens)


def _count_processes(bundle: Bundle, loader: Loader | Running, out: Path, note: Note, resume: bool, device: str) -> int:
    """Estimate the run and choose its number of processes; a resumed run keeps its own."""
    options, path = bundle.recipe.train, out / "training" / "processes.json"
    if options.precision == "bfloat16" and not pays(device):
        raise RecipeError("train.precision: bfloat16: this machine has no instructions for it; set float32")
    if resume and options.processes == "auto" and path.is_file():
        return int(_recorded(path, "processes", int, "delete it, and their number is chosen anew"))
    expected = estimate(bundle.model, loader, options, device)
    if not resume:
        note(expected.render())
    count = choose_processes(bundle, loader, out, device, expected.total, note)
    atomic_write(path, json.dumps({"processes": count}).encode())
    return count


def _recorded(path: Path, key: str, kind: type, remedy: str) -> Any:
    """What a run noted in one of its files."""
    try:
        value = read_json(path.read_bytes())[key]
    except (OSError, ValueError, KeyError, TypeError):
        value = None
    if type(value) is not kind:
        raise TrainingError(f"{path}: missing or damaged: {remedy}")
    return value


def _dev_metrics(bundle: Bundle, dev: Sequence[Example]) -> dict[str, float]:
    """The dev metrics during training, with the alignment error rate if there are gold links and attention."""
    metrics = evaluate([bundle], dev).metrics
    decoder = bundle.recipe.model.decoder
    if decoder is not None and decoder.aligns and any(e.alignment for e in dev):
        metrics = metrics | {"aer": alignment_metrics(bundle, dev)[0]["aer"]}
    return metrics


def _dev_loss(bundle: Bundle, dev: Sequence[Example], device: str) -> Callable[[nn.Module], float] | None:
    """The loss on dev per token, under teacher forcing; a language model's metrics hold it already."""
    if bundle.task.language_model:
        return None
    sides = bundle.sides
    # A written target may hold unknown symbols; a label that was never seen has no probability.
    known = [e for e in dev if sides.target.written or not sides.target.unknown(e.target)]
    if not known:
        return None
    encoded = sides.store(map(sides.encode_example, known))
    loader = sides.loader(encoded, max(DEV_TOKENS, bundle.recipe.train.batch_tokens))

    def loss(model: nn.Module) -> float:
        total, count = 0.0, 0
        for batch in loader.epoch(0):
            scored = model(batch.to(device))
            total, count = total + float(scored.loss_sum), count + int(scored.count)
        return total / max(1, count)

    return loss


def check_folder(out: Path, resume: bool) -> None:
    """Refuse a folder that is not empty or, to resume, one without a run.

    >>> check_folder(Path(__file__), resume=False)
    Traceback (most recent call last):
    windlass.core.errors.TrainingError: ...: exists and is not empty: choose another --out; nothing was changed
    """
    begun = (out / "training" / "data.json").exists()
    if resume and not begun:
        raise TrainingError(f"{out}: no run to resume: drop --resume to start one")
    if not resume and out.exists() and (not out.is_dir() or any(out.iterdir())):
        ways = [f"resume it with --resume --out {out}"] if begun else []
        ways += ["delete it first with --overwrite"] if (out / "recipe.yaml").is_file() else []
        how = ", or ".join(filter(None, [", ".join(ways), "choose another --out"]))
        raise TrainingError(f"{out}: exists and is not empty: {how}; nothing was changed")


def _open_folder(
    out: Path, bundle: Bundle, data: Data, baseline: AnyBaseline | LanguageBaselines, resume: bool, device: str
) -> None:
    """Write the definition of a new run, or check that a resumed run still has the same data."""
    sha256 = fingerprint(data, bundle.recipe)
    about = out / "training" / "data.json"
    if resume:
        if _recorded(about, "sha256", str, "restore it, or train with another --out") != sha256:
            raise TrainingError(f"{out}: the data changed since the run began: restore it or start a new run")
        save_definition(out, bundle.recipe, bundle.sides)
        return
    (out / "training").mkdir(parents=True)
    save_definition(out, bundle.recipe, bundle.sides)
    if isinstance(baseline, LanguageBaselines):
        baseline.save(out)
    else:
        save_baseline(out, baseline)
    content: dict[str, Any] = {
        "sha256": sha256,
        "train": len(data.train),
        "dev": len(data.dev),
        "findings": data.report.counts,
    }
    if bundle.task.language_model:
        content |= {
            f"{name}_characters": _characters(part) for name, part in (("train", data.train), ("dev", data.dev))
        }
    else:
        parts = (data.train, chain(data.train, data.dev))
        content[PAIRS] = [pairs_digest(part, bundle.recipe) for part in parts]
    atomic_write(about, json.dumps(content, indent=1).encode())
    atomic_write(out / "training" / "environment.json", json.dumps(environment(device), indent=1).encode())


def _characters(texts: Sequence[Example]) -> int:
    return sum(len(e.target) for e in texts)


def choose_baseline(
    recipe: Recipe, data: Data, note: Note = lambda text: None, sides: Sides | None = None
) -> AnyBaseline:
    """Return the baseline that does best on dev.

    >>> from windlass.experiment.data import as_data
    >>> choose_baseline(Recipe(), as_data([("a", "a"), ("b", "b"), ("c", "c")], [("d", "d")], Recipe())).name
    'copy'
    """
    task = _task_for(recipe.task, data.dev)
    dev = group(data.dev) if task.multi_reference else data.dev
    learned = (e for e in _sample(data.train) if sides is None or sides.target.can_learn(e.target))
    pairs = [(e.source, e.target) for e in learned]
    sources, references = [e.source for e in dev], [e.targets for e in dev]
    lead, source = recipe.lead or task.lead, None if sides is None else sides.source
    return best_baseline(pairs, sources, references, task.output_metric, sides_of(recipe), lead, note, source)


def _sample(train: Sequence[Example]) -> Sequence[Example]:
    """A sample of a corpus on disk; a corpus in memory whole."""
    return some(train, SAMPLE_SIZE) if isinstance(train, View) else train


def _task_for(name: str, examples: Sequence[Example]) -> Task:
    """The task, with its span metrics if the examples' tags mark spans."""
    task = TASKS[name]
    return task.with_spans(TARGETS[task.target].mark_spans(e.target for e in examples))


def baseline_metrics(baseline: AnyBaseline, task: str, examples: Sequence[Example]) -> dict[str, float]:
    """Return the metrics of a baseline.

    >>> from windlass.baseline import Baseline
    >>> from windlass.experiment.data import as_data
    >>> baseline_metrics(Baseline("copy"), "pronounce", as_data([("a", "a"), ("b", "b")], None, Recipe()).dev)
    {'wer': 0.0, 'per': 0.0}
    """
    scored = _task_for(task, examples)
    questions = group(examples) if scored.multi_reference else list(examples)
    return scored.score(baseline.predict([e.source for e in questions]), [e.targets for e in questions])
