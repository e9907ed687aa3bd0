"""Every head, and every decoder of the text head, that a recipe can name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from windlass.core.fitting import Gives, Needs, Term
from windlass.core.options import Options, named
from windlass.heads.base import Wiring
from windlass.heads.ctc import CtcHeadOptions
from windlass.heads.label import LabelHeadOptions
from windlass.heads.labels import LabelsHeadOptions
from windlass.heads.number import NumberHeadOptions
from windlass.heads.recurrent import RecurrentDecoder
from windlass.heads.tags import TagsHeadOptions
from windlass.heads.text import TextHead
from windlass.heads.transformer import TransformerDecoder


def _recurrent_by_default(value: Any) -> Any:
    if isinstance(value, str):
        return {"kind": value}
    return {"kind": "recurrent", **value} if isinstance(value, dict) else value


DecoderOptions = Annotated[
    RecurrentDecoder.Options | TransformerDecoder.Options,
    Field(discriminator="kind"),
    BeforeValidator(_recurrent_by_default),
]
"""Every decoder that a recipe can name; one that names no kind is recurrent."""


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
        return wiring.decoder.build(wiring)


HeadOptions = Annotated[
    WritingOptions | LabelHeadOptions | LabelsHeadOptions | TagsHeadOptions | NumberHeadOptions | CtcHeadOptions,
    Field(discriminator="kind"),
    named,
]
"""The options of every head."""
