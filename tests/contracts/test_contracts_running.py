"""Contracts of running text, held by every cell: chunks with the state carried on are the text itself."""

import pytest
import torch
from contract_parts import CELLS, H, V, close

from windlass.core.records import Batch, Padded
from windlass.data.running import chunk_of
from windlass.heads.running import force_chunk, score_chunk
from windlass.model import LossOptions, ModelOptions, build

every = pytest.mark.parametrize("cell", CELLS)
TEXT = torch.randint(4, V, (3, 12), generator=torch.Generator().manual_seed(2))
ALL = torch.ones_like(TEXT, dtype=torch.bool)


def made(cell, start="learned", **more):
    torch.manual_seed(0)
    decoder = {"cell": CELLS[cell], "size": H, "context": "none", "start": start, **more}
    decoder.setdefault("embedding", {"kind": "learned", "size": 4})
    options = ModelOptions.model_validate({"encoder": "none", "decoder": decoder})
    model = build(options, LossOptions(), {}, V).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def chunked(model, bounds, values=TEXT, mask=ALL):
    """Log probabilities of a text in chunks, and what is left at its end."""
    carry, found = None, []
    for begin, end in bounds:
        logp, carry = force_chunk(model.head, chunk_of(values, mask, begin, end), carry)
        found.append(logp)
    return torch.cat(found, 1), carry


def flat(carry):
    return torch.cat([part.flatten() for layer in carry.layers for part in layer])


@every
@pytest.mark.parametrize("layers", [1, 2])
def test_chunks_with_the_state_carried_on_equal_the_whole_text(cell, layers):
    model = made(cell, layers=layers)
    with torch.no_grad():
        whole, end = chunked(model, [(0, 12)])
        for bounds in ([(0, 5), (5, 12)], [(n, n + 1) for n in range(12)]):
            parts, last = chunked(model, bounds)
            assert close(whole, parts)
            assert close(flat(end), flat(last))


@every
def test_running_text_equals_the_same_text_taught_at_once(cell):
    model = made(cell)
    batch = Batch({}, Padded(TEXT, ALL), torch.arange(3))
    with torch.no_grad():
        assert close(model.head.reference_logprobs(model.encode(batch), batch)[0], chunked(model, [(0, 4), (4, 12)])[0])


@every
def test_the_gradient_stops_where_a_chunk_ends(cell):
    model = made(cell)
    first, second = chunk_of(TEXT, ALL, 0, 5), chunk_of(TEXT, ALL, 5, 12)
    carry = model(first).carry
    assert any(part.requires_grad for layer in carry.layers for part in layer)
    start = model.head.start.states
    (through,) = torch.autograd.grad(model(second, carry).loss_sum, start, allow_unused=True)
    assert through is not None
    assert through.abs().max() > 0  # s_0 still matters
    cut = carry.map(torch.Tensor.detach)  # as the loop hands it on
    loss = model(second, cut).loss_sum
    (none,) = torch.autograd.grad(loss, start, allow_unused=True, retain_graph=True)
    assert none is None or not none.any()
    weights = torch.autograd.grad(loss, [p for p in model.parameters() if p is not start])
    assert all(g.isfinite().all() for g in weights)


@every
def test_a_row_that_does_not_go_on_starts_anew(cell):
    model = made(cell)
    second = chunk_of(TEXT, ALL, 5, 12)
    with torch.no_grad():
        _, carry = force_chunk(model.head, chunk_of(TEXT, ALL, 0, 5), None)
        mixed = Batch(second.inputs, second.target, second.keys, continues=torch.tensor([True, False, True]))
        found, _ = force_chunk(model.head, mixed, carry)
        onward, _ = force_chunk(model.head, second, carry)
        anew, _ = force_chunk(model.head, second, None)
    assert close(found[[0, 2]], onward[[0, 2]])
    assert close(found[1], anew[1])
    assert not close(found[1], onward[1])


@every
def test_permuting_rows_permutes_results(cell):
    model, turn = made(cell), [2, 0, 1]
    bounds = [(0, 5), (5, 12)]
    with torch.no_grad():
        a, left = chunked(model, bounds)
        b, right = chunked(model, bounds, TEXT[turn])
    assert close(a[turn], b)
    assert close(left.layers[0][0][turn], right.layers[0][0])


@every
def test_more_padding_changes_nothing_of_scores_or_of_what_is_carried_on(cell):
    model = made(cell)
    mask = ALL.clone()
    mask[1, 9:] = False
    wide = torch.cat([TEXT, torch.full((3, 4), 7)], 1)
    wider = torch.cat([mask, torch.zeros(3, 4, dtype=torch.bool)], 1)
    with torch.no_grad():
        a, left = force_chunk(model.head, chunk_of(TEXT, mask, 0, 12), None)
        b, right = force_chunk(model.head, chunk_of(wide, wider, 0, 16), None)
        short, end = force_chunk(model.head, chunk_of(TEXT[1:2], ALL[1:2], 0, 9), None)
        assert model(chunk_of(TEXT, mask, 0, 12)).count == model(chunk_of(wide, wider, 0, 16)).count == 33
    assert close(a, b[:, :12])
    assert not b[:, 12:].any()
    assert close(flat(left), flat(right))
    assert close(short[0], a[1, :9])
    assert close(end.layers[0][0][0], left.layers[0][0][1])


@every
def test_every_parameter_gets_a_gradient(cell):
    model = made(cell).train()
    score_chunk(model.head, chunk_of(TEXT, ALL, 0, 12), None).loss_sum.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 1e-9, f"{name} changes nothing"


def test_locked_dropout_keeps_its_mask_within_a_chunk():
    model = made("lstm", dropout=0.5, locked=True).train()
    dropped = model.head.run_chunk(chunk_of(TEXT, ALL, 0, 12), None)[0] == 0  # (B, T, H)
    assert dropped.any()
    assert (dropped == dropped[:, :1]).all()
