"""Contracts of search, held by every registered part."""

from dataclasses import replace

import pytest
import torch
from contract_parts import SEARCHES, VARIANTS, batch, close, fresh, model

from windlass.core.fitting import Gives
from windlass.core.marks import EOS
from windlass.core.records import Member, Padded
from windlass.decoding.options import Beam, Greedy
from windlass.decoding.search import SearchRequest, search

every = pytest.mark.parametrize("name", VARIANTS)


def found(m, given, way, nbest=3):
    options = SEARCHES[way] if isinstance(way, str) else way
    with torch.no_grad():
        return search([Member(m.head, m.encode(given), given)], SearchRequest(options, nbest, given.keys))


def penalty(options):
    return options.length_penalty if isinstance(options, Beam) else 0.0


def assert_same(a, b):
    assert (a.ids, a.finished) == (b.ids, b.finished)
    assert a.score == pytest.approx(b.score, abs=1e-10)
    assert a.logprobs == pytest.approx(b.logprobs, abs=1e-10)
    assert (a.weights is None) == (b.weights is None)
    if a.weights is not None:
        S = min(a.weights.size(1), b.weights.size(1))
        assert close(a.weights[:, :S], b.weights[:, :S])
        assert not a.weights[:, S:].any()
        assert not b.weights[:, S:].any()


@every
def test_a_searchs_score_and_weights_are_those_of_forcing_what_it_found(name):
    m, given = model(name), batch()
    for way, options in SEARCHES.items():
        for row, hypotheses in enumerate(found(m, given, way)):
            targets = [[*h.ids, EOS] if h.finished else list(h.ids) for h in hypotheses]
            with torch.no_grad():
                alone = batch((row,)).repeat(len(targets))
                forced = m.head.force(m.encode(alone), replace(alone, target=Padded.of(targets)))
            for h, ids, again in zip(hypotheses, targets, forced, strict=True):
                assert (h.ids, h.finished) == (again.ids, again.finished), way
                assert h.logprobs == pytest.approx(again.logprobs, abs=1e-10), way
                assert h.score == pytest.approx(again.score / len(ids) ** penalty(options), abs=1e-10), way
                assert (h.weights is None) == (again.weights is None) == (m.head.attention is None), way
                if h.weights is not None:
                    assert close(h.weights[:, : again.weights.size(1)], again.weights), way


@every
def test_a_beam_of_one_is_greedy_search(name):
    m, given = model(name), batch()
    for more in ({}, {"block_ngrams": 2}):
        greedy = found(m, given, Greedy(length_factor=0.5, length_plus=2, **more), nbest=1)
        for p in (0.0, 1.0):
            beam = found(m, given, Beam(size=1, length_penalty=p, length_factor=0.5, length_plus=2, **more), nbest=1)
            for (a,), (b,) in zip(greedy, beam, strict=True):
                assert (a.ids, a.finished) == (b.ids, b.finished)
                assert a.logprobs == pytest.approx(b.logprobs, abs=1e-10)
                assert b.score == pytest.approx(a.score / len(a.logprobs) ** p)
                if a.weights is not None:
                    assert close(a.weights, b.weights)


@every
def test_output_does_not_depend_on_the_batch(name):
    m = model(name)
    for way in SEARCHES:
        together = found(m, batch(), way, nbest=2)
        turned = found(m, batch((2, 0, 1), wider=2), way, nbest=2)
        for row in range(3):
            (alone,) = found(m, batch((row,)), way, nbest=2)
            for other in (together[row], turned[[1, 2, 0][row]]):
                assert len(other) == len(alone), way
                for a, b in zip(alone, other, strict=True):
                    assert_same(a, b)


@every
def test_attention_sums_to_one_over_real_places_and_is_zero_on_padding(name):
    m, given = model(name), batch()
    if Gives("model.decoder.context weights") not in m.head.options.declare("model.decoder"):
        pytest.skip("no attention")
    lists = [found(m, given, way) for way in SEARCHES]
    memory = m.encode(given)
    mask = memory.mask
    pair = [Member(head, memory, given) for head in (m.head, fresh(name, seed=1).head)]
    lists += [search(pair, SearchRequest(SEARCHES[way], 2, given.keys)) for way in ("beam", "sample")]
    lists.append([[h] for h in m.head.force(memory, given)])
    for results in lists:
        for row, hypotheses in enumerate(results):
            for h in hypotheses:
                assert h.weights.shape == (len(h.logprobs), mask.size(1))
                assert not h.weights[:, ~mask[row]].any()
                assert torch.allclose(h.weights.sum(1), torch.ones(len(h.logprobs), dtype=torch.float64))


@every
def test_a_source_with_nothing_in_it_still_has_an_output_without_nan(name):
    m = model(name)
    for way in SEARCHES:
        for hypotheses in found(m, batch(blank=True), way):
            for h in hypotheses:
                assert all(-1e9 < p <= 1e-12 for p in h.logprobs)
                assert h.weights is None or h.weights.isfinite().all()


@every
def test_in_float32_the_batch_matters_within_a_tolerance_only(name):
    m = fresh(name).float()
    for options in (SEARCHES["beam"], SEARCHES["sample"]):
        together = found(m, batch(), options, nbest=1)
        for row in range(3):
            given = batch((row,))
            (alone,) = found(m, given, options, nbest=1)
            assert alone[0].ids == together[row][0].ids
            assert alone[0].logprobs == pytest.approx(together[row][0].logprobs, rel=1e-5, abs=2e-5)


@pytest.mark.parametrize("way", SEARCHES)
@pytest.mark.parametrize("name", ["gru - attention", "lstm - none", "leaky - prefix", "no feedback, summary"])
def test_lists_are_best_first_without_doubles_and_within_the_limit(name, way):
    for hypotheses, limit in zip(found(model(name), batch(), way), (4, 3, 3), strict=True):
        if way != "greedy":
            assert len(hypotheses) == 3
        for finished in (True, False):  # what has ended comes before what was cut off
            scores = [h.score for h in hypotheses if h.finished == finished]
            assert scores == sorted(scores, reverse=True)
        if way != "sample":
            assert [h.finished for h in hypotheses] == sorted((h.finished for h in hypotheses), reverse=True)
            assert len({h.ids for h in hypotheses}) == len(hypotheses)
        for h in hypotheses:
            assert len(h.ids) + h.finished <= limit
            assert h.finished or len(h.ids) == limit
            assert not {0, 2, 3} & set(h.ids)
