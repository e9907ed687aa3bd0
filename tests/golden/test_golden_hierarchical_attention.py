"""Attention at two levels against hand arithmetic."""

import pytest
import torch

from windlass.core.records import Memory
from windlass.nn.attention import Additive, Bilinear, Dot
from windlass.nn.hierarchical_attention import HierarchicalAttention

Q = 2


def memory():
    """Two rows: two sentences of two and one words; one sentence of two words."""
    torch.manual_seed(4)
    sentences, words = torch.randn(2, 2, Q, dtype=torch.float64), torch.randn(2, 4, Q, dtype=torch.float64)
    below = torch.tensor([[True, True, True, False], [True, True, False, False]])
    above = torch.tensor([[True, True], [True, False]])
    lower = Memory(words, below, torch.zeros(2, Q, dtype=torch.float64))
    return Memory(sentences, above, torch.zeros(2, Q, dtype=torch.float64), parts={"words": lower})


def softmax(scores):
    powers = [x.exp() for x in scores]
    return [p / sum(powers) for p in powers]


def test_a_word_has_the_weight_of_its_sentence_times_its_weight_within_it():
    m = memory()
    attend = HierarchicalAttention(Dot.Options(), Dot.Options(), Q, Q, Q).double()
    q = torch.tensor([0.3, -1.2], dtype=torch.float64)
    context, weights = attend(q.expand(2, 1, Q), attend.prepare(m))
    u, h = m.states[0], m.parts["words"].states[0]
    b = softmax([q @ u[0], q @ u[1]])
    first = softmax([q @ h[0], q @ h[1]])
    right = [b[0] * first[0], b[0] * first[1], b[1], 0.0]
    assert weights[0, 0].tolist() == pytest.approx([float(x) for x in right])
    both = torch.cat([b[0] * u[0] + b[1] * u[1], right[0] * h[0] + right[1] * h[1] + right[2] * h[2]])
    torch.testing.assert_close(context[0, 0], both)
    other = softmax([q @ x for x in m.parts["words"].states[1, :2]])
    assert weights[1, 0].tolist() == pytest.approx([*map(float, other), 0, 0])


def test_coverage_of_a_sentence_is_that_of_its_words():
    m = memory()
    options = Additive.Options(size=3, coverage=True)
    attend = HierarchicalAttention(options, options, Q, Q, Q).double()
    keys, q = attend.prepare(m), torch.randn(2, 1, Q, dtype=torch.float64)
    coverage = torch.tensor([[[0.1, 0.2, 0.4, 0.0]], [[0.5, 0.1, 0.0, 0.0]]], dtype=torch.float64)
    _, weights = attend(q, keys, coverage)
    upper = attend.sentences
    _, above = upper(q, upper.prepare(m), torch.tensor([[[0.3, 0.4]], [[0.6, 0.0]]], dtype=torch.float64))
    torch.testing.assert_close(weights.unflatten(2, (2, 2)).sum(-1), above)
    moved = attend.words.scores(attend.words.query_projection()(q[:, 0])[:, None], keys.keys.words, coverage)
    within = torch.softmax(moved[0, 0, :2], 0)
    torch.testing.assert_close(weights[0, 0, :2] / weights[0, 0, :2].sum(), within)


@pytest.mark.parametrize("upper", [Dot.Options(), Bilinear.Options(), Additive.Options(size=3)])
@pytest.mark.parametrize("lower", [Dot.Options(), Additive.Options(size=4)])
def test_one_product_asks_both_levels(upper, lower):
    m = memory()
    attend = HierarchicalAttention(upper, lower, Q, Q, Q).double()
    q = torch.randn(2, 3, Q, dtype=torch.float64)
    _, weights = attend(q, attend.prepare(m))
    _, above = attend.sentences(q, attend.sentences.prepare(m))
    torch.testing.assert_close(weights.unflatten(2, (2, 2)).sum(-1), above)
    words = m.parts["words"]
    alone = Memory(words.states[:, :2], words.mask[:, :2], words.summary)  # the first sentence of each row
    _, first = attend.words(q, attend.words.prepare(alone))
    torch.testing.assert_close(weights[..., :2], above[..., :1] * first)
