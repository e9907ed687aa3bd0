"""The encoder of a question about a picture, against its equations in numpy."""

import numpy as np
import pytest
import torch

from windlass.core.records import Batch, Member, Padded
from windlass.decoding.search import SearchRequest
from windlass.encoders.question import QuestionEncoder
from windlass.heads.base import Wiring
from windlass.heads.label import LabelHeadOptions

REGIONS = torch.tensor([4, 2])  # of each picture


def n(tensor):
    return tensor.detach().numpy()


def encoder(**picture):
    torch.manual_seed(3)
    reader = {"kind": "recurrent", "cell": "gru", "size": 3, "embedding": {"kind": "learned", "size": 4}}
    options = QuestionEncoder.Options(reader=reader, picture={"size": 5, "activation": "tanh", **picture})
    return options.build({"source": 10, "picture": 6}).double().eval()


def batch():
    torch.manual_seed(4)
    picture = Padded(torch.randn(2, 4, 6, dtype=torch.float64), torch.arange(4) < REGIONS[:, None])
    return Batch({"source": Padded.of([[5, 6, 7], [8]]), "picture": picture}, None, torch.arange(2))


def regions(built, given, row):
    v = n(given.inputs["picture"].values[row, : REGIONS[row]])
    layer = built.regions.projection
    return np.tanh(v @ n(layer.weight).T + n(layer.bias))


def softmax(e):
    return np.exp(e) / np.exp(e).sum()


@pytest.mark.parametrize("kind", ["additive", "bilinear", "none"])
def test_the_summary_is_the_question_beside_the_regions_that_it_attends_to(kind):
    attention = None if kind == "none" else {"kind": kind, **({"size": 7} if kind == "additive" else {})}
    built, given = encoder(attention=attention), batch()
    memory, question = built(given), built.reader(given).summary
    for row in range(2):
        q, r = n(question[row]), regions(built, given, row)
        if kind == "additive":
            score = built.attend.score
            a = softmax(np.tanh(r @ n(score.key.weight).T + n(score.query.weight) @ q) @ n(score.v))
        elif kind == "bilinear":
            a = softmax(r @ n(built.attend.score.key.weight).T @ q)
        else:
            a = np.full(len(r), 1 / len(r))
        assert n(memory.summary[row]) == pytest.approx(np.concatenate([q, a @ r]))
        if kind != "none":
            weights = n(memory.parts["cross_attention"].states[row, 0])
            assert weights[: len(r)] == pytest.approx(a)
            assert not weights[len(r) :].any()
    assert ("cross_attention" in memory.parts) == (kind != "none")


def test_a_blind_model_reads_the_question_alone():
    torch.manual_seed(3)
    options = QuestionEncoder.Options(reader={"kind": "recurrent", "size": 3}, picture=None)
    blind, given = options.build({"source": 10, "picture": 6}).double().eval(), batch()
    memory = blind(given)
    assert torch.equal(memory.summary, blind.reader(given).summary)
    assert memory.states.shape[:2] == (2, 0)
    assert not any("picture" in name or "regions" in name for name, _ in blind.named_parameters())


def test_the_label_head_reads_the_summary_and_passes_the_attention_of_the_question_on():
    built, given = encoder(), batch()
    head = LabelHeadOptions(pool="summary").build(Wiring(outputs=3, memory_size=built.size)).double().eval()
    memory = built(given)
    layer = head.output[-1]
    logits = n(memory.summary) @ n(layer.weight).T + n(layer.bias)
    for row, (found,) in enumerate(head.predict([Member(head, memory)], SearchRequest())):
        assert n(found.distribution) == pytest.approx(softmax(logits[row]))
        assert torch.equal(found.weights, memory.parts["cross_attention"].states[row])
