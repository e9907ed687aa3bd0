"""No contestant but the limit of all: the matrix products of the model and nothing else, back to back.

Every product is made at its own shape and in the layout that training has: x W^T forward, dy W for the gradient of the
input, dy^T x for that of the weights. Operands are made beforehand; nothing is added, squashed or copied.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch
from contest import Batch, Job, Watch, run
from shapes import FORCED, Product, decoding, training

LEFT, RIGHT, RESULT = 0, 1, 2
rooms = [torch.empty(0)] * 3  # shared by all products, each as large as its largest operand so far


def of(room: int, *shape: int) -> torch.Tensor:
    """An operand of this shape, in its room."""
    size = math.prod(shape)
    if size > rooms[room].numel():
        rooms[room] = torch.full((size,), 0.5)
    return rooms[room][:size].view(shape)


def ready(product: Product) -> Callable[[], object]:
    """The product as a call without arguments."""
    m, k, n, rows = product.m, product.k, product.n, product.rows
    if product.batched:
        left = of(LEFT, rows, k, m).transpose(1, 2) if product.way == "weights" else of(LEFT, rows, m, k)
        right = of(RIGHT, rows, n, k).transpose(1, 2) if product.way == "input" else of(RIGHT, rows, k, n)
        out = of(RESULT, rows, m, n)
        return lambda: torch.bmm(left, right, out=out)
    left = of(LEFT, k, m).t() if product.way == "weights" else of(LEFT, m, k)
    right = of(RIGHT, n, k).t() if product.way == "forward" else of(RIGHT, k, n)
    out = of(RESULT, m, n)
    return lambda: torch.mm(left, right, out=out)


def work(products: list[Product]) -> Callable[[], None]:
    calls = [(ready(product), product.times) for product in products]

    def go() -> None:
        for call, times in calls:
            for _ in range(times):
                call()

    return go


def train(job: Job, batches: list[Batch], watch: Watch) -> None:
    torch.set_num_threads(job.threads)
    flop = 0
    watch.begin(0)
    for batch in batches:
        rows, places = batch.source.shape
        products = training(job.shape, rows, places, batch.target.shape[1], batch.tokens)
        flop += sum(product.flop for product in products)
        go = work(products)
        watch.lap()
        go()
        watch.step(0.0)
    watch.notes.append(f"{flop / sum(batch.tokens for batch in batches) / 1e6:.1f} MFLOP a token")


def decoder(job: Job) -> Callable[[list[list[int]], int], list[list[int]]]:
    torch.set_num_threads(job.threads)

    @cache
    def products(rows: int, places: int, beam: int) -> Callable[[], None]:
        return work(decoding(job.shape, rows, places, beam))

    def translate(sources: list[list[int]], beam: int) -> list[list[int]]:
        products(len(sources), len(sources[0]), beam)()
        return [[0] * FORCED for _ in sources]

    return translate


if __name__ == "__main__":
    run(train, decoder)
