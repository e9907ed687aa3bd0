"""Contracts of features: texts that are written from numbers, over every encoder that reads them, and SpecAugment.

Heads that write nothing are held to theirs over features in test_contracts_heads.py.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import cycle
from typing import Any

import pytest
import torch
from contract_parts import CONTEXTS, ENCODERS, SEARCHES, STARTS, V, close, fitting
from test_contracts_flow import stepped

from windlass.core.marks import EOS
from windlass.core.records import Batch, Hypothesis, Member, Padded
from windlass.decoding.search import SearchRequest, search
from windlass.model import LossOptions, Model, build
from windlass.nn import fast
from windlass.nn.features import FeatureOptions, Features, SpecAugmentOptions
from windlass.recipe import Recipe

N = 3  # numbers a place


def recipe_of(encoder: dict[str, Any], decoder: dict[str, Any]) -> Recipe | None:
    """A caption from numbers, with the first start of the decoder that fits."""
    tried = ({**decoder, "cell": "gru", "size": 6, "start": start} for start in STARTS)
    found = (fitting("caption", {"encoder": encoder, "decoder": each}) for each in tried)
    return next(filter(None, found), None)


def _variants() -> dict[str, Recipe]:
    found: dict[str, Recipe | None] = {}
    kinds, contexts = cycle(enumerate(FeatureOptions.tiny(), 1)), cycle(("none", "attention query=current", "summary"))
    for kind, encoder in ENCODERS.items():
        for context in ("attention", next(contexts)):
            n, features = next(kinds)
            read = {**encoder, "embedding": features} if "embedding" in encoder else encoder
            found[f"{kind} encoder of features {n} - {context}"] = recipe_of(read, CONTEXTS[context])
    return {name: recipe for name, recipe in found.items() if recipe is not None}


VARIANTS = _variants()
every = pytest.mark.parametrize("name", VARIANTS)
LENGTHS = (9, 2, 13)
TARGETS = ([6, 5, EOS], [4, 8, 8, 7, EOS], [5, EOS])


@cache
def model(name: str) -> Model:
    torch.manual_seed(0)
    made = build(VARIANTS[name].model, LossOptions(), {"source": N}, V).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        made.head.output.weight.mul_(2)
    return made


def batch(rows: tuple[int, ...] = (0, 1, 2), wider: int = 0, blank: bool = False) -> Batch:
    """Three rows of unequal length; `wider` adds padding with rubbish in it; with `blank` the second has no places."""
    drawn = torch.randn(3, max(LENGTHS), N, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    lengths = torch.tensor([0 if blank and row == 1 else LENGTHS[row] for row in rows])
    places = int(lengths.max())
    values = torch.cat([drawn[list(rows), :places], torch.full((len(rows), wider, N), 7.0).double()], 1)
    mask = torch.arange(places + wider) < lengths[:, None]
    values = torch.where(mask[..., None], values, 7.0 if wider else 0.0)
    return Batch({"source": Padded(values, mask)}, Padded.of([TARGETS[row] for row in rows]), torch.tensor(rows))


def found(m: Model, given: Batch, way: str) -> list[list[Hypothesis]]:
    with torch.no_grad():
        return search([Member(m.head, m.encode(given), given)], SearchRequest(SEARCHES[way], 2, given.keys))


def test_every_encoder_of_one_sequence_reads_features():
    kinds = {name.split()[0] for name in VARIANTS}
    assert kinds == {"recurrent", "convolution", "attention", "plain", "pyramid"}


@every
def test_more_padding_changes_nothing(name):
    m = model(name)
    with torch.no_grad():
        narrow, wide = m.encode(batch()), m.encode(batch(wider=7))
        S = narrow.mask.size(1)
        assert close(narrow.states, wide.states[:, :S])
        assert not wide.states[:, S:].any()
        assert torch.equal(narrow.mask, wide.mask[:, :S])
        assert not wide.mask[:, S:].any()
        assert close(narrow.summary, wide.summary)
        for one, other in zip(narrow.final, wide.final, strict=True):
            assert all(close(a, b) for a, b in zip(one, other, strict=True))
        assert close(m(batch()).loss_sum, m(batch(wider=7)).loss_sum)


@every
def test_a_row_is_the_same_alone_and_in_a_batch_in_any_order(name):
    m, order = model(name), (2, 0, 1)
    with torch.no_grad():
        together = m.encode(batch(order))
        for place, row in enumerate(order):
            alone = m.encode(batch((row,)))
            assert close(together.states[place, : alone.states.size(1)], alone.states[0])
            assert close(together.summary[place], alone.summary[0])
        losses = sum(m(batch((row,))).loss_sum for row in order)
        assert close(losses, m(batch(order)).loss_sum)
    for way in SEARCHES:
        lists = found(m, batch(order), way)
        for place, row in enumerate(order):
            (alone,) = found(m, batch((row,)), way)
            for a, b in zip(lists[place], alone, strict=True):
                assert (a.ids, a.finished) == (b.ids, b.finished), way
                assert a.logprobs == pytest.approx(b.logprobs, abs=1e-10)


@every
def test_what_is_read_for_a_search_is_what_is_read_in_training(name):
    m = model(name)
    with torch.no_grad():
        for given in (batch(), batch((1,)), batch(wider=2), batch(blank=True)):
            one, other = m.infer(given), m.encode(given)
            assert close(one.states, other.states)
            assert close(one.summary, other.summary)
            with fast.disabled():
                assert close(m.encode(given).states, one.states)


@every
def test_every_parameter_gets_a_finite_gradient_that_is_not_zero(name):
    m = model(name)
    m.zero_grad()
    m(batch()).loss_sum.backward()
    for part, parameter in m.named_parameters():
        assert parameter.grad is not None, f"{part} is not used"
        assert parameter.grad.isfinite().all(), part
        assert parameter.grad.abs().max() > 1e-9, f"{part} changes nothing"


@every
def test_a_whole_target_at_once_equals_step_by_step(name):
    m, given = model(name), batch()
    with torch.no_grad():
        logp, weights = m.head.reference_logprobs(m.encode(given), given)
        steps, step_weights = stepped(m, m.encode(given), given)
    assert close(logp, steps * given.target.mask)
    assert (weights is None) == (step_weights is None)
    assert weights is None or close(weights, step_weights)


@every
def test_forcing_what_a_search_found_gives_its_scores_and_its_attention_over_the_places_of_the_memory(name):
    m, given = model(name), batch()
    for way in SEARCHES:
        for row, hypotheses in enumerate(found(m, given, way)):
            targets = [[*h.ids, EOS] if h.finished else list(h.ids) for h in hypotheses]
            with torch.no_grad():
                alone = batch((row,)).repeat(len(targets))
                memory = m.encode(alone)
                forced = m.head.force(memory, replace(alone, target=Padded.of(targets)))
            for h, again in zip(hypotheses, forced, strict=True):
                assert (h.ids, h.finished) == (again.ids, again.finished), way
                assert h.logprobs == pytest.approx(again.logprobs, abs=1e-10), way
                if h.weights is not None:
                    S = memory.states.size(1)
                    assert close(h.weights[:, :S], again.weights), way
                    assert not h.weights[:, S:].any()
                    assert torch.allclose(h.weights.sum(1), torch.ones(len(h.weights)).double())


@every
def test_a_source_without_places_gives_no_nan(name):
    m = model(name)
    m.zero_grad()
    scored = m(batch(blank=True))
    assert scored.loss_sum.isfinite()
    scored.loss_sum.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in m.parameters())
    for way in SEARCHES:
        assert all(-1e9 < p <= 1e-12 for row in found(m, batch(blank=True), way) for h in row for p in h.logprobs)


@every
def test_features_are_masked_in_training_alone(name):
    m, masks = model(name), VARIANTS[name].model.encoder.embedding.augment
    with torch.no_grad():
        calm = m.encode(batch()).states
        assert torch.equal(m.encode(batch()).states, calm)
        torch.manual_seed(0)
        drawn = [m.train().encode(batch()).states for _ in range(4)]
        m.eval()
    assert all(close(states, calm) for states in drawn) == (masks is None)


def test_only_real_places_are_masked_and_padding_stays_what_it_is():
    features = Features(N, FeatureOptions(size=None, augment=SpecAugmentOptions(time_masks=1, band_masks=0))).train()
    given = Padded(torch.ones(200, 30, N), torch.arange(30) < torch.arange(1, 201)[:, None])
    for _ in range(5):
        out = features(given)
        assert torch.equal(out.mask, given.mask)
        gone = (out.values == 0).all(-1) & given.mask
        assert (gone.sum(1) <= given.mask.sum(1) // 5).all()
        assert gone.any()
        assert not out.values[~given.mask].any()
        assert ((out.values == 1).all(-1) | (out.values == 0).all(-1)).all()  # whole places
