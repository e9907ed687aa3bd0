"""Baselines of a language model, fitted and scored on the same tokens as the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from windlass.baseline.window import WORK, WindowModel
from windlass.bundle import Bundle
from windlass.core.errors import BundleError
from windlass.core.options import reason
from windlass.core.tensors import read_tensors, write_tensors
from windlass.decoding.ngram import KneserNey
from windlass.inference.likelihood import encode_texts, logprob_metrics
from windlass.metrics.likelihood import format_metric

FILE = "baseline.safetensors"
SHARE = 0.1
"""The window model may take this share of the model's own multiplications, if that is more than WORK."""


@dataclass(frozen=True)
class LanguageBaselines:
    """An n-gram and a window model; the better one on dev is the one to beat.

    >>> both = LanguageBaselines.fit([[4, 5, 6] * 20], vocabulary=7, characters=True, order=3)
    >>> [model.name for model in both.models]
    ['3-gram', 'window of 8']
    """

    ngram: KneserNey
    window: WindowModel
    best: int = 0

    @property
    def models(self) -> tuple[KneserNey | WindowModel, ...]:
        """Both models."""
        return self.ngram, self.window

    @property
    def name(self) -> str:
        """The name of the better model."""
        return self.models[self.best].name

    @classmethod
    def fit(
        cls,
        sequences: Sequence[Sequence[int]],
        vocabulary: int,
        characters: bool,
        order: int | None = None,
        dev: Sequence[Sequence[int]] = (),
        work: float = WORK,
    ) -> LanguageBaselines:
        """Fit both; on characters they have longer contexts than on words.

        The window model is trained until `dev` stops improving, within `work`.
        """
        ngram = KneserNey.fit(sequences, vocabulary, order or (6 if characters else 3))
        return cls(ngram, WindowModel.fit(sequences, vocabulary, 8 if characters else 4, dev=dev, work=work))

    def logprobs(self, sequences: Sequence[Sequence[int]]) -> dict[str, float]:
        """Return the total log probability of sequences under each model, by name."""
        return {model.name: float(model.logprobs(sequences).sum()) for model in self.models}

    def chosen(self, dev: Sequence[Sequence[int]]) -> LanguageBaselines:
        """Return the baselines with the better model on dev marked as best."""
        sums = list(self.logprobs(dev).values())
        return replace(self, best=sums.index(max(sums)))

    def save(self, folder: Path) -> None:
        """Write both next to the model."""
        parts = {"ngram": self.ngram.arrays(), "window": self.window.arrays()}
        tensors = {
            f"{part}/{name}": torch.from_numpy(np.ascontiguousarray(array))
            for part, arrays in parts.items()
            for name, array in arrays.items()
        }
        write_tensors(folder / FILE, tensors, {"best": self.best})

    @classmethod
    def load(cls, folder: Path) -> LanguageBaselines | None:
        """Return the baselines saved with a bundle; None if it has none. Damaged ones are a BundleError."""
        if not (folder / FILE).exists():
            return None
        try:
            tensors, note = read_tensors(folder / FILE)
            parts: dict[str, dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]] = {"ngram": {}, "window": {}}
            for name, tensor in tensors.items():
                part, _, inner = name.partition("/")
                parts[part][inner] = tensor.numpy()
            ngram, window = KneserNey.from_arrays(parts["ngram"]), WindowModel.from_arrays(parts["window"])
            if note["best"] not in (0, 1):
                raise ValueError("best is neither 0 nor 1")
            return cls(ngram, window, note["best"])
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise BundleError(
                f"{folder / FILE}: damaged: {reason(error)}; restore it, or delete it to go without a baseline"
            ) from None


def language_baselines(
    bundle: Bundle, train: Sequence[str], dev: Sequence[str], note: Callable[[str], None]
) -> LanguageBaselines:
    """Fit the baselines of a language model and note their dev metrics.

    >>> from windlass.inference.likelihood import tiny_lm
    >>> both = language_baselines(tiny_lm(), ["abcabcabc" * 9], ["abc"], lambda text: None)
    >>> both.ngram.order
    6
    """
    running = bundle.recipe.train.chunk is not None
    tokenizer = bundle.sides.tokenizer
    letters = tokenizer.by_character
    ids, dev_ids = encode_texts(bundle.sides, train, running), encode_texts(bundle.sides, dev, running)
    parameters = sum(parameter.numel() for parameter in bundle.model.parameters())
    of_model = 3 * parameters * sum(map(len, ids)) * bundle.recipe.train.epochs  # multiplications, forward and backward
    work = max(WORK, SHARE * of_model)
    both = LanguageBaselines.fit(ids, len(tokenizer), letters, bundle.recipe.ngrams, dev_ids, work).chosen(dev_ids)
    for name, metrics in language_metrics(both, bundle, dev).items():
        scores = "  ".join(f"{key} {format_metric(key, value)}" for key, value in metrics.items())
        note(f"baseline on dev: {name}: {scores}")
    return both


def language_metrics(baselines: LanguageBaselines, bundle: Bundle, texts: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the metrics of each baseline, on the same tokens as the model.

    >>> from windlass.inference.likelihood import tiny_lm
    >>> both = language_baselines(tiny_lm(), ["abcabcabc" * 9], ["abc"], lambda text: None)
    >>> sorted(language_metrics(both, tiny_lm(), ["abc"]))
    ['6-gram', 'window of 8']
    """
    ids = encode_texts(bundle.sides, texts, bundle.recipe.train.chunk is not None)
    tokens = sum(map(len, ids))
    return {name: logprob_metrics(bundle, texts, logprob, tokens) for name, logprob in baselines.logprobs(ids).items()}
