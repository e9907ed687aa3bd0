"""Contracts of the hierarchical encoder: under every pool and cell, and under every head that reads it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from contract_parts import close, first_variants, parts

from windlass.core.records import Batch, Padded
from windlass.encoders.document import HierarchicalEncoder
from windlass.heads.label import LabelHead
from windlass.model import LossOptions, Model, ModelOptions, build
from windlass.nn.attention import AttentionOptions
from windlass.nn.cells import CellOptions
from windlass.nn.pooling import PoolOptions

V = 4
DOCUMENTS = [[[4, 5, 6], [7]], [[6, 6, 4, 4, 5, 7, 5]], [[5], [6, 7], [4, 4, 4, 7], [6]]]
TAGS = [[0, 3], [1], [2, 0, 1, 1]]


def _variants() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for kind, pool in parts(PoolOptions).items():
        one_way = {"bidirectional": False} if pool.ends == 1 else {}
        found[f"label {kind}"] = {
            "head": {"kind": "label", "pool": pool},
            "words": {"pool": pool, **one_way},
            "sentences": one_way,
        }
    for kind, score in parts(AttentionOptions).items():
        found[f"words {kind}"] = {"head": "label", "words": {"pool": {"kind": "attention", "score": score}}}
    for kind, cell in first_variants(CellOptions).items():
        level = {"cell": cell, "layers": 2}
        found[f"tags {kind}"] = {"head": "tags", "words": level, "sentences": level}
    found["tags crf"] = {"head": {"kind": "tags", "output": "crf"}}
    found["tags portions"] = {"head": "tags", "at_once": 7}  # more than one portion, and made again in training
    found["label one word at once"] = {"head": "label", "at_once": 1}
    return found


VARIANTS = _variants()
every = pytest.mark.parametrize("name", VARIANTS)


def fresh(name: str, **more: Any) -> Model:
    spec = {**VARIANTS[name], **more}
    torch.manual_seed(2)
    encoder = {
        "kind": "hierarchical",
        "embedding": {"kind": "learned", "size": 3},
        "words": {"cell": "gru", "size": 5, **spec.get("words", {})},
        "sentences": {"cell": "gru", "size": 3, **spec.get("sentences", {})},
        **{key: value for key, value in spec.items() if key == "at_once"},
    }
    made = build(ModelOptions.model_validate({"encoder": encoder, "head": spec["head"]}), LossOptions(), 8, V)
    with torch.no_grad():
        for parameter in made.double().eval().parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return made


def batch(model: Model, rows: tuple[int, ...] = (0, 1, 2), wider: int = 0, blank: bool = False) -> Batch:
    """Three documents; `wider` adds padding with rubbish in it, sentences and words."""
    documents = [[] if blank and r == 1 else DOCUMENTS[r] for r in rows]
    if isinstance(model.head, LabelHead):
        target = Padded.of([TAGS[r][:1] for r in rows])
    else:
        target = _wide(Padded.of([[] if blank and r == 1 else TAGS[r] for r in rows]), wider, 3)
    return Batch({"source": _wide(Padded.nested(documents), wider, 7)}, target, torch.tensor(rows))


def _wide(side: Padded, by: int, rubbish: int) -> Padded:
    values, mask = side.values, side.mask
    for axis in range(1, values.dim()):
        shape = [*values.shape[:axis], by, *values.shape[axis + 1 :]]
        values = torch.cat([values, torch.full(shape, rubbish)], axis)
        mask = torch.cat([mask, torch.zeros(shape, dtype=torch.bool)], axis)
    return Padded(torch.where(mask, values, torch.full_like(values, rubbish if by else 0)), mask)


def answers(model: Model, given: Batch):
    """What a model says (B, V) or (B, P, V), with its memory."""
    with torch.no_grad():
        memory = model.encode(given)
        found = model.head(memory)
    return (found[0] if isinstance(model.head, LabelHead) else found), memory


@every
def test_more_padding_of_sentences_and_of_words_changes_nothing(name):
    m = fresh(name)
    narrow, wide = batch(m), batch(m, wider=2)
    (a, memory), (b, padded) = answers(m, narrow), answers(m, wide)
    assert close(a, b[:, : a.size(1)] if a.dim() == 3 else b)
    assert close(memory.states, padded.states[:, : memory.states.size(1)])
    assert close(memory.summary, padded.summary)
    assert not padded.mask[:, memory.mask.size(1) :].any()
    assert memory.parts.keys() == padded.parts.keys()
    if "word_attention" in memory.parts:
        within, wider = memory.parts["word_attention"].states, padded.parts["word_attention"].states
        _, P, S = within.shape
        assert close(within, wider[:, :P, :S])
        assert close(wider.sum((1, 2)), memory.mask.sum(1).double())  # every sentence's words weigh 1 together
        assert not wider[~wide.inputs["source"].mask].any()
    with torch.no_grad():
        assert close(m(narrow).loss_sum, m(wide).loss_sum)


@every
def test_a_batch_equals_its_rows_one_by_one_in_any_order(name):
    m = fresh(name)
    together, _ = answers(m, batch(m, (2, 0, 1)))
    for place, row in enumerate((2, 0, 1)):
        one, _ = answers(m, batch(m, (row,)))
        assert close(one[0], together[place, : one.size(1)] if one.dim() == 3 else together[place])


@every
def test_every_parameter_gets_a_gradient_and_padding_gets_none(name):
    m = fresh(name).train()
    m(batch(m, wider=2)).loss_sum.backward()
    for part, parameter in m.named_parameters():
        assert parameter.grad is not None, f"{part} is not used"
        assert parameter.grad.isfinite().all(), part
        assert parameter.grad.abs().max() > 1e-9, f"{part} changes nothing"
    assert isinstance(m.encoder, HierarchicalEncoder)
    m = fresh(name).train()
    padded = batch(m, wider=2)
    side = padded.inputs["source"]
    only = 2  # an id of padding alone
    unseen = Padded(torch.where(side.mask, side.values, torch.full_like(side.values, only)), side.mask)
    m(Batch({"source": unseen}, padded.target, padded.keys)).loss_sum.backward()
    assert not m.encoder.embedding.table.grad[only].any()
    assert m.encoder.embedding.table.grad[4].any()


@every
def test_read_in_portions_and_computed_again_it_has_the_same_loss_and_gradients(name):
    losses, gradients = [], []
    for at_once in (1000, 7):
        m = fresh(name, at_once=at_once).train()
        scored = m(batch(m))
        scored.loss_sum.backward()
        losses.append(scored.loss_sum)
        gradients.append([parameter.grad for parameter in m.parameters()])
    assert close(*losses)
    assert all(close(a, b) for a, b in zip(*gradients, strict=True))


@every
def test_a_document_with_nothing_in_it_gives_no_nan(name):
    m = fresh(name)
    scored = m(batch(m, blank=True))
    assert scored.loss_sum.isfinite()
    scored.loss_sum.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in m.parameters())
    with torch.no_grad():
        nothing = m.encode(Batch({"source": Padded.of([[], []])}, None, torch.arange(2)))
    assert nothing.states.shape[:2] == (2, 1)
    assert not nothing.states.any()
    assert not nothing.mask.any()


@every
def test_what_is_read_for_a_prediction_is_what_is_read_in_training(name):
    m = fresh(name)
    m.encoder.keep_words = True
    with torch.no_grad():
        for given in (batch(m), batch(m, (1,)), batch(m, wider=2), batch(m, blank=True)):
            a, b = m.encode(given), m.encoder.infer(given)
            assert close(a.states, b.states)
            assert close(a.summary, b.summary)
            assert close(a.parts["words"].states, b.parts["words"].states)


@every
def test_the_states_of_the_words_are_there_if_asked_for_a_sentence_after_the_other(name):
    m = fresh(name)
    given = batch(m)
    with torch.no_grad():
        assert "words" not in m.encode(given).parts
        m.encoder.keep_words = True
        memory = m.encode(given)
        B, P, S = given.inputs["source"].mask.shape
        words = memory.parts["words"]
        assert words.states.shape == (B, P * S, m.encoder.words.size)
        assert torch.equal(words.mask, given.inputs["source"].mask.flatten(1))
        assert not words.states[~words.mask].any()
        alone = m.encode(Batch({"source": Padded.nested([[DOCUMENTS[2][2]]])}, None, torch.arange(1)))
    assert close(words.states[2, 2 * S : 2 * S + 4], alone.parts["words"].states[0])
    picked = memory.select(torch.tensor([2, 2]))
    assert close(picked.parts["words"].states[1], words.states[2])


def recurrences(node, seen):
    """How many runs of a recurrence a graph goes through."""
    if node is None or node in seen:
        return 0
    seen.add(node)
    return ("_Recurrence" in node.name()) + sum(recurrences(below, seen) for below, _ in node.next_functions)


def test_of_a_long_document_no_graph_of_its_words_is_kept():
    counts = []
    for at_once in (1000, 7):
        m = fresh("tags portions", at_once=at_once).train()
        counts.append(recurrences(m.encode(batch(m)).states.grad_fn, set()))
    assert counts[0] > 2
    assert counts[1] == 2  # the two directions over sentences


def test_states_of_words_that_are_kept_pass_gradients_on():
    m = fresh("tags portions").train()
    m.encoder.keep_words = True
    m.encode(batch(m)).parts["words"].states.sum().backward()
    assert m.encoder.embedding.table.grad.abs().sum() > 0
    assert m.encoder.sentences.first.weight_h.grad is None
