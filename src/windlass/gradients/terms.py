"""The terms of dE/dW one by one, as the lecture decks expand them, each by its formula, beside autograd's gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import tanh
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from windlass.gradients.reading import fresh
from windlass.gradients.result import COLOURS, Result, Table, number, style
from windlass.nn.cells import RNN

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Term:
    """One term: its formula, and its value by hand.

    >>> Term("dE/dy dy/dw", torch.tensor(3.0)).norm
    3.0
    """

    formula: str
    value: Tensor

    @property
    def norm(self) -> float:
        """The Frobenius norm; of a number, its size."""
        return float(self.value.norm())


@dataclass(frozen=True)
class Expansion:
    """A gradient as a sum of terms.

    >>> Expansion("dE/dw", (Term("a", torch.tensor(1.0)), Term("b", torch.tensor(2.0))), torch.tensor(3.0)).difference
    0.0
    """

    title: str
    terms: tuple[Term, ...]
    autograd: Tensor
    note: str = ""

    @property
    def total(self) -> Tensor:
        """The sum of the terms."""
        return torch.stack([term.value for term in self.terms]).sum(0)

    @property
    def difference(self) -> float:
        """The largest difference between the sum and autograd's gradient."""
        return float((self.total - self.autograd).abs().max())


def bptt(size: int = 3, steps: int = 5, seed: int = 1) -> Expansion:
    """The terms of dE_T/dW for h_t = tanh(W h_(t-1) + U x_t + b), y_t = V h_t + c, E_T = |y_T - target|^2 / 2.

    Term i is dE/dy dy/dh_T (product of dh_k/dh_(k-1) for k = T .. i+1) dh_i/dW, where h_(i-1) is held fixed in the last
    factor, dh_k/dh_(k-1) = diag(1 - h_k^2) W, and dE/dy = y_T - target.

    >>> five = bptt()
    >>> [len(term.formula.split()) for term in five.terms], five.difference < 1e-12
    ([3, 4, 5, 6, 7], True)
    """
    reading = fresh(RNN.Options(), size, steps, seed=seed)
    reading = replace(reading, start=(torch.randn(1, size, dtype=torch.float64) / 2,))  # from 0, the last term were 0
    weight = reading.cell.weight_h
    readout, bias, target = (torch.randn(*shape, dtype=torch.float64) for shape in ((2, size), (2,), (2,)))
    states = [state[0][0] for state in reading.unroll()]  # h_0 .. h_T
    error = readout @ states[-1] + bias - target
    (autograd,) = torch.autograd.grad(error.square().sum() / 2, weight)
    h, w = [state.detach() for state in states], weight.detach()
    reaches = error.detach() @ readout  # dE/dh_T
    terms = []
    for i in range(steps, 0, -1):
        here = reaches * (1 - h[i] ** 2)  # through the tanh of step i
        chain = "".join(f" dh{k}/dh{k - 1}" for k in range(steps, i, -1))
        terms.append(Term(f"dE{steps}/dy{steps} dy{steps}/dh{steps}{chain} dh{i}/dW", torch.outer(here, h[i - 1])))
        reaches = here @ w
    title = f"dE{steps}/dW, a matrix of {size} x {size}, by back-propagation through time"
    return Expansion(title, tuple(terms), autograd)


def two_step(
    w: float = 0.8,
    u: float = 0.6,
    v: float = 1.1,
    inputs: Sequence[float] = (1.0, 0.5),
    targets: Sequence[float] = (0.5, -0.3),
    h1: float = 0.2,
    rate: float = 0.1,
) -> Expansion:
    """The paths of the scalar network of two steps from L to w, and its update.

    z_t = u x_t + w h_(t-1)    h_t = tanh(z_t)    r_t = v h_t    y_t = tanh(r_t)    L = sum (y_t - target_t)^2 / 2

    for t = 2, 3, as the decks number them. Two paths reach w directly, one through h_2.

    >>> expansion = two_step()
    >>> len(expansion.terms), expansion.difference < 1e-12, expansion.note
    (3, True, 'update: w = 0.8 - 0.1 * 0.2586 = 0.7741')
    """
    weight = torch.tensor(w, dtype=torch.float64, requires_grad=True)
    h, loss = torch.tensor(h1, dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for x, target in zip(inputs, targets, strict=True):
        h = torch.tanh(u * x + weight * h)
        loss = loss + (torch.tanh(v * h) - target) ** 2 / 2
    (autograd,) = torch.autograd.grad(loss, weight)

    h2 = tanh(u * inputs[0] + w * h1)
    h3 = tanh(u * inputs[1] + w * h2)
    y2, y3 = tanh(v * h2), tanh(v * h3)
    reaches2 = (y2 - targets[0]) * (1 - y2**2) * v * (1 - h2**2)  # dL/dy2 dy2/dr2 dr2/dh2 dh2/dz2
    reaches3 = (y3 - targets[1]) * (1 - y3**2) * v * (1 - h3**2)
    values = {
        "dL/dy2 dy2/dr2 dr2/dh2 dh2/dz2 dz2/dw": reaches2 * h1,
        "dL/dy3 dy3/dr3 dr3/dh3 dh3/dz3 dz3/dw": reaches3 * h2,
        "dL/dy3 dy3/dr3 dr3/dh3 dh3/dz3 dz3/dh2 dh2/dz2 dz2/dw": reaches3 * w * (1 - h2**2) * h1,
    }
    terms = tuple(Term(formula, torch.tensor(value, dtype=torch.float64)) for formula, value in values.items())
    total = sum(values.values())
    return Expansion("dL/dw of the scalar network of two steps", terms, autograd,
                     f"update: w = {w:g} - {rate:g} * {total:.4f} = {w - rate * total:.4f}")  # fmt: skip


def two_layers(
    x: float = 1.0, w1: float = 0.5, w2: float = 0.8, target: float = 0.0, rate: float = 0.1
) -> tuple[Expansion, Expansion]:
    """The chain of two layers: dE/dw2 and dE/dw1, one term each, and their updates.

    a_1 = w_1 x    h_1 = sigmoid(a_1)    a_2 = w_2 h_1    h_2 = sigmoid(a_2)    E = (h_2 - target)^2 / 2

    >>> [expansion.difference < 1e-12 for expansion in two_layers()]
    [True, True]
    """
    first, second = (torch.tensor(w, dtype=torch.float64, requires_grad=True) for w in (w1, w2))
    hidden = torch.sigmoid(first * x)
    out = torch.sigmoid(second * hidden)
    grads = torch.autograd.grad((out - target) ** 2 / 2, [first, second])
    h1, h2 = hidden.item(), out.item()
    reaches = (h2 - target) * h2 * (1 - h2)  # dE/dh2 dh2/da2
    formulas = {
        "dE/dh2 dh2/da2 da2/dw2": (reaches * h1, grads[1], "w2", w2),
        "dE/dh2 dh2/da2 da2/dh1 dh1/da1 da1/dw1": (reaches * w2 * h1 * (1 - h1) * x, grads[0], "w1", w1),
    }
    made = [
        Expansion(
            f"dE/d{name} of the chain of two layers",
            (Term(formula, torch.tensor(value, dtype=torch.float64)),),
            autograd,
            f"update: {name} = {old:g} - {rate:g} * {value:.4f} = {old - rate * value:.4f}",
        )
        for formula, (value, autograd, name, old) in formulas.items()
    ]
    return made[0], made[1]


@dataclass(frozen=True)
class Terms(Result):
    """The decks' expansions.

    >>> [expansion.title.split(",")[0] for expansion in terms().expansions][:2]
    ['dE5/dW', 'dL/dw of the scalar network of two steps']
    """

    expansions: tuple[Expansion, ...]

    def tables(self) -> list[Table]:
        """A table an expansion: its terms, their sum, autograd's gradient."""
        made = []
        for expansion in self.expansions:
            matrix = expansion.autograd.ndim > 0
            sums = [Term("sum", expansion.total), Term("autograd", expansion.autograd)]
            rows = [
                (term.formula, *([number(term.norm), f"{term.value.flatten()[0]:+.6f}"] if matrix else
                                 [f"{term.value:+.6f}"]))
                for term in (*expansion.terms, *sums)
            ]  # fmt: skip
            headings = ("term", "norm", "entry 1,1") if matrix else ("term", "value")
            made.append(Table(expansion.title, headings, rows))
        return made

    def words(self) -> list[str]:
        """The updates, and how well the sums agree."""
        notes = [f"{expansion.title}: {expansion.note}" for expansion in self.expansions if expansion.note]
        worst = max(expansion.difference for expansion in self.expansions)
        return [*notes, f"Every expansion sums to autograd's gradient (largest difference {worst:.0e})."]

    def to_json(self) -> dict[str, Any]:
        """Formulas and values."""
        return {
            "what": "terms",
            "expansions": [
                {
                    "title": expansion.title,
                    "terms": [{"formula": term.formula, "value": term.value.tolist()} for term in expansion.terms],
                    "sum": expansion.total.tolist(),
                    "autograd": expansion.autograd.tolist(),
                    "difference": expansion.difference,
                    "note": expansion.note,
                }
                for expansion in self.expansions
            ],
        }

    def draw(self, figure: Figure) -> None:
        """The norms of the terms of the first expansion."""
        axes, first = figure.subplots(), self.expansions[0]
        norms = [term.norm for term in first.terms]
        axes.bar(range(len(norms)), norms, color=COLOURS[0])
        axes.set_xticks(range(len(norms)), [str(k) for k in range(len(norms))])
        style(axes, f"The terms of {first.title.split(',')[0]}", "steps back", "norm of the term")


def terms(size: int = 3, steps: int = 5, seed: int = 1) -> Terms:
    """All expansions of the decks; `size` and `steps` are of the first.

    >>> max(expansion.difference for expansion in terms(size=4, steps=7).expansions) < 1e-12
    True
    """
    return Terms((bptt(size, steps, seed), two_step(), *two_layers()))
