"""Every encoder that a recipe can name."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from windlass.core.options import named
from windlass.encoders.attention import AttentionEncoder
from windlass.encoders.convolution import ConvolutionEncoder
from windlass.encoders.document import HierarchicalEncoder
from windlass.encoders.pair import PairEncoder
from windlass.encoders.plain import PlainEncoder
from windlass.encoders.pyramid import PyramidEncoder
from windlass.encoders.question import QuestionEncoder
from windlass.encoders.text import NoEncoder, PrefixEncoder, RecurrentEncoder

EncoderOptions = Annotated[
    RecurrentEncoder.Options
    | HierarchicalEncoder.Options
    | PrefixEncoder.Options
    | NoEncoder.Options
    | ConvolutionEncoder.Options
    | AttentionEncoder.Options
    | PairEncoder.Options
    | PlainEncoder.Options
    | PyramidEncoder.Options
    | QuestionEncoder.Options,
    Field(discriminator="kind"),
    named,
]
"""The options of every encoder."""
