"""Settings that follow the data: the length of training for every task, tokens and sizes for users with only a file.

All are shown and can be overridden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from windlass.core.wording import counted
from windlass.data.examples import Example
from windlass.recipe.train import TrainOptions

SMALL = 4000
"""Fewer examples are small data. Default recipes were tuned on more."""
MIN_STEPS = 1000
"""Small data is repeated until a run has this many optimiser steps."""
MIN_ROWS = 16
"""Batches are not made smaller than this many examples, on average."""
EVALUATIONS = 20
"""Of a run on small data, at most."""

Suggestion = tuple[dict[str, Any], str]
"""Settings that override the recipe, and the sentence that explains them."""


def suggest_settings(examples: Sequence[Example], count: int | None = None) -> list[Suggestion]:
    """Suggest tokens, sizes and training length for text to text; `examples` may be a sample of `count`.

    >>> from windlass.data.examples import Place
    >>> data = [Example("cat", ("k a t",), None, Place("pairs.tsv", 1))] * 100
    >>> [reason for _, reason in suggest_settings(data)][:2]
    ['source: characters, as a text has 1.0 words of 3.0 ...', 'target: words, as they are short and ...']
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
        f"{name}: characters, as a text has {words:.1f} words of {letters:.1f} characters on average",
    )


def _size(examples: Sequence[Example], count: int, sentences: bool) -> Suggestion:
    """More data supports a larger network and needs fewer epochs.

    Few examples get more steps from `scale_training`, which then tells how many.
    """
    units, epochs = (
        (128, 60) if count < 2000 else (192, 40) if count < 10_000 else (256, 20) if count < 100_000 else (256, 8)
    )
    tokens = fmean(len(e.text) + len(e.target) for e in examples) / (8 if sentences else 2)
    rows = 32 if count < 10_000 else 64
    batch = max(200, int(rows * tokens / 100 + 1) * 100)
    dropout = 0.3 if count < 100_000 else 0.2
    part = {"size": units, "dropout": dropout}
    over = {"model": {"encoder": part, "decoder": part}, "train": {"epochs": epochs, "batch_tokens": batch}}
    length = "" if count < SMALL else f", {epochs} epochs, batches of {batch} tokens"
    return over, f"{units} units per layer{length}, as there are {counted(count, 'example')}"


def scale_training(
    options: TrainOptions, examples: int, batches: Callable[[int], int], what: str = "examples"
) -> tuple[TrainOptions, str | None]:
    """Return the options of a run on this many examples, and the sentence that explains what changed.

    Only what `options.auto` names changes, and only if the run would have too few steps or consist of warm-up.
    `batches` returns the number of batches of an epoch for a batch size in tokens.

    >>> recipe = TrainOptions(epochs=15, batch_tokens=800, auto=("batch_tokens", "epochs"))
    >>> scaled, reason = scale_training(recipe, 300, lambda tokens: -(-300 * 10 // tokens))
    >>> scaled.epochs, scaled.batch_tokens
    (67, 200)
    >>> reason
    'about 1,000 steps: 67 epochs in batches of 200 tokens, as there are 300 examples; else: --epochs, --batch-tokens'
    """
    batch, epochs = options.batch_tokens, options.epochs
    least = max(1, options.chunk or 1)
    if examples < SMALL:
        if "batch_tokens" in options.auto:
            while (
                batches(batch) * epochs < MIN_STEPS
                and examples >= 2 * MIN_ROWS * batches(batch)
                and batch // 2 >= least
            ):
                batch //= 2
        if "epochs" in options.auto:
            epochs = max(epochs, -(-MIN_STEPS // batches(batch)))
    steps = batches(batch) * epochs
    longer = (batch, epochs) != (options.batch_tokens, options.epochs)
    every, warmup = options.evaluate_steps, options.schedule.warmup
    if longer and "evaluate_steps" in options.auto:
        every = steps // EVALUATIONS if epochs > EVALUATIONS else None
    if "warmup" in options.auto and warmup > steps / (10 if longer else 4):
        warmup = max(1, steps // 10)
    changes: dict[str, Any] = {"batch_tokens": batch, "epochs": epochs, "evaluate_steps": every, "auto": ()}
    changes["schedule"] = options.schedule.model_copy(update={"warmup": warmup})
    scaled = options.model_copy(update=changes)
    if longer:
        about = counted(int(float(f"{steps:.2g}")), "step")  # epochs differ by a batch
        length = f"{counted(epochs, 'epoch')} in batches of {counted(batch, 'token')}"
        reason = f"about {about}: {length}, as there are {examples:,} {what}"
        return scaled, f"{reason}; else: --epochs, --batch-tokens"
    if warmup != options.schedule.warmup:
        reason = f"a warm-up of {counted(warmup, 'step')}, not {options.schedule.warmup}, as the run has {steps:,}"
        return scaled, f"{reason}; else: --set train.schedule.warmup={options.schedule.warmup}"
    return scaled, None
