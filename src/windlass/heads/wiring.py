"""What a head is wired to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.heads.options import TextHeadOptions
from windlass.nn.embedding import Embedding

Allowed = tuple[list[bool], list[list[bool]], list[bool]]
"""Which tag may come first, which after which, which last."""


@dataclass(frozen=True)
class Wiring:
    """The sizes of the memory that a head reads and of what it puts out, and what it shares with the encoder.

    >>> Wiring(outputs=3, memory_size=8, part_sizes={"second": 8}).part_sizes["second"]
    8
    """

    outputs: int  # V
    memory_size: int  # D
    final_sizes: tuple[tuple[int, ...], ...] = ()  # of the parts of every layer's last state
    part_sizes: Mapping[str, int] = field(default_factory=dict)  # of the states of the memory's parts
    decoder: TextHeadOptions | None = None  # of a head that writes
    tied: bool = False  # the decoder's embedding is the output layer too
    embedding: Embedding | None = None  # the encoder's, where the decoder has the same
    allowed: Allowed | None = None  # of tags
    prefix: str | None = None  # the input that a decoder reads before it writes
