"""Text generation by a language model, streamed token by token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

from windlass.bundle import Bundle
from windlass.core.errors import RecipeError
from windlass.core.marks import EOS, MARKS, UNK
from windlass.core.records import Batch, Member
from windlass.data.tokenizer import Tokenizer
from windlass.decoding.options import Sample, SearchOptions
from windlass.decoding.search import SearchRequest, stream


def generate(
    bundles: Sequence[Bundle],
    prompt: str = "",
    options: SearchOptions | None = None,
    stop: Sequence[str] = (),
    endless: bool = False,
) -> Iterator[str]:
    """Continue a prompt, token by token; any text in `stop` ends generation and is not returned.

    The end mark ends it too, unless it is `endless`.

    >>> from windlass.inference.likelihood import tiny_lm
    >>> options = Sample(seed=1, length_plus=5)
    >>> "".join(generate([tiny_lm()], "ab", options)) == "".join(generate([tiny_lm()], "ab", options))
    True
    """
    check_generates(bundles[0])
    options = options or bundles[0].recipe.search or Sample()
    if not options.streams:
        raise RecipeError("beam search has no use for a language model, which has no best text: use sample or greedy")
    tokenizer = bundles[0].sides.tokenizer
    ids = tokenizer.encode(prompt)
    members: list[Member] = []
    for bundle in bundles:
        bundle.model.eval()
        batch = Batch({}, None, torch.tensor([0], device=bundle.device))
        member = Member(bundle.model.head, bundle.encode(batch), batch, bundle.int8)
        members += [member] if bundle.interpolation is None else bundle.interpolation.members(member)
    forbidden = (UNK, EOS) if endless else (UNK,)
    tokens = stream(members, SearchRequest(options, keys=torch.tensor([0]), forbidden=forbidden), ids)
    return _until((_piece(tokenizer, token, n == 0 and not ids) for n, token in enumerate(tokens)), stop)


def check_generates(bundle: Bundle) -> None:
    """Refuse a model that is not a language model.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> check_generates(Bundle.new(Recipe(), Sides.tiny()))
    Traceback (most recent call last):
    windlass.core.errors.RecipeError: a model for text, not a language model: use predict
    """
    if not bundle.task.language_model:
        raise RecipeError(f"a model for {bundle.task.name}, not a language model: use predict")


def _piece(tokenizer: Tokenizer, token: int, first: bool) -> str:
    symbol = tokenizer.symbols[token - len(MARKS)]
    if tokenizer.spaced:
        return symbol if first else f" {symbol}"
    return symbol.removeprefix(" ") if first and tokenizer.model is not None else symbol


def _until(pieces: Iterable[str], stop: Sequence[str]) -> Iterator[str]:
    """Pieces up to the first stop text; a possible beginning of one is held back until it is complete or refuted.

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
