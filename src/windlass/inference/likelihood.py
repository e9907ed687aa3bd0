"""The likelihood of texts under a language model, token by token."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import cast

import torch
from torch import Tensor

from windlass.bundle import Bundle
from windlass.core.errors import DataError, NotFiniteError
from windlass.core.marks import EOS, UNK
from windlass.core.records import Carry, Prediction, TextAnswer
from windlass.data.running import chunk_of
from windlass.data.sides import Sides
from windlass.data.sides.nothing import NoSource, NothingOptions
from windlass.data.sides.text import TextTarget
from windlass.data.tokens import TextOptions
from windlass.heads.running import force_chunk
from windlass.heads.text import TextHead
from windlass.inference.dynamic import dynamic_logprobs
from windlass.metrics.likelihood import likelihood
from windlass.recipe import compose, setting

ROWS = 32
"""Rows that running text is split into for evaluation during training."""
BURN_IN = 256
"""Tokens that a row reads, unscored, before its own, to approximate the state that the row before it ends in."""
_LOGITS = 4_000_000  # in memory at once


def logprobs(bundles: Sequence[Bundle], ids: Sequence[int], rows: int = 1, dynamic: float | None = None) -> Tensor:
    """Return the log probability of every token of a running text (N,); the state is carried through the text.

    More `rows` are faster: every token is still scored once, after a burn-in of the tokens before its row.
    Several bundles are an ensemble: the mean of their probabilities. `dynamic` is the rate of dynamic evaluation, which
    reads the text as one row.

    >>> bundle = tiny_lm()
    >>> logprobs([bundle], bundle.sides.tokenizer.encode("abcab")).shape
    torch.Size([5])
    """
    count = len(ids)
    if not count:
        return torch.zeros(0, dtype=torch.float64)
    if dynamic is not None:
        each = [_interpolated(bundle, dynamic_logprobs(bundle, ids, dynamic), [ids]) for bundle in bundles]
        return _mean_probability(torch.stack(each))
    rows = max(1, min(rows, count // (4 * BURN_IN)))
    width = -(-count // rows)
    starts = [max(0, row * width - (BURN_IN if row else 0)) for row in range(rows)]
    parts = [list(ids[start : min(count, (row + 1) * width)]) for row, start in enumerate(starts)]
    mixed = _ensemble_logprobs(bundles, parts)  # (rows, W)
    own = [mixed[row, row * width - start : len(parts[row])] for row, start in enumerate(starts)]
    return torch.cat(own)


def _ensemble_logprobs(bundles: Sequence[Bundle], sequences: Sequence[Sequence[int]]) -> Tensor:
    """Log of the mean probability of every token of some sequences (B, T)."""
    longest = max(map(len, sequences))
    values = torch.tensor([[*ids, *[0] * (longest - len(ids))] for ids in sequences])
    mask = torch.arange(longest) < torch.tensor([len(ids) for ids in sequences])[:, None]
    each = [_force(bundle, values, mask) for bundle in bundles]
    each = [
        logp.masked_scatter(mask, _interpolated(b, logp[mask], sequences))
        for b, logp in zip(bundles, each, strict=True)
    ]
    return _mean_probability(torch.stack(each))  # of (models, B, T)


def _interpolated(bundle: Bundle, logprobs: Tensor, sequences: Sequence[Sequence[int]]) -> Tensor:
    """Log probabilities of all tokens of some sequences (N,), with those of the n-gram model, if there is one."""
    return logprobs if bundle.interpolation is None else bundle.interpolation.mix(logprobs, sequences)


def _mean_probability(each: Tensor) -> Tensor:
    """The log of the mean probability over models."""
    return torch.logsumexp(each, 0) - math.log(len(each))


@torch.no_grad()
def _force(bundle: Bundle, values: Tensor, mask: Tensor) -> Tensor:
    head = cast("TextHead", bundle.model.head.eval())  # a language model writes text
    length = values.size(1)
    columns = max(1, min(512, _LOGITS // (values.size(0) * len(bundle.sides.target))))
    carry: Carry | None = None
    chunks = []
    for begin in range(0, length, columns):
        batch = chunk_of(values, mask, begin, min(length, begin + columns)).to(bundle.device)
        logp, carry = force_chunk(head, batch, carry)
        chunks.append(logp.cpu().double())
    return torch.cat(chunks, 1)


def token_logprobs(
    bundles: Sequence[Bundle], texts: Sequence[str], rows: int = 1, dynamic: float | None = None
) -> list[tuple[list[int], Tensor]]:
    """Return the ids of every text and their log probabilities; a model of lines is scored on the end mark too.

    >>> bundle = tiny_lm()
    >>> token_logprobs([bundle], ["ab"])[0][0]
    [4, 5]
    """
    tokenizer = bundles[0].sides.tokenizer
    if any(b.sides.tokenizer != tokenizer for b in bundles[1:]):
        raise DataError("an ensemble needs bundles with the same target vocabulary: train them on the same data")
    if len({b.recipe.train.chunk is None for b in bundles}) > 1:
        raise DataError(
            "an ensemble is of models of running text, or of lines (train.chunk: null): leave out one or the other"
        )
    running = bundles[0].recipe.train.chunk is not None
    encoded = encode_texts(bundles[0].sides, texts, running)
    if running:
        return [(ids, logprobs(bundles, ids, rows, dynamic)) for ids in encoded]
    if dynamic is not None:
        raise DataError("dynamic evaluation is for running text, and this model reads lines: leave it out")
    scored: list[tuple[list[int], Tensor]] = [([], torch.zeros(0))] * len(encoded)
    order = sorted(range(len(encoded)), key=lambda n: len(encoded[n]))
    for batch in _batches(order, encoded, len(tokenizer)):
        mixed = _ensemble_logprobs(bundles, [encoded[n] for n in batch])
        for row, n in enumerate(batch):
            scored[n] = encoded[n], mixed[row, : len(encoded[n])]
    return scored


def _batches(order: Sequence[int], lines: Sequence[Sequence[int]], vocabulary: int) -> Iterator[list[int]]:
    """Lines of about the same length, as many as fit in memory."""
    batch: list[int] = []
    for n in order:
        if batch and (len(batch) + 1) * len(lines[n]) * vocabulary > 4 * _LOGITS:
            yield batch
            batch = []
        batch.append(n)
    if batch:
        yield batch


def text_metrics(
    bundles: Sequence[Bundle], texts: Sequence[str], rows: int = ROWS, dynamic: float | None = None
) -> dict[str, float]:
    """Return nats per token, perplexity and bits per character of texts; every token counts once.

    >>> sorted(text_metrics([tiny_lm()], ["abcabc"]))
    ['bpc', 'nats', 'perplexity']
    """
    scored = token_logprobs(bundles, texts, rows, dynamic)
    total = float(sum(logp.sum() for _, logp in scored))
    return logprob_metrics(bundles[0], texts, total, sum(len(ids) for ids, _ in scored))


def logprob_metrics(bundle: Bundle, texts: Sequence[str], logprob: float, tokens: int) -> dict[str, float]:
    """Return the metrics of texts from their total log probability, whichever model gave it.

    >>> logprob_metrics(tiny_lm(), ["ab"], -2.0, 2)["nats"]
    1.0
    """
    tokenizer, ends = bundle.sides.tokenizer, bundle.recipe.train.chunk is None  # a line end is scored too
    # Words do not restore the spaces between them, and an unknown word may have any length.
    characters = None if tokenizer.spaced else sum(len(tokenizer.clean(text)) + ends for text in texts)
    return likelihood(logprob, tokens, characters)


def encode_texts(sides: Sides, texts: Sequence[str], running: bool) -> list[list[int]]:
    """Encode texts as they are scored: running text without, lines with their end mark.

    >>> encode_texts(tiny_lm().sides, ["ab"], running=False)
    [[4, 5, 3]]
    """
    return [[*sides.tokenizer.encode(text), *([] if running else [EOS])] for text in texts]


def score_texts(bundle: Bundle, texts: Sequence[str], rows: int = 1) -> list[Prediction]:
    """Return the likelihood of texts, with the probability of every token.

    >>> [len(p.answer.probabilities) for p in score_texts(tiny_lm(), ["abc", "a"])]
    [3, 1]
    """
    tokenizer = bundle.sides.tokenizer
    predictions = []
    for text, (ids, logp) in zip(texts, token_logprobs([bundle], texts, rows), strict=True):
        answer = TextAnswer(tuple(tokenizer.pieces(text)), tuple(logp.exp().tolist()))
        total, unknown = float(logp.sum()), tokenizer.unknown(text) if UNK in ids else ()
        if math.isnan(total):
            raise NotFiniteError
        predictions.append(Prediction(text, answer, score=total, confidence=math.exp(total), unknown=unknown))
    return predictions


def tiny_lm() -> Bundle:
    """Return an untrained character model of three letters, for examples and tests.

    >>> tiny_lm().sides.tokenizer.symbols
    ('a', 'b', 'c')
    """
    recipe = compose("lm", None, [setting("model.decoder.size=8"), setting("model.decoder.embedding.size=4")])
    assert isinstance(recipe.target, TextOptions)
    return Bundle.new(recipe, Sides(NoSource(NothingOptions()), TextTarget.fit(recipe.target, ["abc"])))
