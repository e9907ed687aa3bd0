"""Estimators for scikit-learn: texts to labels, words to tags, texts to texts.

They can be cloned, searched over, cross-validated, put into pipelines and pickled. `pip install 'windlass[sklearn]'`
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import assert_all_finite, check_consistent_length, check_is_fitted, column_or_1d
except ImportError as error:
    raise ImportError("windlass.sklearn needs scikit-learn: pip install 'windlass[sklearn]'") from error

from windlass import api
from windlass.core.errors import DataError, RecipeError
from windlass.core.records import Prediction
from windlass.core.wording import counted
from windlass.data.frames import Frame, as_table
from windlass.tasks import TASKS

__all__ = ["WindlassClassifier", "WindlassTagger", "WindlassTransducer"]


class _Estimator(BaseEstimator):
    """What the estimators share: their parameters, and how they train."""

    _target: ClassVar[str]
    _task: ClassVar[str]

    def __init__(
        self,
        task: str | None = None,
        recipe: str | Path | None = None,
        settings: dict[str, Any] | None = None,
        epochs: int | None = None,
        validation_fraction: float | None = None,
        random_state: Any = None,
        device: str = "cpu",
        quiet: bool = True,
    ) -> None:
        self.task = task
        self.recipe = recipe
        self.settings = settings
        self.epochs = epochs
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.device = device
        self.quiet = quiet

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        return tags

    def _train(self, inputs: Sequence[Any], targets: Sequence[Any]) -> None:
        if self.task is not None and self.task in TASKS and TASKS[self.task].target != self._target:
            known = ", ".join(name for name, task in TASKS.items() if task.target == self._target)
            raise RecipeError(f"{type(self).__name__} cannot do task {self.task}: use one of {known}")
        chosen = {"train.epochs": self.epochs, "data.dev_fraction": self.validation_fraction}
        if self.random_state is not None:
            chosen["seed"] = _seed(self.random_state)
        settings = (self.settings or {}) | {key: value for key, value in chosen.items() if value is not None}
        if self.task is None and self.recipe is None:
            settings = {
                "task": self._target,
                **settings,
            }  # not what the data look like; sizes are still picked from them
        kept = [pair for pair in zip(inputs, targets, strict=True) if pair[0]]
        if len(kept) < len(inputs):
            warnings.warn(f"{len(inputs) - len(kept)} blank rows of X are not trained on", stacklevel=3)
        self.model_ = api.fit(
            kept, task=self.task, recipe=self.recipe, settings=settings, quiet=self.quiet, device=self.device
        )

    def _predict(self, X: Any) -> list[Prediction]:
        check_is_fitted(self)
        return self.model_.predict(_column(X, "X"))


@final
class WindlassClassifier(ClassifierMixin, _Estimator):
    """Texts to labels.

    `task` and `recipe` choose the model, `settings` overrides options of its recipe by key, and `epochs`,
    `validation_fraction` (the share of the data that the best weights are chosen on) and `random_state` (None: the
    recipe's seed) override three of them by name. `model_` is the trained model.

    >>> classifier = WindlassClassifier(settings={"model.encoder.size": 8}, epochs=1, random_state=1)
    >>> classifier.fit(["good film", "bad film", "good song", "bad song"] * 4, [1, 0, 1, 0] * 4).classes_
    array([0, 1])
    >>> classifier.predict_proba(["good film", "bad film", ""])[2]  # a blank text: the frequencies of the classes
    array([0.5, 0.5])
    """

    _target = "label"
    _task = "classify"

    def __init__(
        self,
        task: str | None = "classify",
        recipe: str | Path | None = None,
        settings: dict[str, Any] | None = None,
        epochs: int | None = None,
        validation_fraction: float | None = None,
        random_state: Any = None,
        device: str = "cpu",
        quiet: bool = True,
    ) -> None:
        super().__init__(task, recipe, settings, epochs, validation_fraction, random_state, device, quiet)

    def fit(self, X: Any, y: Any) -> Self:
        """Train on texts and their labels."""
        labels = _labels(y)
        texts = _column(X, "X")
        check_consistent_length(texts, labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        names = self._names()
        if len(names) < 2:
            raise ValueError(f"y has one class, {names[0]!r}: a classifier needs two classes or more")
        if not all(map(str.strip, names)):
            raise ValueError("y has a blank label: give it a name")
        self.class_prior_ = np.bincount(numbers) / len(numbers)
        self._train(texts, [names[n] for n in numbers])
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of every text; of a blank one, the most frequent label."""
        probabilities = self.predict_proba(X)
        labels: NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return labels

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of every label (n, classes), in the order of `classes_`; of a blank text, its frequency."""
        predictions = self._predict(X)
        names = self._names()
        rows = [[p.answer.by_label().get(name, 0.0) for name in names] for p in predictions]
        found = np.array(rows, dtype=np.float64).reshape(len(rows), len(names))
        found[~found.any(axis=1)] = self.class_prior_
        found /= found.sum(axis=1, keepdims=True)
        return found

    def _names(self) -> list[str]:
        """The classes as the model knows them."""
        return [str(label) for label in self.classes_.tolist()]


@final
class WindlassTagger(_Estimator):
    """Lists of words to lists of tags; the parameters are those of `WindlassClassifier`.

    >>> words, tags = [["a", "cat"], ["the", "dog"], ["no", "dog"]] * 5, [["DET", "NOUN"]] * 15
    >>> tagger = WindlassTagger(settings={"model.encoder.size": 8}, epochs=1).fit(words, tags)
    >>> [len(row) for row in tagger.predict([["the", "cat"], ["no"]])]
    [2, 1]
    """

    _target = "tags"
    _task = "tag"

    def __init__(
        self,
        task: str | None = "tag",
        recipe: str | Path | None = None,
        settings: dict[str, Any] | None = None,
        epochs: int | None = None,
        validation_fraction: float | None = None,
        random_state: Any = None,
        device: str = "cpu",
        quiet: bool = True,
    ) -> None:
        super().__init__(task, recipe, settings, epochs, validation_fraction, random_state, device, quiet)

    def fit(self, X: Any, y: Any) -> Self:
        """Train on sentences, as lists of words, and a list of tags for each."""
        sentences, tags = _parts(X, "X"), _parts(y, "y")
        check_consistent_length(sentences, tags)
        for n, (words, row) in enumerate(zip(sentences, tags, strict=True), 1):
            if len(words) != len(row):
                raise ValueError(
                    f"row {n}: {counted(len(words), 'word')} but {counted(len(row), 'tag')}: give every word a tag"
                )
        self.tags_ = {str(tag): tag for row in _column(y, "y") if not isinstance(row, str) for tag in row}
        self._train(sentences, tags)
        return self

    def predict(self, X: Any) -> list[list[Any]]:
        """The tags of every sentence, as `fit` got them: integers, or texts."""
        return [[self.tags_.get(tag, tag) for tag in row] for row in self._texts(X)]

    def _texts(self, X: Any) -> list[list[str]]:
        check_is_fitted(self)
        return [list(prediction.answer.tokens) for prediction in self._predict(_parts(X, "X"))]

    def score(self, X: Any, y: Any) -> float:
        """The share of tags that are right, from 0 to 1."""
        pairs = zip(self._texts(X), _parts(y, "y"), strict=True)
        right = [a == b for found, gold in pairs for a, b in zip(found, gold, strict=True)]
        return float(np.mean(right))


@final
class WindlassTransducer(_Estimator):
    """Texts to texts; the parameters are those of `WindlassClassifier`.

    Without a task or a recipe, tokens and sizes are picked from the data.

    >>> small = {"model.encoder.size": 8, "model.decoder.size": 8}
    >>> transducer = WindlassTransducer(settings=small, epochs=1).fit(["ab", "ba", "aa"] * 4, ["ba", "ab", "aa"] * 4)
    >>> transducer.predict(["ab", "ba"]).shape
    (2,)
    """

    _target = "text"
    _task = "text"

    def fit(self, X: Any, y: Any) -> Self:
        """Train on texts and the texts that they become."""
        sources, targets = _column(X, "X"), _column(y, "y")
        check_consistent_length(sources, targets)
        if blank := [n for n, text in enumerate(targets, 1) if not text.strip()]:
            raise ValueError(f"y row {blank[0]} is blank: leave the row out")
        self._train(sources, targets)
        return self

    def predict(self, X: Any) -> NDArray[np.object_]:
        """The text that every text becomes."""
        return np.array([prediction.text for prediction in self._predict(X)], dtype=object)

    def score(self, X: Any, y: Any) -> float:
        """The share of texts that are right, from 0 to 1."""
        return float(np.mean(self.predict(X) == np.array(_column(y, "y"), dtype=object)))


def _column(data: Any, name: str) -> list[Any]:
    """One column of cells that are texts, or lists of texts."""
    try:
        table = as_table(data, name)
    except DataError as error:
        raise ValueError(f"{error}; {name} is one column of texts") from None
    if isinstance(table, Frame):
        width = len(table.rows[0]) if table.rows else 0
        if width != 1:
            raise ValueError(f"{name} has {width} columns: give one column of texts, such as {name}['text']")
        cells = [row[0] for row in table.rows]
    else:
        cells = table
    if not cells:
        raise ValueError(f"{name} is empty: Found array with 0 sample(s) while a minimum of 1 is required")
    for n, cell in enumerate(cells, 1):
        if not isinstance(cell, str | list | tuple):
            what = "missing" if cell is None else f"not text but {type(cell).__name__}"
            raise ValueError(f"{name} row {n} is {what}: give every row a text")
    return cells


def _parts(data: Any, name: str) -> list[list[str]]:
    """Lists of words or tags; those in one text are separated by spaces."""
    rows = _column(data, name)
    return [row.split() if isinstance(row, str) else [str(part) for part in row] for row in rows]


def _labels(y: Any) -> NDArray[Any]:
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    labels: NDArray[Any] = column_or_1d(y, warn=True)
    assert_all_finite(labels)
    check_classification_targets(labels)
    return labels


def _seed(random_state: Any) -> int:
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
