"""The equations of every cell, against plain numpy and against torch.nn."""

import numpy as np
import pytest
import torch
from numpy import tanh
from pydantic import TypeAdapter

from windlass.core.errors import RecipeError
from windlass.nn.cells import CellOptions
from windlass.nn.recurrence import run

I, H, B = 3, 4, 2
ACTIVATIONS = {
    "tanh": tanh,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "identity": lambda x: x,
}
sigmoid = ACTIVATIONS["sigmoid"]


def made(**options):
    """A cell in float64 with all of its parameters drawn anew, the same for every option of a kind."""
    cell = TypeAdapter(CellOptions).validate_python(options).build(I, H).double()
    for number, (_, parameter) in enumerate(sorted(cell.named_parameters())):
        parameter.data = torch.from_numpy(np.random.default_rng(number).normal(size=parameter.shape))
    return cell


def numbers(*shape, seed=9):
    return np.random.default_rng(seed).normal(size=shape)


X, H0, C0 = numbers(B, I, seed=1), numbers(B, H, seed=2), numbers(B, H, seed=3)


def stepped(cell):
    state = tuple(torch.from_numpy(part) for part in (H0, C0)[: cell.parts])
    return [part.detach().numpy() for part in cell.step(cell.project(torch.from_numpy(X)), state)]


def weights(cell, gates):
    """For every gate W, U, b (zeros where there is none)."""
    W = np.split(cell.weight_x.detach().numpy(), gates)
    U = np.split(cell.weight_h.detach().numpy(), gates)
    b = np.zeros((gates, H)) if cell.bias is None else np.split(cell.bias.detach().numpy(), gates)
    return list(zip(W, U, b, strict=True))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_rnn_takes_its_activation_of_the_sum(activation, bias):
    cell = made(kind="rnn", activation=activation, bias=bias)
    ((W, U, b),) = weights(cell, 1)
    (h,) = stepped(cell)
    for name, act in ACTIVATIONS.items():
        assert np.allclose(h, act(X @ W.T + H0 @ U.T + b)) == (name == activation)
    assert (cell.bias is not None) == bias
    if bias:
        assert not np.allclose(h, ACTIVATIONS[activation](X @ W.T + H0 @ U.T))


def lstm(cell, out, peep, candidate="tanh"):
    (Wi, Ui, bi), (Wf, Uf, bf), (Wo, Uo, bo), (Wg, Ug, bg) = weights(cell, 4)
    i = sigmoid(X @ Wi.T + H0 @ Ui.T + bi + peep[0] * C0)
    f = sigmoid(X @ Wf.T + H0 @ Uf.T + bf + peep[1] * C0)
    c = f * C0 + i * ACTIVATIONS[candidate](X @ Wg.T + H0 @ Ug.T + bg)
    o = sigmoid(X @ Wo.T + H0 @ Uo.T + bo + peep[2] * c)
    return o * ACTIVATIONS[out](c), c


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("peepholes", [True, False])
@pytest.mark.parametrize("output", ["tanh", "sigmoid"])
def test_lstm_with_its_way_out_peepholes_and_biases(output, peepholes, bias):
    cell = made(kind="lstm", output=output, peepholes=peepholes, bias=bias)
    peep = cell.peepholes.detach().numpy() if peepholes else np.zeros((3, H))
    h, c = stepped(cell)
    right_h, right_c = lstm(cell, output, peep)
    assert np.allclose(h, right_h)
    assert np.allclose(c, right_c)
    other = {"tanh": "sigmoid", "sigmoid": "tanh"}[output]
    assert not np.allclose(h, lstm(cell, other, peep)[0])
    assert (cell.bias is None) != bias
    if peepholes:
        assert not np.allclose(h, lstm(cell, output, np.zeros((3, H)))[0])
        for one in range(3):  # every gate has a peephole of its own
            less = peep.copy()
            less[one] = 0
            assert not np.allclose(h, lstm(cell, output, less)[0])


@pytest.mark.parametrize("candidate", ["tanh", "sigmoid"])
def test_the_candidate_of_lstm_and_gru_has_its_activation(candidate):
    cell = made(kind="lstm", candidate=candidate)
    for other in ("tanh", "sigmoid"):
        assert np.allclose(stepped(cell)[1], lstm(cell, "tanh", np.zeros((3, H)), other)[1]) == (other == candidate)
    for reset in ("before", "after"):
        cell = made(kind="gru", reset=reset, candidate=candidate)
        for other in ("tanh", "sigmoid"):
            assert np.allclose(stepped(cell)[0], gru(cell, reset, candidate=other)) == (other == candidate)


@pytest.mark.parametrize(("options", "value"), [({}, 1.0), ({"forget_bias": 2.5}, 2.5), ({"forget_bias": 0.0}, 0.0)])
def test_lstm_forget_bias_is_where_the_forget_gate_starts_and_no_other(options, value):
    cell = TypeAdapter(CellOptions).validate_python({"kind": "lstm", **options}).build(I, H)
    i, f, o, g = cell.bias.detach().split(H)
    assert f.tolist() == [value] * H
    assert not torch.cat([i, o, g]).any()


def test_lstm_refuses_a_forget_bias_without_biases():
    with pytest.raises(ValueError, match="forget_bias"):
        TypeAdapter(CellOptions).validate_python({"kind": "lstm", "bias": False, "forget_bias": 1.0})


def gru(cell, reset, keeps=True, candidate="tanh"):
    (Wr, Ur, br), (Wz, Uz, bz), (Wn, Un, bn) = weights(cell, 3)
    r = sigmoid(X @ Wr.T + H0 @ Ur.T + br)
    z = sigmoid(X @ Wz.T + H0 @ Uz.T + bz)
    inner = 0 if cell.bias_h is None else cell.bias_h.detach().numpy()
    recurrent = (r * H0) @ Un.T if reset == "before" else r * (H0 @ Un.T + inner)
    n = ACTIVATIONS[candidate](X @ Wn.T + bn + recurrent)
    return z * H0 + (1 - z) * n if keeps else (1 - z) * H0 + z * n


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("reset", ["before", "after"])
def test_gru_resets_before_or_after_the_product_and_its_update_gate_keeps(reset, bias):
    cell = made(kind="gru", reset=reset, bias=bias)
    (h,) = stepped(cell)
    assert np.allclose(h, gru(cell, reset))
    assert not np.allclose(h, gru(cell, {"before": "after", "after": "before"}[reset]))
    assert not np.allclose(h, gru(cell, reset, keeps=False))
    assert (cell.bias is None) != bias


def test_the_other_direction_of_the_update_gate_is_the_same_model_with_its_weights_negated():
    cell = made(kind="gru", reset="before")
    right = gru(cell, "before", keeps=False)
    for parameter in (cell.weight_x, cell.weight_h, cell.bias):
        parameter.data[H : 2 * H] *= -1
    assert np.allclose(stepped(cell)[0], right)


@pytest.mark.parametrize("project", [True, False])
def test_leaky_is_a_weighted_mean_of_state_and_input(project):
    x = numbers(B, H, seed=1)
    cell = TypeAdapter(CellOptions).validate_python({"kind": "leaky", "project": project}).build(H, H).double()
    for parameter in cell.parameters():
        parameter.data.normal_()
    a = sigmoid(cell.rate.detach().numpy())
    (h,) = cell.step(cell.project(torch.from_numpy(x)), (torch.from_numpy(H0),))
    if project:
        drive = x @ cell.weight_x.detach().numpy().T + cell.bias.detach().numpy()
        assert np.allclose(h.detach(), a * H0 + (1 - a) * drive)
        assert not np.allclose(h.detach(), a * H0 + (1 - a) * x)
    else:
        assert [name for name, _ in cell.named_parameters()] == ["rate"]
        assert np.allclose(h.detach(), a * H0 + (1 - a) * x)
        assert not np.allclose(h.detach(), (1 - a) * H0 + a * x)


def test_leaky_without_projection_refuses_an_input_of_another_size():
    with pytest.raises(RecipeError, match="project: true"):
        TypeAdapter(CellOptions).validate_python({"kind": "leaky", "project": False}).build(I, H)


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_orthogonal_is_how_the_states_weights_start_gate_by_gate(kind):
    torch.manual_seed(0)
    for orthogonal in (True, False):
        cell = TypeAdapter(CellOptions).validate_python({"kind": kind, "orthogonal": orthogonal}).build(I, H)
        for gate in cell.weight_h.detach().split(H):
            assert torch.allclose(gate @ gate.t(), torch.eye(H), atol=1e-5) == orthogonal
        bound = (6 / (I + H)) ** 0.5  # Glorot and Bengio 2010
        assert cell.weight_x.abs().max() <= bound


def place(reference, cell, order):
    """Copy a cell's weights into a torch.nn module, whose gates have another order."""

    def turned(matrix):
        parts = matrix.detach().split(H)
        return torch.cat([parts[i] for i in order])

    reference.weight_ih_l0.data = turned(cell.weight_x)
    reference.weight_hh_l0.data = turned(cell.weight_h)
    if cell.bias is not None:
        reference.bias_ih_l0.data = turned(cell.bias)
        reference.bias_hh_l0.data.zero_()
        if getattr(cell, "bias_h", None) is not None:
            reference.bias_hh_l0.data[-H:] = cell.bias_h.data


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("options", "reference", "order"),
    [
        ({"kind": "rnn"}, torch.nn.RNN, [0]),
        ({"kind": "rnn", "activation": "relu"}, torch.nn.RNN, [0]),
        ({"kind": "lstm"}, torch.nn.LSTM, [0, 1, 3, 2]),
        ({"kind": "gru", "reset": "after"}, torch.nn.GRU, [0, 1, 2]),
    ],
)
def test_a_run_equals_torch_nn_in_outputs_state_and_gradients(options, reference, order, bias):
    cell = made(**options, bias=bias)
    more = {"nonlinearity": options.get("activation", "tanh")} if options["kind"] == "rnn" else {}
    peer = reference(I, H, bias=bias, batch_first=True, **more).double()
    place(peer, cell, order)
    x = torch.from_numpy(numbers(B, 5, I))
    outputs, last = run(cell, x)
    right, final = peer(x)
    final = final if isinstance(final, tuple) else (final,)
    assert torch.allclose(outputs, right)
    assert all(torch.allclose(a, b[0]) for a, b in zip(last, final, strict=True))
    outputs.square().sum().backward()
    right.square().sum().backward()
    mine = torch.cat([cell.weight_h.grad.split(H)[i] for i in order])
    assert torch.allclose(mine, peer.weight_hh_l0.grad)
