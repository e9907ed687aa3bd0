"""A bundle works wherever it is put, and whatever is wrong with one is said in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import windlass
from command import refused
from windlass.bundle import Bundle, load_weights
from windlass.core.errors import BundleError
from windlass.recipe import merge, parse

WORDS = ["abcd", "ab", "", "dcba", "qab"]


@pytest.fixture
def copied(tiny_model, tmp_path) -> Path:
    """A copy that a test may damage, without the folder of its training."""
    folder = tmp_path / "anders wo" / "Modell ü"
    shutil.copytree(tiny_model, folder, ignore=shutil.ignore_patterns("training"))
    return folder


def test_a_moved_bundle_predicts_bit_by_bit_the_same(tiny_model, copied, tmp_path):
    here = windlass.load(tiny_model).predict(WORDS, nbest=2)
    assert windlass.load(copied).predict(WORDS, nbest=2) == here
    copied.rename(tmp_path / "again")
    assert windlass.load(tmp_path / "again").predict(WORDS, nbest=2) == here


def test_a_saved_bundle_is_the_bundle(tiny_model, tmp_path):
    first = windlass.load(tiny_model)
    first.save(tmp_path / "saved")
    again = windlass.load(tmp_path / "saved")
    assert again.bundle.recipe == first.bundle.recipe
    assert again.bundle.sides == first.bundle.sides
    assert again.bundle.scores == first.bundle.scores != {}
    assert again.baseline == first.baseline
    assert again.predict(WORDS) == first.predict(WORDS)


def test_what_is_there_is_not_saved_over(tiny_model, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(BundleError, match="nothing was changed"):
        windlass.load(tiny_model).save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_every_weight_is_in_the_file_and_comes_back(tiny_model):
    bundle = Bundle.load(tiny_model)
    tensors, scores = load_weights(tiny_model)
    own = dict(bundle.model.named_parameters())
    assert own.keys() <= tensors.keys()
    assert all(torch.equal(tensors[name], weight) for name, weight in own.items())
    assert scores == bundle.scores


def _truncate(folder: Path, name: str) -> None:
    file = folder / name
    file.write_bytes(file.read_bytes()[:-10])


def _flip(folder: Path) -> None:
    file = folder / "weights.safetensors"
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(bytes(content))


def _about(folder: Path, **parts: object) -> None:
    file = folder / "bundle.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | parts))


DAMAGE = {
    "weights cut short": (lambda f: _truncate(f, "weights.safetensors"), "damaged or not a safetensors file"),
    "a flipped bit": (_flip, "its checksum does not match"),
    "weights missing": (lambda f: (f / "weights.safetensors").unlink(), "no such file"),
    "foreign weights": (
        lambda f: save_file({"a": torch.ones(2)}, f / "weights.safetensors"),
        "not written by",
    ),
    "pickled weights": (lambda f: torch.save({"a": 1}, f / "weights.safetensors"), "not a safetensors file"),
    "recipe edited": (lambda f: (f / "recipe.yaml").write_text("seed: 3"), "recipe.yaml: changed or damaged"),
    "recipe missing": (lambda f: (f / "recipe.yaml").unlink(), "no readable recipe.yaml"),
    "codecs cut short": (lambda f: _truncate(f, "codecs.json"), "codecs.json: changed or damaged"),
    "codecs missing": (lambda f: (f / "codecs.json").unlink(), "no readable codecs.json"),
    "newer format": (lambda f: _about(f, format=99, windlass="9.0"), "made by Windlass 9.0 in format 99"),
    "no format": (lambda f: _about(f, format="one"), "not a Windlass bundle"),
    "about is a list": (lambda f: (f / "bundle.json").write_text("[]"), "not a JSON object"),
    "about cut short": (lambda f: _truncate(f, "bundle.json"), "not valid JSON"),
    "about missing": (lambda f: (f / "bundle.json").unlink(), "not a Windlass bundle"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_bundle_is_refused_in_one_line_that_names_it(copied, name):
    damage, said = DAMAGE[name]
    damage(copied)
    told = refused("predict", copied, stdin=b"ab\n")
    assert said in told
    assert "Modell ü" in told


def test_weights_of_another_network_are_refused(tiny_model, copied):
    other = Bundle.load(tiny_model)
    recipe = parse(merge(other.recipe.model_dump(mode="json"), {"model": {"encoder": {"size": 8}}}))
    Bundle.new(recipe, other.sides).save(copied.parent / "small")
    shutil.copy(copied.parent / "small" / "weights.safetensors", copied)
    assert "belong to another model" in refused("predict", copied, stdin=b"ab\n")


def test_what_is_no_bundle_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    assert "is a file, not a bundle folder" in refused("predict", tmp_path / "file")
    assert "not a Windlass bundle" in refused("predict", tmp_path)
    assert "no such folder" in refused("predict", tmp_path / "nosuch")


def test_a_lost_baseline_costs_the_comparison_and_nothing_else(copied, tiny_data):
    from command import windlass as run

    (copied / "baseline.json").unlink()
    ran = run("evaluate", copied, tiny_data / "test.tsv", "--json")
    assert json.loads(ran.out)["baseline"] == {}
    assert json.loads(ran.out)["metrics"]["accuracy"] > 0
