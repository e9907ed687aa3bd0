"""Contracts of running text, held by the transformer decoder: chunks with its cache carried on are the text itself."""

from dataclasses import replace

import pytest
import torch
from contract_parts import V, close
from test_contracts_running import ALL, TEXT, chunked

from windlass.core.errors import RecipeError
from windlass.core.records import Batch, Carry, Member, Memory, Padded
from windlass.data.running import chunk_of
from windlass.decoding.options import Greedy
from windlass.decoding.search import SearchRequest, stream
from windlass.heads.running import force_chunk
from windlass.model import LossOptions, ModelOptions, build
from windlass.recipe import compose
from windlass.training.data_parallel import gather_carry

KINDS = {
    "rotary, window of 4": {"positions": "rotary", "window": 4},
    "rotary, window of 7": {"positions": "rotary", "window": 7, "norm": "after"},
    "no positions, window of 3": {"positions": "none", "window": 3},
    "sinusoidal": {"positions": "sinusoidal"},
    "learned": {"positions": "learned"},
}
every = pytest.mark.parametrize("kind", KINDS)


def made(kind):
    torch.manual_seed(0)
    table = {"kind": "learned", "size": 4}
    decoder = {"kind": "transformer", "context": "none", "size": 8, "heads": 2, "hidden": 5, "embedding": table}
    options = ModelOptions.model_validate({"encoder": "none", "decoder": decoder | KINDS[kind]})
    model = build(options, LossOptions(), {}, V).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def flat(carry: Carry) -> torch.Tensor:
    return torch.cat([part.double().flatten() for layer in carry.layers for part in layer])


@every
@torch.no_grad()
def test_chunks_with_the_cache_carried_on_equal_the_whole_text(kind):
    model = made(kind)
    whole, end = chunked(model, [(0, 12)])
    for bounds in ([(0, 5), (5, 12)], [(0, 2), (2, 10), (10, 12)], [(n, n + 1) for n in range(12)]):
        parts, last = chunked(model, bounds)
        assert close(whole, parts)
        assert close(flat(end), flat(last))
    batch = Batch({}, Padded(TEXT, ALL), torch.arange(3))
    assert close(model.head.reference_logprobs(model.encode(batch), batch)[0], whole)


@every
def test_the_gradient_stops_where_a_chunk_ends(kind):
    model = made(kind)
    first, second = chunk_of(TEXT, ALL, 0, 5), chunk_of(TEXT, ALL, 5, 12)
    carry = model(first).carry
    assert carry.layers[0][0].requires_grad
    loss = model(second, carry.map(torch.Tensor.detach)).loss_sum  # as the loop hands it on
    assert all(g.isfinite().all() for g in torch.autograd.grad(loss, list(model.parameters())))


@every
@torch.no_grad()
def test_a_row_that_does_not_go_on_starts_anew(kind):
    model, second = made(kind), chunk_of(TEXT, ALL, 5, 12)
    _, carry = force_chunk(model.head, chunk_of(TEXT, ALL, 0, 5), None)
    found, after = force_chunk(model.head, replace(second, continues=torch.tensor([True, False, True])), carry)
    onward, _ = force_chunk(model.head, second, carry)
    anew, _ = force_chunk(model.head, second, None)
    assert close(found[[0, 2]], onward[[0, 2]])
    assert close(found[1], anew[1])
    assert not close(found[1], onward[1])
    more = chunk_of(TEXT, ALL, 0, 4)
    more = replace(more, continues=torch.ones(3, dtype=torch.bool))
    third, _ = force_chunk(model.head, more, after)  # rows that have read unequally much go on together
    alone, _ = force_chunk(model.head, more.select(torch.tensor([1])), after.select(torch.tensor([1])))
    assert close(third[1], alone[0])


@every
@torch.no_grad()
def test_padding_changes_nothing_of_scores_or_of_what_comes_next(kind):
    model, mask = made(kind), ALL.clone()
    mask[1, 9:] = False
    wide = torch.cat([TEXT, torch.full((3, 4), 7)], 1)
    wider = torch.cat([mask, torch.zeros(3, 4, dtype=torch.bool)], 1)
    a, left = force_chunk(model.head, chunk_of(TEXT, mask, 0, 12), None)
    b, right = force_chunk(model.head, chunk_of(wide, wider, 0, 16), None)
    short, end = force_chunk(model.head, chunk_of(TEXT[1:2], ALL[1:2], 0, 9), None)
    assert close(a, b[:, :12])
    assert not b[:, 12:].any()
    assert close(short[0], a[1, :9])
    onward = replace(chunk_of(TEXT, ALL, 3, 6), continues=torch.ones(3, dtype=torch.bool))
    after = [force_chunk(model.head, onward, carry)[0] for carry in (left, right)]
    (alone,) = force_chunk(model.head, onward.select(torch.tensor([1])), end)[0]
    assert close(*after)
    assert close(after[0][1], alone)


@torch.no_grad()
def test_what_is_carried_has_one_size_however_long_the_text_and_comes_back_from_its_tensors_and_shards():
    model = made("rotary, window of 4")
    _, carry = chunked(model, [(0, 5), (5, 12)])
    assert {part.shape[2] for layer in carry.layers[:-1] for part in layer} == {4}
    again = Carry.of(carry.tensors())
    assert close(flat(again), flat(carry))
    assert again.layers[-1][0].tolist() == [12, 12, 12]
    shards = [carry.select(torch.arange(first, 3, 2)) for first in range(2)]
    assert close(flat(gather_carry(shards, 2)), flat(carry))


@torch.no_grad()
def test_a_text_is_written_on_without_end_and_with_a_cache_of_the_windows_size():
    model = made("rotary, window of 4")
    tokens = list(stream([Member(model.head, Memory.empty(1))], SearchRequest(Greedy(length_plus=20), forbidden=(3,))))
    assert len(tokens) == 20
    ids = torch.tensor([tokens])
    batch = Batch({}, Padded(ids, torch.ones_like(ids, dtype=torch.bool)), torch.arange(1))
    forced = model.head.teacher_force(Memory.empty(1), batch).readout
    logits = model.head.output(forced)[0].index_fill(1, torch.tensor([0, 1, 2, 3]), -torch.inf)
    assert logits.argmax(1).tolist() == tokens
    source, state = model.head.begin(Memory.empty(1))
    for token in tokens:
        _, state, _ = model.head.step(torch.tensor([token]), state, source)
    assert state.width == 4


def test_running_text_without_a_window_is_refused():
    decoder = {"kind": "transformer", "context": "none", "window": None}
    with pytest.raises(RecipeError, match=r"running text .* set model\.decoder\.window, .*positions: rotary"):
        compose("lm", None, [{"model": {"decoder": decoder}}])
    compose("lm", None, [{"model": {"decoder": decoder}, "train": {"chunk": None}}])
    compose("lm", None, [{"model": {"decoder": decoder | {"window": 64, "positions": "rotary"}}}])
    with pytest.raises(RecipeError, match=r"there is no memory: set model\.decoder\.context: none"):
        compose("lm", None, [{"model": {"decoder": {"kind": "transformer", "context": "attention"}}}])


def test_a_transformer_alone_is_enough_to_ask_for_a_language_model_with_a_window():
    decoder = compose("lm", None, [{"model": {"decoder": "transformer"}}]).model.decoder
    assert (decoder.kind, decoder.context, decoder.positions, decoder.window) == ("transformer", "none", "rotary", 256)
    recurrent, own = (compose("lm", None, settings) for settings in ([{"model": {"decoder": "recurrent"}}], []))
    assert recurrent == own
