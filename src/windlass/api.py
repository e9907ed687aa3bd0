"""The Python interface: fit, load, and what a trained model does."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Any

from windlass.baseline import AnyBaseline, load_baseline, save_baseline
from windlass.baseline.language import LanguageBaselines
from windlass.baseline.verdict import judge
from windlass.bundle import Bundle
from windlass.commands.search_flags import search_options
from windlass.core.errors import BundleError, DataError, RecipeError, TrainingError, short
from windlass.core.records import Prediction
from windlass.data.column_groups import as_choice
from windlass.data.examples import Example, Value
from windlass.data.frames import Columns, Frame, as_frame, as_inputs, as_table
from windlass.data.readers import in_its_encoding
from windlass.data.sides import CellError
from windlass.decoding.options import Beam, Sample, SearchOptions
from windlass.experiment.adapt import adapt
from windlass.experiment.arguments import Column, Rows, as_path, by_names_of, check_in_memory
from windlass.experiment.data import (
    Data,
    as_data,
    as_examples,
    as_pairs,
    choose_columns,
    describe_columns,
    describe_skipped,
    describe_split,
    in_python,
    prepare_sources,
    read_data,
    read_for_model,
    read_to_finetune,
    sides_of,
    with_columns,
)
from windlass.experiment.notes import PythonNotes
from windlass.experiment.recognise import compose_for, recognise_frame, recompose_for
from windlass.experiment.run import apply_suggestions, run
from windlass.explain.attention import draw, explain, shown
from windlass.explain.beam import BeamTree, beam_tree, draw_beam
from windlass.explain.coloured import draw_rows
from windlass.explain.gates import Trace, gate_rows, traces
from windlass.explain.saliency import Method, Saliency, attends, draw_saliency, saliency
from windlass.explain.subjects import treebank
from windlass.explain.units import Found, excerpt
from windlass.explain.units import units as find_units
from windlass.explain.what_if import Matrix, draw_what_if, what_if
from windlass.inference.card import Fact, as_html, as_text, facts
from windlass.inference.evaluate import Evaluation, evaluate
from windlass.inference.generate import check_generates, generate
from windlass.inference.importance import AttentionReport, attention_report
from windlass.inference.info import read_baseline_metrics, save_baseline_metrics
from windlass.inference.predict import predict, score
from windlass.recipe import Recipe, compose, override
from windlass.training.observe import Observer, Silent
from windlass.training.progress import RichProgress


@dataclass(frozen=True, repr=False)
class Trained:
    """A trained model. Where a method reads a table, it reads the columns that the model was trained on, or others if
    they are named.

    >>> model = fit([("ab", "ba"), ("ba", "ab")] * 4 + [("aa", "aa")], settings={"train.epochs": 1}, quiet=True)
    >>> len(model.predict(["ab", "", "ba"]))
    3
    """

    bundle: Bundle
    dev: Evaluation | None = None
    baseline: AnyBaseline | LanguageBaselines | None = None
    baseline_metrics: dict[str, float] = field(default_factory=dict)  # on dev, after training
    folder: Path | None = None  # where it was loaded from, or trained

    def __repr__(self) -> str:
        return as_text(self._facts())

    def _repr_html_(self) -> str:
        return as_html(self._facts())

    def _facts(self) -> list[Fact]:
        name = None if self.baseline is None else self.baseline.name
        return facts(self.bundle, self.dev, name, self.baseline_metrics, self.folder)

    def predict(
        self,
        texts: str | Rows,
        search: SearchOptions | None = None,
        nbest: int = 1,
        source: Column = None,
        second: Column = None,
    ) -> list[Prediction]:
        """Return a prediction for every input, in order; a blank one for a blank input.

        For pictures, clips and sounds, inputs are names of files; pictures may also be Pillow images, arrays or bytes.
        If some of them cannot be read, a warning says so, and their predictions are blank and hold the `error`.
        """
        inputs = [texts] if isinstance(texts, str) else self.bundle.sides.source.inputs(texts)
        if inputs is None and isinstance(texts, int | float | None):
            raise DataError(f"texts is {type(texts).__name__}: give a text, a list of texts, or a data frame")
        table = as_table(texts, "texts") if inputs is None else inputs
        if not (isinstance(table, Frame) and (table.names or table.integers)) and not (source is second is None):
            raise DataError("texts have no columns to choose from: leave source and second out, or give a data frame")
        frame = table if isinstance(table, Frame) else None
        recipe = with_columns(self.bundle.recipe, _choices(frame, "texts", source=source, second=second))
        values = []
        for n, item in enumerate(inputs or as_inputs(table, _source_columns(recipe), "texts"), 1):
            try:
                values.append(self.bundle.sides.read(item))
            except CellError as error:
                raise DataError(f"texts row {n}: {error}{self._one_pair(texts)}") from None
        predictions = predict([self.bundle], values, search, nbest)
        if bad := [p.error for p in predictions if p.error]:
            if len(bad) == len(predictions):
                raise DataError(bad[0])
            warnings.warn(f"{len(bad)} of {len(predictions)} inputs cannot be read; first is {bad[0]}", stacklevel=2)
        return predictions

    def _one_pair(self, texts: Rows) -> str:
        """How to give a single pair, if that is what the texts may be."""
        single = isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts)
        if not single or not len(texts) == self.bundle.sides.source.texts == 2:
            return ""
        return f"; one pair is a list of one: predict([({', '.join(map(short, texts))})])"

    def score(
        self, pairs: Rows, source: Column = None, target: Column = None, second: Column = None
    ) -> list[Prediction]:
        """Score given targets by their log probability; a language model scores texts."""
        frame = as_frame(pairs, "pairs")
        columns = _choices(frame, "pairs", source=source, target=target, second=second)
        recipe = with_columns(self.bundle.recipe, columns, frame)
        return score(self.bundle, as_pairs(frame, "pairs", recipe))

    def generate(
        self,
        prompt: str = "",
        length: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        stop: Sequence[str] = (),
    ) -> str:
        """Continue a prompt; options that are not set are those of the recipe's search."""
        return "".join(self.stream(prompt, length, temperature, top_k, top_p, seed, stop))

    def stream(
        self,
        prompt: str = "",
        length: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        stop: Sequence[str] = (),
    ) -> Iterator[str]:
        """Like `generate`, token by token."""
        check_generates(self.bundle)
        given: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
        try:
            options = search_options(self.bundle.recipe.search or Sample(), length_plus=length, **given)
        except RecipeError as error:
            raise RecipeError(in_python(str(error))) from None
        return generate([self.bundle], prompt, options, stop)

    def evaluate(
        self,
        data: str | Path | Rows,
        search: SearchOptions | None = None,
        source: Column = None,
        target: Column = None,
        second: Column = None,
        dynamic: float | None = None,
    ) -> Evaluation:
        """Evaluate on a file or on data in memory. Rows that cannot be used are skipped, with a warning.

        References with labels that the model does not know are another warning, and `unknown` of the result.

        A language model of running text may go on learning from what it has scored: `dynamic` is the rate.
        """
        bundles, examples = self._examples(data, source, target, second)
        result = evaluate(bundles, examples, search, dynamic=dynamic)
        if result.unknown is not None:
            warnings.warn(result.unknown.sentence(), stacklevel=2)
        return result

    def attention_report(
        self,
        data: str | Path | Rows,
        most: int = 100,
        source: Column = None,
        target: Column = None,
        second: Column = None,
    ) -> AttentionReport:
        """Compare attention with leave-one-out importance on at most `most` examples, under forced decoding."""
        bundles, examples = self._examples(data, source, target, second)
        return attention_report(bundles[0], examples, most)

    def _examples(
        self, data: str | Path | Rows, source: Column, target: Column, second: Column
    ) -> tuple[list[Bundle], Sequence[Example]]:
        frame = None if isinstance(data, str | Path) else as_frame(data, "data")
        columns = _choices(frame, "data", source=source, target=target, second=second)
        if isinstance(data, str | Path):
            recipe = with_columns(self.bundle.recipe, columns)
            anew = recipe.data.model_copy(update={"encoding": None})
            options = in_its_encoding(data, anew, recipe.data.encoding, lambda text: None)
            result = read_for_model(recipe, data, options)
        else:
            result = as_examples(frame, "data", with_columns(self.bundle.recipe, columns, frame))
        if skipped := describe_skipped(result.findings):
            warnings.warn(skipped, stacklevel=3)
        return prepare_sources([self.bundle], result.examples, lambda text: None, warnings.warn)

    def explain(self, text: Value, path: str | Path | None = None, target: str | None = None) -> Prediction:
        """Predict with attention, or explain `target`; with a path, draw it as .png, .svg, .html or .json.

        What a model without attention rests on is drawn by integrated gradients.
        """
        prediction = explain(self.bundle, text, target)
        if path is not None and not attends(prediction) and Path(path).suffix.lower() != ".json":
            self.saliency(text, path, target)
        elif path is not None:
            draw([prediction], Path(path), over=[shown(self.bundle, text)])
        return prediction

    def saliency(
        self, text: Value, path: str | Path | None = None, target: str | None = None, method: Method = "integrated"
    ) -> Saliency:
        """Attribute an output to the places of the input by gradients; with a path, draw it."""
        found = saliency(self.bundle, text, target, method)
        if path is not None:
            draw_saliency(found, Path(path), shown(self.bundle, text))
        return found

    def beam(
        self, text: Value, path: str | Path | None = None, search: Beam | None = None, prefix: str = ""
    ) -> BeamTree:
        """Return the tree of a beam search; with a path, draw it."""
        tree = beam_tree(self.bundle, text, search, prefix)
        if path is not None:
            draw_beam(tree, Path(path))
        return tree

    def what_if(
        self,
        text: Value,
        path: str | Path | None = None,
        instead: Value | None = None,
        prefix: str = "",
        attention: Matrix | None = None,
    ) -> tuple[Prediction, Prediction]:
        """Predict as it is, and with another input, a given beginning of the output, or given attention (rows over the
        places of the input); with a path, draw both side by side."""
        found = what_if(self.bundle, text, instead, prefix, attention)
        if path is not None:
            inputs = [text, text if instead is None else instead]
            draw_what_if(self.bundle, inputs, found, Path(path), ("as it is", "what if"))
        return found

    def gates(
        self,
        text: Value,
        path: str | Path | None = None,
        target: str | None = None,
        units: Sequence[int] = (),
        layer: str | None = None,
    ) -> list[Trace]:
        """Return states and gates of every recurrent layer over an input; with a path, draw some units."""
        found = traces(self.bundle, text, target)
        if path is not None:
            draw_rows(gate_rows(found, units, layer), Path(path), shorten(str(text), 90))
        return found

    def units(self, texts: Sequence[Value] | Path, path: str | Path | None = None, best: int = 1) -> list[Found]:
        """Find recurrent units that follow events of texts; with a path, draw those that do over some text.

        Texts as the path of a CoNLL-U file: the number of the subject is another event.
        """
        told, subjects = treebank(self.bundle, texts) if isinstance(texts, Path) else (texts, None)
        found, traced = find_units(self.bundle, told, best, subjects)
        if path is not None:
            draw_rows(excerpt([one for one in found if one.nameable] or found[:1], traced), Path(path))
        return found

    def save(self, folder: str | Path) -> None:
        """Save the model to a new folder."""
        path = Path(folder)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise BundleError(f"{folder}: exists and is not empty: choose another folder; nothing was changed")
        self.bundle.save(path)
        if isinstance(self.baseline, LanguageBaselines):
            self.baseline.save(path)
        elif self.baseline is not None:
            save_baseline(path, self.baseline)
        if self.baseline is not None and self.baseline_metrics:
            save_baseline_metrics(path, self.baseline.name, self.baseline_metrics)


def fit(
    train: str | Path | Rows,
    dev: str | Path | Rows | None = None,
    task: str | None = None,
    out: str | Path | None = None,
    recipe: str | Path | None = None,
    settings: dict[str, Any] | None = None,
    resume: bool = False,
    base: Trained | str | Path | None = None,
    quiet: bool = False,
    device: str = "auto",
    source: Column = None,
    target: Column = None,
    second: Column = None,
) -> Trained:
    """Train a model on a file or on data in memory: a data frame, pairs, columns; a language model on texts.

    `source`, `target` and, for pairs of texts, `second` choose the columns of a table. `settings` overrides options of
    the recipe by key: `{"train.epochs": 5}`. Without a task or a recipe, the task is recognised, and tokens and sizes
    are picked from the data; what is picked is noted. Without `out` nothing is written: save the model yourself. `base`
    is a model to finetune, or its folder; its recipe is used.

    >>> words = {"word": ["ab", "ba", "aa"] * 4, "spelling": ["ba", "ab", "aa"] * 4}
    >>> model = fit(words, source="word", target="spelling", settings={"train.epochs": 1}, quiet=True)
    >>> model.bundle.task.name
    'text'
    """
    observer: Observer = Silent() if quiet else PythonNotes(RichProgress())
    if base is not None and (task is not None or recipe is not None):
        raise RecipeError("base= uses the recipe of the model: use settings= instead of task= or recipe=")
    if base is not None and not isinstance(base, Trained):
        base = load(as_path(base, "base", "a model or its folder"), device)
    path = None if recipe is None else as_path(recipe, "recipe", "the name of a YAML file, and options as settings=")
    own = [override(name, value) for name, value in (settings or {}).items()]
    files: dict[str, Any] = {}
    if isinstance(train, str | Path):
        files = {"data": {"train": [str(train)], "dev": None if dev is None else str(dev)}}
    frame = None if isinstance(train, str | Path) else as_frame(train, "train")
    columns = _choices(frame, "train", source=source, target=target, second=second)
    named = {part: column for part, column in columns.items() if column is not None}
    if dev is not None and isinstance(train, str | Path) != isinstance(dev, str | Path):
        raise TypeError("give train and dev both as files, or neither")
    automatic = task is None and recipe is None and base is None
    if automatic and frame is not None and _two_lists(frame, dev):
        raise DataError(
            "the second argument of fit is validation data: for texts and their labels give zip(texts, labels); for a "
            'language model and validation texts add task="lm"'
        )
    if frame is not None:
        check_in_memory(own)
        own = by_names_of(frame, own)
    if base is not None:
        composed = recompose_for(base.bundle.recipe, [files, {"data": named}, *own], observer.note, frame)
    elif frame is None:
        over = [files, {"data": named}, *own]
        try:
            composed = compose_for(task, path, over, observer.note)
        except DataError as error:
            raise DataError(in_python(str(error))) from None
    else:
        task = recognise_frame(frame, named, own, observer.note) if automatic else task
        composed = compose(task, path, own)
    data: Data
    if frame is None:
        composed = with_columns(composed, columns)
        data = read_data(composed) if base is None else read_to_finetune(composed)
    else:
        composed = choose_columns(with_columns(composed, columns, frame), frame)
        data = as_data(frame, dev, composed)
        if told := describe_columns(composed, frame):
            observer.note(told)
    if skipped := describe_skipped(data.report.findings):
        observer.note(skipped)
    if dev is None and (large := describe_split(data, composed)):
        observer.note(large)
    for finding in data.report.findings:
        if finding.kind in ("one label", "several forms"):
            observer.note(finding.what)
    if automatic and composed.task == "text":
        composed = apply_suggestions(composed, data, own, observer.note)
    elif recipe is None and base is None:
        composed = adapt(composed, data.train, own, observer.note)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(out) if out is not None else Path(scratch) / "model"
        try:
            outcome = run(
                composed, data, folder, observer, resume, base.bundle if base else None, device, out is not None
            )
        except TrainingError as error:
            raise TrainingError(in_python(str(error))) from None
    if outcome.dev is not None:
        verdict = judge(outcome.bundle, outcome.dev, outcome.baseline_metrics, outcome.baseline.name, own=True)
        if verdict is not None and (sentence := verdict.sentence()):
            observer.note(sentence)
    saved = folder if out is not None else None
    return Trained(outcome.bundle, outcome.dev, outcome.baseline, outcome.baseline_metrics, saved)


def _two_lists(train: Frame, dev: Rows | None) -> bool:
    """Whether a list of texts comes with as many of something: perhaps their labels, and perhaps texts."""
    alone = train.names is None and all(len(row) == 1 for row in train.rows)
    return alone and isinstance(dev, Sized) and len(dev) == len(train.rows) > 1


def _choices(frame: Frame | None, name: str, **columns: Column) -> dict[str, int | str | None]:
    """The columns that a user chooses, by part."""
    chosen = {part: as_choice(column) for part, column in columns.items()}
    return chosen if frame is None else {part: frame.choice(column, name) for part, column in chosen.items()}


def _source_columns(recipe: Recipe) -> Columns:
    second = {"second": recipe.data.second} if sides_of(recipe).source_side.texts > 1 else {}
    return {"source": recipe.data.source, **second}


def load(folder: str | Path, device: str = "auto") -> Trained:
    """Load a model from its folder.

    >>> load("no-such-folder")
    Traceback (most recent call last):
    windlass.core.errors.BundleError: no-such-folder: no such folder
    """
    path = as_path(folder, "folder", "the folder of a model")
    baseline = load_baseline(path) or LanguageBaselines.load(path)
    return Trained(Bundle.load(path, device), None, baseline, read_baseline_metrics(path) or {}, path)
