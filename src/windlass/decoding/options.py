"""What a recipe or a command can say of a search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from windlass.core.fitting import Needs, Refuses, Term
from windlass.core.options import Options, named


class _Search(Options):
    length_factor: float = Field(2.0, ge=0, description="an output has at most factor * source + plus tokens")
    length_plus: int = Field(20, ge=1, description="see length_factor")
    block_ngrams: int = Field(0, ge=0, description="never repeat a run of this many tokens; 0: allow it")
    unknown: bool = Field(True, description="whether the mark of an unknown token may be written; false: what is next")

    def _terms(self, at: str) -> Iterator[Term]:
        yield Needs("model.head writing", f"{at} has no use with model.head: <model.head>: leave it out")
        if not self.unknown:
            yield Refuses(
                "source nothing", f"{at}.unknown: a language model never writes the unknown mark: leave it out"
            )
        if self.block_ngrams:
            yield Refuses(
                "task target: tree", f"{at}.block_ngrams has no use for trees, whose brackets repeat: leave it out"
            )


class Greedy(_Search):
    """Take the likeliest token at every step.

    >>> Greedy().kind
    'greedy'
    """

    kind: Literal["greedy"] = "greedy"


class Sample(_Search):
    """Draw every token from the distribution.

    >>> Sample(top_k=5, temperature=0.7).top_p
    1.0
    """

    kind: Literal["sample"] = "sample"
    temperature: float = Field(1.0, gt=0, description="below 1: safer, above 1: wilder")
    top_k: int = Field(0, ge=0, description="draw from the k likeliest only; 0: from all")
    top_p: float = Field(1.0, gt=0, le=1, description="draw from the fewest tokens that hold this much probability")
    seed: int = Field(0, description="the same seed, the same draws")


class Beam(_Search):
    """Keep the best few partial outputs at every step.

    >>> Beam(size=8).length_penalty
    1.0
    """

    kind: Literal["beam"] = "beam"
    size: int = Field(5, ge=1, description="how many partial outputs to keep")
    length_penalty: float = Field(1.0, ge=0, description="outputs are ranked by log p / length ** penalty")

    def _terms(self, at: str) -> Iterator[Term]:
        yield from super()._terms(at)
        yield Refuses(
            "source nothing", f"{at}: beam has no use for a language model, which has no best text: use sample, greedy"
        )


SearchOptions = Annotated[Greedy | Sample | Beam, Field(discriminator="kind"), named]
"""Every search a recipe can name."""
