"""Draw attention: `.png`, `.svg`, a self-contained `.html` page or `.json`, by the file's suffix.

Columns are source tokens, rows are output tokens, both in reading order; the darker a cell, the more the output token
attends to the source token. A row sums to 1.
"""

from __future__ import annotations

import json
import textwrap
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from windlass.core.errors import DataError, WindlassError
from windlass.data.cutting import JOINER
from windlass.explain import fonts
from windlass.explain.pages import Html, fill, page

if TYPE_CHECKING:  # 40 MB, loaded only to draw
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, GREY, COLOURS, SIGNED = "#1b2733", "#5b6875", "Blues", "RdBu"
_NAMED = {" ": "␣", "\t": "⇥", "\n": "⏎", "": "∅", "</s>": "end", "<s>": "start", "<unk>": "unknown", "<pad>": "pad"}


MARKS = ("end", "start", "unknown")
"""How the labels of a heatmap call the marks."""


@dataclass(frozen=True)
class Heat:
    """One heatmap. If attention has one row more than there are output tokens, the last is that of the end mark.

    >>> Heat(((0.9, 0.1), (0.2, 0.8)), ("k", "a"), ("क",)).rows
    ('क', 'end')
    """

    attention: Sequence[Sequence[float]]  # (T, S)
    source_tokens: Sequence[str]
    target_tokens: Sequence[str]
    title: str | None = None
    value: str = "attention"  # what a cell is
    axes: tuple[str, str] = ("source", "output")  # what columns and rows are
    note: str | None = None  # what a reader should know beside the weights
    signed: bool = False  # whether values can be negative
    most: float = 1.0  # the value of the strongest colour

    def __post_init__(self) -> None:
        widths = {len(row) for row in self.attention}
        if len(self.rows) != len(self.attention) or widths - {len(self.source_tokens)}:
            raise DataError(
                f"attention of {len(self.attention)} rows by {sorted(widths)} places does not fit "
                f"{len(self.target_tokens)} output and {len(self.source_tokens)} source tokens"
            )
        if not self.attention or not self.source_tokens:
            raise DataError("no attention to draw: the source or the output is empty")

    @property
    def span(self) -> str:
        """The values that colours stand for."""
        return f"red {-self.most:.2g} to blue {self.most:.2g}" if self.signed else "0 to 1"

    @property
    def columns(self) -> tuple[str, ...]:
        """The labels of the source tokens."""
        return tuple(map(label, self.source_tokens))

    @property
    def rows(self) -> tuple[str, ...]:
        """The labels of the output tokens."""
        shown = tuple(map(label, self.target_tokens))
        return (*shown, "end") if len(self.attention) == len(shown) + 1 else shown


def label(token: str) -> str:
    """Return a token legible on its own: spaces as symbols, a lone combining mark on a dotted circle.

    >>> label(" "), label("</s>"), label("ि"), label("कि")
    ('␣', 'end', '◌ि', 'कि')
    """
    token = token.strip(JOINER) or token  # the mark where no space stood is for the tokenizer alone
    if token in _NAMED:
        return _NAMED[token]
    if unicodedata.category(token[0])[0] == "M":
        token = "◌" + token
    return "".join(_NAMED.get(c, c) if c.isspace() else c for c in token)


def check_suffix(path: Path) -> Path:
    """Refuse a name of a file that cannot be drawn to.

    >>> check_suffix(Path("x.svg")).name
    'x.svg'
    """
    if path.suffix.lower() not in (".png", ".svg", ".html", ".json"):
        raise WindlassError(f"{path}: cannot write {path.suffix!r}: name it .png, .svg, .html or .json")
    return path


def sheet(items: Sequence[Heat], path: Path | str, title: str | None = None) -> Path:
    """Draw several heatmaps to one file.

    >>> sheet([], "x.gif")
    Traceback (most recent call last):
    windlass.core.errors.WindlassError: x.gif: cannot write '.gif': name it .png, .svg, .html or .json
    """
    path = check_suffix(Path(path))
    writers: dict[str, Callable[[Sequence[Heat], Path, str | None], None]] = {
        ".png": _write_picture,
        ".svg": _write_picture,
        ".html": _write_html,
        ".json": _write_json,
    }
    if not items:
        raise DataError(f"{path}: no attention to draw")
    path.parent.mkdir(parents=True, exist_ok=True)
    writers[path.suffix.lower()](items, path, title)
    return path


def _write_json(items: Sequence[Heat], path: Path, title: str | None) -> None:
    tables = []
    for item in items:
        tokens = {"source": list(item.source_tokens), "target": list(item.target_tokens)}
        weights = [[float(weight) for weight in row] for row in item.attention]
        tables.append({"title": item.title, **tokens, "attention": weights})
    path.write_text(json.dumps(tables, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


# ---- .png and .svg ------------------------------------------------------------


def _width(text: str) -> float:
    """The approximate width of a text in ems."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    marks = sum(unicodedata.category(c) in ("Mn", "Me") for c in text)
    return 0.62 * (len(text) - marks) + 0.45 * wide


@dataclass(frozen=True)
class _Panel:
    """The layout of one heatmap in inches: many cells are smaller, as far as labels stay legible."""

    item: Heat
    cell: float
    size: float  # of the labels, in points
    left: float
    top: float
    slanted: bool

    @classmethod
    def of(cls, item: Heat) -> _Panel:
        most = max(len(item.rows), len(item.columns))
        cell = max(0.17, min(0.42, 14 / most))
        size = max(7.0, min(13.0, 31 * cell))
        em = size / 72
        longest = max(map(_width, item.columns)) * em
        slanted = longest > 0.95 * cell
        top = (longest if slanted else 1.3 * em) + 0.16 + (0.3 if item.title else 0)
        return cls(item, cell, size, max(map(_width, item.rows)) * em + 0.2, top, slanted)

    @property
    def width(self) -> float:
        title = _width(self.item.title or "") * 12 / 72
        return max(self.left + self.cell * len(self.item.columns), title) + 0.3

    @property
    def height(self) -> float:
        return self.top + self.cell * len(self.item.rows) + 0.3


def _packed(panels: Sequence[_Panel]) -> list[list[_Panel]]:
    """Panels in rows no wider than a page, unless a single panel is."""
    page = max(13.0, *(panel.width for panel in panels))
    lines: list[list[_Panel]] = [[]]
    for panel in panels:
        if lines[-1] and sum(p.width for p in lines[-1]) + panel.width > page:
            lines.append([])
        lines[-1].append(panel)
    return lines


def _draw(axes: Axes, panel: _Panel) -> None:
    item = panel.item
    weights, line = [[float(weight) for weight in row] for row in item.attention], 0.6 if panel.cell > 0.2 else 0.3
    colours, least = (SIGNED, -item.most) if item.signed else (COLOURS, 0)
    axes.pcolormesh(weights, cmap=colours, vmin=least, vmax=item.most, edgecolors="#e8ecf0", linewidth=line)
    axes.invert_yaxis()
    axes.xaxis.tick_top()
    axes.set_xticks([i + 0.5 for i in range(len(item.columns))], labels=list(item.columns))
    axes.set_yticks([i + 0.5 for i in range(len(item.rows))], labels=list(item.rows))
    axes.tick_params(length=0, labelsize=panel.size, pad=3, labelcolor=INK)
    short = all(len(name) == 1 for name in item.columns if name not in MARKS)
    for tick in axes.get_xticklabels():
        if panel.slanted and not (short and len(tick.get_text()) == 1):  # letters stand upright beside a long mark
            tick.set_rotation(90)
    for tick in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        tick.set_fontfamily(fonts.families(tick.get_text()))
        if tick.get_text() in MARKS:
            tick.set(color=GREY, fontstyle="italic")
    axes.spines[:].set_color("#c9d2da")


def save(figure: Figure, path: Path | BinaryIO) -> None:
    """Save a figure as .png or, by the suffix of the path, as .svg; make its folder.

    >>> import tempfile
    >>> from matplotlib.figure import Figure
    >>> save(Figure(figsize=(1, 1)), Path(tempfile.mkdtemp()) / "blank.png")
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    vector = isinstance(path, Path) and path.suffix.lower() == ".svg"
    if isinstance(path, Path):
        path.parent.mkdir(parents=True, exist_ok=True)
    FigureCanvasAgg(figure)
    metadata = {"Date": None} if vector else {"Software": None}
    with warnings.catch_warnings(), rc_context({"svg.hashsalt": "windlass"}):  # the same picture, the same bytes
        warnings.filterwarnings("ignore", "Glyph .* missing")  # fonts.families warns better
        figure.savefig(path, format="svg" if vector else "png", dpi=150, facecolor="white", metadata=metadata)


def _write_picture(items: Sequence[Heat], path: Path, title: str | None) -> None:
    from matplotlib.figure import Figure

    lines = _packed([_Panel.of(item) for item in items])
    head, foot = (0.55 if title else 0.1), 0.5
    width = max(4.3, *(sum(panel.width for panel in line) for line in lines)) + 0.2
    height = head + foot + sum(max(panel.height for panel in line) for line in lines)
    figure = Figure(figsize=(width, height))
    if title:
        figure.text(0.2 / width, 1 - 0.3 / height, title, size=14, va="center", color=INK, family=fonts.families(title))
    y = height - head
    for line in lines:
        x = 0.1
        for panel in line:
            across, down = panel.cell * len(panel.item.columns), panel.cell * len(panel.item.rows)
            box = (x + panel.left, y - panel.top - down, across, down)
            axes = figure.add_axes((box[0] / width, box[1] / height, box[2] / width, box[3] / height))
            _draw(axes, panel)
            if text := panel.item.title:
                at, family = ((x + 0.1) / width, (y - 0.14) / height), fonts.families(text)
                figure.text(*at, text, size=12, va="center", color=INK, family=family)
            x += panel.width
        y -= max(panel.height for panel in line)
    legend = figure.add_axes((0.2 / width, 0.27 / height, 1.0 / width, 0.11 / height))
    colours = SIGNED if items[0].signed else COLOURS
    legend.imshow([[i / 63 for i in range(64)]], cmap=colours, vmin=0, vmax=1, aspect="auto")
    legend.set_axis_off()
    note = textwrap.fill(" ".join(dict.fromkeys(map(_legend, items))), max(30, int((width - 1.5) * 15)))
    figure.text(1.3 / width, 0.32 / height, note, size=8, va="center", color=GREY)
    save(figure, path)


# ---- .html ------------------------------------------------------------


def _legend(item: Heat) -> str:
    legend = f"{item.value[0].upper()}{item.value[1:]}, {item.span}. Columns: {item.axes[0]}. Rows: {item.axes[1]}."
    return f"{legend} {item.note}" if item.note else legend


def _mark(text: str) -> Html:
    return Html(' class="mark"' if text in ("end", "start", "unknown") else "")


def heat_table(item: Heat) -> Html:
    """A heatmap as a table of a page whose styles include `heat`.

    >>> heat_table(Heat(((0.9, 0.1),), ("k", "a"), ("क",))).count("<td ")
    2
    """
    columns = Html.joined(fill("heat.column", mark=_mark(text), text=text) for text in item.columns)
    rows = []
    for row, weights in zip(item.rows, item.attention, strict=True):
        cells = []
        for column, weight in zip(item.columns, weights, strict=True):
            strength, hint = 100 * min(1.0, abs(weight) / item.most), f"{row}, {column}: {item.value} "
            if item.signed:
                written, hint, sign = f"{weight:+.2g}", f"{hint}{weight:+.4f}", ' class="minus"' if weight < 0 else ""
            else:
                written, hint, sign = f"{100 * weight:.0f}", f"{hint}{100 * weight:.1f} %", ""
            drawn = {"strength": f"{strength:.1f}", "sign": Html(sign), "hint": hint, "value": written}
            cells.append(fill("heat.cell", **drawn))
        heading = fill("heat.heading", mark=_mark(row), text=row)
        rows.append(fill("heat.row", heading=heading, cells=Html.joined(cells)) + "\n")
    long = Html(' class="long"' if max(map(_width, item.columns)) > 2.5 else "")
    across, title = len(item.columns), item.title or ""
    return fill("heat.table", across=across, title=title, long=long, columns=columns, rows=Html.joined(rows))


def _write_html(items: Sequence[Heat], path: Path, title: str | None) -> None:
    legend = f"{' '.join(dict.fromkeys(map(_legend, items)))} The stronger the colour, the higher the value."
    heading = title or items[0].title or "Attention"
    drawn = items if title or len(items) > 1 else [replace(items[0], title=None)]  # not the same title twice
    body = fill("heat.body", legend=legend, tables=Html.joined(heat_table(item) + "\n" for item in drawn))
    path.write_text(page(heading, body, "heat"), encoding="utf-8")
