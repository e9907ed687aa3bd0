"""The baselines of a language model, fitted and scored on the same tokens as the model itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from windlass.baseline.ngram import KneserNey
from windlass.baseline.window import Window
from windlass.bundle import Bundle
from windlass.core.errors import BundleError
from windlass.core.tensors import read_tensors, write_tensors
from windlass.inference.language import figures, sequences
from windlass.metrics.likelihood import format_metric

FILE = "baseline.safetensors"


@dataclass(frozen=True)
class LanguageBaselines:
    """An n-gram model and a window model; the better of them, on dev, gives the name and the figures to beat.

    >>> both = LanguageBaselines.fit([[4, 5, 6] * 20], vocabulary=7, characters=True, order=3)
    >>> [model.name for model in both.models]
    ['3-gram', 'window of 8']
    """

    ngram: KneserNey
    window: Window
    best: int = 0

    @property
    def models(self) -> tuple[KneserNey | Window, ...]:
        """Both."""
        return self.ngram, self.window

    @property
    def name(self) -> str:
        """That of the better one."""
        return self.models[self.best].name

    @classmethod
    def fit(
        cls, sequences: Sequence[Sequence[int]], vocabulary: int, characters: bool, order: int | None = None
    ) -> LanguageBaselines:
        """Fit both; of characters they look further back than of words."""
        ngram = KneserNey.fit(sequences, vocabulary, order or (6 if characters else 3))
        return cls(ngram, Window.fit(sequences, vocabulary, 8 if characters else 4))

    def logprobs(self, sequences: Sequence[Sequence[int]]) -> dict[str, float]:
        """The summed log probability of sequences under each model, by its name."""
        return {model.name: float(model.logprobs(sequences).sum()) for model in self.models}

    def chosen(self, dev: Sequence[Sequence[int]]) -> LanguageBaselines:
        """With the better one on dev as the one to beat."""
        sums = list(self.logprobs(dev).values())
        return replace(self, best=sums.index(max(sums)))

    def save(self, folder: Path) -> None:
        """Write both beside the model."""
        parts = {"ngram": self.ngram.arrays(), "window": self.window.arrays()}
        tensors = {
            f"{part}/{name}": torch.from_numpy(np.ascontiguousarray(array))
            for part, arrays in parts.items()
            for name, array in arrays.items()
        }
        write_tensors(folder / FILE, tensors, {"best": self.best})

    @classmethod
    def load(cls, folder: Path) -> LanguageBaselines | None:
        """Those saved with a bundle, if they are there and readable.

        >>> LanguageBaselines.load(Path("/nowhere")) is None
        True
        """
        try:
            tensors, note = read_tensors(folder / FILE)
            parts: dict[str, dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]] = {"ngram": {}, "window": {}}
            for name, tensor in tensors.items():
                part, _, inner = name.partition("/")
                parts[part][inner] = tensor.numpy()
            return cls(KneserNey.of(parts["ngram"]), Window.of(parts["window"]), int(note["best"]))
        except (BundleError, KeyError, ValueError):
            return None


def language_baselines(
    bundle: Bundle, train: Sequence[str], dev: Sequence[str], note: Callable[[str], None]
) -> LanguageBaselines:
    """The baselines of a language model, fitted on the training texts; what they reach on dev is said.

    >>> from windlass.inference.language import tiny
    >>> both = language_baselines(tiny(), ["abcabcabc" * 9], ["abc"], lambda text: None)
    >>> both.ngram.order
    6
    """
    running = bundle.recipe.train.chunk is not None
    codec = bundle.sides.tokenizer
    letters = codec.options.tokens.kind in ("characters", "graphemes")
    fitted = LanguageBaselines.fit(sequences(bundle.sides, train, running), len(codec), letters, bundle.recipe.ngrams)
    both = fitted.chosen(sequences(bundle.sides, dev, running))
    for name, metrics in language_figures(both, bundle, dev).items():
        note(
            f"baseline on dev: {name}: "
            + "  ".join(f"{key} {format_metric(key, value)}" for key, value in metrics.items())
        )
    return both


def language_figures(baselines: LanguageBaselines, bundle: Bundle, texts: Sequence[str]) -> dict[str, dict[str, float]]:
    """The figures of each baseline, on the same tokens as the model's own.

    >>> from windlass.inference.language import tiny
    >>> both = language_baselines(tiny(), ["abcabcabc" * 9], ["abc"], lambda text: None)
    >>> sorted(language_figures(both, tiny(), ["abc"]))
    ['6-gram', 'window of 8']
    """
    ids = sequences(bundle.sides, texts, bundle.recipe.train.chunk is not None)
    tokens = sum(map(len, ids))
    return {name: figures(bundle, texts, logprob, tokens) for name, logprob in baselines.logprobs(ids).items()}
