"""Contracts of every head that writes nothing, over every encoder that it fits, on the tiny values of their sides.

A head is seen by `score`, `predict` and `force` alone, so that these hold for one that is registered tomorrow.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
from contract_parts import ENCODERS, close, first_variants, fitting, parts, sized

from windlass.core.fitting import Gives
from windlass.core.records import Batch, Hypothesis, Member, Memory, Padded
from windlass.data.sides import TARGETS
from windlass.decoding.search import SearchRequest
from windlass.encoders.kinds import EncoderOptions
from windlass.experiment.data import sides_of
from windlass.heads.kinds import HeadOptions
from windlass.model import LossOptions, Model, build
from windlass.nn.attention import AttentionOptions
from windlass.nn.cells import CellOptions
from windlass.nn.character_encoder import CharacterEncoderOptions
from windlass.nn.features import FeatureOptions
from windlass.nn.pooling import PoolOptions, Summary
from windlass.recipe import Recipe
from windlass.tasks import TASKS

TABLE = {"kind": "learned", "size": 3}
HEADS = {
    name: head
    for name, head in parts(HeadOptions).items()
    if Gives("model.head writing") not in head.declare("model.head")
}
FIRST = {name: head for name, head in HEADS.items() if " " not in name}


def recipe_of(head: Any, encoder: dict[str, Any]) -> Recipe | None:
    """The recipe of the first task that the two fit."""
    gives = {head.kind} | {name for name in TARGETS if Gives(f"model.head: {name}") in head.declare("model.head")}
    tasks = (name for name, task in TASKS.items() if task.target in gives)
    return next(filter(None, (fitting(task, {"head": head, "encoder": encoder}) for task in tasks)), None)


def _variants() -> dict[str, Recipe]:
    found: dict[str, Recipe | None] = {}
    usual = {"kind": "recurrent", "cell": "gru", "size": 5, "embedding": TABLE}
    one_way = {**usual, "bidirectional": False}
    for name, head in HEADS.items():
        found[name] = recipe_of(head, usual)
    for name, head in FIRST.items():
        for kind, encoder in ENCODERS.items():
            summary = head.model_copy(update={"pool": Summary.Options()}) if "pool" in type(head).model_fields else head
            found[f"{name} - {kind} encoder"] = recipe_of(head, encoder) or recipe_of(summary, encoder)
        if head.kind not in TARGETS:  # another way to give a target: every encoder once is enough
            continue
        for kind, spelling in parts(CharacterEncoderOptions).items():
            found[f"{name} - {kind} spelling"] = recipe_of(head, {**usual, "spelling": spelling})
        for kind, pool in parts(PoolOptions).items() if "pool" in type(head).model_fields else ():
            pooled = head.model_copy(update={"pool": pool})
            found[f"{name} - {kind} pool"] = recipe_of(pooled, usual) or recipe_of(pooled, one_way)
        for (kind, encoder), (n, features) in product(ENCODERS.items(), enumerate(FeatureOptions.tiny(), 1)):
            if "embedding" in encoder:
                read = {**encoder, "embedding": features}
                found[f"{name} - {kind} encoder of features {n}"] = recipe_of(head, read)
    pooled = next(head for head in FIRST.values() if "pool" in type(head).model_fields)
    attention = pooled.pool
    for kind, score in parts(AttentionOptions).items():
        scored = attention.model_copy(update={"score": sized(score, 10, 10)})
        found[f"{kind} score"] = recipe_of(pooled.model_copy(update={"pool": scored}), usual)
    placed = next(head for head in FIRST.values() if head.kind in TARGETS and TARGETS[head.kind].per_place)
    for kind, cell in first_variants(CellOptions).items():
        found[f"{kind} cell"] = recipe_of(placed, {**usual, "cell": cell, "layers": 2})
    return {name: recipe for name, recipe in found.items() if recipe is not None}


VARIANTS = _variants()
every = pytest.mark.parametrize("name", VARIANTS)


def fresh(name: str, seed: int = 2) -> Model:
    recipe = VARIANTS[name]
    torch.manual_seed(seed)
    source, target = sides_of(recipe).source_side.tiny()[0], sides_of(recipe).target_side.tiny()[0]
    sizes = dict.fromkeys(("source", "characters"), 40) | source.sizes
    made = build(recipe.model, LossOptions(), sizes, len(target)).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return made


@cache
def tiny(kind: type) -> Any:
    return kind.tiny()


def per_place(name: str) -> bool:
    return sides_of(VARIANTS[name]).target_side.per_place


def batch(name: str, rows: tuple[int, ...] = (0, 1, 2), wider: int = 0, blank: bool = False) -> Batch:
    """Three rows; `wider` adds padding with rubbish in it; with `blank` there is nothing in the second."""
    recipe = VARIANTS[name]
    source, values = tiny(sides_of(recipe).source_side)
    inputs = source.collate([source.encode(values[row]) for row in rows])
    inputs = {name: _double(side) for name, side in inputs.items()}
    target, answers = tiny(sides_of(recipe).target_side)
    real = inputs["source"].mask.flatten(2).any(-1) if inputs["source"].mask.dim() > 2 else inputs["source"].mask
    if target.per_place:
        ids = torch.tensor(rows)[:, None] + torch.arange(real.size(1))
        gold = _wide(Padded(ids % len(target) * real, real), wider)
    else:
        gold = _double(target.collate([target.encode(answers[row]) for row in rows]))
    if blank:
        here = torch.arange(len(rows)) != rows.index(1)
        inputs = {name: _without(side, here) for name, side in inputs.items()}
        gold = _without(gold, here) if target.per_place else gold
    return Batch({name: _wide(side, wider) for name, side in inputs.items()}, gold, torch.tensor(rows))


def _double(side: Padded) -> Padded:
    return replace(side, values=side.values.double()) if side.values.is_floating_point() else side


def _within(mask: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The mask of places for each of their numbers, where places are features."""
    return mask.view(*mask.shape, *[1] * (values.dim() - mask.dim()))


def _without(side: Padded, rows: torch.Tensor) -> Padded:
    mask = side.mask & rows.view(-1, *[1] * (side.mask.dim() - 1))
    return Padded(side.values * _within(mask, side.values), mask)


def _wide(side: Padded, by: int) -> Padded:
    """More places, and, of places of places, more of both."""
    values, mask = side.values, side.mask
    for axis in range(1, mask.dim()):
        more = [*values.shape[:axis], by, *values.shape[axis + 1 :]]
        values = torch.cat([values, torch.ones(more, dtype=values.dtype)], axis)
        mask = torch.cat([mask, torch.zeros(more[: mask.dim()], dtype=torch.bool)], axis)
    return Padded(torch.where(_within(mask, values), values, torch.full_like(values, 1 if by else 0)), mask)


def predict(models: list[Model], given: Batch) -> list[Hypothesis]:
    with torch.no_grad():
        members = [Member(model.head, model.encode(given), given) for model in models]
    return [row[0] for row in type(models[0].head).predict(members, SearchRequest())]


def same(one: Hypothesis, other: Hypothesis, by: float = 1e-9) -> None:
    """Hold two outputs to each other; one may have more places, which are padding."""
    assert (one.ids, one.finished) == (other.ids, other.finished)
    for part in ("score", "logprobs", "value", "total", "confidence"):
        a, b = getattr(one, part), getattr(other, part)
        assert a == b or a == pytest.approx(b, rel=by, abs=by), part
    for part in ("weights", "distribution"):
        a, b = getattr(one, part), getattr(other, part)
        assert (a is None) == (b is None), part
        if a is not None:
            shared = tuple(slice(0, min(sizes)) for sizes in zip(a.shape, b.shape, strict=True))
            assert torch.allclose(a[shared], b[shared], rtol=by, atol=by), part
            if part == "weights":
                assert a[shared[0]].sum().item() == pytest.approx(b[shared[0]].sum().item())


@every
def test_more_padding_changes_nothing(name):
    m, narrow, wide = fresh(name), batch(name), batch(name, wider=2)
    for one, other in zip(predict([m], narrow), predict([m], wide), strict=True):
        same(one, other)
    with torch.no_grad():
        assert close(m(narrow).loss_sum, m(wide).loss_sum)
        assert m(narrow).count == m(wide).count


@every
def test_a_batch_equals_its_rows_one_by_one_in_any_order(name):
    m, order = fresh(name), (2, 0, 1)
    together, loss, count = predict([m], batch(name, order)), 0.0, 0
    for place, row in enumerate(order):
        alone = batch(name, (row,))
        same(predict([m], alone)[0], together[place])
        with torch.no_grad():
            scored = m(alone)
        loss, count = loss + scored.loss_sum, count + scored.count
    with torch.no_grad():
        scored = m(batch(name))
    assert close(loss, scored.loss_sum)
    assert count == scored.count


@every
def test_every_parameter_gets_a_finite_gradient_that_is_not_zero(name):
    m = fresh(name).train()
    m(batch(name)).loss_sum.backward()
    for part, parameter in m.named_parameters():
        assert parameter.grad is not None, f"{part} is not used"
        assert parameter.grad.isfinite().all(), part
        assert parameter.grad.abs().max() > 1e-9, f"{part} changes nothing"


@every
def test_padding_gets_no_gradient(name):
    m = fresh(name).train()
    torch.manual_seed(1)  # of masks of features
    m(batch(name, wider=2)).loss_sum.backward()
    wide = {part: parameter.grad for part, parameter in m.named_parameters()}
    m.zero_grad()
    torch.manual_seed(1)
    m(batch(name)).loss_sum.backward()
    assert all(close(wide[part], parameter.grad) for part, parameter in m.named_parameters())


def forced(m: Model, given: Batch, name: str, predicted: list[Hypothesis]) -> list[Hypothesis]:
    """The predictions as given targets: their answers go through the target side, as they do for a user."""
    recipe = VARIANTS[name]
    (source, values), (target, _) = tiny(sides_of(recipe).source_side), tiny(sides_of(recipe).target_side)
    if target.per_place:
        gold = Padded.of([list(h.ids) for h in predicted])
    else:
        texts = [target.answer(h, source, value)[0] for h, value in zip(predicted, values, strict=True)]
        gold = target.collate([target.encode(target.read(target.options, text)) for text in texts])
    with torch.no_grad():
        return m.head.force(m.encode(given), replace(given, target=gold))


@every
def test_forcing_a_prediction_gives_the_prediction(name):
    m, given = fresh(name), batch(name)
    predicted = predict([m], given)
    for one, other in zip(predicted, forced(m, given, name, predicted), strict=True):
        # A number is written with six digits. Forced tags are scored as a sequence, predicted ones each by itself.
        alike = {"score": one.score, "total": one.total} if per_place(name) else {}
        same(one, replace(other, **alike), 1e-4)


@every
def test_no_target_scores_higher_than_the_prediction(name):
    m, given = fresh(name), batch(name)
    with torch.no_grad():
        others = m.head.force(m.encode(given), given)
    for one, other in zip(forced(m, given, name, predict([m], given)), others, strict=True):
        assert other.score <= one.score + 1e-9


@every
def test_the_loss_is_the_forced_score_with_its_sign_turned_and_for_a_number_falls_as_it_rises(name):
    m, other, given = fresh(name), fresh(name, seed=3), batch(name)
    with torch.no_grad():
        losses = [each(given).loss_sum.item() for each in (m, other)]
        hypotheses = [each.head.force(each.encode(given), given) for each in (m, other)]
    scores = [sum(h.score for h in each) for each in hypotheses]
    if hypotheses[0][0].value is None:
        assert losses == pytest.approx([-score for score in scores])
    assert (losses[0] < losses[1]) == (scores[0] > scores[1])
    assert losses[0] != losses[1]


@every
def test_an_ensemble_of_equals_is_one_of_them_and_the_order_of_members_is_nothing(name):
    m, other, given = fresh(name), fresh(name, seed=3), batch(name)
    alone, twice = predict([m], given), predict([m, m], given)
    both, turned = predict([m, other], given), predict([other, m], given)
    for row, one in enumerate(alone):
        if per_place(name):  # several taggers go by the mean of the marginals at every place, one by whole sequences
            assert close(one.distribution, twice[row].distribution)
        else:
            same(one, twice[row])
        same(both[row], turned[row])
        if one.value is not None:
            low, high = sorted((one.value, predict([other], given)[row].value))
            assert low <= both[row].value <= high


@every
def test_weights_sum_to_one_over_real_places_and_probabilities_to_one(name):
    m, given = fresh(name), batch(name, wider=2)
    with torch.no_grad():
        real = m.encode(given).mask
    for row, h in enumerate(predict([m], given)):
        if h.weights is not None:
            assert h.weights[0].sum().item() == pytest.approx(1)
            assert not h.weights[:, ~real[row]].any()
        if h.confidence is not None:
            assert 0 <= h.confidence <= 1 + 1e-9
        assert h.distribution is None or (h.distribution >= 0).all()
        assert h.distribution is None or (h.distribution <= 1 + 1e-9).all()


@every
def test_a_source_with_nothing_in_it_gives_no_nan(name):
    m = fresh(name)
    scored = m(batch(name, blank=True))
    assert scored.loss_sum.isfinite()
    scored.loss_sum.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in m.parameters())


@every
def test_what_is_read_for_a_prediction_is_what_is_read_in_training(name):
    m = fresh(name)
    with torch.no_grad():
        for given in (batch(name), batch(name, (1,)), batch(name, wider=2), batch(name, blank=True)):
            a, b = _tensors(m.encode(given)), _tensors(m.infer(given))
            assert all(close(one, other) for one, other in zip(a, b, strict=True))


def _tensors(memory: Memory) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    memory.map(lambda t: found.append(t) or t)
    return [t.double() for t in found]


@pytest.mark.parametrize("name", [name for name, r in VARIANTS.items() if getattr(r.model.encoder, "attention", None)])
def test_the_words_of_a_second_text_look_at_real_words_of_the_first_alone(name):
    m = fresh(name)
    with torch.no_grad():
        narrow, wide = (m.encode(batch(name, wider=wider)) for wider in (0, 2))
    second, links = narrow.parts["second"], narrow.parts["cross_attention"].states
    wide_links = wide.parts["cross_attention"].states
    T, S = second.mask.size(1), narrow.mask.size(1)
    real = second.mask[..., None]
    assert close(links * real, wide_links[:, :T, :S] * real)
    assert not wide_links[:, :, S:].any()
    assert close(links.sum(-1), torch.ones_like(links.sum(-1)))


@pytest.mark.parametrize("head", FIRST)
def test_every_head_is_held_to_the_contracts(head):
    assert head in VARIANTS, f"no task gives target: {head} from a text: add one to windlass.tasks"


@pytest.mark.parametrize("encoder", first_variants(EncoderOptions))
def test_an_encoder_that_leaves_states_is_held_to_the_contracts(encoder):
    gives = [
        term.feature
        for term in first_variants(EncoderOptions)[encoder].declare("model.encoder")
        if isinstance(term, Gives)
    ]
    found = any(name.endswith(f"- {encoder} encoder") for name in VARIANTS)
    assert found or "model.encoder states" not in gives, f"no head reads encoder: {encoder} for a source of any task"
