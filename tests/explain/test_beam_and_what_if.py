"""The tree of a search is that of the search; what-if changes what it says and nothing else."""

from __future__ import annotations

import json
import math
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import torch

from command import refused, windlass
from task_models import CTC, task_model
from windlass.bundle import Bundle
from windlass.core.errors import DataError, WindlassError
from windlass.decoding.options import Beam, Greedy, Sample
from windlass.explain.attention import explain
from windlass.explain.beam import beam_tree, draw_beam
from windlass.explain.what_if import imposed, read_matrix, what_if, with_attention
from windlass.inference.predict import predict, score

BUNDLES = Path(__file__).parent.parent / "fixtures" / "bundles"


@pytest.fixture(scope="module")
def bundle():
    return Bundle.load(BUNDLES / "pronounce")


@pytest.mark.parametrize("size", [1, 3])
def test_the_tree_holds_the_search(bundle, size):
    options = Beam(size=size)
    tree = beam_tree(bundle, "keba", options, pruned=3)
    (best,) = predict([bundle], ["keba"], options)
    assert tree.prediction.text == best.text
    won = [node for node in tree.nodes if node.won]
    assert [node.token for node in won] == ["<s>", *best.answer.tokens, "</s>"]
    assert won[-1].score == pytest.approx(best.score, abs=1e-6)
    assert won[-1].total == pytest.approx(sum(np.log(best.answer.probabilities)), abs=1e-5)
    known = {node.number: node for node in tree.nodes}
    for step in range(1, max(node.step for node in tree.nodes) + 1):
        kept = [node.total for node in tree.nodes if node.step == step and node.kept]
        pruned = [node.total for node in tree.nodes if node.step == step and not node.kept]
        assert len(kept) <= size
        assert not pruned or max(pruned) <= min(kept) + 1e-9
        assert all(known[node.parent].kept and not known[node.parent].ended
                   for node in tree.nodes if node.step == step)  # fmt: skip
    ends = [node.score for node in tree.nodes if node.ended]
    assert max(ends) == pytest.approx(won[-1].score)


@pytest.mark.parametrize("options", [Greedy(), Beam(size=3), Sample(seed=1)])
def test_an_output_begins_with_its_prefix_and_scores_as_if_it_were_forced(bundle, options):
    (found,) = predict([bundle], ["keba"], options, prefix="t")
    assert found.answer.tokens[0] == "t"
    assert found.text != predict([bundle], ["keba"], options)[0].text
    (forced,) = score(bundle, [("keba", found.text)])
    assert found.answer.probabilities == pytest.approx(forced.answer.probabilities, abs=1e-5)
    assert np.allclose(found.attention, forced.attention, atol=1e-5)


def test_the_models_own_attention_imposed_changes_nothing_and_another_does(bundle):
    own = predict([bundle], ["keba"])[0]
    again = with_attention(bundle, "keba", own.attention)
    assert again.text == own.text
    assert again.answer.probabilities == pytest.approx(own.answer.probabilities, abs=1e-5)
    assert np.allclose(again.attention, own.attention, atol=1e-5)
    back = [row[:-1][::-1] + row[-1:] for row in own.attention]
    other = with_attention(bundle, "keba", back)
    assert np.allclose(other.attention[0], back[0], atol=1e-6)
    assert other.answer.probabilities != pytest.approx(own.answer.probabilities, abs=1e-3)
    assert not bundle.model.head.attention._forward_hooks


def test_an_oracle_reads_the_place_it_is_given(bundle):
    """With all weight on one letter at every step, what is written first does not depend on the order of the others."""
    one = [[0.0, 1.0, 0.0, 0.0, 0.0]] * 8
    assert with_attention(bundle, "keba", one).attention[0] == (0.0, 1.0, 0.0, 0.0, 0.0)
    summarise = Bundle.load(BUNDLES / "summarise")  # attention over sentences and their words
    own = predict([summarise], ["A b c. C d."])[0]
    again = with_attention(summarise, "A b c. C d.", own.attention)
    assert again.text == own.text


def transformer(heads, layers):
    """Untrained, over an encoder that reads from left to right; and its input."""
    decoder = {
        "kind": "transformer",
        "size": 8,
        "heads": heads,
        "layers": layers,
        "embedding": {"kind": "learned", "size": 8},
    }
    encoder = {"kind": "recurrent", "cell": "gru", "size": 8, "bidirectional": False}
    return task_model("pronounce", model={"decoder": decoder, "encoder": encoder})


def test_a_transformer_with_one_head_in_one_layer_says_the_same_with_its_own_attention():
    model, value = transformer(heads=1, layers=1)
    (own,) = predict([model], [value])
    again = with_attention(model, value, own.attention)
    assert again.text == own.text
    assert again.answer.probabilities == pytest.approx(own.answer.probabilities, abs=1e-5)
    assert np.allclose(again.attention, own.attention, atol=1e-6)
    assert not any(attention._forward_hooks for attention in model.model.head.attentions)


@pytest.mark.parametrize("search", [Greedy(), Beam(size=3)])
def test_in_a_transformer_given_attention_is_all_that_is_read_of_the_source(search):
    """The state of the first letter knows nothing of the second."""
    model, value = transformer(heads=2, layers=2)
    rows = [[1.0] + [0.0] * len(value)] * 50
    same, other = (with_attention(model, word, rows, search) for word in (value, value[0] * len(value)))
    assert same.attention[0] == tuple(rows[0])
    assert other.text == same.text
    assert other.answer.probabilities == pytest.approx(same.answer.probabilities, abs=1e-5)
    (own,) = predict([model], [value], search)
    assert own.answer.probabilities != pytest.approx(same.answer.probabilities, abs=1e-5)


def test_other_threads_use_the_model_as_it_is():
    model, value = transformer(heads=2, layers=2)
    (own,) = predict([model], [value])
    found = []
    with imposed(model.model.head.attentions, torch.eye(len(value) + 1)):
        other = Thread(target=lambda: found.extend(predict([model], [value] * 3)))
        other.start()
        other.join()
        (changed,) = predict([model], [value])
    assert [each.answer.probabilities for each in found] == [pytest.approx(own.answer.probabilities, abs=1e-5)] * 3
    assert changed.attention[0] == (1.0, *[0.0] * len(value))


@pytest.mark.parametrize("decoder", ["recurrent", "transformer"])
def test_attention_over_sentences_is_given_by_sentence(decoder):
    kinds = {
        "recurrent": {"kind": "recurrent", "context": "attention", "copying": False},
        "transformer": {"kind": "transformer", "heads": 1, "layers": 1, "embedding": {"kind": "learned", "size": 8}},
    }
    model, _ = task_model("reply", model={"decoder": kinds[decoder] | {"size": 8}, "tie": "none"})
    value = "A cat sat.\tThe dog ran!"
    (own,) = predict([model], [value], Greedy())
    assert len(own.attention[0]) == len(own.places.names) < len(own.places.lowest.names)
    again = with_attention(model, value, own.attention, Greedy())
    assert again.text == own.text
    assert again.answer.probabilities == pytest.approx(own.answer.probabilities, abs=1e-5)
    with pytest.raises(DataError, match="14 numbers for 2 places: A cat"):
        with_attention(model, value, [[1 / 14] * 14])


def test_what_if_compares_with_another_input(bundle):
    before, after = what_if(bundle, "keba", instead="kebo")
    assert before.text == predict([bundle], ["keba"])[0].text
    assert after.text == predict([bundle], ["kebo"])[0].text
    with pytest.raises(WindlassError, match="nothing is changed"):
        what_if(bundle, "keba")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0.5, 0.5]], "2 numbers for 5 places"),
        ([[0.5] * 5], "sums to 2.5"),
        ([[math.nan] * 5], "has nan: weights are numbers from 0 to 1"),
        ([[-0.5, 0.5, 0.5, 0.5, 0]], "has -0.5: weights are numbers from 0 to 1"),
        ([], "no rows"),
    ],
)
def test_attention_that_is_no_distribution_over_the_input_is_refused(bundle, rows, message):
    with pytest.raises(DataError, match=message):
        with_attention(bundle, "keba", rows)
    with pytest.raises(WindlassError, match="no attention to replace"):
        with_attention(Bundle.load(BUNDLES / "prefix"), "ab", [[1.0]])
    with pytest.raises(WindlassError, match="no attention to replace"):
        with_attention(Bundle.load(BUNDLES / "classify"), "ab", [[1.0]])


def test_a_language_model_has_no_source_to_explain():
    model = Bundle.load(BUNDLES / "lm")
    for asked in (lambda: explain(model, "abc"), lambda: beam_tree(model, "abc"), lambda: what_if(model, "abc", "ab")):
        with pytest.raises(WindlassError, match="a language model has no source"):
            asked()


def test_matrices_are_read_from_every_form(tmp_path):
    rows = [[0.5, 0.5], [0.25, 0.75]]
    np.save(tmp_path / "a.npy", np.array(rows))
    (tmp_path / "a.csv").write_text("0.5,0.5\n0.25,0.75\n")
    (tmp_path / "a.json").write_text(json.dumps(rows))
    (tmp_path / "b.json").write_text(json.dumps({"attention": rows}))
    for name in ("a.npy", "a.csv", "a.json", "b.json"):
        assert read_matrix(tmp_path / name) == rows
    (tmp_path / "c.csv").write_text("x,y\n")
    with pytest.raises(DataError, match=r"c\.csv: this is no matrix"):
        read_matrix(tmp_path / "c.csv")
    for content, said in (("[{}, {}]", "holds 2 predictions"), ('{"text": "a"}', "holds no attention")):
        (tmp_path / "c.json").write_text(content)
        with pytest.raises(DataError, match=said):
            read_matrix(tmp_path / "c.json")
    with pytest.raises(DataError, match=r"d\.csv: cannot read it: No such file"):
        read_matrix(tmp_path / "d.csv")


@pytest.mark.parametrize("suffix", [".png", ".svg", ".html", ".json"])
def test_the_tree_is_drawn_in_every_form(tmp_path, bundle, suffix):
    tree = beam_tree(bundle, "keba", Beam(size=2))
    path = draw_beam(tree, tmp_path / f"x{suffix}")
    if suffix == ".html":
        page = path.read_text(encoding="utf-8")
        assert page.count('class="node') == len(tree.nodes)
    if suffix == ".json":
        assert len(json.loads(path.read_text())["nodes"]) == len(tree.nodes)


def test_a_model_that_does_not_write_token_by_token_has_no_tree_and_no_prefix():
    ctc, value = task_model("pronounce", **CTC)
    with pytest.raises(WindlassError, match="no tree to see"):
        beam_tree(ctc, value, Beam(length_penalty=0))
    with pytest.raises(WindlassError, match="prefix has no use"):
        what_if(ctc, value, prefix="a")


def test_the_command_shows_all_of_it(tmp_path):
    model, out = BUNDLES / "pronounce", tmp_path / "look.html"
    assert windlass("explain", model, "keba", "--tree", "--beam", "2", "--out", out).code == 0
    ran = windlass("explain", model, "keba", "--replace", "k=b", "--prefix", "t o", "--out", out)
    assert ran.code == 0
    assert "as it is: " in ran.err
    assert out.read_text(encoding="utf-8").count("<table") == 2
    (tmp_path / "a.csv").write_text("1,0,0,0,0\n")
    assert windlass("explain", model, "keba", "--impose", tmp_path / "a.csv", "--out", out).code == 0
    out = out.with_suffix(".json")
    assert windlass("explain", model, "kebake", "--replace", "k=b", "--out", out).code == 0
    assert [p["places"]["names"][:6] for p in json.loads(out.read_text())] == [list("kebake"), list("bebabe")]
    assert "no 'x' in the input" in refused("explain", model, "keba", "--replace", "x=y", "--out", out)
    assert "--target" in refused("explain", model, "keba", "--prefix", "b", "--target", "b", "--out", out)
    assert "never writes 'q'" in refused("explain", model, "keba", "--prefix", "q", "--out", out)
    assert "writes no text" in refused("explain", BUNDLES / "classify", "a", "--tree", "--out", out)


def test_after_the_given_rows_a_model_attends_by_itself():
    decoder = {"kind": "transformer", "heads": 2, "layers": 2, "size": 8, "embedding": {"kind": "learned", "size": 8}}
    model, value = task_model("text", model={"decoder": decoder, "tie": "none"})
    torch.manual_seed(1)
    for p in model.model.parameters():
        p.data.add_(0.4 * torch.randn_like(p))
    given = [[1.0, *[0.0] * len(value)]]
    found = with_attention(model, value, given, Greedy(length_factor=0, length_plus=4, block_ngrams=1))
    assert found.attention[0] == tuple(given[0])
    assert len(found.attention) > 1
    assert all(row != tuple(given[0]) for row in found.attention[1:])


@pytest.mark.parametrize("attention", [[1.0, 0.0, 0.0], [None], [[None] * 3], [["a", "b", "c"]]])
def test_what_is_no_matrix_is_told_so(bundle, attention):
    with pytest.raises(DataError, match="a list of rows of numbers"):
        with_attention(bundle, "ab", attention)


@pytest.mark.parametrize("name", ["empty.npy", "zip.npy", "deep.json"])
def test_a_damaged_file_of_attention_is_told_so(tmp_path, name):
    path = tmp_path / name
    if name == "zip.npy":
        np.savez(tmp_path / "a.npz", a=np.eye(2))
        (tmp_path / "a.npz").rename(path)
    else:
        path.write_text("" if name == "empty.npy" else "[" * 100_000 + "]" * 100_000)
    with pytest.raises(DataError, match="no matrix of attention"):
        read_matrix(path)
