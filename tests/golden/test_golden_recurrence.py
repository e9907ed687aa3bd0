"""Stacks of layers, against layers run by hand and against torch.nn."""

import pytest
import torch

from windlass.nn.cells import GRU, LSTM, RNN
from windlass.nn.recurrence import Stack, StackOptions, run

B, S, I, H = 3, 5, 4, 6
MASK = torch.arange(S) < torch.tensor([5, 2, 3])[:, None]


def made(bidirectional=False, **options):
    torch.manual_seed(0)
    stack = Stack(I, StackOptions(size=H, **options), bidirectional).double()
    for parameter in stack.parameters():
        parameter.data.normal_(std=0.5)
    return stack


def x(width=I):
    return torch.randn(B, S, width, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def by_rows(cell, given, reverse=False):
    """Every row alone, cut to its length, with a plain loop over torch steps."""
    out = torch.zeros(B, S, cell.size, dtype=torch.float64)
    finals = []
    for b in range(B):
        n = int(MASK[b].sum())
        state = cell.zero_state(1, given)
        for t in reversed(range(n)) if reverse else range(n):
            state = cell.step(cell.project(given[b : b + 1, t]), state)
            out[b, t] = state[0]
        finals.append(state)
    return out, tuple(torch.cat(parts) for parts in zip(*finals, strict=True))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("options", [RNN.Options(), LSTM.Options(), GRU.Options(reset="before")])
def test_a_run_stops_and_starts_at_every_rows_own_end(options, reverse):
    torch.manual_seed(0)
    cell = options.build(I, H).double()
    outputs, last = run(cell, x(), MASK, reverse=reverse)
    right, right_last = by_rows(cell, x(), reverse)
    assert torch.allclose(outputs, right)
    assert all(torch.allclose(a, b) for a, b in zip(last, right_last, strict=True))
    other, _ = by_rows(cell, x(), not reverse)
    assert not torch.allclose(outputs, other)


def test_a_run_goes_on_from_a_given_state():
    cell = GRU.Options().build(I, H).double()
    whole, _ = run(cell, x())
    first, state = run(cell, x()[:, :2])
    second, _ = run(cell, x()[:, 2:], state=state)
    assert torch.allclose(whole, torch.cat([first, second], 1))


def test_a_learned_start_is_where_every_layer_and_direction_begins():
    torch.manual_seed(0)
    stack = Stack(I, StackOptions(cell="lstm", size=H, layers=2), bidirectional=True, learned_start=True).double()
    outputs, final = stack(x(), MASK)
    below = x()
    for layer in range(2):
        starts = [tuple(part.expand(B, -1) for part in stack.start[way, layer].unbind(0)) for way in range(2)]
        ahead, last = run(stack.cells[layer], below, MASK, starts[0])
        back, first = run(stack.backward_cells[layer], below, MASK, starts[1], reverse=True)
        below = torch.cat([ahead, back], -1)
        assert torch.allclose(final[layer][1], torch.cat([last[1], first[1]], -1))
    assert torch.allclose(outputs, below)
    from_zeros, _ = run(stack.cells[0], x(), MASK)
    assert not torch.allclose(run(stack.cells[0], x(), MASK, starts[0])[0], from_zeros)
    with torch.no_grad():
        assert torch.allclose(stack.eval().inference()(x(), MASK)[0], outputs)


def test_two_directions_and_layers_equal_torch_nn():
    stack = made(True, cell="lstm", layers=2)
    peer = torch.nn.LSTM(I, H, 2, batch_first=True, bidirectional=True).double()
    order = [0, 1, 3, 2]
    for layer in range(2):
        for cell, suffix in ((stack.cells[layer], ""), (stack.backward_cells[layer], "_reverse")):
            for mine, theirs in (("weight_x", "weight_ih"), ("weight_h", "weight_hh"), ("bias", "bias_ih")):
                parts = getattr(cell, mine).data.split(H)
                getattr(peer, f"{theirs}_l{layer}{suffix}").data = torch.cat([parts[i] for i in order])
            getattr(peer, f"bias_hh_l{layer}{suffix}").data.zero_()
    packed = torch.nn.utils.rnn.pack_padded_sequence(x(), MASK.sum(1), batch_first=True, enforce_sorted=False)
    right, (h, c) = peer(packed)
    right, _ = torch.nn.utils.rnn.pad_packed_sequence(right, batch_first=True)
    outputs, final = stack(x(), MASK)
    assert torch.allclose(outputs, right)
    for layer in range(2):
        assert torch.allclose(final[layer][0], torch.cat([h[2 * layer], h[2 * layer + 1]], 1))
        assert torch.allclose(final[layer][1], torch.cat([c[2 * layer], c[2 * layer + 1]], 1))


@pytest.mark.parametrize("connect", ["plain", "residual", "highway"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_layers_join_as_told(connect, bidirectional):
    stack = made(bidirectional, cell="gru", layers=3, connect=connect)

    def layer(number, given):
        y, _ = by_rows(stack.cells[number], given)
        if bidirectional:
            y = torch.cat([y, by_rows(stack.backward_cells[number], given, reverse=True)[0]], -1)
        return y

    outcomes = {}
    for kind in ("plain", "residual", "highway"):
        if kind == "highway" and connect != "highway":
            continue
        below = layer(0, x())
        for number in (1, 2):
            y = layer(number, below)
            if kind == "highway":
                linear = stack.gates[number - 1]
                g = 1 / (1 + torch.exp(-(below @ linear.weight.t() + linear.bias)))
                y = g * y + (1 - g) * below
            below = y + below if kind == "residual" else y
        outcomes[kind] = below
    outputs, _ = stack(x(), MASK)
    for kind, right in outcomes.items():
        assert torch.allclose(outputs, right) == (kind == connect)


def test_a_connection_without_a_second_layer_and_a_lock_without_dropout_are_errors():
    with pytest.raises(ValueError, match="layers"):
        StackOptions(connect="residual")
    with pytest.raises(ValueError, match="dropout"):
        StackOptions(locked=True)


def dropped(stack):
    """Which outputs were dropped: (B, S, H)."""
    outputs, _ = stack(x(), None)
    return outputs == 0


def test_dropout_acts_on_every_layers_output_and_scales_what_it_keeps():
    stack = made(cell="gru", dropout=0.5).train()
    clean, _ = stack.eval()(x())
    torch.manual_seed(1)
    noisy, _ = stack.train()(x())
    gone = noisy == 0
    assert 0.2 < gone.double().mean() < 0.8
    assert torch.allclose(noisy, torch.where(gone, torch.zeros_like(clean), 2 * clean))
    assert (gone[:, 0] != gone[:, 1]).any()  # not locked: a mask a step


def test_locked_dropout_has_one_mask_for_all_steps_and_another_for_another_row():
    stack = made(True, cell="gru", dropout=0.5, locked=True).train()
    clean, _ = stack.eval()(x())
    torch.manual_seed(1)
    noisy, _ = stack.train()(x())
    gone = noisy == 0
    assert (gone == gone[:, :1]).all()
    assert (gone[0] != gone[1]).any()
    assert torch.allclose(noisy, torch.where(gone, torch.zeros_like(clean), 2 * clean))
    assert (dropped(stack) != gone).any()  # drawn anew for every batch


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru", {"kind": "gru", "reset": "before"}])
def test_weights_with_the_state_are_left_out_in_training_by_one_mask_for_all_steps(cell):
    options = {"kind": cell} if isinstance(cell, str) else cell
    stack = made(cell={**options, "drop": 0.25}, bidirectional=True).train()
    torch.manual_seed(1)
    noisy, _ = stack(x())
    noisy.sum().backward()
    clean = made(cell=options, bidirectional=True)
    torch.manual_seed(1)
    for one, other in ((stack.first, clean.first), (stack.backward_cells[0], clean.backward_cells[0])):
        weight = one.state_weight.detach()
        kept = weight != 0
        assert 0.6 < kept.double().mean() < 0.9
        assert torch.allclose(weight[kept], one.weight_h[kept] / 0.75)
        assert (one.weight_h.grad[~kept] == 0).all()
        assert (one.weight_h.grad[kept] != 0).any()
        other.weight_h.data = weight
    assert torch.allclose(clean(x())[0], noisy)
    assert not torch.allclose(stack(x())[0], noisy)  # drawn anew for every batch
    assert torch.equal(stack.eval().first.state_weight, stack.first.weight_h)


def test_between_layers_the_dropped_output_is_what_the_next_layer_reads():
    stack = made(cell="gru", dropout=0.5, locked=True, layers=2).train()
    state = stack.begin(tuple(cell.zero_state(B, x()) for cell in stack.cells))
    low, _ = by_steps(stack.cells[0], x())
    high, _ = by_steps(stack.cells[1], low * state.masks[0][:, None])
    outputs, _ = stack(x(), None, state)
    assert torch.allclose(outputs, high * state.masks[1][:, None])


@pytest.mark.parametrize("connect", ["residual", "highway"])
def test_what_a_connection_carries_past_a_layer_is_not_dropped(connect):
    stack = made(cell="gru", dropout=0.5, locked=True, layers=2, connect=connect).train()
    state = stack.begin(tuple(cell.zero_state(B, x()) for cell in stack.cells))
    low = by_steps(stack.cells[0], x())[0] * state.masks[0][:, None]
    high = by_steps(stack.cells[1], low)[0] * state.masks[1][:, None]
    right = low + high
    if connect == "highway":
        g = torch.sigmoid(stack.gates[0](low))
        right = g * high + (1 - g) * low
    assert torch.allclose(stack(x(), None, state)[0], right)


def by_steps(cell, given):
    return run(cell, given)


@pytest.mark.parametrize("locked", [False, True])
def test_outside_training_nothing_is_dropped(locked):
    stack = made(cell="gru", layers=2, dropout=0.5, locked=locked).eval()
    assert not dropped(stack).any()
    plain = made(cell="gru", layers=2)
    assert torch.equal(stack(x())[0], plain(x())[0])
    assert stack.begin(tuple(cell.zero_state(B, x()) for cell in stack.cells)).masks == ()


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize("connect", ["plain", "residual", "highway"])
def test_step_by_step_is_the_whole_sequence(connect, locked):
    stack = made(cell="lstm", layers=2, connect=connect, dropout=0.3 if locked else 0, locked=locked).train()
    state = stack.begin(tuple(cell.zero_state(B, x()) for cell in stack.cells))
    whole, final = stack(x(), None, state)
    for t in range(S):
        y, state = stack.step(stack.first.project(x()[:, t]), state)
        assert torch.allclose(y, whole[:, t])
    assert torch.allclose(state.layers[1][1], final[1][1])
