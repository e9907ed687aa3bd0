"""The Python interface: fit, load, and what a trained model does."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass.baseline import AnyBaseline, load_baseline, save_baseline
from windlass.baseline.language import LanguageBaselines
from windlass.bundle import Bundle
from windlass.commands.search_flags import search_options
from windlass.core.errors import BundleError
from windlass.core.records import Prediction
from windlass.data.examples import Example, Pairs, Value
from windlass.decoding.options import Sample, SearchOptions
from windlass.experiment.data import Data, as_data, read_data, read_examples
from windlass.experiment.run import apply_suggestions, run
from windlass.explain.attention import draw, explain
from windlass.inference.evaluate import Evaluation, evaluate
from windlass.inference.generate import generate
from windlass.inference.predict import predict, score
from windlass.recipe import compose, override
from windlass.training.observe import Observer, Silent
from windlass.training.progress import RichProgress

Texts = Sequence[str]


@dataclass(frozen=True)
class Trained:
    """A trained model.

    >>> model = fit([("ab", "ba"), ("ba", "ab")] * 4 + [("aa", "aa")], settings={"train.epochs": 1}, quiet=True)
    >>> len(model.predict(["ab", "", "ba"]))
    3
    """

    bundle: Bundle
    dev: Evaluation | None = None
    baseline: AnyBaseline | LanguageBaselines | None = None

    def predict(
        self, texts: str | Sequence[Value], search: SearchOptions | None = None, nbest: int = 1
    ) -> list[Prediction]:
        """Return a prediction for every text, in order."""
        return predict([self.bundle], [texts] if isinstance(texts, str) else texts, search, nbest)

    def score(self, pairs: Pairs | Texts) -> list[Prediction]:
        """Score given targets by their log probability; a language model scores texts."""
        return score(self.bundle, [("", one) if isinstance(one, str) else one for one in pairs])

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
        options = search_options(
            self.bundle.recipe.search or Sample(),
            length_plus=length,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
        )
        return generate([self.bundle], prompt, options, stop)

    def evaluate(self, data: str | Path | Pairs | Texts, search: SearchOptions | None = None) -> Evaluation:
        """Evaluate on a file or on pairs; a language model on texts."""
        examples: Sequence[Example]
        if isinstance(data, str | Path):
            examples = read_examples(self.bundle.recipe, data).examples
        else:
            examples = as_data(data, [], self.bundle.recipe).train
        return evaluate([self.bundle], examples, search)

    def explain(self, text: Value, path: str | Path | None = None, target: str | None = None) -> Prediction:
        """Predict with attention, or explain `target`; with a path, draw it as .png, .html or .json."""
        prediction = explain(self.bundle, text, target)
        if path is not None:
            draw([prediction], Path(path))
        return prediction

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


def fit(
    train: str | Path | Pairs | Texts,
    dev: str | Path | Pairs | Texts | None = None,
    task: str | None = None,
    out: str | Path | None = None,
    recipe: str | Path | None = None,
    settings: dict[str, Any] | None = None,
    resume: bool = False,
    base: Trained | None = None,
    quiet: bool = False,
    device: str = "cpu",
) -> Trained:
    """Train a model on pairs, from memory or files; a language model on texts.

    `settings` overrides options of the recipe by key: `{"train.epochs": 5}`. Without a task or a recipe, tokens and
    sizes are picked from the data. Without `out` nothing is written: save the model yourself. `base` is a model to
    finetune.

    >>> model = fit([("ab", "ba"), ("ba", "ab")] * 4 + [("aa", "aa")], settings={"train.epochs": 1}, quiet=True)
    >>> model.bundle.task.name
    'text'
    """
    observer: Observer = Silent() if quiet else RichProgress()
    own = [override(name, value) for name, value in (settings or {}).items()]
    files: dict[str, Any] = {}
    if isinstance(train, str | Path):
        files = {"data": {"train": [str(train)], "dev": None if dev is None else str(dev)}}
    if base is not None:
        chosen = base.bundle.recipe.model_dump(mode="json") | {"data": {}}  # but not its files
        composed = compose(base.bundle.recipe.task, None, [chosen, files, *own])
    else:
        composed = compose(task, Path(recipe) if recipe else None, [files, *own])
    data: Data
    if isinstance(train, str | Path):
        if not (dev is None or isinstance(dev, str | Path)):
            raise TypeError("train is a file: give dev as a file too")
        data = read_data(composed)
    else:
        if isinstance(dev, str | Path):
            raise TypeError("train is given as pairs: give dev as pairs too")
        data = as_data(train, dev, composed)
    if task is None and recipe is None and base is None:
        composed = apply_suggestions(composed, data, own, observer.note)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(out) if out is not None else Path(scratch) / "model"
        outcome = run(composed, data, folder, observer, resume, base.bundle if base else None, device)
    return Trained(outcome.bundle, outcome.dev, outcome.baseline)


def load(folder: str | Path, device: str = "cpu") -> Trained:
    """Load a model from its folder.

    >>> load("no-such-folder")
    Traceback (most recent call last):
    windlass.core.errors.BundleError: no-such-folder: no such folder
    """
    return Trained(
        Bundle.load(Path(folder), device), baseline=load_baseline(Path(folder)) or LanguageBaselines.load(Path(folder))
    )
