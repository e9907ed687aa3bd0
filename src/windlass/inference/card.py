"""A model on one screen: its task, its sides, its size and its scores, as text and as HTML."""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path

from windlass.bundle import Bundle
from windlass.inference.evaluate import Evaluation
from windlass.inference.info import describe
from windlass.metrics.likelihood import format_metric

Fact = tuple[str, str]
"""A name and what there is to say of it; the first fact is the title."""


def facts(
    bundle: Bundle,
    dev: Evaluation | None = None,
    baseline: str | None = None,
    baseline_metrics: Mapping[str, float] | None = None,
    folder: Path | None = None,
) -> list[Fact]:
    """Collect what a user wants to know of a model first.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> print(as_text(facts(Bundle.new(Recipe(), Sides.tiny()), baseline="copy")))
    Windlass model for task text: any text to any text: ...
      source    text of characters, 7 symbols
      target    text of characters, 7 symbols
      size      ... parameters, ... MB
      baseline  copy
    """
    about = describe(bundle, folder)
    scores = bundle.scores if dev is None else dev.metrics
    found = [
        ("Windlass model", f"for task {about['task']}: {about['about']}"),
        ("source", about["source"]),
        ("target", about["target"]),
        ("size", f"{about['parameters']:,} parameters, {about['mb']} MB{' in 8 bits' if bundle.int8 else ''}"),
    ]
    if scores:
        found.append(("dev", _metrics(scores) + (f" ({dev.examples:,} examples)" if dev else "")))
    if baseline is not None:
        told = _metrics({name: (baseline_metrics or {})[name] for name in scores if name in (baseline_metrics or {})})
        found.append(("baseline", f"{told} ({baseline})" if told else baseline))
    if folder is not None:
        found.append(("folder", str(folder)))
    return found


def _metrics(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {format_metric(name, value)}" for name, value in scores.items())


def as_text(found: list[Fact]) -> str:
    """The facts as lines of text.

    >>> print(as_text([("Windlass model", "for task text"), ("size", "7 parameters")]))
    Windlass model for task text
      size      7 parameters
    """
    (title, about), *rest = found
    return "\n".join([f"{title} {about}", *(f"  {name:<9} {what}" for name, what in rest)])


def as_html(found: list[Fact]) -> str:
    """The facts as a card for notebooks; its colours follow those of the page.

    >>> "&lt;b&gt;" in as_html([("Windlass model", "for task text"), ("target", "label: <b>")])
    True
    """
    (title, about), *rest = [(html.escape(name), html.escape(what)) for name, what in found]
    cell = "padding:.15em .8em .15em 0;text-align:left;background:none;border:0"
    rows = "".join(
        f'<tr style="background:none"><th style="{cell};font-weight:normal;opacity:.65">{name}</th>'
        f'<td style="{cell}">{what}</td></tr>'
        for name, what in rest
    )
    return (
        '<div style="display:inline-block;padding:.6em 1em;border:1px solid rgba(128,128,128,.4);border-radius:6px">'
        f"<div><b>{title}</b> {about}</div>"
        f'<table style="margin:.4em 0 0;border-collapse:collapse;border:0">{rows}</table></div>'
    )
