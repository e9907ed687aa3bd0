"""`windlass info`: what a model is, on one screen or as JSON."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from command import refused, windlass
from task_models import CTC, task_model
from windlass.bundle import Bundle
from windlass.data import Sides
from windlass.experiment.data import sides_of
from windlass.inference.info import describe
from windlass.recipe import compose
from windlass.tasks import TASKS


def test_info_fits_on_a_screen(tiny_model, tiny_data):
    ran = windlass("info", tiny_model)
    assert ran.code == 0, ran.err
    assert ran.err == ""
    lines = dict(line.split(maxsplit=1) for line in ran.out.splitlines() if not line.startswith((" ", "trained")))
    assert lines["task"].startswith("transliterate: ")
    assert lines["source"] == "text of characters, 8 symbols"
    assert lines["encoder"] == "recurrent: lstm, 2 layers of 32 units, bidirectional"
    assert lines["search"].startswith("beam, size ")
    assert lines["parameters"].endswith("MB in 32 bits")
    assert lines["dev"].startswith("accuracy")
    assert "(baseline " in lines["dev"]
    assert f"200 examples of {tiny_data / 'pairs.tsv'}, 20 for validation" in ran.out
    assert ", 16 epochs, " in ran.out
    assert "torch 2" in ran.out
    assert len(ran.out.splitlines()) <= 24


def test_info_as_json_holds_the_same(tiny_model):
    facts = json.loads(windlass("info", tiny_model, "--json").out)
    bundle = Bundle.load(tiny_model)
    assert facts["parameters"] == sum(p.numel() for p in bundle.model.parameters())
    assert facts["dev"] == bundle.scores
    assert set(facts["baseline"]) == set(facts["dev"])
    assert facts["train_examples"] == 200
    assert facts["bits"] == 32
    assert facts["mb"] == pytest.approx((tiny_model / "weights.safetensors").stat().st_size / 2**20, abs=0.01)
    assert facts["date"].startswith("20")


def test_a_model_without_its_training_folder_still_tells_what_it_is(tiny_model, tmp_path):
    shutil.copytree(tiny_model, tmp_path / "m", ignore=shutil.ignore_patterns("training", "baseline.json"))
    ran = windlass("info", tmp_path / "m")
    assert ran.code == 0, ran.err
    assert "transliterate" in ran.out
    assert "trained" not in ran.out
    assert "(baseline" not in ran.out


def test_running_text_is_counted_in_characters(tmp_path):
    (tmp_path / "text.txt").write_text("to be or not to be\n" * 50)
    sizes = ("model.decoder.size=8", "model.decoder.embedding.size=8", "train.epochs=1", "train.threads=1")
    call = ("train", "--task", "lm", tmp_path / "text.txt", "--out", tmp_path / "m")
    ran = windlass(*call, *(part for size in sizes for part in ("--set", size)))
    assert ran.code == 0, ran.err
    held = int(re.search(r"the last (\d+) characters are held out", ran.err)[1])
    line = next(line for line in windlass("info", tmp_path / "m").out.splitlines() if line.startswith("trained on"))
    assert line.endswith(f"{950 - held} characters of {tmp_path / 'text.txt'}, {held} for validation")


def test_8_bits_are_told(tiny_model, tmp_path):
    assert windlass("quantise", tiny_model, "--out", tmp_path / "small").code == 0
    full = refused("quantise", tiny_model, "--out", tmp_path / "small")
    assert full.endswith("small: exists and is not empty: choose another --out; nothing was changed")
    assert "MB in 8 bits" in windlass("info", tmp_path / "small").out


def test_no_model_is_one_line(tmp_path):
    assert "no such folder" in refused("info", tmp_path / "nosuch")


@pytest.mark.parametrize("task", TASKS)
def test_every_task_can_be_described(task):
    recipe = compose(task, None)
    sides = sides_of(recipe)
    tiny = Sides(sides.source_side.tiny()[0], sides.target_side.tiny()[0])
    facts = describe(Bundle.new(recipe, tiny))
    assert facts["task"] == task
    assert all(facts[name] for name in ("source", "target", "encoder", "head"))
    assert (facts["labels"] is not None) == (TASKS[task].target in ("label", "labels", "tags"))
    json.dumps(facts)


def test_info_tells_the_frames_of_ctc(tmp_path):
    bundle, _ = task_model("pronounce", **CTC)
    bundle.save(tmp_path / "model")
    assert describe(bundle)["head"] == "ctc, 4 frames per place"
    assert "ctc, 4 frames per place" in windlass("info", tmp_path / "model").out
