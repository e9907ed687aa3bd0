"""The hierarchical attention network, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from windlass.core.records import Batch, Padded
from windlass.encoders.document import HierarchicalEncoder, end_states
from windlass.heads.label import LabelHead, LabelHeadOptions

# One unit at every level, one direction, identity cells: h_t = w x_t + u h_{t-1}. All sums can be done on paper.
CELL = {"kind": "rnn", "activation": "identity", "bias": False}
DOT = {"kind": "attention", "score": {"kind": "dot"}}


def tiny(pool: str | dict[str, object]) -> HierarchicalEncoder:
    level = {"cell": CELL, "size": 1, "bidirectional": False}
    encoder = HierarchicalEncoder.Options(
        embedding={"kind": "learned", "size": 1}, words={**level, "pool": pool}, sentences=level
    ).build(vocabulary=8)
    with torch.no_grad():
        encoder.embedding.table.copy_(torch.arange(8.0)[:, None])
        for stack, into, over in ((encoder.words, 1.0, 0.5), (encoder.sentences, 2.0, -1.0)):
            stack.first.weight_x.fill_(into)
            stack.first.weight_h.fill_(over)
        if pool == DOT:
            encoder.pool.query.fill_(0.5)
    return encoder


BATCH = Batch({"source": Padded.nested([[[4, 2], [6]], [[1, 0, 2]]])}, None, torch.arange(2))


def read(encoder: HierarchicalEncoder):
    with torch.no_grad():
        return encoder(BATCH)


# words: 4, 2 -> 4, 2 + 0.5 * 4 = 4;  6 -> 6;  1, 0, 2 -> 1, 0.5, 2.25
WORDS = {"first": [4.0, 4.0], "second": [6.0], "other": [1.0, 0.5, 2.25]}


def weighed(states: list[float]) -> tuple[float, list[float]]:
    """By attention with the query 0.5: softmax of half the states."""
    chances = [math.exp(0.5 * state) for state in states]
    weights = [chance / sum(chances) for chance in chances]
    return sum(w * state for w, state in zip(weights, states, strict=True)), weights


POOLED = {
    "last": [4.0, 6.0, 2.25],
    "mean": [4.0, 6.0, 1.25],
    "max": [4.0, 6.0, 2.25],
    "attention": [weighed(states)[0] for states in WORDS.values()],
}


@pytest.mark.parametrize("pool", POOLED)
def test_words_to_sentences_to_document(pool):
    first, second, other = POOLED[pool]
    memory = read(tiny(DOT if pool == "attention" else pool))
    # sentences: h_1 = 2 v_1;  h_2 = 2 v_2 - h_1
    assert memory.states[0, :, 0].tolist() == pytest.approx([2 * first, 2 * second - 2 * first])
    assert memory.states[1, :, 0].tolist() == pytest.approx([2 * other, 0])
    assert memory.mask.tolist() == [[True, True], [True, False]]
    assert memory.summary[:, 0].tolist() == pytest.approx([2 * second - 2 * first, 2 * other])
    assert BATCH.lengths.tolist() == [3, 3]  # words, of which there are more than sentences
    assert memory.places == "sentences"
    assert ("word_attention" in memory.parts) == (pool == "attention")


def test_the_weights_of_words_are_a_softmax_within_each_sentence():
    within = read(tiny(DOT)).parts["word_attention"].states
    assert within[0, 0].tolist() == pytest.approx([0.5, 0.5, 0])
    assert within[0, 1].tolist() == [1, 0, 0]
    assert within[1, 0].tolist() == pytest.approx(weighed(WORDS["other"])[1])
    assert within[1, 1].tolist() == [0, 0, 0]


def test_attention_at_both_levels_is_the_document_vector():
    memory = read(tiny(DOT))
    head = LabelHead(LabelHeadOptions(pool=DOT), labels=2, memory_size=1)
    with torch.no_grad():
        head.pool.query.fill_(0.5)
        vector, weights = head.pool(memory)
    expected, shares = weighed(memory.states[0, :, 0].tolist())
    assert vector[0].item() == pytest.approx(expected)
    assert weights[0].tolist() == pytest.approx(shares)
    assert weights[1].tolist() == [1, 0]


def test_additive_attention_with_a_learned_query_is_that_of_the_hierarchical_attention_network():
    """u = tanh(W h + b), a = softmax(u . u_w): the learned query gives b, the same for every place."""
    torch.manual_seed(3)
    additive = {"kind": "attention", "score": {"kind": "additive", "size": 3}}
    encoder = HierarchicalEncoder.Options(
        embedding={"kind": "learned", "size": 2},
        words={"cell": "gru", "size": 2, "pool": additive},
        sentences={"cell": "gru", "size": 2},
    ).build(vocabulary=8)
    head = LabelHead(LabelHeadOptions(pool=additive), labels=2, memory_size=4)

    def attended(pool, states):
        score = pool.attention.score
        W, u_w, b = score.key.weight, score.v, score.query.weight @ pool.query
        u = torch.tanh(states @ W.t() + b)
        weights = torch.softmax(u @ u_w, 0)
        return weights @ states, weights

    with torch.no_grad():
        memory = encoder(Batch({"source": Padded.nested([[[4, 5, 6], [7]]])}, None, torch.arange(1)))
        vectors = []
        for number, sentence in enumerate([[4, 5, 6], [7]]):
            states, _ = encoder.words(encoder.embedding(torch.tensor([sentence])))
            vector, weights = attended(encoder.pool, states[0])
            vectors.append(vector)
            given = memory.parts["word_attention"].states[0, number, : len(sentence)]
            assert torch.allclose(given, weights, atol=1e-6)
        above, _ = encoder.sentences(torch.stack(vectors)[None])
        assert torch.allclose(memory.states, above, atol=1e-6)
        vector, weights = attended(head.pool, above[0])
        found, shares = head.pool(memory)
    assert torch.allclose(found[0], vector, atol=1e-6)
    assert torch.allclose(shares[0], weights, atol=1e-6)


def test_both_ends_are_the_last_place_forwards_and_the_first_backwards():
    states = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]] * 3)
    mask = torch.tensor([[True, True, True], [False, True, False], [False, False, False]])
    assert end_states(states * mask[..., None], mask, True).tolist() == [[5, 2], [3, 4], [0, 0]]
    assert end_states(states * mask[..., None], mask, False).tolist() == [[5, 6], [3, 4], [0, 0]]


def test_ends_as_the_vector_of_a_sentence_are_those_of_its_own_network():
    torch.manual_seed(1)
    encoder = HierarchicalEncoder.Options(
        embedding={"kind": "learned", "size": 3},
        words={"cell": "lstm", "size": 2, "pool": "ends"},
        sentences={"cell": "gru", "size": 4},
    ).build(vocabulary=8)
    ids = torch.tensor([[4, 5, 6]])
    with torch.no_grad():
        memory = encoder(Batch({"source": Padded.nested([[[4, 5, 6], [7]]])}, None, torch.arange(1)))
        states, _ = encoder.words(encoder.embedding(ids))
        vector = torch.cat([states[:, -1, :2], states[:, 0, 2:]], 1)
        other, _ = encoder.words(encoder.embedding(torch.tensor([[7]])))
        above, _ = encoder.sentences(torch.stack([vector, other[:, 0]], 1))
    assert torch.allclose(memory.states, above, atol=1e-6)
