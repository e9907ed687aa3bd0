"""The options of a search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from windlass.core.fitting import Needs, Refuses, Term
from windlass.core.options import Options, named

PREFIXES = "model.head search over prefixes"
"""The feature of a head whose search sums over the alignments of an output."""


LENGTH_FACTOR = 2.0


class _Search(Options):
    single: ClassVar[bool] = False  # it finds one output only
    streams: ClassVar[bool] = True  # its tokens can be returned one by one

    length_factor: float = Field(
        LENGTH_FACTOR,
        ge=0,
        le=1000,
        description="an output has at most length_factor * source length + length_plus tokens",
    )
    length_plus: int = Field(20, ge=1, le=1_000_000, description="see length_factor")
    block_ngrams: int = Field(0, ge=0, description="never repeat an n-gram of this length; 0: no limit")
    unknown: bool = Field(True, description="allow unknown tokens in the output; false: the next best token is written")

    @property
    def label(self) -> str:
        """Its name in a table."""
        return str(getattr(self, "kind", ""))

    def width(self, nbest: int) -> int:
        """Hypotheses per input that are extended side by side."""
        return 1

    def _terms(self, at: str) -> Iterator[Term]:
        yield Needs("model.head search", f"{at} does nothing with model.head: <model.head>: leave it out")
        if not self.unknown:
            yield Refuses(
                "source nothing", f"{at}.unknown: a language model never writes the unknown mark: leave it out"
            )
        if self.length_factor not in (0, LENGTH_FACTOR):
            yield Refuses(
                "source nothing", f"{at}.length_factor: a language model has no source: set {at}.length_plus instead"
            )
        if self.block_ngrams:
            yield Refuses(
                "task target: tree", f"{at}.block_ngrams is not for trees, whose brackets repeat: leave it out"
            )
            yield Refuses(PREFIXES, f"{at}.block_ngrams is not for model.head: <model.head>: leave it out")


class Greedy(_Search):
    """Take the likeliest token at every step.

    >>> from windlass.core.fitting import misfits
    >>> list(misfits(Greedy(block_ngrams=3).declare("search"), within=("model",)))
    ['search does nothing with model.head: <model.head>: leave it out']
    """

    single: ClassVar[bool] = True
    kind: Literal["greedy"] = "greedy"


class Sample(_Search):
    """Sample every token from the distribution.

    >>> from windlass.decoding.sampling import draw
    >>> import torch
    >>> draw(torch.tensor([[0.2, 0.5, 0.3]]).log(), Sample(top_k=1), torch.tensor([7]), step=0).item()
    1
    """

    kind: Literal["sample"] = "sample"
    temperature: float = Field(1.0, gt=0, le=1e6, description="divides the logits; below 1: sharper, above 1: flatter")
    top_k: int = Field(0, ge=0, description="sample from the k likeliest tokens; 0: from all")
    top_p: float = Field(
        1.0,
        gt=0,
        le=1,
        description="sample from the fewest tokens whose probabilities reach this sum (nucleus sampling)",
    )
    seed: int = Field(0, description="the same seed gives the same samples")

    def _terms(self, at: str) -> Iterator[Term]:
        yield from super()._terms(at)
        yield Refuses(PREFIXES, f"{at}: sample is not for model.head: <model.head>: use beam or greedy")


class Beam(_Search):
    """Keep the best partial outputs at every step.

    >>> from windlass.core.fitting import Gives, misfits
    >>> list(misfits(Beam().declare("search"), [Gives("source nothing")], within=("source",)))
    ['search: beam is not for a language model, which has no best text: use sample or greedy']
    """

    streams: ClassVar[bool] = False
    kind: Literal["beam"] = "beam"
    size: int = Field(5, ge=1, le=1000, description="hypotheses that are kept")
    length_penalty: float = Field(
        1.0, ge=0, le=10, description="hypotheses are ranked by log p / length ** length_penalty"
    )

    @property
    def label(self) -> str:
        """With its size."""
        return f"beam {self.size}"

    def width(self, nbest: int) -> int:
        """The size of the beam, which holds at least the n-best list."""
        return max(self.size, nbest)

    def _terms(self, at: str) -> Iterator[Term]:
        yield from super()._terms(at)
        yield Refuses(
            "source nothing", f"{at}: beam is not for a language model, which has no best text: use sample or greedy"
        )
        if self.length_penalty:
            yield Refuses(PREFIXES, f"{at}.length_penalty is not for model.head: <model.head>: set it to 0")


SearchOptions = Annotated[Greedy | Sample | Beam, Field(discriminator="kind"), named]
"""Every search that a recipe can name."""
