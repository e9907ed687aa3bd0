"""Text coloured by the state of a unit, one row a unit, with its gates as strips below (Karpathy et al. 2015).

Blue is positive, red negative, white zero. A gate is white if it is closed and green if it is open.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass.core.errors import DataError
from windlass.core.marks import MARKS
from windlass.core.tensors import atomic_write
from windlass.explain import fonts
from windlass.explain.pages import Html, fill, page
from windlass.explain.render import GREY, INK, SIGNED, check_suffix, label, save

if TYPE_CHECKING:  # 40 MB, loaded only to draw
    from matplotlib.axes import Axes

LEGEND = "Blue: the state is positive; red: negative."
GATES = "Strips are gates: the greener, the wider they are open."
_ACROSS = 100  # letters in a line
_LINE, _STRIP, _EDGE = 0.2, 0.055, 0.25  # inches
_LETTER, _SIZE = 13 / 150, 13 / 150 * 72 / 0.602  # inches, points: whole pixels, and a letter is 0.602 em wide
_MONO = "DejaVu Sans Mono"


@dataclass(frozen=True)
class Row:
    """One unit over a text.

    >>> Row("unit 7", ("a", " "), [0.5, -1.0], {"forget": [1.0, 0.0]}).hint(1)
    '␣: state -1.000, forget 0.00'
    """

    title: str
    tokens: Sequence[str]
    values: Sequence[float]  # within -1..1
    gates: dict[str, list[float]] = field(default_factory=dict)  # each within 0..1
    value: str = "state"  # what a value is
    one: float = 1.0  # what 1 stands for

    def hint(self, place: int) -> str:
        """All values of a place."""
        gates = (f", {name} {values[place]:.2f}" for name, values in self.gates.items())
        return f"{label(self.tokens[place])}: {self.value} {self.one * self.values[place]:+.3f}{''.join(gates)}"

    @cached_property
    def spaced(self) -> bool:
        """Whether tokens are words or pieces of them, drawn with gaps between."""
        return any(len(token) > 1 and token not in MARKS for token in self.tokens)

    def letters(self, token: str) -> int:
        """How many letters wide a token is drawn."""
        return len(label(token)) + (self.spaced or len(token) > 1)

    @property
    def lines(self) -> list[tuple[int, int]]:
        """Where each line begins and ends: after a line break, or where it is full."""
        found, begin, wide = [], 0, 0
        for n, token in enumerate(self.tokens):
            if wide + self.letters(token) > _ACROSS and n > begin:
                found.append((begin, n))
                begin, wide = n, 0
            wide += self.letters(token)
            if token == "\n":
                found.append((begin, n + 1))
                begin, wide = n + 1, 0
        return found if begin == len(self.tokens) else [*found, (begin, len(self.tokens))]

    @property
    def height(self) -> float:
        """Inches that it takes."""
        return 0.34 + len(self.lines) * (_LINE + _STRIP * len(self.gates) + 0.05) + 0.1


def draw_rows(rows: Sequence[Row], path: Path, title: str | None = None, note: str = "", legend: str = LEGEND) -> Path:
    """Draw units over a text: a picture (.png, .svg), a page (.html) or data (.json).

    >>> draw_rows([], Path("x.png"))
    Traceback (most recent call last):
    windlass.core.errors.DataError: x.png: no units to draw
    """
    suffix = check_suffix(path).suffix.lower()
    if not rows:
        raise DataError(f"{path}: no units to draw")
    note = " ".join(filter(None, (note, legend, GATES if any(row.gates for row in rows) else "")))
    path.parent.mkdir(parents=True, exist_ok=True)
    if suffix == ".json":
        each = [
            {"title": r.title, "tokens": r.tokens, "value": r.value, "values": r.values, "gates": r.gates} for r in rows
        ]
        atomic_write(path, json.dumps(each, ensure_ascii=False, indent=1).encode())
    elif suffix == ".html":
        body = fill("coloured.body", legend=note, rows=Html.joined(map(_html, rows)))
        path.write_text(page(title or "Units", body, "coloured"), encoding="utf-8")
    else:
        _picture(rows, path, title, note)
    return path


def _html(row: Row) -> Html:
    tokens = []
    for n, token in enumerate(row.tokens):
        strips = Html.joined(fill("coloured.gate", open=f"{100 * values[n]:.0f}") for values in row.gates.values())
        sign = Html(" minus" if row.values[n] < 0 else "")
        strength = f"{100 * abs(row.values[n]):.0f}"
        shown = token if token == " " else label(token) + " " * (row.letters(token) - len(label(token)))
        tokens.append(fill("coloured.token", sign=sign, strength=strength, hint=row.hint(n), text=shown, gates=strips))
        if token == "\n":
            tokens.append(fill("coloured.break"))
    gates = f"strips: {', '.join(row.gates)}" if row.gates else ""
    return fill("coloured.row", title=row.title, gates=gates, tokens=Html.joined(tokens))


def _picture(rows: Sequence[Row], path: Path, title: str | None, note: str) -> None:
    from textwrap import fill as wrapped

    from matplotlib.figure import Figure

    longest = max(sum(map(row.letters, row.tokens[a:b])) for row in rows for a, b in row.lines)
    left = _EDGE + (0.62 if any(row.gates for row in rows) else 0)
    wide = max(7.5, left + longest * _LETTER + _EDGE)
    tall = (0.45 if title else 0.1) + sum(row.height for row in rows) + 0.35
    figure = Figure(figsize=(wide, tall))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, wide), ylim=(tall, 0))
    axes.set_axis_off()
    if title:
        axes.text(_EDGE, 0.28, title, size=14, va="center", color=INK, family=fonts.families(title), parse_math=False)
    y = 0.45 if title else 0.1
    for row in rows:
        family = fonts.families(row.title)
        style: dict[str, Any] = {"size": 10.5, "weight": "bold", "va": "center", "color": INK, "parse_math": False}
        axes.text(_EDGE, y + 0.17, row.title, family=family, **style)
        _draw_row(axes, row, left, y + 0.34)
        y += row.height
    axes.text(_EDGE, tall - 0.2, wrapped(note, int(wide * 14)), size=8, va="center", color=GREY)
    axes.set(xlim=(0, wide), ylim=(tall, 0))
    save(figure, path)


def _draw_row(axes: Axes, row: Row, left: float, y: float) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    gate_colours = LinearSegmentedColormap.from_list("gate", ["#ffffff", "#1b7837"])
    single = all(len(token) == 1 and (token.isascii() or token in "‘’“”—é") for token in row.tokens)
    for begin, end in row.lines:
        edges = [left]
        for token in row.tokens[begin:end]:
            edges.append(edges[-1] + row.letters(token) * _LETTER)
        # not the darkest colours: letters stay legible
        axes.pcolormesh(edges, [y, y + _LINE], [row.values[begin:end]], cmap=SIGNED, vmin=-1.8, vmax=1.8)
        texts = [" " if token == " " else label(token) for token in row.tokens[begin:end]]
        middle = y + _LINE / 2
        style: dict[str, Any] = {"size": _SIZE, "va": "center", "color": INK, "parse_math": False}
        if single:
            axes.text(left, middle, "".join(texts), family=_MONO, ha="left", **style)
        else:
            for a, b, text in zip(edges, edges[1:], texts, strict=False):
                axes.text((a + b) / 2, middle, text, family=fonts.families(text), ha="center", **style)
        y += _LINE
        for name, values in row.gates.items():
            axes.pcolormesh(edges, [y, y + _STRIP * 0.85], [values[begin:end]], cmap=gate_colours, vmin=0, vmax=1)
            if (begin, end) == row.lines[0]:
                axes.text(left - 0.06, y + _STRIP / 2, name, size=4.5, va="center", ha="right", color=GREY)
            y += _STRIP
        y += 0.05
