"""Windlass through its public pieces: `model.build`, `training.loop.Trainer` as it really is, `decoding.search`.

The batches are given to `fit` by a loader that only holds them; what is timed is from one call of the observer to the
next. After the last batch the run is broken off, before the evaluation and the checkpoint that no other contestant has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import contest
import torch
from contest import CLIP, LEARNING_RATE, SEED, Job, Watch
from shapes import EOS, FORCED
from torch import nn

from windlass.core.records import Batch, Member, Padded, Scored
from windlass.decoding.options import Beam, Greedy
from windlass.decoding.search import SearchRequest
from windlass.heads.base import LossOptions
from windlass.model import ModelOptions, build
from windlass.nn.embedding import Learned
from windlass.nn.loss import output_loss
from windlass.nn.recurrence import Stack, StackOptions
from windlass.recipe.train import Adam, TrainOptions
from windlass.training.data_parallel import ComputeGradients
from windlass.training.loop import Trainer
from windlass.training.observe import Silent, Step


def options(job: Job) -> ModelOptions:
    shape = job.shape
    attention = (
        {"score": {"kind": "additive", "size": shape.decoder}, "query": "previous"}
        if shape.attention == "additive"
        else {"score": "bilinear", "query": "current", "input_feeding": shape.feeding}
    )
    stack = {"cell": shape.cell, "layers": shape.layers, "embedding": {"kind": "learned", "size": shape.embedding}}
    return ModelOptions.model_validate(
        {
            "encoder": {"kind": "recurrent", "size": shape.encoder, **stack},
            "decoder": {
                **stack,
                "size": shape.decoder,
                "start": "final" if shape.layers > 1 else "summary",
                "context": {"kind": "attention", **attention},
                "readout": {"kind": "joined", "size": shape.decoder},
            },
        }
    )


class LanguageModel(nn.Module):
    """The shape of a language model, from the library's parts."""

    def __init__(self, job: Job):
        super().__init__()
        shape = job.shape
        self.embedding = Learned(size=shape.embedding).build(shape.vocabulary)
        self.stack = Stack(shape.embedding, StackOptions(cell=shape.cell, size=shape.decoder, layers=shape.layers))
        self.output = nn.Linear(shape.decoder, shape.vocabulary)

    def forward(self, batch: Batch, carry: None = None, sampling_prob: float = 0.0) -> Scored:
        assert batch.target is not None
        states, _ = self.stack(self.embedding(batch.inputs["source"].values))
        gold = batch.target.values.flatten()
        loss, _ = output_loss(states.flatten(0, 1), self.output.weight, self.output.bias, gold)
        return Scored(loss, torch.tensor(gold.numel()))


def make(job: Job) -> nn.Module:
    torch.manual_seed(SEED)
    if not job.shape.encoder:
        return LanguageModel(job)
    return build(options(job), LossOptions(), job.shape.vocabulary, job.shape.vocabulary)


class Held:
    """A loader of batches that are there already."""

    def __init__(self, batches: list[contest.Batch]):
        self.held = [
            Batch({"source": _padded(b.source)}, _padded(b.target), torch.arange(len(b.source))) for b in batches
        ]

    def batches(self, number: int) -> int:
        return len(self.held)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        yield from self.held[start:]


def _padded(ids: contest.np.ndarray) -> Padded:
    values = torch.from_numpy(ids)
    return Padded(values, values != 0)


class EnoughError(Exception):
    """All batches are done."""


class Clock(Silent):
    """Tells the watch of every step."""

    def __init__(self, watch: Watch, steps: int):
        self.watch, self.steps = watch, steps

    def step(self, step: Step) -> None:
        self.watch.step(step.loss)
        if step.step == self.steps:
            raise EnoughError

    def note(self, text: str) -> None:
        self.watch.notes.append(text)


def fit_model(
    model: nn.Module, batches: list[contest.Batch], watch: Watch, threads: int, compute: ComputeGradients | None = None
) -> None:
    """Train until the last batch, which ends with an EnoughError."""
    how = TrainOptions(
        optimiser=Adam(lr=LEARNING_RATE), clip=CLIP, epochs=1, threads=threads, checkpoint_minutes=1e9, patience=0
    )
    loader, clock = Held(batches), Clock(watch, len(batches))
    watch.begin(sum(p.numel() for p in model.parameters()))
    with TemporaryDirectory() as folder:
        Trainer(
            model, loader, lambda _: {"none": 0.0}, "none", True, how, Path(folder), clock, lambda *_: None,
            seed=SEED, compute_gradients=compute,
        ).fit()  # fmt: skip


def train(job: Job, batches: list[contest.Batch], watch: Watch) -> None:
    with suppress(EnoughError):
        fit_model(make(job), batches, watch, job.threads)


def decoder(job: Job, int8: bool = False) -> Callable[[list[list[int]], int], list[list[int]]]:
    torch.set_num_threads(job.threads)
    model = make(job).eval()
    model.head.output.bias.data[EOS] = -1e4  # so that no output ends before its limit

    @torch.inference_mode()
    def translate(sources: list[list[int]], beam: int) -> list[list[int]]:
        limit = {"length_factor": 0.0, "length_plus": FORCED}
        how = Greedy(**limit) if beam == 1 else Beam(size=beam, **limit)
        batch = Batch({"source": Padded.of(sources)}, None, torch.arange(len(sources)))
        member = Member(model.head, model.infer(batch, int8), batch, int8)
        return [list(found[0].ids) for found in model.head.predict([member], SearchRequest(how))]

    return translate


if __name__ == "__main__":
    contest.run(train, decoder)
