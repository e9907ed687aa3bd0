"""Every head that a recipe can name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from windlass.core.fitting import Gives, Needs, Term
from windlass.core.options import Options, named
from windlass.heads.base import Wiring
from windlass.heads.ctc import CtcHeadOptions
from windlass.heads.label import LabelHeadOptions
from windlass.heads.labels import LabelsHeadOptions
from windlass.heads.number import NumberHeadOptions
from windlass.heads.tags import TagsHeadOptions
from windlass.heads.text import TextHead


class WritingOptions(Options):
    """A text, written by `model.decoder`.

    >>> Gives("model.head writing") in WritingOptions().declare("model.head")
    True
    """

    kind: Literal["text"] = "text"

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} writing")
        yield Gives(f"{at} search")
        yield Needs("model.decoder", f"{at}: text needs a decoder: set model.decoder")

    def build(self, wiring: Wiring) -> TextHead:
        """Build the decoder."""
        assert wiring.decoder is not None  # as `_terms` demands
        words = wiring.part_sizes.get("words", 0)
        return TextHead(
            *(wiring.decoder, wiring.outputs, wiring.memory_size, wiring.final_sizes),
            *(wiring.embedding, wiring.tied, words, wiring.prefix),
        )


HeadOptions = Annotated[
    WritingOptions | LabelHeadOptions | LabelsHeadOptions | TagsHeadOptions | NumberHeadOptions | CtcHeadOptions,
    Field(discriminator="kind"),
    named,
]
"""The options of every head."""
