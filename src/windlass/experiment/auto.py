"""Picking tokens and sizes from the data, for users who only have a file; every choice is said and can be overruled."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from windlass.data.examples import Example

Choice = tuple[dict[str, Any], str]
"""What to lay over the recipe, and the sentence that says it."""


def choose(examples: Sequence[Example], count: int | None = None) -> list[Choice]:
    """Pick what a recipe for any text to any text leaves open; `examples` may be a part of `count`.

    >>> from windlass.data.examples import Place
    >>> data = [Example("cat", ("k a t",), None, Place("pairs.tsv", 1))] * 100
    >>> [said for _, said in choose(data)][:2]
    ['source: characters, as it has 1.0 words of 3.0 characters', 'target: words, as its pieces are short and ...']
    """
    count = len(examples) if count is None else count
    sources, targets = [e.text for e in examples], [e.target for e in examples]
    if _sentences(sources) and _sentences(targets) and count >= 2000:
        size = min(8000, max(500, count // 4))
        tokens = {"tokens": {"kind": "bpe", "size": size}}
        said = f"source and target: BPE of {size} pieces, as they are sentences"
        return [({"source": tokens, "target": tokens}, said), _size(examples, count, sentences=True)]
    return [_side("source", sources), _side("target", targets), _size(examples, count, sentences=False)]


def _words(texts: Sequence[str]) -> float:
    return fmean(len(text.split()) for text in texts)


def _letters(texts: Sequence[str]) -> float:
    return fmean(len(word) for text in texts for word in text.split())


def _sentences(texts: Sequence[str]) -> bool:
    return _words(texts) >= 4 and _letters(texts) >= 2.5


def _side(name: str, texts: Sequence[str]) -> Choice:
    words, letters = _words(texts), _letters(texts)
    if words > 1.5 and letters < 2:
        return (
            {name: {"tokens": {"kind": "words"}}},
            f"{name}: words, as its pieces are short and separated by spaces",
        )
    return (
        {name: {"tokens": {"kind": "characters"}}},
        f"{name}: characters, as it has {words:.1f} words of {letters:.1f} characters",
    )


def _size(examples: Sequence[Example], count: int, sentences: bool) -> Choice:
    """Larger data bears a larger network and needs fewer passes."""
    units, epochs = (
        (128, 60) if count < 2000 else (192, 40) if count < 10_000 else (256, 20) if count < 100_000 else (256, 8)
    )
    tokens = fmean(len(e.text) + len(e.target) for e in examples) / (8 if sentences else 2)
    rows = 32 if count < 10_000 else 64
    batch = max(200, int(rows * tokens / 100 + 1) * 100)
    dropout = 0.3 if count < 100_000 else 0.2
    part = {"size": units, "dropout": dropout}
    steps = epochs * max(1, int(count * tokens / batch))
    warmup = min(200, steps // 10)  # of a short run, most must be left for learning
    over = {
        "model": {"encoder": part, "decoder": part},
        "train": {"epochs": epochs, "batch_tokens": batch, "schedule": {"kind": "cosine", "warmup": warmup}},
    }
    said = f"{units} units a layer, {epochs} epochs, batches of {batch} tokens, as there are {count:,} examples"
    return over, said
