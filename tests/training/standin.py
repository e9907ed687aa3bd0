"""A small model, data and runs of it, for the tests of training."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from windlass.core.marks import EOS
from windlass.core.records import Batch, Memory, Scored
from windlass.data import Encoded, Loader, Sides
from windlass.data.sides.base import ids
from windlass.heads.recurrent import RecurrentDecoder
from windlass.recipe.train import TrainOptions
from windlass.training.checkpoint import checkpoints, load
from windlass.training.loop import Trainer
from windlass.training.observe import FitResult, Silent, Step

OPTIONS = {
    "optimiser": {"kind": "adam", "lr": 0.01},
    "schedule": {"kind": "plateau", "patience": 1, "factor": 0.5, "warmup": 4},
    "average": {"kind": "ema", "decay": 0.9},
    "sampling": {"kind": "linear", "first": 0.2, "last": 0.6, "epochs": 3},
    "epochs": 5,
    "batch_tokens": 24,
    "patience": 0,
    "threads": 1,
}


class Tiny(nn.Module):
    """A decoder with dropout over embedded sources."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 6)
        options = RecurrentDecoder.Options(size=6, dropout=0.3, embedding={"kind": "learned", "size": 5})
        self.head = RecurrentDecoder(options, vocabulary=12, memory_size=6, final_sizes=())
        self.chances: list[float] = []

    def forward(self, batch: Batch, carry: None = None, sampling_prob: float = 0.0) -> Scored:
        self.chances.append(sampling_prob)
        source = batch.inputs["source"]
        states = nn.functional.dropout(self.embedding(source.values), 0.2, self.training)
        return self.head.score(Memory(states, source.mask, states.mean(1)), batch, sampling_prob=sampling_prob)


class Vector(nn.Module):
    """Pulls its weights towards 1: the loss is (w - 1)^2 / 2 a row, whatever the batch."""

    def __init__(self, value: float = 0.0, size: tuple[int, ...] = (2, 2)) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.full(size, value))
        self.chances: list[float] = []

    def forward(self, batch: Batch, carry: None = None, sampling_prob: float = 0.0) -> Scored:
        self.chances.append(sampling_prob)
        count = torch.tensor(batch.size)
        return Scored(((self.w - 1) ** 2).sum() / 2 * count, count)


def build(seed: int = 3) -> Tiny:
    torch.manual_seed(seed)
    return Tiny()


def data(seed: int = 5, count: int = 24) -> Loader:
    generator = torch.Generator().manual_seed(0)
    rows = []
    for _ in range(count):
        length = int(torch.randint(1, 6, (), generator=generator))
        tokens = torch.randint(4, 12, (length,), generator=generator).tolist()
        rows.append(Encoded({"source": ids([*tokens, EOS])}, ids(tokens[::-1])))
    return Sides.tiny().loader(rows, batch_tokens=24, seed=seed, shuffle=True)


def dev_scores(model: nn.Module) -> dict[str, float]:
    """A score that moves both ways, and that draws random numbers, as a careless evaluation may."""
    batch = next(data(seed=9).epoch(0))
    scored = model(batch)
    return {"loss": scored.mean.item() + float(torch.rand(())), "tokens": scored.count.item()}


class Recorder(Silent):
    """Remembers what it was told; interrupts after a given step."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.stop_at, self.steps, self.notes, self.rows = stop_at, [], [], []  # type: ignore[var-annotated]
        self.plan = self.result = None

    def started(self, plan):
        self.plan = plan

    def step(self, step: Step) -> None:
        self.steps.append(step)
        if step.step == self.stop_at:
            raise KeyboardInterrupt

    def evaluated(self, row):
        self.rows.append(row)

    def ended(self, result):
        self.result = result

    def note(self, text: str) -> None:
        self.notes.append(text)


def train(
    folder: Path,
    observer: Silent | None = None,
    model: nn.Module | None = None,
    loader: Loader | None = None,
    evaluate: Callable[[nn.Module], dict[str, float]] = dev_scores,
    metric: str = "loss",
    higher_is_better: bool = False,
    save_best: Callable[[nn.Module, dict[str, float]], None] = lambda model, scores: None,
    resume: bool = False,
    seed: int = 1,
    dev_loss: Callable[[nn.Module], float] | None = None,
    **options: object,
) -> FitResult:
    trainer = Trainer(
        model if model is not None else build(),
        loader or data(),
        evaluate,
        metric,
        higher_is_better,
        TrainOptions.model_validate({**OPTIONS, **options}),
        folder,
        observer or Silent(),
        save_best,
        seed,
        dev_loss=dev_loss,
    )
    return trainer.fit(resume)


def newest(folder: Path) -> tuple[dict[str, Tensor], dict]:
    return load(checkpoints(folder)[0])


def same_run(a: Path, b: Path) -> bool:
    """Whether two runs stand at the same place, bit by bit: all but the time they took."""
    (tensors_a, data_a), (tensors_b, data_b) = newest(a), newest(b)
    assert tensors_a.keys() == tensors_b.keys()
    for name in tensors_a:
        assert tensors_a[name].dtype == tensors_b[name].dtype, name
        assert torch.equal(tensors_a[name], tensors_b[name]), name
    assert _timeless(data_a) == _timeless(data_b)
    return True


def _timeless(value: object) -> object:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if "second" not in k}
    return [_timeless(v) for v in value] if isinstance(value, list) else value


if __name__ == "__main__":  # the child of a test that kills it: the whole run in the folder named
    import os

    if "KILL_AT_WRITE" in os.environ:
        left, real = int(os.environ["KILL_AT_WRITE"]), os.fsync

        def slow(handle: int) -> None:
            global left
            if ".part" in os.readlink(f"/proc/self/fd/{handle}") and "checkpoint" in os.readlink(
                f"/proc/self/fd/{handle}"
            ):
                left -= 1
                if not left:
                    os.ftruncate(handle, os.fstat(handle).st_size // 2)  # half of it has reached the disk
                    print("writing", flush=True)
                    import time

                    time.sleep(60)
            real(handle)

        os.fsync = slow
    train(Path(sys.argv[1]), resume="--resume" in sys.argv)
