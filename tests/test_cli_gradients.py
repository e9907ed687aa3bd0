"""`windlass gradients`: fresh cells and trained models, as tables, pictures and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command import refused, windlass

BUNDLES = Path(__file__).parent / "fixtures" / "bundles"


def test_alone_it_compares_four_cells_and_says_what_to_do(tmp_path):
    ran = windlass("gradients", "--out", tmp_path / "a.png")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[1].split()[:4] == ["distance", "rnn", "gru", "lstm"]
    assert "rnn vanishes: from " in ran.out
    assert "Vanishing: a gated cell" in ran.out
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_gated_cells_are_not_told_to_take_a_gated_cell():
    ran = windlass("gradients", "--cell", "lstm", "--cell", "gru", "--gain", "0.1", "--size", "8")
    assert "Vanishing: an LSTM with a larger forget_bias" in ran.out
    assert "a gated cell" not in ran.out


def test_cells_with_options_gain_truncation_and_clipping():
    flags = ["--cell", "{kind: rnn, activation: identity}", "--gain", "2", "--size", "4", "--steps", "9", "--json"]
    (cell,) = json.loads(windlass("gradients", *flags).out)["cells"]
    assert cell["name"] == "rnn, activation: identity"
    assert cell["output"] == pytest.approx([2**k for k in range(9)], rel=1e-4)
    (cell,) = json.loads(windlass("gradients", *flags, "--truncate", "3", "--clip", "3").out)["cells"]
    assert cell["output"] == pytest.approx([1, 2, 3, 0, 0, 0, 0, 0, 0], rel=1e-4)


@pytest.mark.parametrize("what", ["distance", "share", "lstm", "terms", "scalar", "activations"])
def test_everything_prints_draws_and_is_json(what, tmp_path):
    small = {
        "distance": ("--size", "4"),
        "lstm": ("--size", "4", "--steps", "9"),
        "share": ("--size", "4", "--steps", "9", "--truncate", "4", "--clip", "1"),
    }
    flags = ["--what", what, *small.get(what, ())]
    assert windlass("gradients", *flags, "--out", tmp_path / "a.svg").out.count("\n") > 4
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").count("<path") > 5
    ran = windlass("gradients", *flags, "--json", "--out", tmp_path / "a.json")
    assert json.loads(ran.out) == json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert json.loads(ran.out)["what"] == what


@pytest.mark.parametrize(
    ("folder", "layers"),
    [
        ("lm", ["decoder"]),
        ("prefix", ["decoder"]),
        ("pronounce", ["encoder", "encoder, right to left"]),
        ("classify", ["encoder"]),
        ("tag", ["encoder spelling", "encoder spelling, right to left", "encoder", "encoder, right to left"]),
        ("classify-document", [f"encoder {n}{d}" for n in ("words", "sentences") for d in ("", ", right to left")]),
    ],
)
def test_a_trained_model_reads_a_text(folder, layers):
    ran = windlass("gradients", BUNDLES / folder, "--text", "a small cat sat. It ran.", "--json")
    assert ran.code == 0, ran.err
    assert [cell["name"] for cell in json.loads(ran.out)["cells"]] == layers


def test_the_loss_of_a_trained_model_and_its_four_terms():
    model, text = BUNDLES / "pronounce", ["--text", "catch"]
    own = json.loads(windlass("gradients", model, *text, "--what", "share", "--json").out)["cells"]
    given = json.loads(windlass("gradients", model, *text, "--target", "k a", "--what", "share", "--json").out)["cells"]
    assert all(cell["difference"] < 1e-9 for cell in [*own, *given])
    assert own[0]["total"] != given[0]["total"]
    lm = json.loads(windlass("gradients", BUNDLES / "lm", "--text", "a cat sat", "--what", "lstm", "--json").out)
    assert lm["difference"] < 1e-6
    assert lm["finite_difference"] < 1e-6


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--what", "distances"], "did you mean 'distance'?"),
        (["--what", "terms", "--clip", "1"], "--clip has no use with --what terms"),
        (["--text", "abc"], "name its directory"),
        ([BUNDLES / "lm"], "give the text to read"),
        ([BUNDLES / "lm", "--text", "abc", "--size", "4"], "--size has no use here"),
        ([BUNDLES / "lm", "--text", "abc", "--target", "a"], "a language model predicts the text itself"),
        ([BUNDLES / "lm", "--text", "abc", "--second", "a"], "--second is for a model of pairs"),
        ([BUNDLES / "lm", "--text", "abc", "--truncate", "9"], "there are only 3 steps"),
        ([BUNDLES / "classify", "--text", "abc", "--what", "share"], "no recurrent layers"),
        ([BUNDLES / "lm", "--text", "a"], "one step long"),
        ([BUNDLES / "prefix", "--text", "abc", "--what", "share"], "no loss reaches these layers directly"),
        (["--cell", "lsmt"], "--cell lsmt: there is no such cell; did you mean 'lstm'?"),
        (["--cell", "{kind: lstm, gates: 3}"], "gates: extra inputs are not permitted"),
        (["--clip", "0"], "--clip must be above 0"),
        (["--cell", "leaky", "--gain", "2"], "a leaky cell has no recurrent weights"),
        (["--cell", "{kind: rnn, activation: identity}", "--gain", "1e9", "--steps", "99"], "the gradient overflows"),
        (["--out", "a.gif", "--what", "activations"], "name it .png, .svg or .json"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(flags, says):
    assert says in refused("gradients", *flags)
