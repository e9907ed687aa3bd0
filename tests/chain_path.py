"""What a path through a chain scores, place by place: what the sums of `nn/crf.py` are held to."""

from torch import Tensor

from windlass.nn.crf import Chain


def path_score(chain: Chain, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
    """score(y) of given tags (B, S), for emissions (B, S, V): (B,)."""
    real = mask.to(emissions.dtype)
    places = emissions.gather(2, tags[..., None]).squeeze(2) * real
    steps = chain.transitions[tags[:, :-1], tags[:, 1:]] * real[:, 1:]
    last = tags.gather(1, (mask.sum(1) - 1).clamp(min=0)[:, None]).squeeze(1)
    return places.sum(1) + steps.sum(1) + (chain.start[tags[:, 0]] + chain.end[last]) * real[:, 0]
