"""The cells of xLSTM, against the equations of the paper without stabilisation, in numpy, and in extreme ranges."""

import numpy as np
import pytest
import torch
from numpy import exp, tanh
from pydantic import TypeAdapter

from windlass.core.errors import RecipeError
from windlass.nn import fast
from windlass.nn.cells import CellOptions
from windlass.nn.recurrence import run
from windlass.nn.xlstm import CHUNK

B, S, I, H = 2, 9, 3, 6
X = np.random.default_rng(7).normal(size=(B, S, I))


def sigmoid(x):
    return 1 / (1 + exp(-x))


def made(**options):
    cell = TypeAdapter(CellOptions).validate_python(options).build(I, H).double()
    for number, (_, parameter) in enumerate(sorted(cell.named_parameters())):
        parameter.data = torch.from_numpy(np.random.default_rng(number).normal(size=parameter.shape))
    return cell


@pytest.mark.parametrize("bias", [True, False])
def test_slstm_is_the_published_recurrence_without_its_stabiliser(bias):
    cell = made(kind="slstm", bias=bias)
    W, U = cell.weight_x.detach().numpy(), cell.weight_h.detach().numpy()
    b = cell.bias.detach().numpy() if bias else 0
    h, c, n = (np.zeros((B, H)) for _ in range(3))
    outputs, (last, mean, log_n) = run(cell, torch.from_numpy(X))
    for t in range(S):
        f, o, i, z = np.split(X[:, t] @ W.T + h @ U.T + b, 4, axis=1)
        c, n = sigmoid(f) * c + exp(i) * tanh(z), sigmoid(f) * n + exp(i)
        h = sigmoid(o) * c / n
        assert np.allclose(outputs[:, t].detach(), h)
    assert np.allclose(mean.detach(), c / n)
    assert np.allclose(log_n.detach(), np.log(n))
    assert np.allclose(last.detach(), h)


def mlstm(cell, heads, x, bound=1.0):
    """One row, head by head, with the matrix as the paper writes it."""
    d, W, b = H // heads, cell.weight_x.detach().numpy(), cell.bias.detach().numpy()
    C, n, outputs = np.zeros((heads, d, d)), np.zeros((heads, d)), []
    for x_t in x:
        q, k, v, o, i, f = np.split(W @ x_t + b, [H, 2 * H, 3 * H, 4 * H, 4 * H + heads])
        h = np.zeros(H)
        for a in range(heads):
            own = slice(a * d, (a + 1) * d)
            key = k[own] / np.sqrt(d)
            C[a] = sigmoid(f[a]) * C[a] + exp(i[a]) * np.outer(v[own], key)
            n[a] = sigmoid(f[a]) * n[a] + exp(i[a]) * key
            read = (C[a] @ q[own]) / max(abs(n[a] @ q[own]), bound)
            if cell.scale is not None:
                read = (read - read.mean()) / np.sqrt(read.var() + 1e-5) * cell.scale.detach().numpy()[own]
            h[own] = sigmoid(o[own]) * read
        outputs.append(h)
    return np.array(outputs)


@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("by_steps", [False, True])
def test_mlstm_writes_and_reads_a_matrix_as_published(heads, norm, by_steps):
    cell = made(kind="mlstm", heads=heads, norm=norm)
    with fast.disabled() if by_steps else torch.no_grad():
        outputs = run(cell, torch.from_numpy(X))[0].detach()
    for row in range(B):
        assert np.allclose(outputs[row], mlstm(cell, heads, X[row]))
        if heads > 1:  # with one, the bound is never reached here
            assert not np.allclose(outputs[row], mlstm(cell, heads, X[row], bound=0.0))


@pytest.mark.parametrize(
    ("options", "forget"), [({"kind": "slstm"}, slice(H)), ({"kind": "mlstm", "heads": 3}, slice(-3, None))]
)
def test_forget_gates_start_nearly_open_and_each_with_another_bias(options, forget):
    cell = TypeAdapter(CellOptions).validate_python(options).build(I, H)
    count = len(cell.bias[forget])
    assert cell.bias[forget].tolist() == pytest.approx(np.linspace(3, 6, count).tolist())
    assert cell.bias.count_nonzero() == count


def test_mlstm_refuses_heads_that_cannot_share_its_units():
    with pytest.raises(RecipeError, match="4 heads"):
        TypeAdapter(CellOptions).validate_python({"kind": "mlstm", "heads": 4}).build(I, H)
    with pytest.raises(RecipeError, match="2 units and more"):
        TypeAdapter(CellOptions).validate_python({"kind": "mlstm", "heads": H}).build(I, H)


def test_what_an_mlstm_reads_has_no_bound_and_its_norm_gives_it_one():
    torch.manual_seed(1)
    x, most = torch.randn(8, 200, I), {}
    for norm in (False, True):
        cell = TypeAdapter(CellOptions).validate_python({"kind": "mlstm", "heads": 2, "norm": norm}).build(I, H)
        cell.weight_x.data = 3 * torch.randn(cell.weight_x.shape, generator=torch.Generator().manual_seed(2))
        most[norm] = run(cell, x)[0].abs().max().item()
    assert most[True] < (H // 2) ** 0.5  # the largest number of a normalised head
    assert most[False] > 10


@pytest.mark.parametrize("kind", ["slstm", "mlstm"])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_exponential_gates_neither_overflow_nor_differ_by_steps_over_several_chunks(kind, scale):
    torch.manual_seed(2)
    cell = made(kind=kind, **({"heads": 2} if kind == "mlstm" else {})).float()
    x = (scale * torch.randn(1, 2 * CHUNK + 3, I)).requires_grad_()
    outputs, _ = run(cell, x)
    (gradient,) = torch.autograd.grad(outputs.sum(), x)
    assert outputs.isfinite().all()
    assert gradient.isfinite().all()
    with fast.disabled():
        steps, _ = run(cell, x)
    assert torch.allclose(outputs, steps, atol=1e-4, rtol=1e-3)
