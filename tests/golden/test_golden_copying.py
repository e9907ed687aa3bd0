"""Copying against hand arithmetic, and the blocked loss against the plain formula."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from windlass.core.errors import RecipeError
from windlass.core.options import members
from windlass.core.records import Batch, Member, Memory, Padded
from windlass.decoding.options import SearchOptions
from windlass.decoding.search import SearchRequest, search
from windlass.heads.recurrent import RecurrentDecoder
from windlass.heads.transformer import TransformerDecoder
from windlass.model import LossOptions, ModelOptions, build
from windlass.nn import fast
from windlass.nn.copying import copy_mixture, copy_share, mixed_logprob
from windlass.nn.fast import loss as blocks
from windlass.nn.loss import copy_loss, cross_entropy

V = 5


def test_a_mixture_by_hand():
    # Written: softmax of (0, log 3) is (1/4, 3/4), of which 80 per cent. Copied: 20 per cent of the weights.
    logits, gate = torch.tensor([[0.0, math.log(3)]]), torch.tensor([math.log(4)])
    weights, held = torch.tensor([[0.5, 0.1, 0.4]]), torch.tensor([[1, 2, 1]])
    p = copy_mixture(logits, gate, weights, held, oov=2).exp()[0].tolist()
    assert p == pytest.approx([0.8 / 4, 0.8 * 3 / 4 + 0.2 * 0.9, 0.2 * 0.1, 0.0])


def test_what_can_neither_be_written_nor_copied_is_impossible_and_harms_no_gradient():
    logits, gate = torch.zeros(1, 2, requires_grad=True), torch.zeros(1, requires_grad=True)
    logp = copy_mixture(logits, gate, torch.ones(1, 1), torch.zeros(1, 1, dtype=torch.long), oov=1)
    assert logp[0, 2] == -torch.inf
    logp[0, 0].backward()
    assert logits.grad.isfinite().all()
    assert gate.grad.isfinite().all()


def test_the_copied_share_counts_every_place_that_holds_the_token():
    weights = torch.tensor([[[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]]])
    assert copy_share(weights, torch.tensor([[7, 4, 7]]), torch.tensor([[7, 9]]))[0].tolist() == pytest.approx(
        [0.7, 0.0]
    )


def case(M=7, R=3, dtype=torch.float64):
    torch.manual_seed(1)
    o, w, b = torch.randn(M, R, dtype=dtype), torch.randn(V, R, dtype=dtype), torch.randn(V, dtype=dtype)
    gate, share = torch.randn(M, dtype=dtype), torch.rand(M, dtype=dtype)
    share[1] = 0  # a word that the source does not hold
    gold = torch.tensor([0, 4, V, 3, V + 2, 1, 2])[:M]
    return [part.requires_grad_() for part in (o, w, b, gate, share)], gold


def plain(o, w, b, gate, share, gold, smoothing=0.0):
    """The formula as it is written."""
    p = torch.softmax(o @ w.t() + b, 1)
    g = torch.sigmoid(gate)
    beyond = gold >= V
    written = torch.where(beyond, torch.zeros_like(share), p.gather(1, gold.masked_fill(beyond, 0)[:, None])[:, 0])
    nll = -(g * written + (1 - g) * share).log().sum()
    return (1 - smoothing) * nll - smoothing * p.log().mean(1).sum()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [2, 100])
def test_the_blocked_loss_and_its_gradients_are_those_of_the_formula(monkeypatch, smoothing, rows):
    monkeypatch.setattr(blocks, "FEWEST_ROWS", rows)
    monkeypatch.setattr(blocks, "BLOCK", 1)
    parts, gold = case()
    loss, nll = copy_loss(*parts, gold, smoothing)
    right = plain(*parts, gold, smoothing)
    torch.testing.assert_close(loss, right)
    torch.testing.assert_close(nll, plain(*parts, gold))
    with fast.disabled():
        reference, _ = copy_loss(*parts, gold, smoothing)
    torch.testing.assert_close(reference, right)
    for mine, theirs in zip(torch.autograd.grad(loss * 3, parts), torch.autograd.grad(right * 3, parts), strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_blocked_loss_passes_gradcheck(smoothing):
    parts, gold = case(5)
    parts[4].data.clamp_(min=0.05)  # a share of 0 is an edge: no weight can be taken from it
    assert torch.autograd.gradcheck(lambda *given: copy_loss(*given, gold, smoothing)[0], parts)


def test_a_second_pass_gives_the_same_gradients():
    parts, gold = case()
    loss, _ = copy_loss(*parts, gold)
    first = torch.autograd.grad(loss, parts, retain_graph=True)
    assert all(torch.equal(a, b) for a, b in zip(first, torch.autograd.grad(loss, parts), strict=True))


def test_a_gate_that_only_writes_leaves_the_usual_loss():
    (o, w, b, _, share), gold = case(4)
    gold = gold.clamp(max=V - 1)
    loss, nll = copy_loss(o, w, b, torch.full((4,), 1e4, dtype=torch.float64), share, gold, 0.1)
    right, right_nll = cross_entropy(o @ w.t() + b, gold, 0.1)
    torch.testing.assert_close(loss, right)
    torch.testing.assert_close(nll, right_nll)


def test_a_hopeless_copy_has_a_finite_loss_and_finite_gradients():
    o, w, b = torch.ones(2, 1), torch.tensor([[500.0], [0.0]]), torch.zeros(2)
    parts = [part.requires_grad_() for part in (o, w, b, torch.tensor([-300.0, 300.0]), torch.tensor([0.0, 0.0]))]
    loss, _ = copy_loss(*parts, torch.tensor([1, 2]))  # one neither written nor held, one that no weight is on
    assert loss.isfinite()
    assert all(part.isfinite().all() for part in torch.autograd.grad(loss, parts))


def test_forced_log_probability_by_hand():
    logp = mixed_logprob(
        torch.tensor([0.5, 0.5]).log(), torch.tensor([0.0, 0.0]), torch.tensor([0.0, 0.25]), torch.tensor([False, True])
    )
    assert logp.exp().tolist() == pytest.approx([0.25, 0.125])


# -- in the head


def head(**more):
    torch.manual_seed(2)
    context = {"kind": "attention", "score": {"kind": "dot"}}
    options = RecurrentDecoder.Options(
        size=4, embedding={"kind": "learned", "size": 3}, context=context, copying=True, **more
    )
    return RecurrentDecoder(options, V, memory_size=4, final_sizes=()).double()


def read(copy, target=None):
    """A memory, and the batch that says what its places hold."""
    torch.manual_seed(3)
    B, S = 1, len(copy[0])
    states = torch.randn(B, S, 4, dtype=torch.float64)
    inputs = {"source": Padded.of([[1] * S]), "copy": Padded.of(copy)}
    batch = Batch(inputs, None if target is None else Padded.of(target), torch.arange(B))
    return Memory(states, torch.ones(B, S) > 0, states[:, 0]), batch


def test_a_step_is_the_mixture_of_what_is_written_and_what_is_attended_to():
    h, (m, batch) = head(), read([[4, V, 4, V + 1]])
    source, state = h.begin(m, batch)
    logp, _, weights = h.step(torch.tensor([2]), state, source)
    # The same by hand: state, context and token of the step, then the formula.
    e = h.embedding(torch.tensor([2]))
    query = torch.zeros(1, 4, dtype=torch.float64)
    a = torch.softmax(query @ m.states[0].t(), 1)
    context = a @ m.states[0]
    assert torch.allclose(a, weights)
    s, _ = h.stack.step(h.stack.first.project(torch.cat([e, context], 1)), state.stack)
    g = torch.sigmoid(F.linear(torch.cat([s, context, e], 1), h.gate.layer.weight, h.gate.layer.bias))[0, 0]
    right = torch.cat([g * torch.softmax(h.output(s), 1)[0], torch.zeros(2, dtype=torch.float64)])
    for place, word in enumerate([4, V, 4, V + 1]):
        right[word] += (1 - g) * a[0, place]
    torch.testing.assert_close(logp[0].exp(), right)
    assert right.sum().item() == pytest.approx(1)


def test_a_word_from_beyond_the_vocabulary_is_fed_back_as_unknown():
    h, (m, batch) = head(), read([[4, V, V + 1]])
    source, state = h.begin(m, batch)
    after = [h.step(torch.tensor([token]), state, source)[0] for token in (1, V, V + 1, 4)]
    assert torch.equal(after[0], after[1])
    assert torch.equal(after[0], after[2])
    assert not torch.equal(after[0], after[3])


def test_a_target_from_beyond_the_vocabulary_can_only_be_copied():
    h, (m, batch) = head(), read([[4, V, 4]], target=[[V, 3]])
    logp, weights = h.reference_logprobs(m, batch)
    gate = h.teacher_force(m, batch).gate
    assert logp[0, 0].exp().item() == pytest.approx(((1 - torch.sigmoid(gate[0, 0])) * weights[0, 0, 1]).item())
    scored = h.score(m, batch)
    torch.testing.assert_close(scored.loss_sum, -logp.sum())


def test_copying_without_attention_is_refused():
    options = ModelOptions(decoder=RecurrentDecoder.Options(context="summary", copying=True))
    with pytest.raises(RecipeError, match="copying needs attention"):
        build(options, LossOptions(), V, V)


def test_a_batch_that_does_not_say_what_its_places_hold_is_refused():
    m, batch = read([[4]])
    with pytest.raises(RecipeError, match="the ids of its source tokens"):
        head().begin(m)
    with pytest.raises(RecipeError, match="the ids of its source tokens"):
        head().begin(m, replace(batch, inputs={"source": batch.inputs["source"]}))


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
def test_a_search_that_may_not_write_the_unknown_mark_writes_what_is_next(kind):
    h, (m, batch) = head().eval(), read([[4, 4]])
    with torch.no_grad():
        h.output.bias[1] += 50  # all but sure of the unknown mark
    options = members(SearchOptions)[kind]
    usual, told = (
        search([Member(h, m, batch)], SearchRequest(options(length_plus=4, unknown=may)))[0][0] for may in (True, False)
    )
    assert 1 in usual.ids
    assert 1 not in told.ids


@pytest.mark.parametrize("kind", ["recurrent", "transformer"])
@torch.no_grad()
def test_of_an_empty_source_nothing_is_copied_and_all_is_written(kind):
    if kind == "recurrent":
        decoder = head()
    else:
        options = TransformerDecoder.Options(size=4, heads=2, hidden=4, copying=True)
        decoder = TransformerDecoder(options, V, 4).double().eval()
    memory = Memory(torch.randn(2, 3, 4).double(), torch.tensor([[True] * 3, [False] * 3]), torch.zeros(2, 4).double())
    inputs = {"copy": Padded(torch.tensor([[4, V, 4], [0, 0, 0]]), memory.mask)}
    batch = Batch(inputs, Padded.of([[4, 3], [4, 3]]), torch.arange(2))
    source, state = decoder.begin(memory, batch)
    logprobs, _, _ = decoder.step(torch.tensor([2, 2]), state, source)
    assert logprobs.exp().sum(1).tolist() == pytest.approx([1.0, 1.0])
    assert logprobs[1, V] == -torch.inf
    forced, _ = decoder.reference_logprobs(memory, batch)
    assert forced[:, 0].tolist() == pytest.approx(logprobs[:, 4].tolist())
