"""Saliency: the gradients are those of the output, integrated gradients are complete, for every head and encoder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from command import refused, windlass
from task_models import CTC, task_model
from windlass.bundle import Bundle
from windlass.core.records import Answer, Places, Prediction, TextAnswer
from windlass.explain.attention import explain
from windlass.explain.saliency import Saliency, draw_saliency, saliency

BUNDLES = Path(__file__).parent.parent / "fixtures" / "bundles"
TRANSFORMER = {
    "kind": "transformer",
    "size": 8,
    "heads": 2,
    "layers": 1,
    "embedding": {"kind": "learned", "size": 8},
}
INPUTS = {
    "classify": "a b c",
    "classify-document": "A b c. C d.",
    "entail": ("a b c", "b a"),
    "lm": "abcab",
    "parse": "a b",
    "prefix": "ab",
    "pronounce": "keba",
    "summarise": "A b c. C d.",
    "tag": "a b c",
}


@pytest.mark.parametrize("name", INPUTS)
def test_integrated_gradients_add_up_to_what_the_input_adds(name):
    bundle = Bundle.load(BUNDLES / name)
    found = saliency(bundle, INPUTS[name], points=100)
    rough = saliency(bundle, INPUTS[name], method="gradient")
    size = 1 + max(map(abs, found.differences))
    assert found.gap < 0.02 * size
    assert rough.gap > 0.02 * size  # gradient x input is not complete: the check can fail
    assert {len(row) for row in found.values} == {len(found.places)}
    assert len(found.outputs) == len(found.values)


@pytest.mark.parametrize(
    "changes",
    [
        CTC,
        {"model": {"decoder": TRANSFORMER}},
    ],
    ids=["ctc", "transformer"],
)
def test_other_ways_to_write_are_explained_too(tmp_path, changes):
    bundle, value = task_model("pronounce", **changes)
    target = "a" if changes is CTC else None
    found = saliency(bundle, value, target, points=100)
    assert found.gap < 0.02 * (1 + max(map(abs, found.differences)))
    assert len(found.outputs) == len(found.values) == len(found.differences)
    draw_saliency(found, tmp_path / "x.html")


def test_gradient_times_input_agrees_with_finite_differences():
    bundle = Bundle.load(BUNDLES / "pronounce")
    bundle.model.double()
    found = saliency(bundle, "keba", target="k", method="gradient")
    sides, model, table = bundle.sides, bundle.model, bundle.model.encoder.embedding.table
    batch = sides.collate([sides.encode("keba", "k")], [0])

    def objective():
        with torch.no_grad():
            return model.head.reference_logprobs(model.encode(batch), batch)[0][0]

    place = int(batch.inputs["source"].values[0, 1])  # `e` is there once
    before, step = table.data[place].clone(), 1e-6
    table.data[place] = before * (1 + step)
    more = objective()
    table.data[place] = before * (1 - step)
    less = objective()
    table.data[place] = before
    slopes = (more - less) / (2 * step)
    assert torch.allclose(slopes, torch.tensor([row[1] for row in found.values]).double(), atol=1e-5)


def test_nothing_is_left_behind_in_the_model():
    bundle = Bundle.load(BUNDLES / "pronounce")
    saliency(bundle, "keba")
    assert "embed" not in bundle.model.encoder.__dict__
    assert all(parameter.grad is None for parameter in bundle.model.parameters())


@pytest.mark.parametrize("suffix", [".png", ".svg", ".html", ".json"])
@pytest.mark.parametrize("name", ["pronounce", "classify"])
def test_it_is_drawn_in_every_form(tmp_path, name, suffix):
    found = saliency(Bundle.load(BUNDLES / name), INPUTS[name], method="gradient")
    path = draw_saliency(found, tmp_path / f"x{suffix}")
    if suffix == ".json":
        assert json.loads(path.read_text(encoding="utf-8"))["values"] == [list(row) for row in found.values]
    if suffix == ".html":
        assert 'title="' in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["tokens", "words"])
def test_captions_call_places_what_they_are(tmp_path, kind):
    prediction = Prediction("x", Answer(), Places(kind, ("a", "b")))
    found = Saliency(prediction, ("a", "b"), ("x",), ((0.5, 0.25),), (0.75,), "integrated")
    page = draw_saliency(found, tmp_path / "x.html").read_text(encoding="utf-8")
    assert f"x: the {kind} add +0.75 to its score" in page
    assert f"Blue: the {kind[:-1]} speaks for it" in page


def test_the_command_draws_it_when_asked_and_where_there_is_no_attention(tmp_path):
    out = tmp_path / "look.html"
    assert windlass("explain", BUNDLES / "pronounce", "keba", "--saliency", "gradient", "--out", out).code == 0
    assert "gradient x input" in out.read_text(encoding="utf-8")
    ran = windlass("explain", BUNDLES / "prefix", "ab", "--out", out)
    assert ran.code == 0
    assert "no attention: drawn are integrated gradients" in ran.err
    assert "integrated or gradient" in refused("explain", BUNDLES / "prefix", "ab", "--saliency", "x", "--out", out)
    two = refused("explain", BUNDLES / "prefix", "ab", "--saliency", "gradient", "--gates", "--out", out)
    assert "one at a time" in two


@pytest.mark.parametrize("suffix", [".png", ".svg", ".html", ".json"])
@pytest.mark.parametrize("target", ["ab", "a"])
def test_a_text_by_ctc_has_one_line_over_a_recording(tmp_path, suffix, target):
    spectrogram = np.random.default_rng(1).normal(size=(6, 4))
    places = Places("spectrogram", tuple(f"{0.01 * n:.2f}" for n in range(6)))
    prediction = Prediction(target, TextAnswer(tuple(target), (0.9,) * len(target)), places)
    found = Saliency(prediction, places.names, (target,), ((0.5, -0.25, 0.0, 0.25, 0.0, 0.0),), (0.5,), "integrated")
    path = draw_saliency(found, tmp_path / f"x{suffix}", spectrogram)
    assert path.stat().st_size > 0
    if suffix == ".html":
        assert "share of integrated gradients" in path.read_text(encoding="utf-8")


def test_an_output_that_is_blank_is_drawn_too_also_beside_another(tmp_path):
    ctc, value = task_model("pronounce", **CTC)
    ctc.model.head.output[-1].bias.data.view(4, -1)[:, 0] = 1e3  # the blank
    ctc.save(tmp_path / "ctc")
    assert explain(ctc, value).text == ""
    for more in ((), ("--replace", f"{value[0]}={value[1]}")):
        ran = windlass("explain", tmp_path / "ctc", value, *more, "--out", tmp_path / "x.html")
        assert ran.code == 0, ran.err
        assert value[-1] in (tmp_path / "x.html").read_text(encoding="utf-8")
