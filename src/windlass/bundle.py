"""The bundle: the folder a trained model is saved as, which can be moved and loaded on another device.

recipe.yaml           the whole experiment
codecs.json           the fitted sides: vocabularies and tokenisers
baseline.json         the baseline to compare with, if there is one (see baseline/); vectors and language models go to
                      baseline_nearest.safetensors and baseline.safetensors instead
bundle.json           format, version, and the checksums of the files above
weights.safetensors   the weights, with their dev scores and a checksum
ngram.safetensors     the n-gram model that a language model is interpolated with, if it is

Format 1 stores weights in float32; format 2 stores matrices in 8 bits (see inference/quantise.py).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from windlass.core.errors import BundleError, RecipeError, WindlassError, short
from windlass.core.fitting import Gives
from windlass.core.options import reason
from windlass.core.records import Batch, Memory
from windlass.core.serialise import read_json
from windlass.core.tensors import atomic_write, read_tensors, write_tensors
from windlass.core.version import __version__
from windlass.core.weights import set_weights, weights
from windlass.data.sides import SideOptions, Sides
from windlass.decoding.interpolation import FILE as NGRAM
from windlass.decoding.interpolation import Interpolation
from windlass.model import Model, build
from windlass.nn.fast.int8 import dequantise, quantise
from windlass.recipe import Recipe
from windlass.tasks import TASKS, Task

FLOAT32, INT8 = 1, 2  # formats
TRAINED = 4
"""Copies of the weights that training holds: the weights, their gradients, and two moments of the optimiser."""
DIVERGED = "training/diverged.txt"
"""Why a run diverged, in its folder."""
SUSPECT = 4e9
"""Bytes above which, by a rough estimate, a model is counted exactly before it is built."""


@dataclass(frozen=True)
class Bundle:
    """A model with everything needed to use it.

    >>> import tempfile
    >>> bundle = Bundle.new(Recipe(), Sides.tiny())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     bundle.save(Path(folder))
    ...     Bundle.load(Path(folder)).sides == bundle.sides
    True
    """

    recipe: Recipe
    sides: Sides
    model: Model
    scores: dict[str, float]
    int8: bool = False  # matrices are quantised to 8 bits, and search multiplies them so
    interpolation: Interpolation | None = None  # of a language model with an n-gram model

    @property
    def task(self) -> Task:
        """The task, with its span metrics if the tags mark spans."""
        return TASKS[self.recipe.task].with_spans(self.sides.target.marks_spans)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.model.parameters()).device

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights as they are saved: in 8 bits, if they are quantised."""
        tensors = quantise(weights(self.model)) if self.int8 else weights(self.model)
        return sum(tensor.nbytes for tensor in tensors.values())

    def encode(self, batch: Batch) -> Memory:
        """Encode inputs for inference."""
        return self.model.infer(batch, self.int8)

    @classmethod
    def new(cls, recipe: Recipe, sides: Sides) -> Bundle:
        """A model with random weights, drawn from the recipe's seed."""
        check_size(recipe, sides, TRAINED)
        torch.manual_seed(recipe.seed)
        return cls(recipe, _with_copying(recipe, sides), network(recipe, sides), {})

    def save(self, folder: Path) -> None:
        """Write all files."""
        save_definition(folder, self.recipe, self.sides, INT8 if self.int8 else FLOAT32)
        save_weights(folder, self.model, self.scores, self.int8)
        save_interpolation(folder, self.interpolation)

    @classmethod
    def load(cls, folder: Path, device: str = "cpu") -> Bundle:
        """Load a bundle; an error says in one line what is wrong with it."""
        device = check_device(device)
        recipe, sides = load_definition(folder)
        tensors, scores = load_weights(folder)
        try:
            check_size(recipe, sides)
            model = network(recipe, sides)
            set_weights(model, tensors)
        except (BundleError, RecipeError) as error:
            raise BundleError(f"{folder}: {error}") from None
        int8 = _json(folder, "bundle.json")["format"] == INT8
        interpolation = _interpolation(folder)
        if interpolation is not None and interpolation.ngram.vocabulary != len(sides.target):
            raise BundleError(f"{folder / NGRAM}: belongs to another model: restore it")
        return cls(recipe, _with_copying(recipe, sides), model.to(device).eval(), scores, int8, interpolation)


def save_interpolation(folder: Path, interpolation: Interpolation | None) -> None:
    """Write the n-gram model of a bundle, or remove that of before.

    >>> save_interpolation(Path("/nowhere"), None)
    """
    if interpolation is not None:
        save_checked(folder, NGRAM, interpolation.pack())
    elif NGRAM in (sums := _checksums(folder)):
        (folder / NGRAM).unlink(missing_ok=True)
        _write_about(folder, _json(folder, "bundle.json") | {"sha256": {n: s for n, s in sums.items() if n != NGRAM}})


def _interpolation(folder: Path) -> Interpolation | None:
    """The n-gram model of a bundle, if it has one."""
    if (folder / NGRAM).exists():
        return Interpolation.load(folder / NGRAM)
    if NGRAM in _checksums(folder):
        raise BundleError(f"{folder / NGRAM}: no such file, and the model is interpolated with it: restore it")
    return None


def _with_copying(recipe: Recipe, sides: Sides) -> Sides:
    """The sides, which also encode the source's own words if the decoder copies."""
    decoder = recipe.model.decoder
    return replace(sides, copying=decoder is not None and decoder.copying)


def network(recipe: Recipe, sides: Sides) -> Model:
    """Build the model of a recipe for the vocabularies of its sides.

    >>> network(Recipe(), Sides.tiny()).head.output.out_features
    7
    """
    source, target = sides.source, sides.target
    front, outside = source.front(), target.outside
    return build(recipe.model, recipe.loss, source.sizes, len(target), target.transitions, front, outside)


def check_size(recipe: Recipe, sides: Sides, copies: int = 1) -> None:
    """Refuse a model that does not fit into the memory of this machine `copies` times.

    >>> from windlass.recipe import parse
    >>> check_size(parse({"model": {"encoder": {"kind": "recurrent", "size": 10**8}}}), Sides.tiny())
    Traceback (most recent call last):
    windlass.core.errors.RecipeError: this model needs ... GB, and this machine has ... GB: lower the sizes ...
    """
    settings = {term.feature: term.value for term in recipe.model.declare("model") if isinstance(term, Gives)}
    sizes = sum(map(_size, settings.values()))
    layers = math.prod(value for key, value in settings.items() if key.endswith(".layers") and isinstance(value, int))
    vocabulary = sum(sides.source.sizes.values()) + len(sides.target)
    if 4 * sizes * (16 * sizes * layers + vocabulary) < SUSPECT or not hasattr(os, "sysconf"):
        return
    try:
        with torch.device("meta"):  # shapes without memory
            needed: float = sum(weight.nbytes for weight in network(recipe, sides).parameters()) * copies
    except RuntimeError:  # more than 64 bits can count
        needed = math.inf
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        told = "more memory than there is" if needed == math.inf else f"{needed / 1e9:,.1f} GB"
        raise RecipeError(
            f"this model needs {told}, and this machine has {memory / 1e9:,.1f} GB: lower the sizes and layers in model"
        )


def _size(value: object) -> int:
    return sum(map(_size, value)) if isinstance(value, tuple) else value if isinstance(value, int) else 0


def check_device(device: str = "auto") -> str:
    """Return the device to compute on: the one that is named or, for "auto", cuda if this machine has it, else cpu.

    Training and search add up in float64, which mps does not have.

    >>> check_device("auto") in ("cuda", "cpu")
    True
    >>> check_device("warp")
    Traceback (most recent call last):
    windlass.core.errors.WindlassError: no device 'warp' on this machine: use cpu
    """
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise WindlassError(f"no device {device!r} on this machine: use cpu") from None
    try:
        torch.zeros(1, device=device, dtype=torch.float64)
    except (RuntimeError, TypeError):
        raise WindlassError(f"device {device!r} has no float64, which training and search need: use cpu") from None
    return device


def save_definition(folder: Path, recipe: Recipe, sides: Sides, format: int = FLOAT32) -> None:
    """Write the recipe and the sides, which training does not change.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_definition(Path(folder), Recipe(seed=5), Sides.tiny())
    ...     load_definition(Path(folder))[0].seed
    5
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "recipe.yaml": recipe.to_yaml().encode(),
        "codecs.json": json.dumps(sides.to_json(), ensure_ascii=False, indent=1).encode(),
    }
    for part in (
        *folder.glob("*.part"),
        *folder.glob("training/*.part"),
    ):  # left by a run that was killed while it wrote
        part.unlink()
    sums = _checksums(folder) | {name: hashlib.sha256(data).hexdigest() for name, data in content.items()}
    for name, data in content.items():
        atomic_write(folder / name, data)
    _write_about(folder, {"format": format, "windlass": __version__, "sha256": sums})


def save_checked(folder: Path, name: str, data: bytes) -> None:
    """Write another file of a bundle, and its checksum to bundle.json, if there is one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_definition(Path(folder), Recipe(), Sides.tiny())
    ...     save_checked(Path(folder), "more.json", b"[]")
    ...     load_checked(Path(folder), "more.json")
    b'[]'
    """
    atomic_write(folder / name, data)
    if (folder / "bundle.json").exists():
        about = _json(folder, "bundle.json")
        _write_about(folder, about | {"sha256": _checksums(folder) | {name: hashlib.sha256(data).hexdigest()}})


def load_checked(folder: Path, name: str) -> bytes | None:
    """Return the content of a file of a bundle; None if there is no such file. Older bundles have no checksum of some.

    >>> load_checked(Path("/nowhere"), "baseline.json")
    """
    if not (folder / name).exists():
        return None
    data, expected = _bytes(folder, name), _checksums(folder).get(name)
    if expected is not None and hashlib.sha256(data).hexdigest() != expected:
        raise BundleError(f"{folder / name}: changed or damaged: its checksum does not match bundle.json; restore it")
    return data


def _write_about(folder: Path, about: dict[str, Any]) -> None:
    atomic_write(folder / "bundle.json", json.dumps(about, indent=1).encode())


def _checksums(folder: Path) -> dict[str, Any]:
    """The checksums in bundle.json; none if it is missing or damaged."""
    try:
        sums = _json(folder, "bundle.json").get("sha256")
    except BundleError:
        return {}
    return sums if isinstance(sums, dict) else {}


def load_definition(folder: Path) -> tuple[Recipe, Sides]:
    """Read what `save_definition` wrote.

    >>> load_definition(Path("/nowhere"))
    Traceback (most recent call last):
    windlass.core.errors.BundleError: /nowhere: no such folder
    """
    if not folder.is_dir():
        if folder.exists():
            raise BundleError(f"{folder}: is a file, not a bundle folder")
        near = get_close_matches(folder.name, [path.parent.name for path in folder.parent.glob("*/bundle.json")], 1)
        hint = f"; did you mean {folder.parent / near[0]}?" if near else ""
        raise BundleError(f"{folder}: no such folder{hint}")
    about = _json(folder, "bundle.json")
    if not isinstance(about.get("format"), int) or not isinstance(about.get("sha256"), dict):
        raise BundleError(f"{folder}/bundle.json: not a Windlass bundle")
    if about["format"] > INT8:
        raise BundleError(
            f"{folder}: made by Windlass {about.get('windlass')} in format {about['format']}, but this version reads "
            f"up to {INT8}: update Windlass"
        )
    for name in ("recipe.yaml", "codecs.json"):
        if hashlib.sha256(_bytes(folder, name)).hexdigest() != about["sha256"].get(name):
            raise BundleError(
                f"{folder / name}: changed or damaged: its checksum does not match bundle.json; restore it (options "
                "are changed on the command line, not here)"
            )
    try:
        recipe = Recipe.from_yaml(_bytes(folder, "recipe.yaml").decode(), str(folder / "recipe.yaml"))
    except (RecipeError, UnicodeDecodeError) as error:
        raise BundleError(f"{folder}: cannot be read: {reason(error)}") from None
    content = _json(folder, "codecs.json")
    try:
        sides = Sides.from_json(content)
    except BundleError as error:
        raise BundleError(f"{folder / 'codecs.json'}: {error}") from None
    expected = SideOptions(source=recipe.source, target=recipe.target)
    if (type(sides.source), type(sides.target)) != (expected.source_side, expected.target_side):
        raise BundleError(f"{folder}: codecs.json and recipe.yaml belong to different models: restore them")
    return recipe, sides


def save_weights(folder: Path, model: nn.Module, scores: dict[str, float], int8: bool = False) -> None:
    """Write the weights and their dev scores atomically.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_weights(Path(folder), nn.Linear(2, 1), {"wer": 18.5})
    ...     load_weights(Path(folder))[1]
    {'wer': 18.5}
    """
    tensors = quantise(weights(model)) if int8 else weights(model)
    write_tensors(folder / "weights.safetensors", tensors, {"scores": scores})


def has_diverged(folder: Path) -> bool:
    """Whether a run diverged before it had weights to keep.

    >>> has_diverged(Path("/nowhere"))
    False
    """
    return (folder / DIVERGED).is_file() and not (folder / "weights.safetensors").exists()


def load_weights(folder: Path) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Read what `save_weights` wrote.

    >>> load_weights(Path("/nowhere"))
    Traceback (most recent call last):
    windlass.core.errors.BundleError: /nowhere/weights.safetensors: no such file
    """
    if has_diverged(folder):
        raise BundleError(
            f"{folder}: no weights: training diverged before the first evaluation; train again with --overwrite and a "
            "lower learning rate (--lr)"
        )
    if (folder / "training").is_dir() and not (folder / "weights.safetensors").exists():
        raise BundleError(f"{folder}: no weights yet: training stopped before the first evaluation; resume it")
    tensors, note = read_tensors(folder / "weights.safetensors")
    path, scores = folder / "weights.safetensors", note.get("scores", {})
    if not isinstance(scores, dict) or not all(type(score) in (int, float) for score in scores.values()):
        raise BundleError(f"{path}: damaged: its scores are not numbers; use another copy")
    try:
        tensors = dequantise(tensors)
    except (RuntimeError, IndexError) as error:
        raise BundleError(f"{path}: damaged: {reason(error)}; use another copy") from None
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise BundleError(f"{path}: {short(name)} holds NaN or infinity: its training has diverged, train it again")
    return tensors, {name: float(score) for name, score in scores.items()}


def _bytes(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError:
        raise BundleError(f"{folder}: not a Windlass bundle: no readable {name}") from None


def _json(folder: Path, name: str) -> dict[str, Any]:
    try:
        content = read_json(_bytes(folder, name))
    except ValueError as error:
        raise BundleError(f"{folder / name}: damaged: not valid JSON: {reason(error)}") from None
    if not isinstance(content, dict):
        raise BundleError(f"{folder / name}: damaged: not a JSON object")
    return content
