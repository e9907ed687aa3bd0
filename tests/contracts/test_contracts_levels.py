"""Contracts of a decoder that attends to sentences and to their words, and copies from them."""

from dataclasses import replace

import pytest
import torch
from contract_parts import SEARCHES, close
from torch.nn import functional as F

from windlass.core.errors import RecipeError
from windlass.core.marks import BOS, EOS
from windlass.core.records import Batch, Member, Padded
from windlass.decoding.options import Beam, Greedy
from windlass.decoding.search import SearchRequest, search
from windlass.model import LossOptions, ModelOptions, build
from windlass.nn import fast

V, H = 9, 6
ADDITIVE = {"kind": "additive", "size": 5}
JOINED = {"readout": {"kind": "joined", "size": 5}}
VARIANTS = {
    "previous": {"context": {"score": ADDITIVE, "within": ADDITIVE}},
    "current": {"context": {"score": "bilinear", "within": "bilinear", "query": "current"}, **JOINED},
    "copying": {"context": {"score": ADDITIVE, "within": "bilinear"}, "copying": True},
    "copying current": {"context": {"score": "bilinear", "within": ADDITIVE, "query": "current"}, **JOINED}
    | {"copying": True},
    "copying fed covered": {
        "context": {
            "score": {**ADDITIVE, "coverage": True},
            "within": {"kind": "dot", "keys": H, "values": 3, "coverage": True},
            "input_feeding": True,
        },
        "copying": True,
    },
}
every = pytest.mark.parametrize("name", VARIANTS)


def model_options(name):
    level = {"cell": "gru", "size": 4}
    encoder = {"kind": "hierarchical", "embedding": {"kind": "learned", "size": 4}, "words": level, "sentences": level}
    given = VARIANTS[name]
    context = {"kind": "hierarchical", **given["context"]}
    decoder = {"cell": "gru", "size": H, "embedding": {"kind": "learned", "size": 4}, "start": "summary"}
    return ModelOptions.model_validate({"encoder": encoder, "decoder": {**decoder, **given, "context": context}})


def fresh(name):
    torch.manual_seed(0)
    made = build(model_options(name), LossOptions(), V, V).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        made.head.output.weight.mul_(2)
    return made


MODELS = {}


def model(name):
    if name not in MODELS:
        MODELS[name] = fresh(name)
    return MODELS[name]


SOURCES = [[[4, 5, 6], [7, 8]], [[5, 4]], [[8], [7, 7, 4], [6]]]
TARGETS = [[6, 5, EOS], [4, 8, 8, 7, EOS], [5, EOS]]


def batch(rows=(0, 1, 2), wider=0):
    held = [[[V if n == 8 else n for n in part] for part in SOURCES[r]] for r in rows]
    inputs = {"source": Padded.nested([SOURCES[r] for r in rows]), "copy": Padded.nested(held)}
    if wider:
        pad = (0, wider, 0, wider)
        inputs = {k: Padded(F.pad(p.values, pad, value=7), F.pad(p.mask, pad)) for k, p in inputs.items()}
    return Batch(inputs, Padded.of([TARGETS[r] for r in rows]), torch.tensor(rows))


def found(m, given, options, nbest=2):
    with torch.no_grad():
        return search([Member(m.head, m.encode(given), given)], SearchRequest(options, nbest=nbest, keys=given.keys))


@every
def test_more_padding_changes_nothing_and_a_batch_equals_its_rows(name):
    m = model(name)

    def loss_sum(given, doubly_stochastic):
        return m.head.score(m.encode(given), given, LossOptions(doubly_stochastic=doubly_stochastic)).loss_sum

    for weight in (0.0, 0.3):
        with torch.no_grad():
            whole, wide = loss_sum(batch(), weight), loss_sum(batch(wider=2), weight)
            alone = sum(loss_sum(batch((row,)), weight) for row in range(3))
        assert close(whole, wide)
        assert close(whole, alone)


@every
def test_a_whole_target_at_once_equals_step_by_step_and_the_inference_form(name):
    m, given = fresh(name), batch()
    logp, weights = m.head.reference_logprobs(m.encode(given), given)
    memory = m.encode(given)
    assert close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert not weights.masked_fill(memory.parts["words"].mask[:, None], 0).any()
    for head in (m.head, fast.inference(m.head)):
        source, state = head.begin(memory, given)
        tokens = torch.full_like(given.target.values[:, 0], BOS)
        steps = []
        for t in range(given.target.values.size(1)):
            told, state, seen = head.step(tokens, state, source)
            tokens = given.target.values[:, t]
            steps.append(told.gather(1, tokens[:, None]).squeeze(1))
            assert close(seen, weights[:, t])
        assert close(logp, torch.stack(steps, 1) * given.target.mask)
        if head is m.head:
            used = list(m.parameters())
            whole = torch.autograd.grad(m(given).loss_sum, used)
            by_steps = torch.autograd.grad(-(torch.stack(steps, 1) * given.target.mask).sum(), used)
            assert all(close(a, b) for a, b in zip(whole, by_steps, strict=True))
            assert all(a.abs().max() > 1e-9 for a in whole)


@every
def test_a_searchs_score_and_weights_are_those_of_forcing_what_it_found(name):
    m, given = model(name), batch()
    for way, options in SEARCHES.items():
        for row, hypotheses in enumerate(found(m, given, options)):
            targets = [[*h.ids, EOS] if h.finished else list(h.ids) for h in hypotheses]
            rows = torch.tensor([row] * len(targets))
            forced = m.head.force(m.encode(given).select(rows), replace(given.select(rows), target=Padded.of(targets)))
            for h, again in zip(hypotheses, forced, strict=True):
                assert h.ids == again.ids, way
                assert h.logprobs == pytest.approx(again.logprobs, abs=1e-10), way
                assert close(h.weights, again.weights), way


@every
def test_a_beam_of_one_is_greedy_search_and_output_does_not_depend_on_the_batch(name):
    m = model(name)
    greedy = found(m, batch(), Greedy(length_factor=0.5, length_plus=2), nbest=1)
    beam = found(m, batch(), Beam(size=1, length_factor=0.5, length_plus=2), nbest=1)
    assert [a[0].ids for a in greedy] == [b[0].ids for b in beam]
    for options in SEARCHES.values():
        together = found(m, batch(), options)
        turned = found(m, batch((2, 0, 1), wider=1), options)
        for row in range(3):
            (alone,) = found(m, batch((row,)), options)
            for other in (together[row], turned[[1, 2, 0][row]]):
                assert [h.ids for h in alone] == [h.ids for h in other]
                assert [h.score for h in alone] == pytest.approx([h.score for h in other], abs=1e-10)


def test_words_are_needed_to_attend_to_them():
    options = ModelOptions.model_validate({"decoder": {"context": "hierarchical"}})
    with pytest.raises(RecipeError, match="set encoder: hierarchical"):
        build(options, LossOptions(), source_vocabulary=9, target_vocabulary=9)
