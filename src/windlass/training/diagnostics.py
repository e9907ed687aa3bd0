"""Diagnostics of a run at regular intervals: gradients and updates by layer, attention entropy, saturated gates."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from windlass.core.records import Batch, Hypothesis
from windlass.core.tensors import atomic_write
from windlass.model import Model
from windlass.nn.recording import recorded
from windlass.training.rng import fork_rng

ROWS = 4
"""Examples of the batch on which attention and gates are measured."""
LOW, HIGH = 0.1, 0.9
"""A gate is saturated outside of these (Karpathy et al. 2015)."""
SATURATED = 0.95
"""A share of saturated gates that is too large to learn from."""
VANISHED = 1e-6
"""A layer whose gradient norm is less than this share of the largest does not learn."""
PERSISTENT = 3
"""Consecutive measurements that must agree before a finding is reported."""
LARGE_UPDATE, SMALL_UPDATE = 0.1, 1e-6
"""Ratios of update to weights outside of which the learning rate is wrong; about 0.001 is usual."""
UNIFORM = 0.98
"""Attention with more than this share of the largest entropy tells no place from another."""


@dataclass(frozen=True)
class Diagnosis:
    """What was measured at a step.

    >>> Diagnosis(5, {"head": 0.5}, {"head": 0.01}, attention_entropy=0.25).scalars()
    {'gradient/head': 0.5, 'update/head': 0.01, 'attention_entropy': 0.25}
    """

    step: int
    gradients: dict[str, float]  # the norm of each layer's gradient, before clipping
    updates: dict[str, float]  # of each layer's matrices: norm of the update over norm of the weights
    attention_entropy: float | None = None  # over that of uniform weights: 0 is one place, 1 all places alike
    saturated: dict[str, float] = field(default_factory=dict)  # of each gate, the share of saturated values

    def scalars(self) -> dict[str, float]:
        """All figures by name, for TensorBoard."""
        named = {f"gradient/{layer}": value for layer, value in self.gradients.items()}
        named |= {f"update/{layer}": value for layer, value in self.updates.items()}
        named |= {f"saturated/{gate}": value for gate, value in self.saturated.items()}
        return named if self.attention_entropy is None else {**named, "attention_entropy": self.attention_entropy}


@dataclass
class Diagnostics:
    """Measures a model around an optimiser step: `before` and `after` it.

    A layer is a module with parameters of its own. Nothing of the run changes: random numbers are put back, and
    attention is measured in eval mode.

    >>> model = nn.Sequential(nn.Linear(2, 1, bias=False))
    >>> _ = model[0].weight.data.fill_(2.0)
    >>> optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> diagnostics = Diagnostics(model)
    >>> diagnostics.before()
    >>> optimiser.step()
    >>> diagnosis = diagnostics.after(1)
    >>> [round(value, 3) for value in (diagnosis.gradients["0"], diagnosis.updates["0"])]
    [1.414, 0.05]
    """

    model: nn.Module
    seen: dict[str, int] = field(default_factory=dict)  # findings, and for how many measurements in a row
    reported: set[str] = field(default_factory=set)

    def before(self) -> None:
        """Remember gradients and weights; call it before gradients are clipped."""
        self.gradients = {
            layer: _norm([g for p in parameters if (g := _dense(p.grad)) is not None])
            for layer, parameters in self._layers()
        }
        self.weights = {
            layer: [p.detach().clone() for p in parameters if p.dim() > 1] for layer, parameters in self._layers()
        }

    def after(self, step: int, batch: Batch | None = None) -> Diagnosis:
        """Compare the weights with those before the step, and measure attention on a part of the batch."""
        updates = {}
        for layer, parameters in self._layers():
            matrices, old = [p.detach() for p in parameters if p.dim() > 1], self.weights[layer]
            size = _norm(old)
            if size > 0:
                updates[layer] = _norm(torch._foreach_sub(matrices, old)) / size
        self.weights = {}
        entropy, saturated = (None, {}) if batch is None else self._look(batch)
        return Diagnosis(step, self.gradients, updates, entropy, saturated)

    def findings(self, diagnosis: Diagnosis, warm: bool) -> list[str]:
        """What is wrong, in words, each once a run. `warm` is True once the warm-up and an epoch are over."""
        found: dict[str, str] = {}
        largest = max(diagnosis.gradients.values(), default=0.0)
        for layer, norm in diagnosis.gradients.items():
            if 0 < norm < VANISHED * largest:  # exactly 0: no output depends on it, as of attention over one place
                found[f"vanishing {layer}"] = (
                    f"the gradient vanishes in {layer}: its norm is {norm:.1g}, the largest layer's {largest:.1g}; "
                    "use a cell with gates, fewer layers, or connect: residual"
                )
        for layer, ratio in diagnosis.updates.items():
            if warm and ratio > LARGE_UPDATE:
                found[f"large {layer}"] = (
                    f"a step changes the weights of {layer} by {ratio:.0%} (about 0.1% is usual); "
                    "lower train.optimiser.lr"
                )
        moved = max(diagnosis.updates.values(), default=math.inf)
        if warm and moved < SMALL_UPDATE:
            found["still"] = f"the weights hardly change ({moved:.1g} of their norm a step); raise train.optimiser.lr"
        entropy = diagnosis.attention_entropy
        if warm and entropy is not None and entropy > UNIFORM:
            found["uniform"] = (
                f"attention is uniform (its entropy is {entropy:.0%} of the largest): the model has not learned where "
                "to look; train longer, or check that sources and targets belong together"
            )
        for gate, share in diagnosis.saturated.items():
            if warm and share > SATURATED:
                found[f"saturated {gate}"] = (
                    f"{share:.0%} of the values of the {gate} gate are below {LOW} or above {HIGH}, where it hardly "
                    "learns; lower train.optimiser.lr"
                )
        self.seen = {key: self.seen.get(key, 0) + 1 for key in found}
        new = [key for key, times in self.seen.items() if times >= PERSISTENT and key not in self.reported]
        self.reported |= set(new)
        return [f"step {diagnosis.step}: {found[key]}" for key in new]

    def _layers(self) -> Iterator[tuple[str, list[nn.Parameter]]]:
        for name, module in self.model.named_modules():
            trained = [p for p in module.parameters(recurse=False) if p.requires_grad]
            if trained:
                yield name or "model", trained

    def _look(self, batch: Batch) -> tuple[float | None, dict[str, float]]:
        """The entropy of the attention under teacher forcing, and the share of saturated gates."""
        if not isinstance(self.model, Model) or batch.target is None:
            return None, {}
        part = batch.select(torch.arange(min(ROWS, batch.size), device=batch.keys.device))
        forced: list[Hypothesis] = []
        with fork_rng(), torch.no_grad(), recorded(self.model) as steps:
            self.model.eval()
            try:
                if part.continues is None:
                    forced = self.model.head.force(self.model.encode(part), part)
                else:  # running text has no output to force
                    self.model(part)
            finally:
                self.model.train()
        entropy = relative_entropy([hypothesis.weights for hypothesis in forced if hypothesis.weights is not None])
        return entropy, saturation([gates for each in steps.values() for _, gates in each])


def saturation(steps: Sequence[dict[str, Tensor]]) -> dict[str, float]:
    """The share of each gate's values that are saturated, over all cells and steps.

    >>> saturation([{"forget": torch.tensor([0.05, 0.5])}, {"forget": torch.tensor([0.95, 0.99])}])
    {'forget': 0.75}
    """
    values: dict[str, list[Tensor]] = {}
    for gates in steps:
        for name, gate in gates.items():
            values.setdefault(name, []).append(((gate < LOW) | (gate > HIGH)).double().mean())
    return {name: float(torch.stack(each).mean()) for name, each in values.items()}


def relative_entropy(attention: list[Tensor]) -> float | None:
    """The mean entropy of attention weights (T, S), one tensor an example, over that of uniform weights.

    Places that no step attends to are padding. None without attention, or if all of it is over one place.

    >>> relative_entropy([torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])])
    0.5
    """
    shares: list[Tensor] = []
    for weights in attention:
        places = int((weights.sum(0) > 0).sum())
        if places > 1:
            shares.append(torch.special.entr(weights.double()).sum(-1) / math.log(places))
    return float(torch.cat(shares).mean()) if shares else None


def _dense(gradient: Tensor | None) -> Tensor | None:
    return gradient.coalesce().values() if gradient is not None and gradient.is_sparse else gradient


def _norm(tensors: list[Tensor] | tuple[Tensor, ...]) -> float:
    return float(nn.utils.get_total_norm(tensors)) if tensors else 0.0


def write(log: Path, diagnosis: Diagnosis) -> None:
    """Append a diagnosis to a log.

    >>> from tempfile import mkdtemp
    >>> log = Path(mkdtemp()) / "diagnostics.jsonl"
    >>> for step in (10, 20):
    ...     write(log, Diagnosis(step, {}, {}))
    >>> drop_after(log, 10)
    >>> [json.loads(line)["step"] for line in log.read_text().splitlines()]
    [10]
    """
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(diagnosis)) + "\n")


def drop_after(log: Path, step: int) -> None:
    """Drop what was measured after a step, and a line that a kill cut off: the run measures it again.

    >>> drop_after(Path("missing.jsonl"), 0)
    """
    if not log.exists():
        return
    kept = []
    for line in log.read_text(encoding="utf-8").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line + "\n")
        except (ValueError, KeyError, TypeError):
            continue
    atomic_write(log, "".join(kept).encode())
