"""What a language model can do: say how likely a text is, token by token, and how it goes on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from windlass.bundle import Bundle, Sides
from windlass.core.errors import DataError, RecipeError
from windlass.core.marks import EOS, MARKS, UNK
from windlass.core.records import Batch, Carry, Member, Prediction, TextAnswer
from windlass.data.running import chunk_of
from windlass.data.sides.nothing import NoSource, NothingOptions
from windlass.data.sides.text import TextTarget
from windlass.data.tokenizer import Tokenizer
from windlass.data.tokens import TextOptions
from windlass.decoding.options import Sample, SearchOptions
from windlass.decoding.search import SearchRequest, stream
from windlass.heads.running import force_chunk
from windlass.heads.text import TextHead
from windlass.metrics.likelihood import likelihood
from windlass.recipe import compose, setting

ROWS = 32
"""Into how many rows a text is cut to be scored while a model trains."""
WARM = 256
"""Tokens that a row reads, unscored, before its own, so that it starts where the row before it stands."""
_CELLS = 4_000_000  # logits at once


def logprobs(bundles: Sequence[Bundle], ids: Sequence[int], rows: int = 1) -> Tensor:
    """The log probability of every token of a running text (N,), with the state carried on from first to last.

    Several rows are quicker: each token is still scored once, and a row first reads some of what stands before it.
    Several bundles are an ensemble: the mean of their probabilities.

    >>> bundle = tiny()
    >>> logprobs([bundle], bundle.sides.tokenizer.encode("abcab")).shape
    torch.Size([5])
    """
    count = len(ids)
    if not count:
        return torch.zeros(0, dtype=torch.float64)
    rows = max(1, min(rows, count // (4 * WARM)))
    width = -(-count // rows)
    starts = [max(0, row * width - (WARM if row else 0)) for row in range(rows)]
    parts = [list(ids[start : min(count, (row + 1) * width)]) for row, start in enumerate(starts)]
    long = max(map(len, parts))
    values = torch.tensor([part + [0] * (long - len(part)) for part in parts])
    mask = torch.arange(long) < torch.tensor([len(part) for part in parts])[:, None]
    each = torch.stack([_force(bundle, values, mask) for bundle in bundles])  # (models, rows, W)
    mixed = torch.logsumexp(each, 0) - math.log(len(bundles))
    own = [mixed[row, row * width - start : len(parts[row])] for row, start in enumerate(starts)]
    return torch.cat(own)


@torch.no_grad()
def _force(bundle: Bundle, values: Tensor, mask: Tensor) -> Tensor:
    head = bundle.model.head.eval()
    assert isinstance(head, TextHead)  # a language model writes text
    long = values.size(1)
    columns = max(1, min(512, _CELLS // (values.size(0) * len(bundle.sides.target))))
    carry: Carry | None = None
    found = []
    for begin in range(0, long, columns):
        batch = chunk_of(values, mask, begin, min(long, begin + columns)).to(bundle.device)
        logp, carry = force_chunk(head, batch, carry)
        found.append(logp.cpu().double())
    return torch.cat(found, 1)


def token_logprobs(bundles: Sequence[Bundle], texts: Sequence[str], rows: int = 1) -> list[tuple[list[int], Tensor]]:
    """Ids and their log probabilities for every text; of a model of lines with the end mark, which it must find too.

    >>> bundle = tiny()
    >>> token_logprobs([bundle], ["ab"])[0][0]
    [4, 5]
    """
    codec = bundles[0].sides.tokenizer
    if any(b.sides.tokenizer != codec for b in bundles[1:]):
        raise DataError("an ensemble needs bundles with the same target vocabulary: train them on the same data")
    encoded = [codec.encode(text) for text in texts]
    if bundles[0].recipe.train.chunk is not None:
        return [(ids, logprobs(bundles, ids, rows)) for ids in encoded]
    lines = [[*ids, EOS] for ids in encoded]
    found: list[tuple[list[int], Tensor]] = [([], torch.zeros(0))] * len(lines)
    order = sorted(range(len(lines)), key=lambda n: len(lines[n]))
    for places in _portions(order, lines, len(codec)):
        long = max(len(lines[n]) for n in places)
        values = torch.tensor([lines[n] + [0] * (long - len(lines[n])) for n in places])
        mask = torch.arange(long) < torch.tensor([len(lines[n]) for n in places])[:, None]
        each = torch.stack([_force(bundle, values, mask) for bundle in bundles])
        mixed = torch.logsumexp(each, 0) - math.log(len(bundles))
        for row, n in enumerate(places):
            found[n] = lines[n], mixed[row, : len(lines[n])]
    return found


def _portions(order: Sequence[int], lines: Sequence[Sequence[int]], vocabulary: int) -> Iterator[list[int]]:
    """Lines of about the same length, as many as may be scored at once."""
    portion: list[int] = []
    for n in order:
        if portion and (len(portion) + 1) * len(lines[n]) * vocabulary > 4 * _CELLS:
            yield portion
            portion = []
        portion.append(n)
    if portion:
        yield portion


def characters(codec: Tokenizer, texts: Iterable[str], ends: bool) -> int | None:
    """How many characters texts have, line ends among them where a line's `ends` are scored; None of words.

    Words do not give back the blanks between them, and one never seen may be any.

    >>> codec = tiny().sides.tokenizer
    >>> characters(codec, ["abc", "a"], ends=True)
    6
    """
    if codec.spaced:
        return None
    return sum(len(codec.clean(text)) + ends for text in texts)


def text_metrics(bundles: Sequence[Bundle], texts: Sequence[str], rows: int = ROWS) -> dict[str, float]:
    """Nats a token, perplexity and bits a character of texts; every token counts once.

    >>> sorted(text_metrics([tiny()], ["abcabc"]))
    ['bpc', 'nats', 'perplexity']
    """
    found = token_logprobs(bundles, texts, rows)
    return figures(bundles[0], texts, float(sum(logp.sum() for _, logp in found)), sum(len(ids) for ids, _ in found))


def figures(bundle: Bundle, texts: Sequence[str], logprob: float, tokens: int) -> dict[str, float]:
    """The figures of texts by their summed log probability.

    >>> figures(tiny(), ["ab"], -2.0, 2)["nats"]
    1.0
    """
    ends = bundle.recipe.train.chunk is None
    return likelihood(logprob, tokens, characters(bundle.sides.tokenizer, texts, ends))


def sequences(sides: Sides, texts: Sequence[str], running: bool) -> list[list[int]]:
    """Texts as ids, the way the model is judged by them: as they are, or lines with their end marks.

    >>> sequences(tiny().sides, ["ab"], running=False)
    [[4, 5, 3]]
    """
    return [[*sides.tokenizer.encode(text), *([] if running else [EOS])] for text in texts]


def score_texts(bundle: Bundle, texts: Sequence[str], rows: int = 1) -> list[Prediction]:
    """How likely given texts are, with the probability of every token.

    >>> [len(p.answer.probabilities) for p in score_texts(tiny(), ["abc", "a"])]
    [3, 1]
    """
    codec = bundle.sides.tokenizer
    found = []
    for text, (ids, logp) in zip(texts, token_logprobs([bundle], texts, rows), strict=True):
        total = float(logp.sum())
        found.append(
            Prediction(
                text=text,
                answer=TextAnswer(tuple(codec.pieces(text)), tuple(logp.exp().tolist())),
                score=total,
                confidence=math.exp(total),
                unknown=codec.unknown(text) if UNK in ids else (),
            )
        )
    return found


def generate(
    bundles: Sequence[Bundle],
    prompt: str = "",
    options: SearchOptions | None = None,
    stop: Sequence[str] = (),
    key: int = 0,
    endless: bool = False,
) -> Iterator[str]:
    """Go on after a prompt, piece by piece as it is made; a text in `stop` ends it and is left out.

    It may end by itself, where the model draws the end mark, unless it is `endless`.

    >>> bundle = tiny()
    >>> "".join(generate([bundle], "ab", Sample(seed=1, length_plus=5))) == "".join(
    ...     generate([bundle], "ab", Sample(seed=1, length_plus=5)))
    True
    """
    options = options or bundles[0].recipe.search or Sample()
    if options.kind == "beam":
        raise RecipeError("a language model has no best text to search a beam for: use sample or greedy")
    codec = bundles[0].sides.tokenizer
    for bundle in bundles:
        bundle.model.eval()
    ids = codec.encode(prompt)
    members = []
    for bundle in bundles:
        batch = Batch({}, None, torch.tensor([key], device=bundle.device))
        members.append(Member(bundle.model.head, bundle.encode(batch), batch, bundle.int8))
    never = (UNK, EOS) if endless else (UNK,)
    tokens = stream(members, SearchRequest(options, keys=torch.tensor([key]), forbidden=never), ids)
    return _until((_piece(codec, token, n == 0 and not ids) for n, token in enumerate(tokens)), stop)


def _piece(codec: Tokenizer, token: int, first: bool) -> str:
    symbol = codec.symbols[token - len(MARKS)]
    if codec.spaced:
        return symbol if first else f" {symbol}"
    return symbol.removeprefix(" ") if first and codec.model is not None else symbol


def _until(pieces: Iterable[str], stop: Sequence[str]) -> Iterator[str]:
    """Pieces up to the first of some texts; what may be the beginning of one is held back until that is known.

    >>> "|".join(_until(["a", "b", "c", "d"], ["cx", "d"]))
    'a|b|c'
    """
    held = ""
    for piece in pieces:
        held += piece
        ends = [held.index(text) for text in stop if text in held]
        if ends:
            held = held[: min(ends)]
            break
        back = max((n for text in stop for n in range(1, len(text)) if held.endswith(text[:n])), default=0)
        if len(held) > back:
            yield held[: len(held) - back]
            held = held[len(held) - back :]
    if held:
        yield held


def tiny() -> Bundle:
    """A model of three letters that has learned nothing, for examples.

    >>> tiny().sides.tokenizer.symbols
    ('a', 'b', 'c')
    """
    recipe = compose("lm", None, [setting("model.decoder.size=8"), setting("model.decoder.embedding.size=4")])
    assert isinstance(recipe.target, TextOptions)
    return Bundle.new(recipe, Sides(NoSource(NothingOptions()), TextTarget.fit(recipe.target, ["abc"])))
