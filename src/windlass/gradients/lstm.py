"""The four terms of an LSTM's d c_t / d c_(t-1), and what their product leaves out.

    c_t = f_t * c_(t-1) + i_t * g_t        h_(t-1) = o_(t-1) * tanh(c_(t-1))

    d c_t / d c_(t-1) = diag(f_t)                          p  the forget path
                      + diag(c_(t-1)) d f_t / d c_(t-1)    q  through the forget gate
                      + diag(i_t) d g_t / d c_(t-1)        r  through the candidate
                      + diag(g_t) d i_t / d c_(t-1)        s  through the input gate

The gates see c_(t-1) through h_(t-1), with o_(t-1) held fixed. Over several steps that misses a path: o_t depends on
c_(t-1) too, and h_t on o_t. So the product of the four-term sums is not d c_T / d c_t, which is measured beside it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from windlass.core.errors import WindlassError
from windlass.gradients.reading import Reading, spectral_norm
from windlass.gradients.result import COLOURS, Result, Table, chosen, number, style
from windlass.nn.cells import LSTM
from windlass.nn.fast.switch import disabled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {
    "p": "f_t, the forget path",
    "q": "c_(t-1) d f_t / d c_(t-1), through the forget gate",
    "r": "i_t d g_t / d c_(t-1), through the candidate",
    "s": "g_t d i_t / d c_(t-1), through the input gate",
}


@dataclass(frozen=True)
class OneStep:
    """The terms of one step, each (H, H): row a unit of c_t, column a unit of c_(t-1).

    >>> step = OneStep(*[torch.eye(2) * n for n in (1, 2, 3, 4)], jacobian=10 * torch.eye(2))
    >>> step.difference
    0.0
    """

    p: Tensor
    q: Tensor
    r: Tensor
    s: Tensor
    jacobian: Tensor  # by autograd

    @property
    def total(self) -> Tensor:
        """p + q + r + s."""
        return self.p + self.q + self.r + self.s

    @property
    def difference(self) -> float:
        """The largest difference from autograd's Jacobian."""
        return float((self.total - self.jacobian).abs().max())


def one_steps(reading: Reading) -> list[OneStep]:
    """The four terms by their formulas, and autograd's Jacobian, of every step but the first.

    >>> from windlass.gradients.reading import fresh
    >>> max(step.difference for step in one_steps(fresh(LSTM.Options(), size=4, steps=5))) < 1e-12
    True
    """
    cell = _lstm(reading)
    size, steps = cell.size, []
    zero = torch.zeros(3, size, dtype=torch.float64)
    peep_i, peep_f, _ = zero if cell.peepholes is None else cell.peepholes.detach()
    states = [tuple(part.detach() for part in state) for state in reading.unroll()]
    with disabled():
        projected = cell.project(reading.inputs).detach()
        u_i, u_f, _, u_g = cell.weight_h.detach().split(size)
        for t in range(1, reading.steps):
            h, c = states[t]
            gates = projected[t] + h[0] @ cell.weight_h.detach().t()
            a_i, a_f, _, a_g = (gate.clone() for gate in gates.split(size))
            i, f, g = torch.sigmoid(a_i + peep_i * c[0]), torch.sigmoid(a_f + peep_f * c[0]), cell.candidate(a_g)
            a_g.requires_grad_()
            (slope,) = torch.autograd.grad(cell.candidate(a_g).sum(), a_g)
            seen = _revealed(reading, states, t)  # d h_(t-1) / d c_(t-1), a diagonal
            p = torch.diag(f)
            q = (c[0] * f * (1 - f))[:, None] * (u_f * seen + torch.diag(peep_f))
            r = (i * slope)[:, None] * (u_g * seen)
            s = (g * i * (1 - i))[:, None] * (u_i * seen + torch.diag(peep_i))
            steps.append(OneStep(p, q, r, s, _jacobian(reading, states, t)))
    return steps


def _lstm(reading: Reading) -> LSTM:
    if not isinstance(reading.cell, LSTM):
        raise WindlassError(f"{reading.name}: the four terms are those of an LSTM: choose a model with lstm cells")
    return reading.cell


def _h(reading: Reading, states: list[tuple[Tensor, ...]], t: int, c: Tensor) -> Tensor:
    """h_t as a function of c_t (N, H), with everything before it held fixed."""
    cell = _lstm(reading)
    _, _, a, _ = (cell.project(reading.inputs[t - 1 : t]) + states[t - 1][0] @ cell.weight_h.t()).split(cell.size, 1)
    o = torch.sigmoid(a if cell.peepholes is None else a + cell.peepholes[2] * c)
    return o.detach() * cell.output(c) if cell.peepholes is None else o * cell.output(c)


def _revealed(reading: Reading, states: list[tuple[Tensor, ...]], t: int) -> Tensor:
    c = states[t][1].clone().requires_grad_()
    (seen,) = torch.autograd.grad(_h(reading, states, t, c).sum(), c)
    return seen[0]


def step_from(reading: Reading, states: list[tuple[Tensor, ...]], t: int, c: Tensor) -> Tensor:
    """c_(t+1) as a function of c_t (N, H): what autograd and finite differences differentiate.

    >>> from windlass.gradients.reading import fresh
    >>> reading = fresh(LSTM.Options(), size=4, steps=5)
    >>> states = reading.unroll()
    >>> bool(torch.allclose(step_from(reading, states, 2, states[2][1]), states[3][1]))
    True
    """
    x = reading.cell.project(reading.inputs[t : t + 1]).expand(len(c), -1)
    return reading.cell.step(x, (_h(reading, states, t, c), c))[1]


def _jacobian(reading: Reading, states: list[tuple[Tensor, ...]], t: int) -> Tensor:
    units = torch.eye(reading.cell.size, dtype=torch.float64)
    c = states[t][1].expand(len(units), -1).clone().requires_grad_()
    (found,) = torch.autograd.grad((step_from(reading, states, t, c) * units).sum(), c)
    return found


def finite_differences(reading: Reading, t: int, by: float = 1e-5) -> Tensor:
    """d c_(t+1) / d c_t (H, H) by central differences.

    >>> from windlass.gradients.reading import fresh
    >>> reading = fresh(LSTM.Options(), size=4, steps=5)
    >>> bool((finite_differences(reading, 2) - one_steps(reading)[1].total).abs().max() < 1e-8)
    True
    """
    states = [tuple(part.detach() for part in state) for state in reading.unroll()]
    moved = by * torch.eye(reading.cell.size, dtype=torch.float64)
    with disabled(), torch.no_grad():
        up = step_from(reading, states, t, states[t][1] + moved)
        down = step_from(reading, states, t, states[t][1] - moved)
    return (up - down).t() / (2 * by)


@dataclass(frozen=True)
class Paths(Result):
    """The four terms on data, and their products over distance beside the true derivative.

    >>> from windlass.gradients.reading import fresh
    >>> found = paths(fresh(LSTM.Options(), size=4, steps=9))
    >>> found.difference < 1e-6 and found.finite_difference < 1e-6
    True
    """

    size = (6.4, 6.4)

    name: str
    terms: dict[str, tuple[float, ...]]  # the norm of p, q, r and s at every step
    difference: float  # of their sum from autograd's one-step Jacobian, at most
    finite_difference: float  # the same from finite differences
    forget: tuple[float, ...]  # by distance: | product of the forget gates |
    four: tuple[float, ...]  # | product of the four-term sums |
    true: tuple[float, ...]  # | d c_T / d c_t |
    left_out: tuple[float, ...]  # | true - product of the four-term sums | / | true |

    def tables(self) -> list[Table]:
        """The terms, and the products."""
        rows = [
            (f"{key} = {NAMES[key]}", number(fmean(norms)), number(max(norms))) for key, norms in self.terms.items()
        ]
        first = Table(f"{self.name}: the four terms of d c_t / d c_(t-1)", ("term", "mean norm", "largest"), rows)
        headings = ("distance", "forget gates", "four terms", "d c_T / d c_t", "left out")
        over = [
            (str(k), number(self.forget[k]), number(self.four[k]), number(self.true[k]), f"{self.left_out[k]:.1%}")
            for k in chosen(len(self.true) - 1)
        ]
        return [first, Table(f"{self.name}: norms of products over several steps", headings, over)]

    def words(self) -> list[str]:
        """What was checked, and what the product leaves out."""
        far = len(self.true) - 1
        return [
            f"The four terms sum to autograd's one-step Jacobian (largest difference {self.difference:.0e}; from "
            f"finite differences {self.finite_difference:.0e}).",
            f"Their product over {far} steps leaves out the path through the output gate: "
            f"{self.left_out[far]:.1%} of the true derivative. The forget gates alone give "
            f"{number(self.forget[far] / max(self.true[far], 1e-300))} times its norm.",
        ]

    def to_json(self) -> dict[str, Any]:
        """All figures."""
        return {"what": "lstm", **asdict(self)}

    def draw(self, figure: Figure) -> None:
        """The terms over the sequence, and the products over distance."""
        upper, lower = figure.subplots(2, 1)
        for n, (key, norms) in enumerate(self.terms.items()):
            label = f"{key}, {NAMES[key].split(', ')[1]}"
            upper.plot(range(2, len(norms) + 2), norms, color=COLOURS[n], lw=1.6, label=label)
        style(upper, f"{self.name}: the four terms of d c_t / d c_(t-1)", "step t", "norm")
        upper.set_ylim(bottom=0, top=1.35 * max(max(norms) for norms in self.terms.values()))
        upper.legend(frameon=False, fontsize=8, ncols=2, loc="upper left")
        lines = {"true d c_T / d c_t": self.true, "product of four-term sums": self.four, "forget gates": self.forget}
        for n, (label, norms) in enumerate(lines.items()):
            lower.plot(range(len(norms)), norms, color=COLOURS[n], lw=1.8, ls="--" if n else "-", label=label)
        lower.set_yscale("log")
        title = f"Over several steps: at the end, the product leaves out {self.left_out[-1]:.1%}"
        style(lower, title, "distance T - t, in steps", "norm")
        lower.legend(frameon=False, fontsize=8)


def paths(reading: Reading) -> Paths:
    """Measure the four terms of an LSTM on what it reads.

    >>> from windlass.gradients.reading import fresh
    >>> found = paths(fresh(LSTM.Options(bias=False), size=4, steps=9))
    >>> found.left_out[1] < 1e-12  # one step: nothing is left out
    True
    """
    if reading.steps < 3:
        raise WindlassError("the terms over several steps need at least three steps: read a longer text")
    steps, true = one_steps(reading), _true(reading)
    last = reading.steps - 1
    finite = max(float((finite_differences(reading, t) - steps[t - 1].total).abs().max()) for t in (1, last // 2, last))
    unit = torch.eye(reading.cell.size, dtype=torch.float64)
    forget, four, norms = unit, unit, {"forget": [1.0], "four": [1.0], "true": [1.0], "left": [0.0]}
    for k, step in enumerate(reversed(steps), 1):
        forget, four = forget @ step.p, four @ step.total
        size = spectral_norm(true[k])
        norms["forget"].append(spectral_norm(forget))
        norms["four"].append(spectral_norm(four))
        norms["true"].append(size)
        norms["left"].append(spectral_norm(true[k] - four) / max(size, 1e-300))
    return Paths(
        name=reading.name,
        terms={key: tuple(spectral_norm(getattr(step, key)) for step in steps) for key in NAMES},
        difference=max(step.difference for step in steps),
        finite_difference=finite,
        forget=tuple(norms["forget"]),
        four=tuple(norms["four"]),
        true=tuple(norms["true"]),
        left_out=tuple(norms["left"]),
    )


def _true(reading: Reading) -> list[Tensor]:
    """d c_T / d c_t (H, H) by autograd through all steps, by distance from 0; h_t moves with c_t, o_t is fixed."""
    size, blocks = reading.cell.size, []
    for units in torch.eye(size, dtype=torch.float64).split(reading.block):
        states = reading.unroll(len(units))
        nodes = [part for state in states[1:] for part in state]
        with disabled():
            found = torch.autograd.grad((states[-1][1] * units).sum(), nodes, allow_unused=True)
        blocks.append(torch.stack([torch.zeros_like(units) if part is None else part for part in found]))
    h, c = torch.cat(blocks, 1).unflatten(0, (reading.steps, 2)).unbind(1)  # (S, H, H) each
    plain = [tuple(part.detach() for part in state) for state in reading.unroll()]
    with disabled():
        seen = torch.stack([_revealed(reading, plain, t) for t in range(1, reading.steps + 1)])
    return list((c + h * seen[:, None]).flip(0).unbind(0))
