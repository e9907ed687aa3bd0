"""What a model is: its task, sides, network, size, scores and training, as plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from windlass.bundle import Bundle
from windlass.core.tensors import atomic_write
from windlass.core.wording import counted
from windlass.heads.cutoff import Cutoff

OUTCOME = "training/outcome.json"
"""What a run writes when it ends."""
SHOWN, LONGEST = 6, 20
"""Labels that are named, the most frequent of the training data first, and characters of each."""


def describe(bundle: Bundle, folder: Path | None = None) -> dict[str, Any]:
    """Return the facts of a model as JSON values; those of its training are in the folder it was saved to.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> facts = describe(Bundle.new(Recipe(), Sides.tiny()))
    >>> facts["task"], facts["source"], facts["parameters"] > 1e6
    ('text', 'text of characters, 7 symbols', True)
    >>> facts["encoder"]
    'recurrent: lstm, 1 layer of 256 units, bidirectional'
    """
    recipe, model, source, target = bundle.recipe, bundle.model, bundle.sides.source, bundle.sides.target
    labels = list(getattr(target, "symbols", ()))
    file = None if folder is None else folder / "weights.safetensors"
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    if file is not None and file.is_file():
        size = file.stat().st_size
    facts: dict[str, Any] = {
        "task": bundle.task.name,
        "about": bundle.task.about,
        "source": _side(
            source.options, source.sizes.get("source", 0), unit="symbols" if source.textual else "numbers per place"
        ),
        "target": _side(target.options, len(target), labels),
        "labels": labels or None,
        "encoder": _network(recipe.model.encoder.model_dump(mode="json")),
        "decoder": None if recipe.model.decoder is None else _network(recipe.model.decoder.model_dump(mode="json")),
        "head": ", ".join([_head(recipe.model.head.model_dump(mode="json")), *_chosen(bundle)]),
        "search": None if recipe.search is None else recipe.search.model_dump(mode="json"),
        "parameters": sum(p.numel() for p in model.parameters()),
        "mb": round(size / (1 << 20), 2),
        "bits": 8 if bundle.int8 else 32,
        "dev": dict(bundle.scores),
    }
    return facts | _training(bundle, folder)


def _training(bundle: Bundle, folder: Path | None) -> dict[str, Any]:
    """What the folder of a run says of it; None where it does not."""
    data, environment, outcome = (
        {} if folder is None else _read(folder / "training" / f"{name}.json")
        for name in ("data", "environment", "outcome")
    )
    packages = environment.get("packages", {})
    return {
        "baseline": None if folder is None else read_baseline_metrics(folder),
        "baseline_name": outcome.get("baseline_name"),
        "files": list(bundle.recipe.data.train) or None,
        "train_examples": data.get("train"),
        "dev_examples": data.get("dev"),
        "train_characters": data.get("train_characters"),
        "dev_characters": data.get("dev_characters"),
        "steps": outcome.get("steps"),
        "epochs": outcome.get("epochs"),
        "seconds": outcome.get("seconds"),
        "date": environment.get("date"),
        "versions": {
            **({"python": environment["python"]} if "python" in environment else {}),
            **{name: packages[name] for name in ("windlass", "torch") if name in packages},
        },
    }


def read_baseline_metrics(folder: Path) -> dict[str, float] | None:
    """The baseline's dev metrics, as the run that ended in a folder, or `save_baseline_metrics`, wrote them.

    >>> read_baseline_metrics(Path("/nowhere"))
    """
    found = _read(folder / OUTCOME).get("baseline")
    if not isinstance(found, dict) or not all(type(value) in (int, float) for value in found.values()):
        return None
    return found


def save_baseline_metrics(folder: Path, name: str, metrics: Mapping[str, float]) -> None:
    """Write the baseline's dev metrics to the folder of a model that is saved without its run.

    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> save_baseline_metrics(folder, "copy", {"cer": 90.0})
    >>> read_baseline_metrics(folder)
    {'cer': 90.0}
    """
    (folder / OUTCOME).parent.mkdir(parents=True, exist_ok=True)
    content = {"baseline": dict(metrics), "baseline_name": name}
    atomic_write(folder / OUTCOME, json.dumps(content, indent=1).encode())


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _side(options: Any, size: int, labels: Sequence[str] = (), unit: str = "symbols") -> str:
    """A side in words: its kind, its tokens, and the size of its vocabulary or its first labels."""
    tokens = getattr(getattr(options, "each", options), "tokens", None)  # each: of a pair
    kind = options.kind if tokens is None else f"{options.kind} of {tokens.kind}"
    if labels:
        named = ", ".join(label if len(label) <= LONGEST else f"{label[:LONGEST]}..." for label in labels[:SHOWN])
        return f"{kind}, {len(labels):,} in all: {named}{' ...' if len(labels) > SHOWN else ''}"
    return f"{kind}, {size:,} {unit}" if size > 1 else kind


def _network(options: dict[str, Any]) -> str:
    """The kind, cells and sizes of an encoder, a decoder, or a level of one."""
    parts = [options["cell"]["kind"]] if isinstance(options.get("cell"), dict) else []
    if "size" in options:
        units = f"{options['size']:,} units"
        parts.append(f"{counted(options['layers'], 'layer')} of {units}" if "layers" in options else units)
    if options.get("bidirectional"):
        parts.append("bidirectional")
    if isinstance(options.get("context"), dict) and options["context"]["kind"] != "none":
        score = options["context"].get("score")
        parts.append(f"{score['kind']} attention" if score else options["context"]["kind"])
    if isinstance(embedding := options.get("embedding"), dict) and embedding["kind"] == "vectors":
        parts.append(f"vectors of {embedding['path']}")
    for name in ("words", "sentences", "reader", "below"):
        if isinstance(options.get(name), dict):
            parts.append(f"{name} ({_network(options[name])})")
    return ": ".join(filter(None, (options.get("kind", ""), ", ".join(parts))))


def _chosen(bundle: Bundle) -> list[str]:
    """The cutoffs that training chose, by the names of their options, and the n-gram model beside the network."""
    cutoffs = (part for part in bundle.model.modules() if isinstance(part, Cutoff) and part.choices)
    found = [f"{cutoff.option} {cutoff.value:g}" for cutoff in cutoffs]
    if (both := bundle.interpolation) is not None:
        found.append(f"interpolated with a {both.ngram.name}, ngram_weight {both.weight:.2f}")
    return found


def _head(options: dict[str, Any]) -> str:
    pool, output = options.get("pool"), options.get("output")
    extra = [f"pooled by {pool['kind']}"] if isinstance(pool, dict) else []
    if output is not None:
        extra.append(output["kind"] if isinstance(output, dict) else str(output))
    if options.get("frames") is not None:
        extra.append(counted(options["frames"], "frame") + " per place")
    return ", ".join([options["kind"], *extra])
