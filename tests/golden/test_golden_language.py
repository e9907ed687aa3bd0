"""Figures of a text and n-gram probabilities, against hand arithmetic and brute force."""

import itertools
import math
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from windlass.baseline.window import WindowModel
from windlass.core.errors import DataError
from windlass.core.marks import BOS
from windlass.core.records import Memory
from windlass.decoding.ngram import KneserNey
from windlass.inference.dynamic import CHUNK, DECAY, dynamic_logprobs
from windlass.inference.likelihood import logprobs, text_metrics, tiny_lm, token_logprobs
from windlass.metrics.likelihood import likelihood

A, B, C = 4, 5, 6  # the first ids of a vocabulary
WORDS = (1, 3, A, B, C)  # what may come: unknown, the end, three tokens


def test_perplexity_and_bits_by_hand():
    # Four tokens of probability 1/2, 1/4, 1/4, 1/8: 1 + 2 + 2 + 3 = 8 bits, 2 a token; over 5 characters 1.6.
    found = likelihood(math.log(1 / 2 * 1 / 4 * 1 / 4 * 1 / 8), tokens=4, characters=5)
    assert found["perplexity"] == pytest.approx(4.0)
    assert found["nats"] == pytest.approx(2 * math.log(2))
    assert found["bpc"] == pytest.approx(1.6)


def test_a_model_that_knows_nothing_has_the_size_of_its_vocabulary_as_perplexity():
    bundle = tiny_lm()
    with torch.no_grad():
        bundle.model.head.output.weight.zero_()
        bundle.model.head.output.bias.zero_()
    found = text_metrics([bundle], ["abcabcabc"])
    assert found["perplexity"] == pytest.approx(7)  # three letters and four marks
    assert found["bpc"] == pytest.approx(math.log2(7))


def test_bits_a_character_do_not_depend_on_what_a_token_is():
    assert likelihood(-6.0, 3, 6)["bpc"] == likelihood(-6.0, 6, 6)["bpc"]
    assert "bpc" not in likelihood(-6.0, 3, None)


def test_kneser_ney_by_hand():
    # The text a b a b a a with two start marks before it. Pairs: sa 1, ab 2, ba 2, aa 1. D2 = 2 / (2 + 2 * 2) = 1/3.
    # After how many different tokens: a after s, b, a: 3; b after a: 1. D1: one kind counts once, none twice: 1/2.
    model = KneserNey.fit([[A, B, A, B, A, A]], vocabulary=7, order=2)
    assert model.discounts == pytest.approx((1 / 2, 1 / 3))
    rest = 1 / 2 * 2 / 4  # what two discounts of 1/2 out of 4 set free for every token alike, of which there are 5
    p1 = {A: 2.5 / 4 + rest / 5, B: 0.5 / 4 + rest / 5, C: rest / 5}
    assert sum(p1.values()) + 2 * rest / 5 == pytest.approx(1)
    after_a = {w: max(n - 1 / 3, 0) / 3 + (1 / 3) * 2 / 3 * p1[w] for w, n in ((A, 1), (B, 2), (C, 0))}
    for w, expected in after_a.items():
        assert math.exp(model.logprobs([[A, w]])[1]) == pytest.approx(expected)
    assert math.exp(model.logprobs([[C, A]])[1]) == pytest.approx(p1[A])  # a history never seen is passed over


def brute(texts, order, vocabulary):
    """The same model as dictionaries and recursion, straight from its equation."""
    padded = [[2] * order + text for text in texts]
    runs = [
        Counter(tuple(t[i - k + 1 : i + 1]) for t in padded for i in range(order, len(t))) for k in range(order + 2)
    ]
    counts = {order: runs[order]}
    for k in range(1, order):
        counts[k] = Counter(run[1:] for run in runs[k + 1])
    discount = {}
    for k, found in counts.items():
        once, twice = sum(n == 1 for n in found.values()), sum(n == 2 for n in found.values())
        discount[k] = once / (once + 2 * twice) if once and twice else 0.5

    def p(history, w, k):
        if k == 0:
            return 1 / (vocabulary - 2)
        after = {run[-1]: n for run, n in counts[k].items() if run[:-1] == history}
        lower = p(history[1:], w, k - 1)
        if not after:
            return lower
        total = sum(after.values())
        return max(after.get(w, 0) - discount[k], 0) / total + discount[k] * len(after) / total * lower

    return lambda history, w: p(tuple(([2] * order + history)[len(history) + 1 :]), w, order)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_kneser_ney_equals_brute_force_and_sums_to_one(order):
    chance = random.Random(order)
    texts = [chance.choices([A, B, C], [5, 3, 1], k=40), chance.choices([A, B, C], k=7)]
    model, slow = KneserNey.fit(texts, 7, order), brute(texts, order, 7)
    for length in range(4):
        for history in itertools.product((A, B, C, 1), repeat=length):
            found = [math.exp(model.logprobs([[*history, w]])[-1]) for w in WORDS]
            assert found == pytest.approx([slow(list(history), w) for w in WORDS])
            assert sum(found) == pytest.approx(1)
            assert min(found) > 0
            last = np.array([([2] * order + list(history))[-order:]])
            after = np.exp(model.next_logprobs(last)[0])
            assert list(after[list(WORDS)]) == pytest.approx(found)
            assert after.sum() == pytest.approx(1)


def test_kneser_ney_scores_a_text_as_it_does_its_tokens_one_by_one_and_survives_saving():
    chance = random.Random(7)
    text, held = chance.choices([A, B, C], [5, 3, 1], k=60), chance.choices([A, B, C, 1], k=20)
    model = KneserNey.fit([text], 7, 3)
    whole = model.logprobs([held])
    assert whole == pytest.approx([model.logprobs([held[: n + 1]])[-1] for n in range(len(held))])
    assert np.array_equal(KneserNey.from_arrays(model.arrays()).logprobs([held]), whole)
    assert np.allclose(model.logprobs([held, held]), [*whole, *whole])  # texts do not see each other


def test_a_window_sums_to_one_sees_so_many_tokens_and_no_more():
    model = WindowModel.fit([[A, B, C] * 30], 7, length=2, size=4, hidden=8)
    total = sum(math.exp(model.logprobs([[A, B, w]])[-1]) for w in range(7))
    assert total == pytest.approx(1, abs=1e-5)
    far = [model.logprobs([[first, A, B, C]])[-1] for first in (A, B)]
    near = [model.logprobs([[A, second, B, C]])[-1] for second in (A, B)]
    assert far[0] == pytest.approx(far[1])
    assert near[0] != pytest.approx(near[1], abs=1e-6)


def test_a_text_in_rows_counts_every_token_once_and_scores_as_in_one_row():
    bundle = tiny_lm()
    ids = random.Random(1).choices([4, 5, 6], k=5001)
    one, rows = logprobs([bundle], ids), logprobs([bundle], ids, rows=4)
    assert one.shape == rows.shape == (5001,)
    assert torch.allclose(one, rows, atol=1e-4)  # a row reads enough of what is before it


def test_an_ensemble_is_the_mean_of_probabilities():
    first, second = tiny_lm(), tiny_lm()
    with torch.no_grad():
        second.model.head.output.bias[5] += 2
    p, q, both = (token_logprobs(models, ["abcab"])[0][1].exp() for models in ([first], [second], [first, second]))
    assert torch.allclose(both, (p + q) / 2)


def test_a_model_of_running_text_and_one_of_lines_are_no_ensemble():
    running = tiny_lm()
    of_lines = running.recipe.train.model_copy(update={"chunk": None})
    lines = replace(running, recipe=running.recipe.model_copy(update={"train": of_lines}))
    for both in ([running, lines], [lines, running]):
        with pytest.raises(DataError, match="an ensemble is of models of running text, or of lines"):
            text_metrics(both, ["abcab"])


def test_dynamic_evaluation_scores_a_chunk_then_descends_by_rms_gradients_and_decays_to_the_trained_weights():
    bundle, rate = tiny_lm(), 0.02
    torch.manual_seed(2)
    ids = torch.randint(A, C + 1, (3 * CHUNK + 7,)).tolist()
    head = bundle.model.double().head.eval()
    for weight in head.parameters():
        weight.data += 0.3 * torch.randn_like(weight)
    found = dynamic_logprobs(bundle, ids, rate)
    weights = list(head.parameters())
    trained, squares = [w.detach().clone() for w in weights], [torch.zeros_like(w) for w in weights]
    source, state = head.begin(Memory.empty(1))
    expected, last = [], BOS
    for number, begin in enumerate(range(0, len(ids), CHUNK), 1):
        chunk = []
        for token in ids[begin : begin + CHUNK]:
            logp, state, _ = head.step(torch.tensor([last]), state, source)
            chunk.append(logp[0, token])
            last = token
        gradients = torch.autograd.grad(-sum(chunk) / len(chunk), weights, allow_unused=True)
        expected += [logp.item() for logp in chunk]
        carried = tuple(tuple(part.detach() for part in layer) for layer in state.stack.layers)
        with torch.no_grad():
            for w, w0, square, g in zip(weights, trained, squares, gradients, strict=True):
                if g is not None:
                    square += g**2
                    w -= rate * g / ((square / number).sqrt() + 1e-8)
                    w += DECAY * (w0 - w)
        state = replace(state, stack=head.stack.begin(carried))
    assert found.tolist() == pytest.approx(expected, abs=1e-9)
