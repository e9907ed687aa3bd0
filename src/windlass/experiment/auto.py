"""Suggest tokens and sizes from the data, for users who only have a file; all are shown and can be overridden."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from windlass.data.examples import Example

Suggestion = tuple[dict[str, Any], str]
"""Settings that override the recipe, and the sentence that explains them."""


def suggest_settings(examples: Sequence[Example], count: int | None = None) -> list[Suggestion]:
    """Suggest tokens, sizes and training length for text to text; `examples` may be a sample of `count`.

    >>> from windlass.data.examples import Place
    >>> data = [Example("cat", ("k a t",), None, Place("pairs.tsv", 1))] * 100
    >>> [reason for _, reason in suggest_settings(data)][:2]
    ['source: characters, as it has 1.0 words of 3.0 characters', 'target: words, as they are short and ...']
    """
    count = len(examples) if count is None else count
    sources, targets = [e.text for e in examples], [e.target for e in examples]
    if _sentences(sources) and _sentences(targets) and count >= 2000:
        size = min(8000, max(500, count // 4))
        tokens = {"tokens": {"kind": "bpe", "size": size}}
        reason = f"source and target: BPE of {size} pieces, as they are sentences"
        return [({"source": tokens, "target": tokens}, reason), _size(examples, count, sentences=True)]
    return [_side("source", sources), _side("target", targets), _size(examples, count, sentences=False)]


def _mean_words(texts: Sequence[str]) -> float:
    return fmean(len(text.split()) for text in texts)


def _mean_letters(texts: Sequence[str]) -> float:
    return fmean(len(word) for text in texts for word in text.split())


def _sentences(texts: Sequence[str]) -> bool:
    return _mean_words(texts) >= 4 and _mean_letters(texts) >= 2.5


def _side(name: str, texts: Sequence[str]) -> Suggestion:
    words, letters = _mean_words(texts), _mean_letters(texts)
    if words > 1.5 and letters < 2:
        return ({name: {"tokens": {"kind": "words"}}}, f"{name}: words, as they are short and separated by spaces")
    return (
        {name: {"tokens": {"kind": "characters"}}},
        f"{name}: characters, as it has {words:.1f} words of {letters:.1f} characters",
    )


def _size(examples: Sequence[Example], count: int, sentences: bool) -> Suggestion:
    """More data supports a larger network and needs fewer epochs."""
    units, epochs = (
        (128, 60) if count < 2000 else (192, 40) if count < 10_000 else (256, 20) if count < 100_000 else (256, 8)
    )
    tokens = fmean(len(e.text) + len(e.target) for e in examples) / (8 if sentences else 2)
    rows = 32 if count < 10_000 else 64
    batch = max(200, int(rows * tokens / 100 + 1) * 100)
    dropout = 0.3 if count < 100_000 else 0.2
    part = {"size": units, "dropout": dropout}
    steps = epochs * max(1, int(count * tokens / batch))
    warmup = min(200, steps // 10)  # a short run must not be all warm-up
    over = {
        "model": {"encoder": part, "decoder": part},
        "train": {"epochs": epochs, "batch_tokens": batch, "schedule": {"kind": "cosine", "warmup": warmup}},
    }
    return over, f"{units} units per layer, {epochs} epochs, batches of {batch} tokens, as there are {count:,} examples"
