"""Activations and their derivatives, drawn: why one of them lets a gradient through and another does not."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, get_args

import torch

from windlass.gradients.result import COLOURS, Result, Table, number, style
from windlass.nn.cells import RNN
from windlass.nn.fast.switch import disabled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Activation:
    """One activation over some inputs.

    >>> Activation("identity", (0.0, 1.0), (0.0, 1.0), (1.0, 1.0)).largest
    1.0
    """

    name: str
    inputs: tuple[float, ...]
    values: tuple[float, ...]
    derivatives: tuple[float, ...]

    @property
    def largest(self) -> float:
        """The largest derivative."""
        return max(self.derivatives)

    @property
    def passing(self) -> float:
        """The share of the inputs whose derivative is above a tenth."""
        return sum(derivative > 0.1 for derivative in self.derivatives) / len(self.derivatives)


@dataclass(frozen=True)
class Activations(Result):
    """All activations that a cell can have.

    >>> [activation.name for activation in activations().each]
    ['tanh', 'relu', 'sigmoid', 'identity']
    """

    size = (7.6, 3.6)

    each: tuple[Activation, ...]

    def tables(self) -> list[Table]:
        """The largest derivative, and what is left of it after several steps."""
        rows = [
            (a.name, number(a.largest), number(a.largest**10), number(a.largest**50), f"{a.passing:.0%}")
            for a in self.each
        ]
        headings = ("activation", "largest derivative", "to the 10th", "to the 50th", "inputs with more than 0.1")
        return [Table("Activations and their derivatives for inputs from -4 to 4", headings, rows)]

    def words(self) -> list[str]:
        """What the derivatives mean."""
        return [
            "A step multiplies the gradient by the derivative and by the recurrent weight. The sigmoid's is at most "
            "1/4, so it vanishes unless the weight is above 4; tanh's is 1 at 0 and falls quickly; relu's is 1 or 0."
        ]

    def to_json(self) -> dict[str, Any]:
        """The curves."""
        return {"what": "activations", "activations": [asdict(a) | {"largest": a.largest} for a in self.each]}

    def draw(self, figure: Figure) -> None:
        """The activations on the left, their derivatives on the right."""
        left, right = figure.subplots(1, 2)
        for n, a in enumerate(self.each):
            dashed = "--" if a.name == "identity" else "-"  # it lies on relu
            left.plot(a.inputs, a.values, color=COLOURS[n], lw=1.8, ls=dashed, label=a.name)
            right.plot(a.inputs, a.derivatives, color=COLOURS[n], lw=1.8, ls=dashed, label=a.name)
        style(left, "Activations", "input", "output")
        style(right, "Their derivatives", "input", "derivative")
        left.set_ylim(-1.6, 2.2)
        left.legend(frameon=False, fontsize=8)


def activations() -> Activations:
    """The activations of a recurrent cell, with their derivatives by autograd.

    >>> {activation.name: round(activation.largest, 3) for activation in activations().each}["sigmoid"]
    0.25
    """
    each = []
    with disabled():
        for name in get_args(RNN.Options.model_fields["activation"].annotation):
            x = torch.linspace(-4, 4, 161, dtype=torch.float64, requires_grad=True)
            cell = RNN.Options(activation=name, bias=False).build(1, 1).double()
            y = cell.step(x[:, None], (torch.zeros(161, 1, dtype=torch.float64),))[0][:, 0]  # act(x + U 0)
            (slope,) = torch.autograd.grad(y.sum(), x)
            each.append(Activation(name, tuple(x.tolist()), tuple(y.tolist()), tuple(slope.tolist())))
    return Activations(tuple(each))
