"""Ensembles of a decoder and CTC: all outputs that either proposes, by the mean of all log probabilities."""

import math
from statistics import fmean

import pytest
import torch

from windlass.bundle import Bundle
from windlass.core.errors import DataError, RecipeError
from windlass.core.records import Member, Memory
from windlass.data import Sides
from windlass.decoding.options import Beam, Greedy
from windlass.heads.ctc import CtcHead, CtcHeadOptions
from windlass.heads.rerank import rerank
from windlass.inference.predict import predict, score
from windlass.recipe import Recipe, compose

WORDS = ["cab", "abc", "a", "bbca"]
CTC = {"model": {"head": {"kind": "ctc", "frames": 2}}, "search": {"kind": "beam", "length_penalty": 0.0}}


def a_bundle(seed: int, **over) -> Bundle:
    torch.manual_seed(seed)
    sides = {"source": {"tokens": "characters"}, "target": {"tokens": "characters"}, "loss": {"label_smoothing": 0.0}}
    recipe = compose("text", None, [sides, over]) if over else Recipe()
    return Bundle.new(recipe, Sides.tiny())


@pytest.fixture(scope="module")
def members():
    return [a_bundle(1), a_bundle(2, **CTC), a_bundle(3)]


def mean_score(bundles: list[Bundle], word: str, text: str) -> float:
    try:
        return fmean(score(bundle, [(word, text)])[0].score for bundle in bundles)
    except DataError:  # it does not fit into the frames
        return -math.inf


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2)])
def test_the_score_is_the_mean_log_probability_and_no_proposal_has_a_better_one(members, order):
    bundles = [members[n] for n in order]
    found = predict(bundles, WORDS)
    for word, best in zip(WORDS, found, strict=True):
        proposals = {best.text}
        for group in ([members[0], members[2]], [members[1]]):
            one = predict(group, [word], nbest=5)[0]
            proposals |= {one.text, *(other.text for other in one.alternatives)}
        means = {text: mean_score(bundles, word, text) for text in proposals}
        assert best.score == pytest.approx(means[best.text], abs=1e-4)
        assert best.score >= max(means.values()) - 1e-4
        assert [best.score, *(other.score for other in best.alternatives)] == sorted(
            [best.score, *(other.score for other in best.alternatives)], reverse=True
        )


def test_the_order_of_members_is_nothing_and_a_member_twice_weighs_twice(members):
    one, other = (predict([members[n] for n in order], WORDS) for order in ((0, 1), (1, 0)))
    assert [p.text for p in one] == [p.text for p in other]
    heavy = predict([members[0], members[1], members[1]], WORDS)
    for word, found in zip(WORDS, heavy, strict=True):
        each = [score(members[n], [(word, found.text)])[0].score for n in (0, 1, 1)]
        assert found.score == pytest.approx(fmean(each), abs=1e-4)


def test_a_text_that_is_too_long_for_ctc_is_not_the_answer(members):
    short = a_bundle(4, **CTC | {"model": {"head": {"kind": "ctc", "frames": 1}}})
    for best in predict([members[0], short], WORDS, nbest=5):
        assert all(p.score > -math.inf and len(p.text) <= 5 for p in (best, *best.alternatives))  # letters and the end


def two_heads() -> list[Member]:
    torch.manual_seed(1)
    memory = Memory(torch.randn(1, 2, 4), torch.ones(1, 2) > 0, torch.zeros(1, 4))
    return [Member(CtcHead(CtcHeadOptions(frames=frames), 7, 4).eval(), memory) for frames in (1, 8)]


def test_what_one_member_cannot_write_is_left_out_and_not_scored_as_a_blank():
    ((best, *more),) = rerank(two_heads(), [[{(4, 5, 4): True, (5,): True}], [{}]], nbest=2)
    assert best.ids == (5,)
    assert more == []


@pytest.mark.parametrize("found", [(True, False), (False, True), (False, False)])
def test_an_output_is_finished_if_any_member_finished_it(found):
    ((best,),) = rerank(two_heads(), [[{(5,): finished}] for finished in found], nbest=1)
    assert best.finished == any(found)


def test_an_nbest_list_has_distinct_texts_and_greedy_search_one(members):
    best = predict(members, ["cab"], nbest=4)[0]
    texts = [best.text, *(other.text for other in best.alternatives)]
    assert len(set(texts)) == 4
    assert predict(members, ["cab"], Greedy())[0].alternatives == ()


def test_options_that_one_of_them_refuses_are_refused(members):
    with pytest.raises(RecipeError, match="model 2 of the ensemble: a CTC model searches"):
        predict(members, ["cab"], Beam(length_penalty=1.0))
    with pytest.raises(RecipeError, match="a prefix has no use"):
        predict(members, ["cab"], prefix="a")


def test_every_member_may_have_options_of_its_own_in_any_order(members):
    own = [Beam(size=3), Beam(size=4, length_penalty=0.0), Beam(size=3)]
    found = [
        predict([members[n] for n in order], WORDS, [own[n] for n in order])
        for order in ((0, 1, 2), (1, 0, 2), (2, 0, 1))
    ]
    for other in found[1:]:
        assert [p.text for p in other] == [p.text for p in found[0]]
        assert [p.confidence for p in other] == pytest.approx([p.confidence for p in found[0]], rel=1e-4)
