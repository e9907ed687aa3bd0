"""Fused equals step by step, in outputs, last states and every gradient."""

from contextlib import nullcontext
from functools import partial

import contract_parts
import pytest
import torch
from contract_parts import READOUTS

from windlass.core.records import Batch, Padded
from windlass.heads.recurrent import RecurrentDecoder, decode
from windlass.model import LossOptions, ModelOptions, build
from windlass.nn import fast
from windlass.nn.cells import GRU, LSTM
from windlass.nn.fast.attention import FusedScore, TanhTape
from windlass.nn.fast.decoder import FusedDecoder, Layer
from windlass.nn.fast.recurrence import LstmTape
from windlass.nn.recurrence import stepwise

B, S, I, H = 4, 7, 5, 6
MASKS = {
    "all real": None,
    "padded": torch.arange(S) < torch.tensor([7, 3, 5, 1])[:, None],
    "an empty row": torch.arange(S) < torch.tensor([7, 0, 5, 1])[:, None],
    "holes": torch.tensor([[1, 0, 1, 1, 0, 1, 1]] * B) > 0,
}


def cells_with_a_fused_path():
    """Every cell that offers to run over whole sequences in one piece, also with weights left out."""
    for name, options in contract_parts.CELLS.items():
        for drop in (0.0, 0.5) if "drop" in type(options).model_fields else (None,):
            tried = options if drop is None else options.model_copy(update={"drop": drop})
            if fast.fused(tried.build(I, H), torch.zeros(S, B, I), None, None, False) is not None:
                yield f"{name}, weights left out" if drop else name, tried


FUSED = dict(cells_with_a_fused_path())


def outcome(way, cell, given, mask, reverse):
    x, *state = given
    real = None if mask is None else mask.t()[..., None]
    torch.manual_seed(5)  # weights that are left out are drawn alike on both ways
    outputs, last = way(x, tuple(state), real, reverse)
    outputs = outputs if real is None else outputs * real  # as `run` does
    weights = torch.linspace(-1, 2, outputs.numel(), dtype=x.dtype).view_as(outputs)
    loss = (outputs * weights).sum() + sum((part**3).sum() for part in last)
    # What a convolution put out last is no part of what comes next.
    found = torch.autograd.grad(loss, [*given, *cell.parameters()], allow_unused=True, materialize_grads=True)
    return [outputs, *last, *found]


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("kind", FUSED)
def test_fused_equals_step_by_step(kind, mask, reverse):
    torch.manual_seed(3)
    cell = FUSED[kind].build(I, H).double()
    given = [torch.randn(S, B, I, dtype=torch.float64, requires_grad=True)]
    given += [torch.randn(B, H, dtype=torch.float64, requires_grad=True) for _ in range(cell.parts)]
    for parameter in cell.parameters():  # biases start at zero: a fused way that drops them must be seen
        parameter.data += 0.3 * torch.randn_like(parameter)
    real = None if MASKS[mask] is None else MASKS[mask].t()[..., None]
    if cell.fused(given[0], given[1:], real, reverse) is None:
        assert mask == "holes"  # a convolution knows padding at the end alone
        return
    fused = outcome(cell.fused, cell, given, MASKS[mask], reverse)
    steps = outcome(lambda *a: stepwise(cell, *a), cell, given, MASKS[mask], reverse)
    for one, other in zip(fused, steps, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "options",
    [
        LSTM.Options(peepholes=True),
        LSTM.Options(output="sigmoid"),
        LSTM.Options(candidate="sigmoid"),
        GRU.Options(reset="before"),
        GRU.Options(candidate="sigmoid"),
    ],
)
def test_what_is_not_fused_says_so(options):
    cell = options.build(I, H)
    assert fast.fused(cell, torch.zeros(S, B, I), None, None, False) is None


def padded(rows):
    return Padded.of([[*row, 3] for row in rows])


STACKS = {"one layer": {}, "two layers": {"layers": 2}, "residual": {"layers": 3, "connect": "residual"}}


def gradients(model, batch, monkeypatch, by_steps):
    """The loss and all gradients, with fast paths or without; and whether a fused decoder was run."""
    runs = []
    with monkeypatch.context() as patch, fast.disabled() if by_steps else nullcontext():
        patch.setattr("windlass.heads.recurrent.decode", lambda decoder: runs.append(1) or decode(decoder))
        torch.manual_seed(6)  # locked masks are drawn alike
        scored = model(batch)
        found = torch.autograd.grad(scored.mean, list(model.parameters()), allow_unused=True)
    return bool(runs), [scored.loss_sum, *scored.terms.values(), *found]


def same(model, batch, monkeypatch):
    """Hold fast paths to plain steps; return whether the decoder was fused."""
    fused, whole = gradients(model, batch, monkeypatch, by_steps=False)
    never, steps = gradients(model, batch, monkeypatch, by_steps=True)
    assert not never
    for one, other in zip(whole, steps, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)
    return fused


def made(decoder, **loss):
    torch.manual_seed(4)
    options = ModelOptions(
        encoder={"kind": "recurrent", "size": 4, "embedding": {"kind": "learned", "size": 3}},
        decoder={"embedding": {"kind": "learned", "size": 4}, "size": H, "start": "summary", **decoder},
    )
    model = build(options, LossOptions(**loss), 12, 12).double()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return model


def pairs(gold=False):
    source, target = padded([[5, 6, 7], [8], []]), padded([[9, 10], [4, 5, 6, 7], [8]])
    places = torch.rand(3, target.mask.size(1), source.mask.size(1), dtype=torch.float64) * source.mask[:, None]
    return Batch({"source": source}, target, torch.arange(3), places if gold else None)


@pytest.mark.parametrize("name", contract_parts.ATTENDING)
def test_every_attention_fused_equals_its_steps(name, monkeypatch):
    same(contract_parts.fresh(name).train(), contract_parts.batch(), monkeypatch)


def test_the_usual_attention_is_fused(monkeypatch):
    for name in ("additive previous", "bilinear current fed", "additive previous fed covered", "cosine previous"):
        assert same(contract_parts.fresh(name).train(), contract_parts.batch(), monkeypatch)
    for name in ("cosine previous covered", "additive current"):  # the latter needs no loop at all
        assert not same(contract_parts.fresh(name).train(), contract_parts.batch(), monkeypatch)


@pytest.mark.parametrize("name", [name for name in contract_parts.ATTENDING if "previous" in name])
def test_attention_in_blocks_of_rows_equals_its_steps(name, monkeypatch):
    blocked = []
    monkeypatch.setattr("windlass.nn.fast.attention.block_rows", lambda keys: blocked.append(keys) or 2)
    same(contract_parts.fresh(name).train(), contract_parts.batch(), monkeypatch)
    assert all(len(keys) > 2 for keys in blocked)
    assert bool(blocked) or not name.startswith(("additive", "mlp"))


# Not a current query with the state alone as readout: the context would reach nothing.
@pytest.mark.parametrize(
    ("query", "readout"),
    [(q, r) for q in ("previous", "current") for r in READOUTS if (q, r) != ("current", "state")],
)
@pytest.mark.parametrize("stack", list(STACKS))
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_every_stack_and_readout_fused_equals_its_steps_with_all_losses(cell, query, stack, readout, monkeypatch):
    score = {"kind": "additive", "size": 5, "coverage": True, "values": 3}
    context = {"kind": "attention", "query": query, "input_feeding": True, "score": score}
    decoder = {"cell": cell, "context": context, "readout": READOUTS[readout], **STACKS[stack]}
    model = made(decoder, alignment=0.7, label_smoothing=0.1, coverage=0.5, doubly_stochastic=0.3)
    assert same(model, pairs(gold=True), monkeypatch)


@pytest.mark.parametrize(("query", "readout"), [("previous", "state"), ("previous", "deep"), ("current", "joined")])
@pytest.mark.parametrize("fed", [False, True])
def test_values_of_a_long_memory_meet_their_weights_at_every_step(fed, query, readout, monkeypatch):
    asked = []
    monkeypatch.setattr("windlass.heads.fast.fused.multiply_early", lambda *_: bool(asked.append(1)))
    score = {"kind": "additive", "size": 5, "coverage": True, "values": 3}
    context = {"kind": "attention", "query": query, "input_feeding": fed, "score": score}
    model = made({"cell": "gru", "context": context, "readout": READOUTS[readout]}, alignment=0.7, coverage=0.5)
    assert same(model, pairs(gold=True), monkeypatch)
    assert asked


@pytest.mark.parametrize("fed", [False, True])
def test_the_usual_decoder_fused_equals_its_steps_with_supervised_attention_too(fed, monkeypatch):
    decoder = {"context": {"kind": "attention", "input_feeding": fed}, "readout": READOUTS["deep"]}
    assert same(made(decoder, alignment=0.7), pairs(gold=True), monkeypatch)


def test_a_decoder_without_feedback_is_fused_too(monkeypatch):
    options = ModelOptions(
        encoder={"kind": "recurrent", "size": 4},
        decoder=RecurrentDecoder.Options(size=H, feedback=False, context={"kind": "attention", "input_feeding": True}),
    )
    assert same(build(options, LossOptions(), 12, 12).double(), pairs(), monkeypatch)


@pytest.mark.parametrize("connect", ["plain", "residual"])
@pytest.mark.parametrize("query", ["previous", "current"])
def test_locked_dropout_meets_a_fused_decoder_in_every_layer(query, connect, monkeypatch):
    context = {"kind": "attention", "query": query, "input_feeding": True}
    decoder = {
        "context": context,
        "connect": connect,
        "layers": 2,
        "dropout": 0.5,
        "locked": True,
        "readout": READOUTS["joined"],
    }
    assert same(made(decoder), pairs(), monkeypatch)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_weights_that_are_left_out_are_left_out_of_every_layer_of_a_fused_decoder(cell, monkeypatch):
    def without(weight, share, training=True):
        if not share:  # dropout of another kind, which is off
            return weight
        places = torch.arange(weight.numel()).view_as(weight) % 3 > 0
        return weight * places / (1 - share)

    decoder = {
        "context": {"kind": "attention", "input_feeding": True},
        "layers": 2,
        "readout": READOUTS["joined"],
    }
    batch, right = pairs(), {}
    for share in (0.0, 0.5):
        model = made({**decoder, "cell": {"kind": cell, "drop": share}})
        with monkeypatch.context() as patch:
            patch.setattr("windlass.nn.cell.drop", without)
            assert same(model, batch, monkeypatch)
            right[share] = model(batch).mean
    assert right[0.0] != right[0.5]


def test_dropout_in_a_fused_decoder_falls_anew_at_every_step_as_often_as_told():
    context = {"kind": "attention", "query": "current", "input_feeding": True}
    readout = {"kind": "joined", "size": 400, "dropout": 0.2}
    model = made({"context": context, "readout": readout, "size": 500, "layers": 2, "dropout": 0.4})
    head = model.head
    source, state = head.begin(model.encode(pairs()), pairs())
    e = torch.zeros(3, 5, 4, dtype=torch.float64)
    drawn = head.fused(e, state, source)
    for mask, kept in (*((layer.mask, 0.6) for layer in drawn.layers), (drawn.read_mask, 0.8)):
        assert mask.shape[:2] == (5, 3)
        assert (mask != 0).double().mean().item() == pytest.approx(kept, abs=0.03)
        assert mask.max().item() == pytest.approx(1 / kept)
        assert not torch.equal(mask[0], mask[1])
    head.eval()
    assert all(layer.mask is None for layer in head.fused(e, state, source).layers)
    assert head.fused(e, state, source).read_mask is None


def test_masks_of_a_fused_decoder_act_on_outputs_and_readouts_at_their_own_step():
    """With masks of a step's own, the fused decoder equals autograd over the equations."""
    torch.manual_seed(2)
    T, A, R = 3, 4, 5
    new = partial(torch.randn, dtype=torch.float64, requires_grad=True)
    x, keys, entering = new(T, B, 4 * H), new(B, S, A), new(B, S, R)
    weights, below, query, v, fed, join = (
        [new(4 * H, H), new(4 * H, H)],
        new(4 * H, H),
        new(A, H),
        new(A),
        new(4 * H, R),
        new(R, H),
    )
    masks = [torch.rand(T, B, H, dtype=torch.float64) for _ in weights]
    read_mask = torch.rand(T, B, R, dtype=torch.float64)
    zeros = torch.zeros(B, H, dtype=torch.float64)
    layers = tuple(
        Layer(LstmTape, w, None, (zeros, zeros), below if n else None, None, mask)
        for n, (w, mask) in enumerate(zip(weights, masks, strict=True))
    )
    score = FusedScore(TanhTape, keys, query, v)
    given = FusedDecoder(x, layers, False, score, MASKS["padded"], True, entering, fed, join, None, read_mask)
    states, attended, read = decode(given)

    o, stack = torch.zeros(B, R, dtype=torch.float64), [(zeros, zeros), (zeros, zeros)]
    found = []
    for t in range(T):
        y = x[t] + o @ fed.t()
        for n, (h, c) in enumerate(stack):
            i, f, out, g = ((y @ below.t() if n else y) + h @ weights[n].t()).chunk(4, dim=1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            stack[n] = (out.sigmoid() * c.tanh(), c)
            y = stack[n][0] * masks[n][t]
        scores = torch.tanh((y @ query.t())[:, None] + keys) @ v
        a = scores.masked_fill(~MASKS["padded"], -torch.inf).softmax(1)
        o = torch.tanh(y @ join.t() + (a[:, None] @ entering)[:, 0]) * read_mask[t]
        found.append((y, a, o))
    right = [torch.stack(parts) for parts in zip(*found, strict=True)]
    given = [x, keys, entering, *weights, below, query, v, fed, join]
    for one, other in zip((states, attended, read), right, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    ways = [
        torch.autograd.grad(sum((part**3).sum() for part in way), given) for way in ((states, attended, read), right)
    ]
    for one, other in zip(*ways, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_a_second_way_back_through_a_fused_decoder_gives_the_same():
    model = made(
        {"context": {"kind": "attention", "input_feeding": True, "score": {"kind": "additive", "coverage": True}}}
    )
    loss, parameters = model(pairs()).mean, list(model.parameters())
    first = torch.autograd.grad(loss, parameters, retain_graph=True)
    for one, other in zip(first, torch.autograd.grad(loss, parameters), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    "decoder",
    [{"connect": "highway", "layers": 2}, {"cell": {"kind": "gru", "reset": "before"}}, {"cell": "rnn"}],
    ids=str,
)
def test_what_no_fused_decoder_runs_goes_step_by_step(decoder, monkeypatch):
    assert not same(made(decoder), pairs(), monkeypatch)


@pytest.mark.parametrize("name", ["additive previous", "bilinear current fed"])
def test_in_float32_a_fused_decoder_is_within_rounding_of_its_steps(name, monkeypatch):
    model = contract_parts.fresh(name).float()
    _, whole = gradients(model, contract_parts.batch(), monkeypatch, by_steps=False)
    _, steps = gradients(model, contract_parts.batch(), monkeypatch, by_steps=True)
    for one, other in zip(whole, steps, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
