"""The command `info`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from windlass.commands import flags
from windlass.commands.shared import app


@app.command("info")
def info_command(folder: flags.Folder, json_: flags.Json = False) -> None:
    """Print what a model is.

    Its task, source and target, network, size, scores and training, on one screen.
    """
    from windlass.bundle import Bundle
    from windlass.inference.info import describe

    facts = describe(Bundle.load(folder), folder)
    if json_:
        print(json.dumps(facts, ensure_ascii=False))
        return
    for name, text in _lines(facts):
        print(f"{name:12} {text}".rstrip())


def _lines(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The facts in words, on one screen."""
    from windlass.commands.tables import metrics_table
    from windlass.core.wording import counted
    from windlass.training.progress import format_duration

    yield "task", f"{facts['task']}: {facts['about']}"
    for name in ("source", "target", "encoder", "decoder", "head"):
        if facts[name]:
            yield name, facts[name]
    if facts["search"]:
        yield "search", _search(facts["search"])
    yield "parameters", f"{facts['parameters']:,}, {facts['mb']} MB in {facts['bits']} bits"
    name = "dev"
    for line in metrics_table(facts["dev"], facts["baseline"] or {}):
        yield name, line
        name = ""
    if facts["baseline_name"]:
        yield "baseline", facts["baseline_name"]
    if facts["train_examples"] is not None:
        files = f" of {', '.join(facts['files'])}" if facts["files"] else ""
        noun, unit = ("example", "examples") if facts["train_characters"] is None else ("character", "characters")
        examples = counted(facts[f"train_{unit}"], noun)
        yield "trained on", f"{examples}{files}, {facts[f'dev_{unit}']:,} for validation"
    if facts["steps"] is not None:
        epochs = f"{facts['epochs']:.4g} epoch{'' if facts['epochs'] == 1 else 's'}"
        yield "trained for", f"{counted(facts['steps'], 'step')}, {epochs}, {format_duration(facts['seconds'])}"
    if facts["versions"]:
        versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
        yield "trained with", f"{versions}{', on ' + facts['date'][:10] if facts['date'] else ''}"


def _search(options: dict[str, Any]) -> str:
    """The kind of search and its main options."""
    names = ("size", "length_penalty", "temperature", "top_k", "top_p")
    told = [f"{name} {options[name]}" for name in names if options.get(name) is not None]
    return ", ".join([options["kind"], *told])
