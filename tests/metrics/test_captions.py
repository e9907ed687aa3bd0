"""BLEU-n and CIDEr-D against hand counts and straightforward forms of their formulas."""

import math
import random
from collections import Counter

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from windlass.core.errors import DataError
from windlass.metrics import score
from windlass.metrics.captions import caption_bleu, caption_words, cider


def random_captions(items, seed=1):
    draw = random.Random(seed)

    def caption():
        return " ".join(draw.choice("abcd") for _ in range(draw.randint(0, 9)))

    return [caption() for _ in range(items)], [[caption() for _ in range(draw.randint(1, 5))] for _ in range(items)]


def test_words_have_no_case_and_no_punctuation():
    assert (
        caption_words("A dog -- a BIG one -- runs, and (maybe) barks!")
        == "a dog a big one runs and maybe barks".split()
    )
    assert caption_words("the boys' well-worn bikes’") == ["the", "boys", "well-worn", "bikes"]
    assert caption_words("She can't; it's Tom's. I'll go") == "she ca n't it s tom s i ll go".split()
    assert caption_words("हिन्दी में।") == ["हिन्दी", "में"]  # marks are letters' parts, the danda is punctuation
    assert caption_words(" ... ") == []


def test_bleu_n_by_hand():
    found = caption_bleu(["A dog on the the grass"], [["the dog on grass", "a dog stands near the green tall grass"]])
    # 6 words against 4 or 8, so 4: no penalty. 1-grams: 5 of 6, as "the" counts once; 2-grams: "a dog" and "dog on" of
    # 5; 3-grams: none of 4.
    assert found["bleu_1"] == pytest.approx(100 * 5 / 6)
    assert found["bleu_2"] == pytest.approx(100 * math.sqrt(5 / 6 * 2 / 5))
    assert found["bleu_3"] == found["bleu_4"] == 0


def test_bleu_takes_off_for_short_captions_by_the_closest_reference():
    found = caption_bleu(["a b c d"], [["a b c d e", "a b c d e f g h i"]])
    assert all(value == pytest.approx(100 * math.exp(1 - 5 / 4)) for value in found.values())


def test_bleu_is_over_the_corpus_and_not_a_mean():
    found = caption_bleu(["a", "x y z"], [["a"], ["x q r"]])
    assert found["bleu_1"] == pytest.approx(100 * 2 / 4)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_bleu_n_is_sacrebleu_of_that_order(n):
    said, right = random_captions(60)
    most = max(map(len, right))
    streams = [[texts[k] if k < len(texts) else None for texts in right] for k in range(most)]
    peer = BLEU(max_ngram_order=n, smooth_method="none", tokenize="none", force=True).corpus_score(said, streams)
    assert caption_bleu(said, right)[f"bleu_{n}"] == pytest.approx(peer.score)
    assert peer.score > 1


def test_cider_by_hand():
    # idf of b and d: log 2 (one of two items), of a: 0. The first caption is its reference, for 1-grams and 2-grams.
    assert cider(["a b", "c"], [["a b"], ["a d"]])["cider"] == pytest.approx((10 * 2 / 4 + 0) / 2)


def test_cider_clips_repeated_words():
    # g(c) = 2 log 2, clipped to log 2; |g(c)| = 2 log 2, |g(s)| = sqrt 2 log 2
    assert cider(["b b", "x"], [["b a"], ["y"]])["cider"] == pytest.approx(10 / 4 / (2 * math.sqrt(2)) / 2)


def test_cider_takes_off_for_another_length():
    right = 10 / 4 * math.exp(-(2**2) / (2 * 6**2)) / math.sqrt(3)
    assert cider(["b", "x"], [["b a c"], ["y"]])["cider"] == pytest.approx(right / 2)
    assert cider(["b a c", "x"], [["b"], ["y"]])["cider"] == pytest.approx(right / 2)


def test_cider_is_the_mean_over_references():
    assert cider(["a b c d", "q"], [["a b c d", "x", "y", "z"], ["w"]])["cider"] == pytest.approx(10 / 4 / 2)


@pytest.mark.parametrize(("words", "most"), [(1, 2.5), (2, 5), (3, 7.5), (4, 10), (12, 10)])
def test_cider_of_identical_captions_counts_the_lengths_of_ngrams_they_have(words, most):
    texts = [" ".join(f"{item}{n}" for n in range(words)) for item in "abc"]
    assert cider(texts, [[text] for text in texts])["cider"] == pytest.approx(most)


def test_cider_ignores_what_every_item_says():
    assert cider(["a b c d"] * 3, [["a b c d"]] * 3)["cider"] == 0
    assert cider(["a b c d"], [["a b c d"]])["cider"] == 0  # of one item nothing is rare


def by_formula(predictions, references):
    """CIDEr-D with dense vectors over all n-grams."""
    said, right = [p.split() for p in predictions], [[t.split() for t in texts] for texts in references]
    scores = np.zeros(len(said))

    def grams(words, n):
        return Counter(tuple(words[k : k + n]) for k in range(len(words) - n + 1))

    for n in (1, 2, 3, 4):
        every = sorted({g for text in [*said, *(t for texts in right for t in texts)] for g in grams(text, n)})
        df = np.array([sum(any(g in grams(t, n) for t in texts) for texts in right) for g in every])
        idf = np.log(len(said)) - np.log(np.maximum(1, df))
        for item, words in enumerate(said):
            g_c = np.array([grams(words, n)[g] for g in every]) * idf
            for text in right[item]:
                g_s = np.array([grams(text, n)[g] for g in every]) * idf
                norms = np.linalg.norm(g_c) * np.linalg.norm(g_s)
                penalty = np.exp(-((len(words) - len(text)) ** 2) / 72)
                if norms:
                    scores[item] += penalty * np.minimum(g_c, g_s) @ g_s / norms / len(right[item]) / 4
    return 10 * scores.mean()


def test_cider_is_its_formula():
    said, right = random_captions(25)
    assert cider(said, right)["cider"] == pytest.approx(by_formula(said, right))
    assert by_formula(said, right) > 0.3


def test_what_cannot_be_scored_is_refused_and_empty_captions_score_nothing():
    for metric in (caption_bleu, cider):
        with pytest.raises(DataError, match="is a string"):
            metric(["a"], ["a"])
        with pytest.raises(DataError, match="nothing to score"):
            metric([], [])
    assert set(caption_bleu([""], [["a b"]]).values()) == {0.0}
    assert cider(["", "a"], [["a b"], ["..."]]) == {"cider": 0.0}


def test_they_are_in_the_table():
    names = ["cider", "bleu_4", "bleu_1"]
    assert list(score(names, ["a"], [["a"]])) == names
