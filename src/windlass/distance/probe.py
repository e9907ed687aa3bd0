"""Put a cell through a problem: train on all gaps at once, then measure the accuracy at each.

The loop is a few lines of plain torch on the library's cells and attention, not the training loop of recipes: rows are
drawn without end, so there are no epochs, files, vocabularies or checkpoints to keep.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from windlass.core.records import Memory
from windlass.distance.problems import Problem, Sample
from windlass.nn.attention import Additive, Attention
from windlass.nn.cells import CellOptions
from windlass.nn.recurrence import run

GAPS = (0, 2, 4, 8, 16, 32, 64)
"""The gaps that are trained and tested."""
FURTHER = (128, 256)
"""Longer gaps that are tested only."""


@dataclass(frozen=True)
class Training:
    """How a network of the test is trained.

    >>> Training(updates=100).rate
    0.01
    """

    size: int = 48  # units of the cell
    updates: int = 2000
    rows: int = 32  # per update
    rate: float = 1e-2  # of Adam; it falls to a tenth along a cosine
    clip: float = 1.0  # norm of the gradient
    tested: int = 512  # rows per gap
    gaps: tuple[int, ...] = GAPS  # trained and tested
    further: tuple[int, ...] = FURTHER  # tested only


class Network(nn.Module):
    """One layer of a cell over embedded inputs, and a readout at the last places, with attention or without.

    o_t = tanh(W [h_t; c_t])    y_t = V o_t + b    c_t: additive attention over the states up to the question, or none

    >>> from windlass.distance.problems import PROBLEMS
    >>> from windlass.nn.cells import LSTM
    >>> network = Network(PROBLEMS["copying"], LSTM.Options(), size=8, attention=True)
    >>> network(torch.zeros(2, 10, dtype=torch.long), 3).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, problem: Problem, cell: CellOptions, size: int, attention: bool):
        super().__init__()
        numbers = problem.classes is None
        width = problem.inputs if numbers else 16
        self.embedding = None if numbers else nn.Embedding(problem.inputs, width)
        self.cell = cell.build(width, size)
        self.attention = Attention(Additive.Options(size=size), size, size) if attention else None
        self.join = nn.Linear(size * (2 if attention else 1), size)
        self.output = nn.Linear(size, problem.classes or 1)

    def forward(self, inputs: Tensor, places: int) -> Tensor:
        """Scores (B, K, V), or numbers (B, K, 1), at the last `places` places of inputs (B, S)."""
        states, _ = run(self.cell, inputs if self.embedding is None else self.embedding(inputs))
        read = states[:, -places:]  # (B, K, H)
        if self.attention is not None:
            # The states at the last places are not attended to: they have read the questions of later ones.
            known = states[:, : states.size(1) - places + 1]
            mask = torch.ones(known.shape[:2], dtype=torch.bool)
            context, _ = self.attention(read, self.attention.prepare(Memory(known, mask, known[:, 0])))
            read = torch.cat([read, context], dim=-1)
        scores: Tensor = self.output(torch.tanh(self.join(read)))
        return scores


def _loss(problem: Problem, scores: Tensor, sample: Sample) -> Tensor:
    if problem.classes is None:
        return F.mse_loss(scores[..., 0], sample.answers)
    return F.cross_entropy(scores.flatten(0, 1), sample.answers.flatten())


def _right(problem: Problem, scores: Tensor, sample: Sample) -> Tensor:
    if problem.classes is None:
        return (scores[..., 0] - sample.answers).abs() < problem.tolerance
    return scores.argmax(-1) == sample.answers


@dataclass(frozen=True)
class Outcome:
    """The accuracy of one trained network at every gap.

    >>> Outcome("copying", "rnn", False, 1, {2: 1.0, 8: 0.95, 32: 0.4}, 3000, 12.0).falls()
    32
    """

    problem: str
    cell: str
    attention: bool
    seed: int
    accuracy: dict[int, float]  # by gap
    updates: int
    seconds: float

    def falls(self, least: float = 0.9) -> int | None:
        """The smallest gap with an accuracy below `least`; None: there is none."""
        return next((gap for gap, value in sorted(self.accuracy.items()) if value < least), None)

    def to_json(self) -> dict[str, Any]:
        """For JSON, whose keys are texts.

        >>> Outcome("copying", "rnn", False, 1, {2: 1.0}, 3000, 12.0).to_json()["accuracy"]
        {'2': 1.0}
        """
        return asdict(self) | {"accuracy": {str(gap): round(value, 4) for gap, value in self.accuracy.items()}}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Outcome:
        """What `to_json` gave.

        >>> one = Outcome("copying", "rnn", False, 1, {2: 1.0}, 3000, 12.0)
        >>> Outcome.from_json(one.to_json()) == one
        True
        """
        return cls(**row | {"accuracy": {int(gap): value for gap, value in row["accuracy"].items()}})


def probe(
    problem: Problem, name: str, cell: CellOptions, attention: bool, seed: int, training: Training | None = None
) -> Outcome:
    """Train a cell on a problem and test it; training ends early when it is right at every gap.

    >>> from windlass.distance.problems import PROBLEMS
    >>> from windlass.nn.cells import GRU
    >>> training = Training(size=4, updates=2, gaps=(0, 2), further=(4,), tested=8)
    >>> sorted(probe(PROBLEMS["brackets"], "gru", GRU.Options(), True, 1, training).accuracy)
    [0, 2, 4]
    """
    how, random, started = training or Training(), Random(f"{problem.name} {seed}"), time.process_time()
    torch.manual_seed(seed)
    network = Network(problem, cell, how.size, attention)
    optimiser = torch.optim.Adam(network.parameters(), how.rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, how.updates, how.rate / 10)
    checks = max(1, how.updates // 20)
    update = 0
    while update < how.updates:
        sample = problem.draw(random.choice(how.gaps), how.rows, random)
        loss = _loss(problem, network(sample.inputs, sample.answers.size(1)), sample)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), how.clip)
        optimiser.step()
        schedule.step()
        update += 1
        if update % checks == 0 and update < how.updates:
            quick = accuracy_at(network, problem, how.gaps, 128, Random(f"check {update}"))
            if min(quick.values()) > 0.99:
                break
    accuracy = accuracy_at(network, problem, (*how.gaps, *how.further), how.tested, Random("test"))
    return Outcome(problem.name, name, attention, seed, accuracy, update, round(time.process_time() - started, 1))


@torch.no_grad()
def accuracy_at(network: Network, problem: Problem, gaps: Sequence[int], rows: int, random: Random) -> dict[int, float]:
    """The accuracy of a network at every gap.

    >>> from windlass.distance.problems import PROBLEMS
    >>> from windlass.nn.cells import GRU
    >>> problem = PROBLEMS["agreement"]
    >>> 0 <= accuracy_at(Network(problem, GRU.Options(), 4, False), problem, [2], 16, Random(1))[2] <= 1
    True
    """
    accuracy = {}
    for gap in gaps:
        samples = [problem.draw(gap, rows // 4, random) for _ in range(4)]
        right = [_right(problem, network(s.inputs, s.answers.size(1)), s).float().mean() for s in samples]
        accuracy[gap] = float(torch.stack(right).mean())
    return accuracy
