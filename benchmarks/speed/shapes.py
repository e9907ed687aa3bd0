"""The models that are compared, as sizes, and the matrix products that they are made of.

A product is counted once for the forward pass and twice for the backward pass: the gradient of its input and that of
its weights. What depends on the step before is counted a step at a time, all else at once; the gradients of weights are
taken in one product after the last step. This is the least that the model's arithmetic asks for, in its best order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

PAD, UNK, BOS, EOS = 0, 1, 2, 3
FORCED = 13  # tokens that every contestant must put out for a sentence when decoding


@dataclass(frozen=True)
class Shape:
    """An encoder-decoder with attention, or, where `encoder` is 0, a language model."""

    cell: Literal["gru", "lstm"]
    embedding: int
    encoder: int  # units a direction
    layers: int  # of the encoder, and of the decoder
    decoder: int
    attention: Literal["additive", "bilinear", "none"]
    feeding: bool  # the last readout is part of the next input
    vocabulary: int
    batch: int

    @property
    def gates(self) -> int:
        return 3 if self.cell == "gru" else 4

    @property
    def memory(self) -> int:
        return 2 * self.encoder


SHAPES = {
    "S": Shape("gru", 256, 256, 1, 512, "additive", False, 8000, 64),
    "M": Shape("lstm", 512, 256, 2, 512, "bilinear", True, 8000, 64),
    "LM": Shape("lstm", 200, 0, 2, 200, "none", False, 10_000, 20),
}
LM_STEPS = 20


@dataclass(frozen=True)
class Product:
    """(rows, m, k) times (k, n), or, where it is `batched`, (rows, m, k) times (rows, k, n); so many times in a row."""

    part: str
    way: Literal["forward", "input", "weights"]  # which of the three products
    m: int
    k: int
    n: int
    times: int = 1
    rows: int = 1
    batched: bool = False

    @property
    def flop(self) -> int:
        return 2 * self.rows * self.m * self.k * self.n * self.times


def dense(part: str, m: int, k: int, n: int, steps: int = 1) -> list[Product]:
    """y (m, n) = x (m, k) W, once a step, and its gradients."""
    return [
        Product(part, "forward", m, k, n, steps),
        Product(part, "input", m, n, k, steps),
        Product(part, "weights", n, m * steps, k),
    ]


def batched(part: str, rows: int, k: int, n: int, steps: int) -> list[Product]:
    """y (rows, 1, n) = x (rows, 1, k) M (rows, k, n), once a step, and its gradients."""
    return [
        Product(part, "forward", 1, k, n, steps, rows, True),
        Product(part, "input", 1, n, k, steps, rows, True),
        Product(part, "weights", k, steps, n, 1, rows, True),
    ]


def encoding(shape: Shape, rows: int, places: int) -> list[Product]:
    """The encoder in both directions, and the keys of the attention."""
    found = []
    for layer in range(shape.layers):
        width = shape.memory if layer else shape.embedding
        for _ in range(2):
            found += dense("encoder", rows * places, width, shape.gates * shape.encoder)
            found += dense("encoder", rows, shape.encoder, shape.gates * shape.encoder, places)
    return found + dense("keys", rows * places, shape.memory, shape.decoder)


def steps(shape: Shape, rows: int, places: int, count: int) -> list[Product]:
    """What a decoder must do a step at a time."""
    gates, found = shape.gates * shape.decoder, []
    if shape.attention == "additive":  # asked by the state before: gates and query are one product
        found += dense("decoder", rows, shape.decoder, gates + shape.decoder, count)
        found += dense("decoder", rows, shape.memory, gates, count)
        found += dense("attention", rows * places, shape.decoder, 1, count)
    else:
        below = shape.decoder  # the last readout for the first layer, the layer below for the others
        for _ in range(shape.layers):
            found += dense("decoder", rows, below + shape.decoder, gates, count)
        found += batched("attention", rows, shape.decoder, places, count)
    return found + batched("attention", rows, places, shape.memory, count)


def training(shape: Shape, rows: int, places: int, targets: int, real: int) -> list[Product]:
    """All products of a step of training on a batch: rows of `places` to rows of `targets`, of which `real` count."""
    if not shape.encoder:
        found = []
        for layer in range(shape.layers):
            width = shape.decoder if layer else shape.embedding
            found += dense("recurrence", rows * targets, width, shape.gates * shape.decoder)
            found += dense("recurrence", rows, shape.decoder, shape.gates * shape.decoder, targets)
        return found + dense("output", real, shape.decoder, shape.vocabulary)
    found = encoding(shape, rows, places)
    found += dense("decoder", rows * targets, shape.embedding, shape.gates * shape.decoder)
    found += steps(shape, rows, places, targets)
    both = shape.decoder + shape.memory
    found += (
        dense("readout", rows, both, shape.decoder, targets)
        if shape.feeding
        else dense("readout", rows * targets, both, shape.decoder)
    )
    return found + dense("output", real, shape.decoder, shape.vocabulary)


def decoding(shape: Shape, rows: int, places: int, beam: int, count: int = FORCED) -> list[Product]:
    """All products of decoding a batch: `count` tokens for each of `rows` sentences, with `beam` hypotheses each."""
    found = encoding(shape, rows, places)
    every = rows * beam
    found += dense("decoder", every, shape.embedding, shape.gates * shape.decoder, count)
    for product in steps(shape, every, places, count):
        if product.batched and beam > 1:  # the hypotheses of a sentence share its memory
            product = replace(product, rows=rows, m=beam)
        found.append(product)
    found += dense("readout", every, shape.decoder + shape.memory, shape.decoder, count)
    found += dense("output", every, shape.decoder, shape.vocabulary, count)
    return [product for product in found if product.way == "forward"]
