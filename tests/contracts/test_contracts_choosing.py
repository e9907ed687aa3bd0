"""Contracts of heads that choose: every pool, output layer and way to read letters, held to the same as a decoder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from contract_parts import ENCODERS, close

from windlass.core.options import members
from windlass.core.records import Batch, Member, Memory, Padded
from windlass.decoding.search import SearchRequest
from windlass.encoders.pair import PairEncoder
from windlass.heads.label import LabelHead
from windlass.heads.tags import TagsHead
from windlass.model import LossOptions, Model, ModelOptions, build
from windlass.nn.attention import AttentionOptions
from windlass.nn.cells import CellOptions
from windlass.nn.character_encoder import CharacterEncoderOptions
from windlass.nn.pooling import PoolOptions

H, V = 5, 4
WORDS = [[[4, 5], [6]], [[7, 4, 4]], [[5], [6, 7], [4]]]  # letters of words of three sentences
IDS = [[4, 5], [6], [7, 5, 4]]
SECOND = [[4, 6, 7], [5, 6], [7]]
TAGS = [[0, 3], [1], [2, 0, 1]]
COMPARED = {"size": 4}
PAIRS: dict[str, dict[str, Any]] = {
    "plain": {},
    "plain ends": {"pool": "ends"},
    "plain attention pool": {"pool": "attention"},
    "not shared": {"shared": False},
    "attention": {"attention": COMPARED},
    "attention not shared": {"attention": COMPARED, "shared": False},
    "attention additive": {"attention": {**COMPARED, "score": {"kind": "additive", "size": 3}}},
    "attention bilinear": {"attention": {**COMPARED, "score": {"kind": "bilinear", "keys": 3}}},
    "attention composed": {"attention": {**COMPARED, "compose": {"cell": "gru", "size": 3}}},
    "letters": {"attention": COMPARED, "reader": {"spelling": {"kind": "convolution", "embedding": 3}}},
}


def _variants() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for kind in members(PoolOptions):
        one_way = {"bidirectional": False} if kind == "last" else {}  # of two, the last state uses one only
        found[f"label {kind}"] = {"head": {"kind": "label", "pool": kind}, "encoder": one_way}
    for kind in members(AttentionOptions):
        score = {"kind": kind, **({"size": 3} if kind in ("additive", "mlp") else {})}
        found[f"label attention {kind}"] = {"head": {"kind": "label", "pool": {"kind": "attention", "score": score}}}
    for output in ("softmax", "crf"):
        found[f"tags {output}"] = {"head": {"kind": "tags", "output": output}}
        found[f"tags {output} deep"] = {"head": {"kind": "tags", "output": output, "hidden": [3, 6]}}
    for kind in members(CharacterEncoderOptions):
        for head in ("label", "tags"):
            found[f"{head} spelling {kind}"] = {"head": head, "encoder": {"spelling": {"kind": kind, "embedding": 3}}}
    for kind in members(CellOptions):
        found[f"tags {kind}"] = {"head": "tags", "encoder": {"cell": kind, "layers": 2}}
    for name, given in ENCODERS.items():
        for head in ("label", "tags"):
            found[f"{head} {name}"] = {"head": head, "encoder": {"size": 6, **given}}
    found["label convolution spelling"] = {
        **{"head": {"kind": "label", "pool": "max"}},
        "encoder": {**ENCODERS["convolution"], "spelling": {"kind": "convolution", "embedding": 3}},
    }
    for name, given in PAIRS.items():
        reader = {"size": 6, "embedding": {"kind": "learned", "size": 3}, **given.get("reader", {})}
        pool = given.get("pool", "mean_max")
        found[f"pair {name}"] = {
            "head": {"kind": "label", "pool": pool},
            "encoder": {"kind": "pair", **given, "reader": {"kind": "recurrent", "cell": "gru", **reader}},
        }
        found[f"pair {name}"]["encoder"].pop("pool", None)
    found["label layers"] = {"head": {"kind": "label", "hidden": [6, 3]}, "encoder": {"bidirectional": False}}
    return found


VARIANTS = _variants()
every = pytest.mark.parametrize("name", VARIANTS)


def fresh(name: str) -> Model:
    spec = VARIANTS[name]
    torch.manual_seed(2)
    given = spec.get("encoder", {})
    encoder = {} if given.get("kind") == "pair" else {"size": H, "embedding": {"kind": "learned", "size": 3}}
    if given.get("kind", "recurrent") == "recurrent":
        encoder |= {"kind": "recurrent", "cell": "gru"}
    options = ModelOptions.model_validate({**spec, "encoder": {**encoder, **given}})
    sizes = {"source": 8, "characters": 8}
    made = build(options, LossOptions(), sizes, V).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return made


def batch(model: Model, rows: tuple[int, ...] = (0, 1, 2), wider: int = 0, blank: bool = False) -> Batch:
    """Three sentences; `wider` adds padding with rubbish in it."""
    ids = [[] if blank and r == 1 else IDS[r] for r in rows]
    letters = [[] if blank and r == 1 else WORDS[r] for r in rows]
    if isinstance(model.head, LabelHead):
        target = Padded.of([TAGS[r][:1] for r in rows])
    else:
        target = _wide(Padded.of([[] if blank and r == 1 else TAGS[r] for r in rows]), wider, 3)
    inputs = {"source": _wide(Padded.of(ids), wider, 7), "characters": _wide(Padded.nested(letters), wider, 7)}
    if isinstance(model.encoder, PairEncoder):
        second = [SECOND[r] for r in rows]
        inputs["second"] = _wide(Padded.of(second), wider, 7)
        inputs["second_characters"] = _wide(Padded.nested([[[n, 4] for n in row] for row in second]), wider, 7)
    return Batch(inputs, target, torch.tensor(rows))


def _wide(side: Padded, by: int, rubbish: int) -> Padded:
    """More places, and, of places of places, more of both."""
    values, mask = side.values, side.mask
    for axis in range(1, values.dim()):
        shape = [*values.shape[:axis], by, *values.shape[axis + 1 :]]
        values = torch.cat([values, torch.full(shape, rubbish)], axis)
        mask = torch.cat([mask, torch.zeros(shape, dtype=torch.bool)], axis)
    return Padded(torch.where(mask, values, torch.full_like(values, rubbish if by else 0)), mask)


def answers(model: Model, given: Batch):
    """What a model says: probabilities (B, V) or (B, S, V), and weights where there are some."""
    with torch.no_grad():
        memory = model.encode(given)
        found = model.head(memory)
    return found if isinstance(model.head, LabelHead) else (found, None)


def logprob(model: Model, memory: Memory, target: Padded) -> torch.Tensor:
    """The log probability of given answers: (B,)."""
    if isinstance(model.head, LabelHead):
        return model.head(memory)[0].gather(1, target.values)[:, 0]
    return model.head.sequence_logprob(memory, target)


@every
def test_more_padding_changes_nothing(name):
    m = fresh(name)
    narrow, wide = batch(m), batch(m, wider=2)
    (a, w), (b, v) = answers(m, narrow), answers(m, wide)
    assert close(a, b[:, : a.size(1)] if a.dim() == 3 else b)
    if w is not None:
        assert close(w, v[:, : w.size(1)])
        assert not v[:, w.size(1) :].any()
    with torch.no_grad():
        assert close(m(narrow).loss_sum, m(wide).loss_sum)
        assert m(narrow).count == m(wide).count == (3 if isinstance(m.head, LabelHead) else 6)


@every
def test_a_batch_equals_its_rows_one_by_one_in_any_order(name):
    m = fresh(name)
    together, weights = answers(m, batch(m, (2, 0, 1)))
    loss = torch.zeros((), dtype=torch.float64)
    for place, row in enumerate((2, 0, 1)):
        alone = batch(m, (row,))
        one, own = answers(m, alone)
        assert close(one[0], together[place, : one.size(1)] if one.dim() == 3 else together[place])
        if own is not None:
            assert close(own[0], weights[place, : own.size(1)])
        with torch.no_grad():
            loss = loss + m(alone).loss_sum
    with torch.no_grad():
        assert close(loss, m(batch(m)).loss_sum)


@every
def test_every_parameter_gets_a_finite_gradient_that_is_not_zero(name):
    m = fresh(name).train()
    m(batch(m)).loss_sum.backward()
    for part, parameter in m.named_parameters():
        assert parameter.grad is not None, f"{part} is not used"
        assert parameter.grad.isfinite().all(), part
        assert parameter.grad.abs().max() > 1e-9, f"{part} changes nothing"


@every
def test_probabilities_sum_to_one_and_the_loss_is_the_forced_score(name):
    m = fresh(name)
    given = batch(m)
    found, weights = answers(m, given)
    probabilities = found.exp() if isinstance(m.head, LabelHead) else found[given.inputs["source"].mask]
    assert close(probabilities.sum(-1), torch.ones_like(probabilities.sum(-1)))
    if weights is not None:
        assert close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
        assert not weights[~given.inputs["source"].mask].any()
    with torch.no_grad():
        memory = m.encode(given)
        forced = logprob(m, memory, given.target)
        assert close(m(given).loss_sum, -forced.sum())
        hypotheses = m.head.force(memory, given)
    assert [h.score for h in hypotheses] == pytest.approx(forced.tolist(), rel=1e-9, abs=1e-11)
    assert [h.confidence for h in hypotheses] == pytest.approx(forced.exp().tolist(), rel=1e-9, abs=1e-11)
    assert [list(h.ids) for h in hypotheses] == [
        row[mask].tolist() for row, mask in zip(given.target.values, given.target.mask, strict=True)
    ]


@pytest.mark.parametrize("name", [name for name in VARIANTS if name.startswith("pair attention")])
def test_the_words_of_a_second_text_look_at_real_words_of_the_first_alone(name):
    m = fresh(name)
    with torch.no_grad():
        narrow, wide = (m.encode(batch(m, wider=wider)) for wider in (0, 2))
    second, links = narrow.parts["second"], narrow.parts["cross_attention"].states
    wide_links = wide.parts["cross_attention"].states
    T, S = second.mask.size(1), narrow.mask.size(1)
    real = second.mask[..., None]
    assert close(links * real, wide_links[:, :T, :S] * real)
    assert not wide_links[:, :, S:].any()
    assert close(links.sum(-1), torch.ones_like(links.sum(-1)))


@every
def test_no_answer_is_more_probable_than_the_one_that_is_chosen(name):
    m = fresh(name)
    given = batch(m)
    with torch.no_grad():
        memory = m.encode(given)
        if isinstance(m.head, TagsHead):
            best = Padded(m.head.best_tags(memory), memory.mask)
        else:
            best = Padded.of(m.head(memory)[0].argmax(-1, keepdim=True).tolist())
        top = logprob(m, memory, best)
        assert given.target is not None
        for shift in range(V):
            other = Padded((given.target.values + shift) % V, given.target.mask)
            assert (logprob(m, memory, other) <= top + 1e-9).all()
        chosen = type(m.head).predict([Member(m.head, memory, given)], SearchRequest())
        hypotheses = m.head.force(memory, replace(given, target=best))
    assert [row[0].ids for row in chosen] == [h.ids for h in hypotheses]
    assert [row[0].logprobs for row in chosen] == [pytest.approx(h.logprobs, rel=1e-9, abs=1e-11) for h in hypotheses]


@every
def test_a_source_with_nothing_in_it_gives_no_nan(name):
    m = fresh(name)
    scored = m(batch(m, blank=True))
    assert scored.loss_sum.isfinite()
    scored.loss_sum.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in m.parameters())
