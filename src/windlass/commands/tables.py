"""Tables of scores, as wide as their contents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len

from windlass.core.wording import counted
from windlass.metrics.likelihood import format_metric
from windlass.metrics.per_label import LabelScore

MAX_LABELS = 30
"""Labels that are printed; the rest are counted."""
WIDEST = 40
"""Characters of a label that are printed."""


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table: the first column to the left, the others to the right.

    >>> print("\\n".join(table(["", "wer"], [["model", "18.50"], ["a long name", "7.25"]])))
                   wer
    model        18.50
    a long name   7.25
    """
    every = [heading, *rows]
    widths = [max(cell_len(row[column]) for row in every) for column in range(len(heading))]
    for row in every:
        gaps = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join([row[0] + gaps[0], *(gap + cell for cell, gap in zip(row[1:], gaps[1:], strict=True))]).rstrip()


def metrics_table(metrics: Mapping[str, float], baseline: Mapping[str, float]) -> Iterator[str]:
    """Yield a line for every metric, beside that of the baseline.

    >>> print("\\n".join(metrics_table({"accuracy": 91.5, "label_macro_f1": 8.25}, {"accuracy": 50.0})))
    accuracy        91.50   (baseline 50.00)
    label_macro_f1   8.25
    """
    texts = {name: format_metric(name, value) for name, value in metrics.items()}
    first, second = max(map(len, texts), default=0), max(map(len, texts.values()), default=0)
    for name, text in texts.items():
        beside = f"   (baseline {format_metric(name, baseline[name])})" if name in baseline else ""
        yield f"{name:{first}}  {text:>{second}}{beside}"


def labels_table(labels: Mapping[str, LabelScore]) -> Iterator[str]:
    """Yield a line for every label, the most frequent first, and the number of those that are left out.

    >>> print("\\n".join(labels_table({"PER": LabelScore(50.0, 100.0, 66.7, 3)})))
    <BLANKLINE>
    label  precision  recall     F1  count
    PER        50.00  100.00  66.70      3
    """
    if not labels:
        return
    shown = list(labels.items())[:MAX_LABELS]
    rows = [
        [_short(label), f"{one.precision:.2f}", f"{one.recall:.2f}", f"{one.f1:.2f}", f"{one.count:,}"]
        for label, one in shown
    ]
    yield ""
    yield from table(["label", "precision", "recall", "F1", "count"], rows)
    if len(labels) > MAX_LABELS:
        yield f"and {counted(len(labels) - MAX_LABELS, 'more label', 'more labels')}: see --json"


def _short(label: str) -> str:
    text = " ".join(label.split())
    return text if len(text) <= WIDEST else text[: WIDEST - 3] + "..."
