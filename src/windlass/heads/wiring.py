"""What a head needs to know of the rest of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.heads.options import TextHeadOptions
from windlass.nn.embedding import Embedding

AllowedTransitions = tuple[list[bool], list[list[bool]], list[bool]]
"""Which tags may come first, after each other, and last."""


@dataclass(frozen=True)
class Wiring:
    """The sizes of a head's memory and output, and what it shares with the encoder.

    >>> from windlass.heads.label import LabelHeadOptions
    >>> LabelHeadOptions().build(Wiring(outputs=3, memory_size=8)).output[-1].out_features
    3
    """

    outputs: int  # V
    memory_size: int  # D
    final_sizes: tuple[tuple[int, ...], ...] = ()  # of the tensors in every layer's last state
    part_sizes: Mapping[str, int] = field(default_factory=dict)  # of the states of the memory's parts, by name
    decoder: TextHeadOptions | None = None  # of the text head
    tied: bool = False  # the output layer shares the decoder's embedding
    embedding: Embedding | None = None  # the encoder's, if the decoder shares it
    allowed: AllowedTransitions | None = None  # of the tags
    prefix: str | None = None  # the input that the decoder reads as a prefix
