"""One text without an end in sight, token by token as it is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from windlass.core.marks import BOS, EOS, PAD, UNK
from windlass.core.records import Memory, Padded
from windlass.decoding.choose import block_ngrams, draw
from windlass.decoding.options import Greedy, Sample
from windlass.decoding.walk import Steps, Walker


def unfold(
    heads: Sequence[Steps],
    options: Greedy | Sample,
    prompt: Sequence[int] = (),
    devices: Sequence[torch.device | str] = ("cpu",),
    key: int = 0,
    endless: bool = False,
) -> Iterator[tuple[int, float]]:
    """Go on after a prompt, which is a forced prefix: tokens and their log probabilities, until the end mark.

    At most `options.length_plus` tokens come. Padding, start and unknown are never drawn. Heads need no memory;
    several are an ensemble. `key` tells texts of the same seed apart; one that is `endless` never draws the end mark.

    >>> from windlass.heads.options import TextHeadOptions
    >>> from windlass.heads.text import TextHead
    >>> head = TextHead(TextHeadOptions(size=8, context="none"), vocabulary=10, memory_size=0, final_sizes=()).eval()
    >>> drawn = list(unfold([head], Sample(seed=3, length_plus=6), prompt=[5, 6]))
    >>> drawn == list(unfold([head], Sample(seed=3, length_plus=6), prompt=[5, 6])), len(drawn) <= 6
    (True, True)
    """
    walker = Walker(heads)
    fed = [BOS, *prompt]
    memories = [_memory(fed[:-1], device) for device in devices]
    with torch.no_grad():
        walk = walker.begin(memories)
    token = fed[-1]
    history = list(prompt)
    for t in range(options.length_plus):
        with torch.no_grad():
            logprobs, walk, _ = walker.step(torch.tensor([token], device=devices[0]), walk)
            row = _allowed(logprobs.cpu(), history, options, endless)
            chosen = draw(row, options, torch.tensor([key]), t) if isinstance(options, Sample) else row.argmax(1)
            token = int(chosen)
        if token == EOS:
            return
        history.append(token)
        yield token, float(logprobs[0, token])


def _memory(prefix: Sequence[int], device: torch.device | str) -> Memory:
    empty = Memory.empty(1, device)
    if not prefix:
        return empty
    read = Padded.of([list(prefix)]).to(device)
    return Memory(empty.states, empty.mask, empty.summary, prefix=read)


def _allowed(logprobs: Tensor, history: Sequence[int], options: Greedy | Sample, endless: bool) -> Tensor:
    never = [PAD, UNK, BOS, *([EOS] if endless else [])]
    allowed = logprobs.index_fill(1, torch.tensor(never), -torch.inf)
    if not options.block_ngrams:
        return allowed
    return block_ngrams(allowed, torch.tensor([list(history)], dtype=torch.long), options.block_ngrams)
