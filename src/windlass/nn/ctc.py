"""Connectionist temporal classification: alignments of an output with the frames that write it, and search."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def frames_needed(targets: Tensor, mask: Tensor) -> Tensor:
    """The fewest frames that targets (B, T) can be written from: one per token, and a blank between equal ones.

    >>> frames_needed(torch.tensor([[5, 5, 6]]), torch.tensor([[True, True, True]])).tolist()
    [4]
    """
    repeats = (targets[:, 1:] == targets[:, :-1]) & mask[:, 1:]
    return mask.sum(1) + repeats.sum(1)


def posteriors(logprobs: Tensor, lengths: Tensor, targets: Sequence[Sequence[int]], blank: int) -> tuple[Tensor, ...]:
    """Log p(target) (B,), and the probability (B, T, S) that frame s writes token t, over all alignments.

    Frames have log probabilities (B, S, V), of which `lengths` (B,) are real. A token may be written by several frames
    in a row, so its probabilities sum to 1 or more. By the forward-backward algorithm (Graves et al. 2006).

    >>> half = torch.full((1, 2, 3), 0.5).log()  # blank, a, b
    >>> total, of_frames = posteriors(half, torch.tensor([2]), [[1]], blank=0)
    >>> total.exp().item(), of_frames[0].tolist()  # a a, a blank, blank a: each 1/4
    (0.75, [[0.666..., 0.666...]])
    """
    B, S, _ = logprobs.shape
    T = max((len(target) for target in targets), default=0)
    ids = torch.full((B, 2 * T + 1), blank, device=logprobs.device)  # blank, token, blank, token ... blank
    for row, target in enumerate(targets):
        ids[row, 1 : 2 * len(target) : 2] = torch.tensor(target, dtype=torch.long, device=ids.device)
    last = torch.tensor([2 * len(target) for target in targets], device=ids.device)
    emit = logprobs.gather(2, ids[:, None].expand(-1, S, -1))  # (B, S, 2T + 1)
    forward = _forward(emit, ids, blank)
    # Backwards it is the same over both orders reversed, each row within its own length.
    frames, labels = _reversed(lengths, S), _reversed(last + 1, 2 * T + 1)
    turned = emit.gather(1, frames[..., None].expand_as(emit)).gather(2, labels[:, None].expand_as(emit))
    backward = _forward(turned, ids.gather(1, labels), blank)
    backward = backward.gather(2, labels[:, None].expand_as(emit)).gather(1, frames[..., None].expand_as(emit))
    at_end = forward[torch.arange(B), (lengths - 1).clamp(min=0)]  # (B, 2T + 1)
    ends = torch.stack([at_end.gather(1, last[:, None]), at_end.gather(1, (last - 1).clamp(min=0)[:, None])], 1)
    total = torch.where(last > 0, ends.logsumexp(1).squeeze(1), ends[:, 0, 0])
    total = torch.where(lengths > 0, total, torch.where(last > 0, -torch.inf, 0.0).to(total.dtype))
    both = (forward + backward - emit)[..., 1::2] - total[:, None, None]
    real = torch.arange(S, device=ids.device) < lengths[:, None]
    real = real[..., None] & (torch.arange(T, device=ids.device) < (last // 2)[:, None])[:, None]
    return total, both.exp().nan_to_num(0.0).masked_fill(~real, 0.0).transpose(1, 2)


def _reversed(lengths: Tensor, size: int) -> Tensor:
    """The order (B, size) that reverses the first `lengths` places of every row."""
    places = torch.arange(size, device=lengths.device)
    return torch.where(places < lengths[:, None], lengths[:, None] - 1 - places, places)


def _forward(emit: Tensor, ids: Tensor, blank: int) -> Tensor:
    """Log probability (B, S, L) of all paths that are at label l in frame s; from l - 2, over a blank, unless equal."""
    inf = emit.new_full((emit.size(0), 2), -torch.inf)
    first = torch.arange(ids.size(1), device=ids.device) < 2
    skips = torch.zeros_like(ids, dtype=torch.bool)
    skips[:, 2:] = (ids[:, 2:] != blank) & (ids[:, 2:] != ids[:, :-2])
    state = torch.where(first, emit[:, 0], -torch.inf)
    states = [state]
    for step in emit.unbind(1)[1:]:
        padded = torch.cat([inf, state], 1)
        over = padded[:, :-2].masked_fill(~skips, -torch.inf)
        state = torch.stack([state, padded[:, 1:-1], over]).logsumexp(0) + step
        states.append(state)
    return torch.stack(states, 1)


def best_path(logprobs: Tensor, blank: int) -> list[int]:
    """The output of the likeliest token in every frame (S, V): repeats are one token, blanks none.

    >>> best_path(torch.eye(3)[[1, 1, 0, 1, 2]], blank=0)
    [1, 1, 2]
    """
    path = logprobs.argmax(1).tolist()
    return [token for token, before in zip(path, [blank, *path], strict=False) if token not in (blank, before)]


def prefix_search(logprobs: Tensor, blank: int, size: int, most: int | None = None) -> list[tuple[int, ...]]:
    """The likeliest outputs, each over all of its alignments, best first (Graves et al. 2006, Hannun et al. 2014).

    Of every frame (S, V) the `size` likeliest tokens extend the `size` best prefixes, to at most `most` tokens.

    >>> prefix_search(torch.tensor([[0.6, 0.4], [0.6, 0.4]]).log(), blank=0, size=2)  # best path: blank, blank
    [(1,), ()]
    """
    # Relative to the likeliest token of the frame and to the best prefix, so that products do not underflow.
    probs = (logprobs.double() - logprobs.amax(1, keepdim=True)).exp()
    values, tokens = probs.topk(min(size + 1, probs.size(1)), dim=1)
    best: dict[tuple[int, ...], tuple[float, float]] = {(): (1.0, 0.0)}  # p of paths that end with a blank, or not
    for frame, chances, ids in zip(probs.numpy(), values.tolist(), tokens.tolist(), strict=True):
        of_blank, likely = frame.item(blank), list(zip(ids, chances, strict=True))
        grown: dict[tuple[int, ...], tuple[float, float]] = {}
        for prefix, (after_blank, after_token) in best.items():
            going = after_token
            if prefix and prefix[:-1] in best:  # a shorter prefix may become the same; a repeat, after a blank only
                shorter = best[prefix[:-1]]
                going += shorter[0] if prefix[-2:-1] == prefix[-1:] else shorter[0] + shorter[1]
            grown[prefix] = (after_blank + after_token) * of_blank, going * frame.item(prefix[-1]) if prefix else 0.0
        # Where these fill the beam, a new prefix must be likelier than the least of them.
        floor = min(p + q for p, q in grown.values()) if len(grown) == size else 0.0
        for prefix, (after_blank, after_token) in best.items():
            if most is not None and len(prefix) >= most:
                continue
            whole, last = after_blank + after_token, prefix[-1] if prefix else blank
            for token, chance in likely:
                if whole * chance <= floor:
                    break  # so are the tokens after it
                if token != blank and (new := (*prefix, token)) not in best:
                    grown[new] = 0.0, chance * (after_blank if token == last else whole)
        ranked = sorted(grown.items(), key=lambda item: -item[1][0] - item[1][1])[:size]
        scale = sum(ranked[0][1])
        if scale:  # else all are at their longest, and the frame writes a token: it is passed over
            best = {prefix: (p / scale, q / scale) for prefix, (p, q) in ranked if p + q > 0}
    return list(best)
