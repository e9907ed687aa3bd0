"""What each fast path of `nn/fast` earns: the same work with and without it, in turns.

    python benchmarks/speed/fast_paths.py --rounds 9

CPU time of this process, of one thread; medians. S, M and LM are the models of `shapes.py`, small is an LSTM of 128
units with attention, for pronunciations. A path is taken away alone, so the figures do not add up; "all" is
`fast.disabled()`.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

sys.path.insert(0, str(Path(__file__).parent / "contestants"))
sys.path.insert(0, str(Path(__file__).parents[1]))  # for `common`, which all benchmarks share

import ours
import torch
from common import report
from contest import Job
from shapes import EOS, FORCED
from torch import nn
from torch.nn import functional as F

from windlass.core.records import Batch, Padded
from windlass.decoding.options import Beam, Greedy
from windlass.decoding.search import search
from windlass.model import LossOptions, ModelOptions, build
from windlass.nn import fast
from windlass.nn.cells import GRU, LSTM, Convolution
from windlass.nn.fast import loss as blocked
from windlass.nn.fast import onednn
from windlass.nn.fast.onednn import prepare_training
from windlass.nn.loss import cross_entropy
from windlass.nn.recurrence import run
from windlass.recipe.train import Adam
from windlass.training.lazy import clip_gradients
from windlass.training.optimiser import build_optimiser

Work = Callable[[], object]
Without = Callable[[], AbstractContextManager[Any]]
FAST = "windlass.nn.fast"


def plain_loss(
    o: torch.Tensor, w: torch.Tensor, b: torch.Tensor, gold: torch.Tensor, smoothing: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    return cross_entropy(F.linear(o, w, b), gold, smoothing)


def plain_tanh() -> ExitStack:
    stack = ExitStack()
    for module in (
        "windlass.nn.cells",
        "windlass.heads.recurrent",
        "windlass.heads.fast.inference",
        f"{FAST}.recurrence",
    ):
        stack.enter_context(patch(f"{module}.tanh", torch.tanh))
    for module in ("windlass.nn.attention", f"{FAST}.recurrence", f"{FAST}.decoder"):
        stack.enter_context(patch(f"{module}.tanh_", torch.tanh_))
    return stack


def nothing(*_: Any, **__: Any) -> None:
    """Offers no fast path."""


NOT_FUSED = partial(patch, "windlass.heads.recurrent.RecurrentDecoder.fused", nothing)
NO_TORCH_LSTM = partial(patch, f"{FAST}.torch_lstm.suits", nothing)
STEPS = partial(patch, "windlass.nn.cells.Cell.fused", nothing)
NO_ONEDNN = partial(patch.object, onednn, "works", nothing)
NO_BLOCKS = partial(patch.object, blocked, "output_loss", plain_loss)
NO_TOP_K = partial(patch, "windlass.decoding.sampling.blocked_topk", nothing)
TRAINING: dict[str, Without] = {
    "fused decoder": NOT_FUSED,
    "fused recurrence, torch's LSTM": STEPS,
    "blocked output loss": NO_BLOCKS,
    "oneDNN products": NO_ONEDNN,
    "tanh by sigmoid": plain_tanh,
    "all": fast.disabled,
}


def turns(with_it: Work, without: Work, rounds: int) -> tuple[float, float]:
    """Median CPU milliseconds of both."""
    times: dict[Work, list[float]] = {with_it: [], without: []}
    for number in range(rounds + 1):
        for work in (with_it, without) if number % 2 else (without, with_it):
            began = time.process_time()
            work()
            times[work].append(1e3 * (time.process_time() - began))
    a, b = (statistics.median(times[work][1:]) for work in (with_it, without))  # the first turn warms up
    return a, b


def inside(context: Without, work: Work) -> Work:
    def done() -> None:
        with context():
            work()

    return done


def rows(count: int, shortest: int, longest: int, vocabulary: int, seed: int) -> Padded:
    draws = random.Random(seed)
    lengths = [draws.randint(shortest, longest) for _ in range(count)]
    return Padded.of([[draws.randrange(4, vocabulary) for _ in range(n)] + [EOS] for n in lengths])


def pairs(count: int = 64, shortest: int = 11, longest: int = 13, vocabulary: int = 8000) -> Batch:
    source, target = (rows(count, shortest, longest, vocabulary, seed) for seed in (1, 2))
    return Batch({"source": source}, target, torch.arange(count))


def stepper(model: nn.Module, batch: Batch) -> Work:
    parameters = list(model.parameters())
    optimiser = build_optimiser(Adam(), model)

    def step() -> None:
        for parameter in parameters:
            parameter.grad = None
        model(batch).mean.backward()
        clip_gradients(parameters, 1.0)
        optimiser.step()

    return step


def small() -> nn.Module:
    stack = {"cell": "lstm", "size": 128, "embedding": {"kind": "learned", "size": 128}}
    context = {"kind": "attention", "score": {"kind": "additive", "size": 128}}
    decoder = {**stack, "start": "summary", "context": context, "readout": {"kind": "deep", "size": 128}}
    options = {"encoder": {"kind": "recurrent", **stack}, "decoder": decoder}
    torch.manual_seed(1)
    return build(ModelOptions.model_validate(options), LossOptions(), 60, 60)


def training(measure: Callable[[str, Work, Work], None]) -> None:
    model = {name: ours.make(Job(name, "train", 1, "")) for name in ("S", "M", "LM")}
    ids = torch.randint(4, 10_000, (20, 21))
    text = Batch({"source": Padded(ids[:, :-1], ids[:, :-1] > 0)}, Padded(ids[:, 1:], ids[:, 1:] > 0), torch.arange(20))
    steps = {
        "small": stepper(small(), pairs(96, 5, 9, 60)),
        "S": stepper(model["S"], pairs()),
        "M": stepper(model["M"], pairs()),
        "LM": stepper(model["LM"], text),
        "S, 200 places": stepper(model["S"], pairs(8, 190, 198)),
    }
    for name, step in steps.items():
        for path, without in TRAINING.items():
            if name != "LM" or path != "fused decoder":
                measure(f"{name}: {path}", step, inside(without, step))
    long = steps["S, 200 places"]
    measure("S, 200 places: score in blocks", long, inside(partial(patch, f"{FAST}.attention.block_rows", len), long))
    for name, early in (("S", False), ("S, 200 places", True)):
        other = partial(patch, "windlass.heads.fast.fused.multiply_early", Mock(return_value=early))
        measure(f"{name}: when values meet their weights", steps[name], inside(other, steps[name]))
    for kind, size, count, length in CELLS:
        name, work = f"{kind.__name__} of {size}, {count} rows of {length}", recurrence(kind, size, count, length)
        by_steps = inside(partial(patch.object, kind, "fused", nothing), work)
        if kind is LSTM:
            fused = inside(NO_TORCH_LSTM, work)
            measure(f"{name}: torch's LSTM, against ours", work, fused)
            measure(f"{name}: ours, against steps", fused, by_steps)
        else:
            measure(f"{name}: fused, against steps", work, by_steps)


CELLS = [
    *((LSTM, 25, 32, 8), (LSTM, 128, 32, 20), (LSTM, 256, 64, 15)),
    *((GRU, 64, 32, 20), (GRU, 256, 64, 15), (Convolution, 64, 20, 20), (Convolution, 256, 64, 15)),
]


def recurrence(kind: Any, size: int, count: int, length: int) -> Work:
    cell, x = kind.Options().build(size, size), torch.randn(count, length, size, requires_grad=True)
    return lambda: [run(cell, x)[0].sum().backward() for _ in range(4)]


class Translation:
    """A search that is forced to a number of tokens."""

    def __init__(self, model: Any, beam: int, count: int):
        limit = {"length_factor": 0.0, "length_plus": FORCED}
        self.how = Greedy(**limit) if beam == 1 else Beam(size=beam, **limit)
        self.model, self.times = model, 8 if count == 1 else 1
        self.batch = Batch({"source": rows(count, 14, 14, 8000, 3)}, None, torch.arange(count))

    @torch.inference_mode()
    def __call__(self, head: Any = None, int8: bool = False) -> None:
        for _ in range(self.times):
            search([head or self.model.head], [self.model.infer(self.batch, int8)], self.how)

    @torch.inference_mode()
    def encode(self, fast_: bool) -> None:
        for _ in range(4 * self.times):
            self.model.infer(self.batch) if fast_ else self.model.encode(self.batch)


def decoding(measure: Callable[[str, Work, Work], None]) -> None:
    for name in ("S", "M"):
        model = ours.make(Job(name, "decode", 1, "")).eval()
        model.head.output.bias.data[EOS] = -1e4
        with NO_ONEDNN():
            transposed = fast.inference(model.head)
        torch.autograd.graph.increment_version(list(model.parameters()))  # so that the next are packed anew
        for beam, count in ((1, 1), (1, 64), (5, 1), (5, 64)):
            go, label = Translation(model, beam, count), f"{name}, beam {beam}, batch {count}"
            eight = partial(go, fast.inference(model.head, int8=True), int8=True)
            measure(f"{label}: packed decoder, against its steps", go, partial(go, Bare(model.head)))
            measure(f"{label}: oneDNN's layout, against transposed", go, partial(go, transposed))
            measure(f"{label}: 8 bits", eight, go)
            measure(f"{label}: tanh by sigmoid", go, inside(plain_tanh, go))
            measure(f"{label}: blocked top-k", go, inside(NO_TOP_K, go))
            measure(f"{label}, 8 bits: blocked top-k", eight, inside(NO_TOP_K, eight))
            measure(f"{label}: all", go, inside(fast.disabled, go))
            if beam == 1:
                packed, plain = partial(go.encode, True), partial(go.encode, False)
                measure(f"{name}, encoder, batch {count}: packed stack", packed, plain)


class Bare:
    """A head that offers no inference form."""

    def __init__(self, head: Any):
        self.begin, self.step = head.begin, head.step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--what", nargs="+", default=["training", "decoding"], choices=["training", "decoding"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    prepare_training()
    results: dict[str, dict[str, float]] = {}

    def measure(name: str, with_it: Work, without: Work) -> None:
        a, b = turns(with_it, without, options.rounds)
        results[name] = {
            "with_ms": round(a, 2),
            "without_ms": round(b, 2),
            "earns_percent": round(100 * (b / a - 1), 1),
        }
        print(f"{name:60} {a:9.1f} ms with, {b:9.1f} ms without: {100 * (b / a - 1):6.1f} %", flush=True)

    for what in options.what:
        {"training": training, "decoding": decoding}[what](measure)
    report("fast-paths", {"rounds": options.rounds, "paths": results})


if __name__ == "__main__":
    main()
