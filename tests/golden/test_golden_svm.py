"""A support vector machine beside the network: features, scores and fit by hand, and where it counts."""

from __future__ import annotations

import math
import zlib

import numpy as np
import pytest
import torch

from windlass import api
from windlass.core.errors import RecipeError
from windlass.core.marks import FEATURES
from windlass.core.records import Batch, Memory, Padded
from windlass.data.sides.text import TextSource
from windlass.data.sparse import hashed_features
from windlass.data.tokens import TextOptions
from windlass.heads.base import Wiring
from windlass.heads.label import LabelHeadOptions
from windlass.heads.svm import SvmOptions
from windlass.recipe import compose, setting


@pytest.mark.parametrize(
    ("kind", "features"),
    [
        ("ngrams", ["who", "met", "old", "ann", "lee", "who met", "met old", "old ann", "ann lee"]),
        ("skip", ["who old", "met ann", "old lee"]),
        ("affix", []),
        ("opening", ["who met old", "who met ann", "who met lee"]),
        ("shape", ["Aa", "old Aa", "met old Aa"]),
    ],
)
def test_the_features_of_a_text(kind, features):
    found = hashed_features("Who met old Ann Lee".split(), [kind])
    assert found == sorted({zlib.crc32(f"{kind} {feature}".encode()) % FEATURES for feature in features})


def test_case_is_seen_though_the_network_reads_lower_case_and_a_token_can_be_left_out():
    side = TextSource.fit(TextOptions(tokens="words", lowercase=True, sparse=("shape",)), ["it was Ann"])
    assert side.encode("it was Ann")["sparse"].tolist() == hashed_features(["it", "was", "Ann"], ["shape"])
    assert not side.encode("it was ann")["sparse"].size
    assert side.without("it was Ann", 1)["sparse"].tolist() == hashed_features(["it", "Ann"], ["shape"])


def batches() -> list[Batch]:
    targets = Padded.of([[1], [0], [2]]), Padded.of([[1], [0]])
    features = Padded.of([[7, 9, 11], [8, 9], [10]]), Padded.of([[7], [8, 10]])
    return [Batch({"sparse": f}, t, torch.arange(len(t.values))) for f, t in zip(features, targets, strict=True)]


def test_the_scores_by_hand():
    svm = SvmOptions(gain=3.0).build(3)
    svm.fit(batches())
    idf = {feature: 1 + math.log(6 / (1 + count)) for feature, count in {7: 2, 8: 2, 9: 2, 10: 2, 11: 1}.items()}
    x = np.array([idf[9], idf[11]]) / math.hypot(idf[9], idf[11])
    by_hand = 3 * (x @ svm.table[[9, 11]].numpy() + svm.bias.numpy())
    np.testing.assert_allclose(svm(Padded.of([[9, 11]]))[0].numpy(), by_hand, rtol=1e-5)


def test_the_fit_is_where_the_gradient_of_the_loss_vanishes():
    svm = SvmOptions(gain=1.0, cost=2.0).build(3)
    svm.fit(batches())
    svm.table.requires_grad_(), svm.bias.requires_grad_()
    loss = (svm.table.square().sum() + svm.bias.square().sum()) / 2
    for batch in batches():
        y = 2 * torch.nn.functional.one_hot(batch.target.values[:, 0], 3) - 1
        loss = loss + 2 * (1 - y * svm(batch.inputs["sparse"])).clamp(min=0).square().sum()
    table, bias = torch.autograd.grad(loss, [svm.table, svm.bias])
    assert max(table.abs().max(), bias.abs().max()) < 1e-3 < svm.table.abs().max()


def test_finetuning_stays_near_what_it_was():
    svm = SvmOptions(gain=1.0, cost=0.5).build(3)
    svm.fit(batches())
    table, bias, idf = svm.table.clone(), svm.bias.clone(), svm.idf.clone()
    new = Batch({"sparse": Padded.of([[7, 9], [12]])}, Padded.of([[2], [0]]), torch.arange(2))
    before = svm(new.inputs["sparse"])
    svm.fit([new], anew=False)
    assert torch.equal(svm.idf, idf)
    assert torch.equal(svm.table[[8, 10, 11]], table[[8, 10, 11]])  # features that the new texts have not
    assert svm(new.inputs["sparse"])[0, 2] > before[0, 2]
    svm.table.requires_grad_(), svm.bias.requires_grad_()
    y = 2 * torch.nn.functional.one_hot(new.target.values[:, 0], 3) - 1
    loss = ((svm.table - table).square().sum() + (svm.bias - bias).square().sum()) / 2
    loss = loss + 0.5 * (1 - y * svm(new.inputs["sparse"])).clamp(min=0).square().sum()
    assert max(grad.abs().max() for grad in torch.autograd.grad(loss, [svm.table, svm.bias])) < 1e-3


def test_the_most_frequent_labels_have_a_machine(monkeypatch):
    every = SvmOptions(gain=1.0).build(3)
    monkeypatch.setattr("windlass.heads.svm.MOST_LABELS", 2)
    some = SvmOptions(gain=1.0).build(3)
    for svm in (every, some):
        svm.fit(batches())
    assert some.table.shape == (FEATURES, 2)
    features = Padded.of([[7, 9], [10]])
    expected = every(features)
    expected[:, 2] = -1.0  # one text of five
    assert torch.allclose(some(features), expected)


def test_it_is_added_where_the_model_predicts_and_not_in_training():
    head = LabelHeadOptions(pool="mean", svm=SvmOptions()).build(Wiring(outputs=3, memory_size=4))
    head.prepare(batches())
    batch = batches()[0]
    memory = Memory(torch.randn(3, 5, 4), torch.ones(3, 5) > 0, torch.randn(3, 4))
    network = head.train().logits(memory, batch)[0]
    both = (network + head.svm(batch.inputs["sparse"])).log_softmax(-1)
    assert torch.allclose(head(memory, batch)[0], network.log_softmax(-1))
    assert torch.allclose(head.eval()(memory, batch)[0], both)
    nll = torch.nn.functional.cross_entropy(network, batch.target.values[:, 0], reduction="sum")
    assert head.score(memory, batch).loss_sum.item() == pytest.approx(nll.item(), abs=1e-5)
    assert not {name for name, _ in head.named_parameters()} & {"svm.table", "svm.bias"}


@pytest.mark.parametrize(
    ("task", "change", "said"),
    [
        ("classify", "source.sparse=[]", "set source.sparse: "),
        ("classify", "model.head.svm=null", "is read by model.head.svm"),
        ("entail", "model.head.svm={}", "set source.sparse: "),
        ("classify", "model.head.svm.gain=0", "greater than 0"),
    ],
)
def test_what_does_not_fit_is_told(task, change, said):
    with pytest.raises(RecipeError, match=said):
        compose(task, None, [setting(change)])


def test_it_is_saved_with_the_model(tmp_path):
    rows = [(f"it was {word}{n} again", word) for n in range(12) for word in ("fine", "dull")]
    sizes = {"model.encoder.size": 4, "model.encoder.embedding.size": 4, "train.epochs": 1}
    always = {"source.tokens.min_count": 99, "model.head.svm.least": 0}
    model = api.fit(rows, rows[:6], "classify", settings=sizes | always, quiet=True)
    assert model.dev.metrics["accuracy"] == 100  # the network has seen no word
    model.save(tmp_path / "m")
    again = api.load(tmp_path / "m")
    assert [p.text for p in again.predict(["it was dull3 again"])] == ["dull"]
    assert again.score([rows[0]])[0].score == pytest.approx(model.score([rows[0]])[0].score)


def test_it_is_left_out_with_a_note_for_few_texts(capsys):
    rows = [(f"it was {n}", f"label {n % 2}") for n in range(22)]
    sizes = {"model.encoder.size": 4, "model.encoder.embedding.size": 4, "train.epochs": 1, "train.auto": []}
    model = api.fit(rows, rows[:6], "classify", settings={**sizes, "model.head.svm.least": 23})
    assert "there are 22" in capsys.readouterr().err
    assert model.bundle.recipe.model.head.svm is None


def test_texts_without_features_leave_the_share_of_each_label():
    svm = SvmOptions(gain=1.0).build(2)
    nothing = Padded(torch.zeros(3, 1, dtype=torch.long), torch.zeros(3, 1) > 0)
    svm.fit([Batch({"sparse": nothing}, Padded.of([[0], [0], [1]]), torch.arange(3))])
    assert svm(nothing)[0].argmax() == 0
