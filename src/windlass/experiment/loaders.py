"""What a model is fitted on: the sides, pretrained vectors, and the loaders of training and validation data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import nn

from windlass.bundle import Bundle
from windlass.core.errors import DataError
from windlass.core.wording import counted
from windlass.data.augment import Augmentation, BpeDropout, CharacterNoise, Recut, UnigramSampling
from windlass.data.encoded import Encoded
from windlass.data.examples import Example
from windlass.data.loader import Loader
from windlass.data.running import Running, joined_ids
from windlass.data.sides import Sides
from windlass.data.store import View
from windlass.data.tokenizer import Tokenizer
from windlass.experiment.auto import scale_training
from windlass.experiment.data import sides_of
from windlass.nn.embedding import Embedding, Vectors, words_of
from windlass.nn.positions import LearnedPositions
from windlass.recipe import Recipe
from windlass.training.finetune import Note

DEV_TOKENS = 2000
"""Batch size in tokens, at least, with which the dev loss is computed."""


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
    positions = [part for part in bundle.model.modules() if isinstance(part, LearnedPositions)]

    def fits(example: Encoded) -> bool:
        return all(part.fits(*sides.costs(example)) for part in positions)

    return Augmentation(bundle.recipe.seed, source, target, fits) if source or target else None


def scaled_loader(bundle: Bundle, train: Sequence[Example], note: Note) -> tuple[Bundle, Loader | Running]:
    """Return the bundle with a training length that suits the data, and its loader.

    >>> from windlass.experiment.data import as_data
    >>> bundle, train = Bundle.new(Recipe(), Sides.tiny()), as_data([("a", "b")], [], Recipe()).train
    >>> scaled_loader(bundle, train, print)[1].batches(0)
    1
    """
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


def dev_loss(bundle: Bundle, dev: Sequence[Example], device: str) -> Callable[[nn.Module], float] | None:
    """Return the loss on dev per token, under teacher forcing, as a function of the model.

    None for a language model, whose metrics hold it already, and if no target of dev is known.

    >>> from windlass.experiment.data import as_data
    >>> bundle, data = Bundle.new(Recipe(), Sides.tiny()), as_data([("a", "b")], [("a", "b")], Recipe())
    >>> loss = dev_loss(bundle, data.dev, "cpu")
    >>> loss(bundle.model) > 0
    True
    """
    if bundle.task.language_model:
        return None
    sides = bundle.sides
    # A written target may hold unknown symbols; a label that was never seen has no probability.
    known = [e for e in dev if sides.target.written or not sides.target.unknown(e.target)]
    if not known:
        return None
    encoded = sides.store(map(sides.encode_example, known))
    loader = sides.loader(encoded, max(DEV_TOKENS, bundle.recipe.train.batch_tokens))

    @torch.no_grad()
    def loss(model: nn.Module) -> float:
        total, count = 0.0, 0
        for batch in loader.epoch(0):
            scored = model(batch.to(device))
            total, count = total + float(scored.loss_sum), count + int(scored.count)
        return total / max(1, count)

    return loss
