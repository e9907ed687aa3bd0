"""Every attention score, against a loop over queries and places in plain Python."""

import math

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter

from windlass.core.errors import RecipeError
from windlass.core.options import members
from windlass.core.records import Memory
from windlass.nn.attention import Attention, AttentionOptions

B, T, S, D = 2, 3, 4, 5
LENGTHS = [4, 2]
OPTIONS = {
    "additive": {"kind": "additive", "size": 7},
    "dot": {"kind": "dot"},
    "scaled_dot": {"kind": "scaled_dot"},
    "bilinear": {"kind": "bilinear"},
    "cosine": {"kind": "cosine"},
    "mlp": {"kind": "mlp", "size": 7},
}


def n(tensor):
    return tensor.detach().numpy()


def score(kind, attend, q, k, moved=0.0):
    """The score of one query and one key; `moved` is coverage's share, added where the keys are ready."""
    if kind == "additive":
        inner = n(attend.score.query.weight) @ q + n(attend.score.key.weight) @ k + moved
        return n(attend.score.v) @ np.tanh(inner)
    if kind == "bilinear":
        return q @ (n(attend.score.key.weight) @ k + moved)
    if kind == "mlp":
        hidden = n(attend.score.hidden.weight) @ np.concatenate([q, k]) + n(attend.score.hidden.bias) + moved
        return (n(attend.score.out.weight) @ np.maximum(hidden, 0))[0]
    k = k + moved
    product = sum(a * b for a, b in zip(q, k, strict=True))
    if kind == "dot":
        return product
    if kind == "scaled_dot":
        return product / math.sqrt(len(q))
    return product / math.sqrt(sum(a * a for a in q)) / math.sqrt(sum(b * b for b in k))  # cosine, not scaled


def made(options, query_size=D):
    torch.manual_seed(0)
    attend = Attention(TypeAdapter(AttentionOptions).validate_python(options), query_size, D).double()
    for parameter in attend.parameters():
        parameter.data.normal_()
    return attend


def given(query_size=D):
    rng = np.random.default_rng(0)
    states, queries = rng.normal(size=(B, S, D)), rng.normal(size=(B, T, query_size))
    mask = torch.arange(S) < torch.tensor(LENGTHS)[:, None]
    return states, queries, Memory(torch.from_numpy(states), mask, torch.zeros(B, D))


def by_hand(kind, attend, states, queries, coverage=None, scale=1.0, keys=None, values=None):
    contexts, weights = np.zeros((B, T, (states if values is None else values).shape[2])), np.zeros((B, T, S))
    keys = states if keys is None else keys
    values = states if values is None else values
    for b in range(B):
        for t in range(T):
            e = []
            for j in range(LENGTHS[b]):
                moved = 0.0 if coverage is None else coverage[b, t, j] * n(attend.coverage)
                e.append(scale * score(kind, attend, queries[b, t], keys[b, j], moved))
            e = [math.exp(each - max(e)) for each in e]  # or far places would all weigh 0
            for j in range(LENGTHS[b]):
                weights[b, t, j] = e[j] / sum(e)
                contexts[b, t] += weights[b, t, j] * values[b, j]
    return contexts, weights


def test_every_registered_score_is_here():
    missing = members(AttentionOptions).keys() - OPTIONS.keys()
    assert not missing, f"add the equation of {sorted(missing)} to OPTIONS and `score`"


@pytest.mark.parametrize("kind", OPTIONS)
def test_scores_weights_and_contexts_are_those_of_the_equation(kind):
    attend = made(OPTIONS[kind])
    states, queries, memory = given()
    context, weights = attend(torch.from_numpy(queries), attend.prepare(memory))
    scale = 10.0 if kind == "cosine" else 1.0
    right_context, right = by_hand(kind, attend, states, queries, scale=scale)
    assert np.allclose(n(weights), right)
    assert np.allclose(n(context), right_context)
    assert np.allclose(n(weights).sum(-1), 1)
    assert (n(weights)[1, :, 2:] == 0).all()
    for other in ("dot", "scaled_dot", "cosine"):  # those that need no weights of their own
        if other != kind:
            for factor in (1.0, 10.0):
                assert not np.allclose(n(weights), by_hand(other, attend, states, queries, scale=factor)[1])


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_cosine_is_sharpened_by_its_scale(scale):
    attend = made({"kind": "cosine", "scale": scale})
    states, queries, memory = given()
    _, weights = attend(torch.from_numpy(queries), attend.prepare(memory))
    for factor in (1.0, 3.0, 10.0):
        right = by_hand("cosine", attend, states, queries, scale=factor)[1]
        assert np.allclose(n(weights), right) == (factor == scale)


@pytest.mark.parametrize("kind", OPTIONS)
def test_coverage_moves_a_ready_key_by_what_its_place_received(kind):
    attend = made({**OPTIONS[kind], "coverage": True})
    states, queries, memory = given()
    coverage = np.random.default_rng(3).uniform(size=(B, T, S))
    _, weights = attend(torch.from_numpy(queries), attend.prepare(memory), torch.from_numpy(coverage))
    scale = 10.0 if kind == "cosine" else 1.0
    assert np.allclose(n(weights), by_hand(kind, attend, states, queries, coverage, scale)[1])
    assert not np.allclose(n(weights), by_hand(kind, attend, states, queries, None, scale)[1])


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize(("keys", "values"), [(3, None), (None, 2), (3, 2), (None, None)])
def test_keys_and_values_are_projected_where_told(kind, keys, values):
    query_size = 3 if keys else D
    attend = made({**OPTIONS[kind], "keys": keys, "values": values}, query_size)
    states, queries, memory = given(query_size)
    context, weights = attend(torch.from_numpy(queries), attend.prepare(memory))
    k = states @ n(attend.project_keys.weight).T if keys else states
    v = states @ n(attend.project_values.weight).T if values else states
    scale = 10.0 if kind == "cosine" else 1.0
    right_context, right = by_hand(kind, attend, states, queries, None, scale, k, v)
    assert np.allclose(n(weights), right)
    assert np.allclose(n(context), right_context)
    assert attend.size == context.size(2) == (values or D)


@pytest.mark.parametrize("kind", ["dot", "scaled_dot", "cosine"])
def test_products_need_one_size_and_say_how_to_get_it(kind):
    with pytest.raises(RecipeError, match="keys: 3"):
        made(OPTIONS[kind], query_size=3)


@pytest.mark.parametrize("coverage", [False, True])
@pytest.mark.parametrize("kind", OPTIONS)
def test_a_row_with_no_real_place_gets_zeros(kind, coverage):
    attend = made({**OPTIONS[kind], "coverage": coverage})
    _states, queries, memory = given()
    memory = Memory(memory.states, memory.mask & torch.tensor([[True], [False]]), memory.summary)
    received = torch.zeros(B, T, S, dtype=torch.float64) if coverage else None
    context, weights = attend(torch.from_numpy(queries), attend.prepare(memory), received)
    assert not weights[1].any()
    assert not context[1].any()
    assert np.allclose(n(weights)[0].sum(-1), 1)


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_memory_laid_out_time_first_is_attended_to_alike(kind):
    attend = made({**OPTIONS[kind], "coverage": True})
    _states, queries, memory = given()
    turned = Memory(memory.states.transpose(0, 1).contiguous().transpose(0, 1), memory.mask, memory.summary)
    received = torch.rand(B, T, S, dtype=torch.float64)
    outcomes = [attend(torch.from_numpy(queries), attend.prepare(m), received)[0] for m in (memory, turned)]
    assert torch.allclose(*outcomes)
