"""Bundles that are damaged, and bundles that somebody made: each loads and works, or is refused in one line."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import windlass
from command import refused
from windlass.baseline import load_baseline
from windlass.baseline.language import LanguageBaselines
from windlass.bundle import Bundle, load_weights, save_definition
from windlass.core.errors import BundleError, NotFiniteError
from windlass.core.tensors import read_tensors, write_tensors
from windlass.inference.predict import predict

BUNDLES = Path(__file__).parent / "fixtures" / "bundles"


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[str], Path]:
    """A copy of one of the stored bundles, which a test may change."""

    def made(name: str) -> Path:
        return Path(shutil.copytree(BUNDLES / name, tmp_path / name))

    return made


def with_json(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Change a JSON file of a bundle, and set its checksum right."""
    content = json.loads((folder / name).read_text(encoding="utf-8"))
    changed = change(content)
    data = json.dumps(content if changed is None else changed, ensure_ascii=False).encode()
    (folder / name).write_bytes(data)
    about = json.loads((folder / "bundle.json").read_text())
    about["sha256"][name] = hashlib.sha256(data).hexdigest()
    (folder / "bundle.json").write_text(json.dumps(about))


def with_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor], dict[str, Any]], None]) -> None:
    """Change the weights or their metadata, with a valid checksum."""
    path = folder / "weights.safetensors"
    tensors, note = read_tensors(path)
    change(tensors, note)
    write_tensors(path, tensors, note)


def told(action: Callable[[], Any], *words: str) -> None:
    """It is refused in one line that has these words."""
    with pytest.raises(BundleError) as caught:
        action()
    line = str(caught.value)
    assert "\n" not in line
    assert "pydantic" not in line
    assert len(line) < 600
    for word in words:
        assert word in line


# ---------------------------------------------------------------- the baseline


def test_a_flipped_bit_in_the_baseline_is_found(tmp_path: Path) -> None:
    windlass.load(BUNDLES / "classify").save(tmp_path / "saved")
    file = tmp_path / "saved" / "baseline.json"
    assert load_baseline(tmp_path / "saved") is not None
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    told(lambda: load_baseline(tmp_path / "saved"), "baseline.json: changed or damaged", "checksum")


def test_the_checksum_of_the_baseline_survives_a_resume(tmp_path: Path) -> None:
    windlass.load(BUNDLES / "classify").save(tmp_path / "saved")
    bundle = Bundle.load(tmp_path / "saved")
    before = (tmp_path / "saved" / "bundle.json").read_bytes()
    save_definition(tmp_path / "saved", bundle.recipe, bundle.sides)
    assert (tmp_path / "saved" / "bundle.json").read_bytes() == before


BASELINES: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "not an object": ("classify", lambda c: [], "baseline.json: damaged"),
    "no name": ("classify", lambda c: c.pop("name") and None, "no 'name'"),
    "a key too many": ("classify", lambda c: c.update(x=1), "unknown key 'x'"),
    "labels that are numbers": ("classify", lambda c: c.update(labels=[1, 2]), "labels.0: "),
    "too few weights": ("classify", lambda c: c["bias"].pop() and None, "one per feature and label"),
    "a weight that is no number": ("classify", lambda c: c["bias"].__setitem__(0, "x"), "bias.0: "),
    "a table of lists": ("pronounce", lambda c: c.update(table={"a": ["b"]}), "table.a: "),
    "a unit that does not exist": ("pronounce", lambda c: c.update(unit="line"), "unit: "),
    "infinity": ("classify", lambda c: c["bias"].__setitem__(0, math.inf), "not a finite number"),
}


@pytest.mark.parametrize("case", BASELINES)
def test_a_baseline_that_cannot_be_used_is_refused(copy: Callable[[str], Path], case: str) -> None:
    name, change, said = BASELINES[case]
    folder = copy(name)
    with_json(folder, "baseline.json", change)
    told(lambda: load_baseline(folder), said, "delete it")


def test_damaged_baselines_of_a_language_model_are_refused(copy: Callable[[str], Path]) -> None:
    folder = copy("lm")
    path = folder / "baseline.safetensors"
    assert LanguageBaselines.load(folder) is not None
    tensors, note = read_tensors(path)
    write_tensors(path, tensors | {"window/bias": tensors["window/bias"][:-1]}, note)
    told(lambda: LanguageBaselines.load(folder), "shapes")
    write_tensors(path, tensors, note | {"best": 7})
    told(lambda: LanguageBaselines.load(folder), "best")
    path.write_bytes(path.read_bytes()[:-3])
    told(lambda: LanguageBaselines.load(folder), "baseline.safetensors: damaged")
    path.unlink()
    assert LanguageBaselines.load(folder) is None


# ---------------------------------------------------------------- the weights


@pytest.mark.parametrize("scores", [{"wer": "low"}, {"wer": None}, {"wer": [1]}, {"wer": True}, [1], "x", 3])
def test_scores_that_are_no_numbers_are_refused(copy: Callable[[str], Path], scores: Any) -> None:
    folder = copy("pronounce")
    with_tensors(folder, lambda tensors, note: note.update(scores=scores))
    told(lambda: Bundle.load(folder), "weights.safetensors: damaged: its scores are not numbers")


def test_a_score_that_is_nan_is_one_that_could_not_be_measured(copy: Callable[[str], Path]) -> None:
    folder = copy("pronounce")
    with_tensors(folder, lambda tensors, note: note.update(scores={"pearson": math.nan}))
    assert math.isnan(Bundle.load(folder).scores["pearson"])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["pronounce", "classify", "lm", "pronounce-8bit"])
def test_weights_that_are_not_finite_are_refused(copy: Callable[[str], Path], name: str, value: float) -> None:
    folder = copy(name)

    def change(tensors: dict[str, torch.Tensor], note: dict[str, Any]) -> None:
        next(t for t in reversed(tensors.values()) if t.is_floating_point()).view(-1)[0] = value

    with_tensors(folder, change)
    told(lambda: Bundle.load(folder), "holds NaN or infinity")
    if name != "lm":
        assert "NaN" in refused("predict", folder, stdin=b"ab\tcd\n")


@pytest.mark.parametrize("shape", [(), (1, 1), (3,), (0,)])
def test_scales_of_another_shape_are_refused(copy: Callable[[str], Path], shape: tuple[int, ...]) -> None:
    folder = copy("pronounce-8bit")

    def change(tensors: dict[str, torch.Tensor], note: dict[str, Any]) -> None:
        tensors[next(name for name in tensors if name.endswith("|scale"))] = torch.ones(shape)

    with_tensors(folder, change)
    told(lambda: Bundle.load(folder), "scale")


@pytest.mark.parametrize("name", ["pronounce", "summarise", "classify", "tag"])
def test_no_answer_is_given_by_scores_that_are_not_numbers(name: str) -> None:
    bundle = Bundle.load(BUNDLES / name)
    with torch.no_grad():
        for weight in bundle.model.parameters():
            weight.fill_(math.nan)
    with pytest.raises(NotFiniteError):
        predict([bundle], ["a b"])


# ---------------------------------------------------------------- the sides

CODECS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a list": ("pronounce", lambda c: []),
    "no source": ("pronounce", lambda c: c.pop("source") and None),
    "a source that is a text": ("pronounce", lambda c: c.update(source="text")),
    "an unknown option": ("pronounce", lambda c: c["source"]["options"].update(x=1)),
    "tokens of no kind": ("pronounce", lambda c: c["source"]["options"]["tokens"].update(kind="runes")),
    "symbols that are numbers": ("pronounce", lambda c: c["source"].update(symbols=[1, 2])),
    "labels that are numbers": ("classify", lambda c: c["target"].update(symbols=[1, 2])),
    "no tags at all": ("tag", lambda c: c["target"].update(symbols=[])),
    "a symbol too few": ("pronounce", lambda c: c["source"]["symbols"].pop() and None),
    "another kind of source": ("pronounce", lambda c: c.update(source={"options": {"kind": "none"}})),
    "the source of another bundle": (
        "pronounce",
        lambda c: c.update(source=json.loads((BUNDLES / "tag" / "codecs.json").read_text())["source"]),
    ),
}


@pytest.mark.parametrize("case", CODECS)
def test_sides_that_cannot_be_used_are_refused(copy: Callable[[str], Path], case: str) -> None:
    name, change = CODECS[case]
    folder = copy(name)
    with_json(folder, "codecs.json", change)
    told(lambda: Bundle.load(folder), str(folder))


def test_sides_without_what_the_head_reads_are_refused(tmp_path: Path) -> None:
    pairs = [("a cat sat", "x"), ("the dog ran", "y")] * 10
    windlass.fit(pairs, pairs[:4], task="classify", settings={"train.epochs": 1}, quiet=True).save(tmp_path / "saved")

    def change(content: Any) -> None:
        content["source"]["options"]["ngrams"] = 0

    with_json(tmp_path / "saved", "codecs.json", change)
    assert "set source.ngrams" in refused("predict", tmp_path / "saved", stdin=b"a cat\n")


def test_a_recipe_beyond_the_memory_is_refused(copy: Callable[[str], Path]) -> None:
    folder = copy("pronounce")
    text = (folder / "recipe.yaml").read_text()
    data = text.replace("size: ", "size: 99999999", 1).encode()
    (folder / "recipe.yaml").write_bytes(data)
    about = json.loads((folder / "bundle.json").read_text())
    about["sha256"]["recipe.yaml"] = hashlib.sha256(data).hexdigest()
    (folder / "bundle.json").write_text(json.dumps(about))
    told(lambda: Bundle.load(folder), str(folder))


def test_leftovers_of_a_killed_run_are_swept(tmp_path: Path) -> None:
    bundle = Bundle.load(BUNDLES / "pronounce")
    (tmp_path / "training").mkdir()
    for name in ("weights.safetensors.part", "training/checkpoint-000000007.safetensors.part"):
        (tmp_path / name).write_bytes(b"half")
    save_definition(tmp_path, bundle.recipe, bundle.sides)
    assert not list(tmp_path.rglob("*.part"))
    assert load_weights(BUNDLES / "pronounce")


def test_equal_contents_are_equal_bytes(tmp_path):
    tensors = {name: torch.arange(n).float() for n, name in enumerate(("ä", "b/c", 'd"e'), 1)}
    files = [tmp_path / f"{n}.safetensors" for n in range(12)]
    for path in files:  # safetensors writes its metadata in any order
        write_tensors(path, tensors, {"step": 3})
    assert len({path.read_bytes() for path in files}) == 1
    found, note = read_tensors(files[0])
    assert note == {"step": 3}
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())
