"""Draw a confusion matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from windlass.core.errors import DataError, WindlassError
from windlass.explain import fonts
from windlass.explain.render import save
from windlass.metrics.labels import confusion

MAX_LABELS = 40
"""The most frequent labels are drawn."""


def draw_confusion(predictions: Sequence[str], references: Sequence[Sequence[str]], path: Path) -> Path:
    """Draw gold labels (rows) against predicted ones (columns), each row normalised; tags are counted one by one.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "confusion.png"
    >>> draw_confusion(["a", "b", "b"], [["a"], ["a"], ["b"]], path).stat().st_size > 1000
    True
    """
    from matplotlib.figure import Figure

    if path.suffix.lower() != ".png":
        raise WindlassError(f"{path}: cannot write {path.suffix!r}: name it .png")
    pairs = [(p.split(), [r[0].split()]) for p, r in zip(predictions, references, strict=True)]
    counts: Counter[tuple[str, str]] = Counter()
    if all(len(p) == len(r[0]) for p, r in pairs):  # tags, or labels of one word
        for p, r in pairs:
            counts.update(zip(r[0], p, strict=True))
    else:
        counts = confusion(predictions, references)
    if not counts:
        raise DataError(f"{path}: no labels to draw")
    gold: Counter[str] = Counter()
    for (right, predicted), n in counts.items():
        gold[right] += n
        gold[predicted] += 0
    labels = [label for label, _ in gold.most_common(MAX_LABELS)]
    shares = [[counts[a, b] / max(1, gold[a]) for b in labels] for a in labels]
    side = 0.42 * len(labels) + 2.2
    figure = Figure(figsize=(side + 0.6, side), layout="constrained")
    axes = figure.subplots()
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(labels)), labels, rotation=90, size=8)
    axes.set_yticks(range(len(labels)), [f"{label} ({gold[label]})" for label in labels], size=8)
    for i, row in enumerate(shares):
        for j, share in enumerate(row):
            if counts[labels[i], labels[j]]:
                colour = "white" if share > 0.5 else "#1b2733"
                axes.text(j, i, str(counts[labels[i], labels[j]]), ha="center", va="center", size=7, color=colour)
    axes.set_xlabel("predicted")
    axes.set_ylabel("gold (count)")
    if len(gold) > MAX_LABELS:
        axes.set_title(f"the {MAX_LABELS} most frequent of {len(gold)} labels", size=9)
    for tick in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        tick.set_fontfamily(fonts.families(tick.get_text()))
    save(figure, path)
    return path
