"""The CTC head: a text whose tokens are written in the order of the places that they come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal, Self, final

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from windlass.core.errors import DataError, RecipeError
from windlass.core.fitting import Gives, Needs, Refuses, Term
from windlass.core.marks import BOS, EOS, PAD, UNK
from windlass.core.options import Options
from windlass.core.records import Batch, Carry, Hypothesis, Member, Memory, Scored
from windlass.decoding.options import Beam, Greedy, SearchOptions
from windlass.decoding.search import SearchRequest, length_limits
from windlass.heads.base import Head, LossOptions, Wiring, gold, mlp
from windlass.heads.rerank import rerank
from windlass.nn.ctc import best_path, frames_needed, posteriors, prefix_search

BLANK = PAD
"""Nothing is written: no target has the padding mark, so that its output stands for the blank."""


class CtcHeadOptions(Options):
    """A text, by connectionist temporal classification: no decoder, each place writes a token or nothing.

    >>> from windlass.core.fitting import misfits
    >>> list(misfits(CtcHeadOptions().declare("head"), [Gives("loss.label_smoothing", 0.1)], ("loss",)))
    ['loss.label_smoothing is for single outputs, not for head: ctc: set it to 0']
    """

    kind: Literal["ctc"] = "ctc"
    frames: int | None = Field(
        None,
        ge=1,
        le=100,
        description="outputs of every place; unset: 1.5 times what 99 of 100 targets of training need",
    )
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field((), description="units of the hidden layers")
    dropout: float = Field(0.0, ge=0, lt=1, description="on the input of each layer")

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at}: text")
        yield Gives(f"{at} search")
        yield Gives(f"{at} search over prefixes")
        yield Needs(
            "model.encoder states",
            f"with {at}: ctc the encoder must have states, not encoder: <model.encoder>: use recurrent",
        )
        yield Refuses("task target: tree", f"{at}: ctc writes no trees: use {at}: text")
        yield Refuses(
            "loss.label_smoothing", "loss.label_smoothing is for single outputs, not for head: ctc: set it to 0"
        )

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Enough frames for any target, without hidden layers and with one."""
        return cls(frames=8), cls(frames=6, hidden=(4,))

    def build(self, wiring: Wiring) -> CtcHead:
        """Build the head."""
        return CtcHead(self, wiring.outputs, wiring.memory_size)


@final
class CtcHead(Head):
    """Connectionist temporal classification (Graves et al. 2006).

    p(token or blank in frame t) = softmax(V h_t + b)
    p(y) = sum over alignments a that collapse to y of product over t of p(a_t)

    An alignment collapses to y if y is left when repeats are merged and then blanks dropped. So a target must fit: it
    has at most as many tokens as frames, blanks between equal ones included. With `frames`, every place has several.
    Targets that do not fit are left out of the loss.

    >>> head = CtcHead(CtcHeadOptions(frames=2), vocabulary=7, memory_size=4)
    >>> memory = Memory(torch.randn(2, 5, 4), torch.ones(2, 5) > 0, torch.randn(2, 4))
    >>> logprobs, lengths = head(memory)
    >>> logprobs.shape, lengths.tolist()
    (torch.Size([2, 10, 7]), [10, 10])
    """

    searches: ClassVar[bool] = True
    in_order: ClassVar[bool] = True
    limits_targets: ClassVar[bool] = True

    def __init__(self, options: CtcHeadOptions, vocabulary: int, memory_size: int):
        super().__init__()
        self.frames, self.vocabulary = options.frames or 1, vocabulary
        self.output = mlp(memory_size, options.hidden, vocabulary * self.frames, options.dropout)

    @classmethod
    def check_search(cls, options: SearchOptions) -> None:
        """Greedy search or a beam, ranked by probability: a length penalty that is not set counts as 0.

        >>> CtcHead.check_search(Beam(size=3))
        >>> CtcHead.check_search(Beam(size=3, length_penalty=1))
        Traceback (most recent call last):
        windlass.core.errors.RecipeError: a CTC model searches by greedy or by beam, without block_ngrams, ...
        """
        given = options.model_fields_set
        penalised = isinstance(options, Beam) and options.length_penalty and "length_penalty" in given
        if not isinstance(options, Beam | Greedy) or options.block_ngrams or penalised:
            raise RecipeError("a CTC model searches by greedy or by beam, without block_ngrams, with length_penalty 0")

    @property
    def output_blocks(self) -> int:
        """One for every frame of a place."""
        return self.frames

    def forward(self, memory: Memory) -> tuple[Tensor, Tensor]:
        """Log probabilities (B, S * frames, V) of tokens and the blank, and how many frames of each row are real (B,).

        Real places come first. The marks of begin and end are never written.
        """
        logits = self.output(memory.states).unflatten(2, (self.frames, self.vocabulary)).flatten(1, 2)
        marks = torch.zeros(self.vocabulary, dtype=torch.bool, device=logits.device)
        marks[[BOS, EOS]] = True
        logprobs = torch.log_softmax(logits.masked_fill(marks, -1e4), dim=-1)
        return logprobs, memory.mask.sum(1) * self.frames

    def too_long(self, batch: Batch, places: Tensor) -> Tensor:
        """Which targets (B,) do not fit into the frames of so many places (B,)."""
        return self.frames_needed(batch) > places * self.frames

    @staticmethod
    def frames_needed(batch: Batch) -> Tensor:
        """The fewest frames (B,) that the targets can be written from."""
        target = gold(batch)
        return frames_needed(target.values, target.mask & (target.values != EOS))

    def score(
        self,
        memory: Memory,
        batch: Batch,
        loss: LossOptions | None = None,
        carry: Carry | None = None,
        sampling_prob: float = 0.0,
    ) -> Scored:
        """-log p(target), summed; targets that do not fit are left out."""
        target, places = gold(batch), memory.mask.sum(1)
        fits = ~self.too_long(batch, places) & (places > 0)
        nll = torch.where(fits, self.losses(memory, batch), 0.0).sum()
        lengths = (target.mask & (target.values != EOS)).sum(1)
        return Scored(nll, (lengths * fits).sum(), {"nll": nll.detach()})

    def losses(self, memory: Memory, batch: Batch) -> Tensor:
        """-log p(target) of every row (B,); zero if it does not fit."""
        target = gold(batch)
        logprobs, frames = self(memory)
        lengths = (target.mask & (target.values != EOS)).sum(1)
        return F.ctc_loss(
            logprobs.transpose(0, 1), target.values, frames, lengths, BLANK, reduction="none", zero_infinity=True
        )

    @classmethod
    @torch.no_grad()
    def predict(cls, members: Sequence[Member], request: SearchRequest) -> list[list[Hypothesis]]:
        """Outputs by best path (greedy) or prefix beam search, ranked by the probability of all their alignments.

        Members search alone and rerank each other's outputs: they write a token in different frames, so that a mean of
        probabilities frame by frame would favour outputs of none of them.
        """
        options = request.options or Beam()
        cls.check_search(options)
        assert isinstance(options, Beam | Greedy)
        width = options.width(request.nbest)
        return rerank(members, [_searched(member, options, width) for member in members], request.nbest)

    @torch.no_grad()
    def log_probabilities(self, memory: Memory, batch: Batch) -> Tensor:
        """By the loss, which sums over the alignments."""
        return -self.losses(memory, batch)

    @torch.no_grad()
    def force(self, memory: Memory, batch: Batch) -> list[Hypothesis]:
        """The probability of the batch's targets over all alignments."""
        target = gold(batch)
        if bool((too_long := self.too_long(batch, memory.mask.sum(1))).any()):
            row = int(too_long.nonzero()[0])
            raise DataError(
                f"a target of {int((target.values[row] * target.mask[row] > EOS).sum())} tokens does not fit into the "
                f"{int(memory.mask[row].sum()) * self.frames} frames of its input: CTC writes at most one token per "
                "frame; train with more frames (model.head.frames), or with model.head: text"
            )
        logprobs, frames = self(memory)
        texts = [ids[mask & (ids != EOS)].tolist() for ids, mask in zip(target.values, target.mask, strict=True)]
        return _hypotheses(logprobs.cpu(), frames.cpu(), texts, self.frames)


def _searched(member: Member, options: Beam | Greedy, width: int) -> list[dict[tuple[int, ...], bool]]:
    """The outputs of every row that one model finds, and whether each is whole and not cut off at the length limit."""
    logprobs, lengths = (part.cpu() for part in member.head(member.memory))
    if not options.unknown:
        logprobs[..., UNK] = -torch.inf
    found = []
    for row, most in enumerate(length_limits(member, options).tolist()):
        frames = logprobs[row, : lengths[row]]
        if isinstance(options, Beam):
            outputs = prefix_search(frames, BLANK, width, most)
            longest = any(len(ids) == most for ids in outputs)
            free = prefix_search(frames, BLANK, width) if longest else outputs
            found.append({ids: len(ids) < most or _whole(ids, free) for ids in outputs})
        else:
            path = tuple(best_path(frames, BLANK))
            found.append({path[:most]: len(path) <= most})
    return found


def _whole(ids: tuple[int, ...], free: Sequence[tuple[int, ...]]) -> bool:
    """Whether a search without a length limit finds this output too, before any longer one.

    >>> _whole((5,), [(5,), (5, 6)]), _whole((5,), [(5, 6), (5,)]), _whole((5,), [(6, 6)])
    (True, False, False)
    """
    return next((other for other in free if other == ids or len(other) > len(ids)), None) == ids


def _hypotheses(logprobs: Tensor, lengths: Tensor, texts: Sequence[Sequence[int]], per_place: int) -> list[Hypothesis]:
    """Outputs with log p over all alignments; a token has the probability of its likeliest frame.

    The weights of a token are the frames that write it, as a distribution over places.
    """
    totals, of_frames = posteriors(logprobs, lengths, texts, BLANK)
    hypotheses = []
    for row, (ids, total) in enumerate(zip(texts, totals.tolist(), strict=True)):
        shares = of_frames[row, : len(ids)]  # (T, S * frames)
        at = shares.argmax(1)
        logps = tuple(logprobs[row, at, torch.tensor(ids, dtype=torch.long)].tolist()) if ids else ()
        weights = shares.unflatten(1, (-1, per_place)).sum(2) if ids else None
        weights = None if weights is None else weights / weights.sum(1, keepdim=True).clamp(min=1e-45)
        hypotheses.append(Hypothesis(tuple(ids), total, logps, weights, total=min(total, 0.0)))
    return hypotheses
