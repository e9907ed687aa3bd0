"""The heads for numbers and for sets of labels, against their equations; and their metrics against numpy."""

import math

import numpy as np
import pytest
import torch

from windlass.core.records import Batch, Member, Memory, Padded
from windlass.data.sides.labels import LabelsTarget
from windlass.data.sides.number import NumberOptions, NumberTarget
from windlass.decoding.search import SearchRequest
from windlass.heads.base import LossOptions
from windlass.heads.labels import LabelsHead, LabelsHeadOptions
from windlass.heads.number import NumberHead, NumberHeadOptions
from windlass.metrics.labels import exact_match, set_f1
from windlass.metrics.numbers import pearson, spearman

B, S, D = 3, 4, 5


def memory(seed=0):
    torch.manual_seed(seed)
    mask = torch.tensor([[True] * 4, [True] * 2 + [False] * 2, [True] * 3 + [False]])
    states = torch.randn(B, S, D, dtype=torch.float64) * mask[..., None]
    return Memory(states, mask, states.mean(1))


def mean_pooled(given):
    return torch.stack([row[real].mean(0) for row, real in zip(given.states, given.mask, strict=True)])


def batch(values):
    return Batch({}, Padded(values, torch.ones(values.shape, dtype=torch.bool)), torch.arange(len(values)))


def test_a_number_is_a_linear_function_of_the_pooled_memory_trained_on_the_squared_error():
    head, given = NumberHead(NumberHeadOptions(pool="mean"), D).double(), memory()
    target = torch.tensor([[1.0], [-2.0], [0.5]], dtype=torch.float64)
    layer = head.output if isinstance(head.output, torch.nn.Linear) else head.output[-1]
    by_hand = mean_pooled(given) @ layer.weight[0] + layer.bias
    found, _ = head(given)
    assert torch.allclose(found, by_hand)
    scored = head.score(given, batch(target))
    assert torch.allclose(scored.loss_sum, ((by_hand - target[:, 0]) ** 2).sum())
    assert int(scored.count) == B
    predicted = head.predict([Member(head, given)], SearchRequest())
    assert [row[0].value for row in predicted] == pytest.approx(by_hand.tolist())
    assert all(row[0].confidence is None for row in predicted)
    forced = head.force(given, batch(target))
    gaussian = torch.distributions.Normal(by_hand, 1.0).log_prob(target[:, 0])
    assert [h.score for h in forced] == pytest.approx(gaussian.tolist())


def test_an_ensemble_of_numbers_is_their_mean():
    heads, given = [NumberHead(NumberHeadOptions(), D).double() for _ in range(2)], memory()
    alone = [[row[0].value for row in NumberHead.predict([Member(h, given)], SearchRequest())] for h in heads]
    both = [row[0].value for row in NumberHead.predict([Member(h, given) for h in heads], SearchRequest())]
    assert both == pytest.approx(np.mean(alone, axis=0).tolist())


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_labels_are_independent_sigmoids_trained_on_the_binary_cross_entropy(smoothing):
    head, given = LabelsHead(LabelsHeadOptions(pool="mean"), 3, D).double(), memory()
    target = torch.tensor([[1, 0, 1], [0, 0, 0], [0, 1, 0]], dtype=torch.float64)
    layer = head.output if isinstance(head.output, torch.nn.Linear) else head.output[-1]
    p = torch.sigmoid(mean_pooled(given) @ layer.weight.t() + layer.bias).detach()
    soft = target * (1 - smoothing) + smoothing / 2
    by_hand = -(soft * p.log() + (1 - soft) * (1 - p).log()).sum()
    scored = head.score(given, batch(target), LossOptions(label_smoothing=smoothing))
    assert torch.allclose(scored.loss_sum, by_hand)
    assert torch.allclose(scored.terms["nll"], -(target * p.log() + (1 - target) * (1 - p).log()).sum())
    for row, hypothesis in enumerate(head.force(given, batch(target))):
        chosen = torch.where(target[row] > 0, p[row], 1 - p[row])
        assert hypothesis.confidence == pytest.approx(float(chosen.prod()))
    for row, (hypothesis,) in enumerate(head.predict([Member(head, given)], SearchRequest())):
        assert set(hypothesis.ids) == {n for n in range(3) if p[row, n] >= 0.5}
        assert list(hypothesis.ids) == sorted(hypothesis.ids, key=lambda n, row=row: -p[row, n])


def test_a_lower_threshold_assigns_more_labels():
    torch.manual_seed(0)
    head, given = LabelsHead(LabelsHeadOptions(threshold=0.01), 3, D).double(), memory()
    assert all(len(row[0].ids) == 3 for row in head.predict([Member(head, given)], SearchRequest()))


def test_numbers_are_standardised_and_come_back_in_their_own_units():
    side = NumberTarget.fit(NumberOptions(), ["10", "20", "60"])
    assert (side.mean, side.deviation) == (30.0, pytest.approx(math.sqrt(1400 / 3)))
    z = float(side.encode("60")[0])
    assert z == pytest.approx(30 / side.deviation, rel=1e-6)
    head = NumberHead(NumberHeadOptions(pool="mean"), D)
    with torch.no_grad():
        layer = head.output if isinstance(head.output, torch.nn.Linear) else head.output[-1]
        layer.weight.zero_()
        layer.bias.fill_(z)
    given = memory().map(lambda t: t.float() if t.is_floating_point() else t)
    hypothesis = head.predict([Member(head, given)], SearchRequest())[0][0]
    text, answer = side.answer(hypothesis, None, "")
    assert answer.value == pytest.approx(60, rel=1e-5)
    assert float(text) == pytest.approx(60, rel=1e-5)
    assert NumberTarget.fit(NumberOptions(), ["7", "7"]).encode("7").tolist() == [0.0]  # nothing to divide by


def test_sets_of_labels_come_back_as_they_were_written():
    side, values = LabelsTarget.tiny()
    for value in values:
        ids = side.encode(value).nonzero()[0]
        assert {side.symbols[n] for n in ids} == set(value.split(",")) - {""}


def test_correlations_are_those_of_numpy_and_of_ranks_by_hand():
    chance = np.random.default_rng(1)
    a, b = chance.normal(size=50), chance.normal(size=50)
    b = 0.6 * a + b
    texts, references = [repr(float(x)) for x in a], [[repr(float(y))] for y in b]
    assert pearson(texts, references)["pearson"] == pytest.approx(np.corrcoef(a, b)[0, 1])
    ranks = [np.argsort(np.argsort(x)) for x in (a, b)]
    assert spearman(texts, references)["spearman"] == pytest.approx(np.corrcoef(*ranks)[0, 1])
    tied = spearman(["1", "1", "2", "3"], [["1"], ["2"], ["3"], ["4"]])["spearman"]
    assert tied == pytest.approx(np.corrcoef([1.5, 1.5, 3, 4], [1, 2, 3, 4])[0, 1])
    assert pearson(["1", "1"], [["1"], ["2"]])["pearson"] == 0.0
    assert str(pearson(["0.1"] * 3, [["1"], ["2"], ["4"]])["pearson"]) == "0.0"  # no noise of rounding


def test_micro_f1_counts_assignments_and_macro_f1_labels():
    found, gold = ["a,b", "a", "", "c"], [["a"], ["a,b"], ["b"], ["c"]]
    # a: 2 right of 2 found and 2 gold; b: 0 right of 1 found and 2 gold; c: 1 of 1 and 1
    figures = set_f1(found, gold)
    assert figures["micro_f1"] == pytest.approx(100 * 2 * 3 / (4 + 5))
    assert figures["label_macro_f1"] == pytest.approx(100 * (1 + 0 + 1) / 3)
    assert exact_match(found, gold)["exact_match"] == 25.0
