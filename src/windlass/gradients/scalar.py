"""The scalar network h_t = act(w h_(t-1) + u x_t): its gradient in closed form beside the measured one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from windlass.gradients.reading import fresh
from windlass.gradients.result import COLOURS, Result, Table, number, style
from windlass.nn.cells import RNN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PRINTED = {(1.1, 50): 117.4, (0.9, 50): 0.00515}
"""What the decks print for d h_T / d h_1, by w and T."""


@dataclass(frozen=True)
class Scalar:
    """One weight.

    >>> Scalar(1.1, 50, closed=1.1**49, measured=1.1**49, squashed_closed=0.0, squashed=0.0).power == 1.1**50
    True
    """

    weight: float
    steps: int
    closed: float  # w^(T-1)
    measured: float  # by autograd, linear
    squashed_closed: float  # w^(T-1) times the derivatives of tanh at z_2 .. z_T
    squashed: float  # by autograd, with tanh

    @property
    def power(self) -> float:
        """w^T."""
        return float(self.weight**self.steps)


@dataclass(frozen=True)
class Scalars(Result):
    """Several weights.

    >>> print(scalars().words()[0])
    The decks print 0.00515 for w = 0.9 and 117.4 for w = 1.1 at T = 50. These are w^50; from h_1 to h_50 there are 49
    steps, and their own formula, w^(T-1), gives 0.005726 and 106.7.
    """

    cases: tuple[Scalar, ...]

    def tables(self) -> list[Table]:
        """A row a weight."""
        rows = [
            (
                f"{case.weight:g}",
                str(case.steps),
                *(number(x, 4) for x in (case.closed, case.measured, case.power)),
                f"{PRINTED[case.weight, case.steps]:g}" if (case.weight, case.steps) in PRINTED else "",
                *(number(x, 4) for x in (case.squashed_closed, case.squashed)),
            )
            for case in self.cases
        ]
        headings = ("w", "T", "w^(T-1)", "autograd", "w^T", "decks print", "with tanh", "autograd, tanh")
        return [Table("d h_T / d h_1 of a scalar network, linear and with tanh", headings, rows)]

    def words(self) -> list[str]:
        """The decks' slip, and what the figures say."""
        printed = [case for case in self.cases if (case.weight, case.steps) in PRINTED]
        said = []
        if printed:
            shown = " and ".join(f"{PRINTED[c.weight, c.steps]:g} for w = {c.weight:g}" for c in printed)
            right = " and ".join(number(case.closed, 4) for case in printed)
            said.append(
                f"The decks print {shown} at T = 50. These are w^50; from h_1 to h_50 there are 49 steps, and "
                f"their own formula, w^(T-1), gives {right}."
            )
        for case in self.cases:
            verdict = "explodes" if abs(case.weight) > 1 else "vanishes" if abs(case.weight) < 1 else "stays"
            said.append(
                f"w = {case.weight:g} {verdict} without an activation; with tanh {number(case.squashed)} is left."
            )
        return said

    def to_json(self) -> dict[str, Any]:
        """All figures."""
        cases = [
            asdict(case) | {"power": case.power, "printed": PRINTED.get((case.weight, case.steps))}
            for case in self.cases
        ]
        return {"what": "scalar", "cases": cases}

    def draw(self, figure: Figure) -> None:
        """w^k over k, closed form; the measured values as points."""
        axes = figure.subplots()
        for n, case in enumerate(self.cases):
            colour, distances = COLOURS[n % len(COLOURS)], range(case.steps)
            axes.plot(distances, [abs(case.weight) ** k for k in distances], color=colour, lw=1.6,
                      label=f"w = {case.weight:g}")  # fmt: skip
            axes.plot([case.steps - 1], [abs(case.measured)], "o", color=colour)
        axes.set_yscale("log")
        style(axes, "w^k, and autograd's d h_T / d h_1 as points", "steps back, k", "size of the gradient")
        axes.legend(frameon=False, fontsize=8)


def scalar(weight: float, steps: int = 50, seed: int = 1) -> Scalar:
    """Measure d h_T / d h_1 of a scalar network, linear and with tanh, beside the closed forms.

    >>> case = scalar(1.1)
    >>> round(case.closed, 1), abs(case.measured / case.closed - 1) < 1e-12
    (106.7, True)
    """
    measured, derivatives = {}, 1.0
    for activation in ("identity", "tanh"):
        reading = fresh(RNN.Options(activation=activation, bias=False), 1, steps, seed=seed)
        reading.cell.weight_h.data.fill_(weight)
        states = [state[0] for state in reading.unroll()[1:]]
        (gradient,) = torch.autograd.grad(states[-1], states[0])
        measured[activation] = float(gradient)
        if activation == "tanh":
            derivatives = float(torch.cat([1 - state.detach() ** 2 for state in states[1:]]).prod())
    closed = float(weight ** (steps - 1))
    return Scalar(weight, steps, closed, measured["identity"], closed * derivatives, measured["tanh"])


def scalars(weights: Sequence[float] = (0.9, 1.1), steps: int = 50, seed: int = 1) -> Scalars:
    """The closed form and the measured gradient for several weights.

    >>> [round(case.closed, 5) for case in scalars().cases]
    [0.00573, 106.7189...]
    """
    return Scalars(tuple(scalar(weight, steps, seed) for weight in weights))
