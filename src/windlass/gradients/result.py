"""What every part of the gradient lab returns: tables, sentences, data and a picture."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass.core.errors import WindlassError
from windlass.core.tensors import atomic_write
from windlass.explain.render import GREY, INK, save

if TYPE_CHECKING:  # 40 MB, loaded only to draw
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#08519c", "#d95f0e", "#31a354", "#756bb1", "#636363", "#c51b8a", "#8c6d31", "#17becf")


@dataclass(frozen=True)
class Table:
    """A table of texts; the first column is a heading of its row.

    >>> print(Table("squares", ("n", "n * n"), (("2", "4"), ("10", "100"))).text())
    squares
    n   n * n
    2       4
    10    100
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int = 1  # how many columns, from the left, are texts and not numbers

    def text(self) -> str:
        """The table with columns of equal width: texts to the left, numbers to the right."""
        lines = [tuple(self.headings), *map(tuple, self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        shown = (
            "  ".join(cell.ljust(w) if n < self.texts else cell.rjust(w) for n, (cell, w) in enumerate(pairs)).rstrip()
            for pairs in (tuple(zip(line, widths, strict=True)) for line in lines)
        )
        return "\n".join([self.title, *shown])


class Result(ABC):
    """One measurement of the gradient lab."""

    size: tuple[float, float] = (6.4, 4.0)
    """Of the picture, in inches."""

    @abstractmethod
    def tables(self) -> list[Table]:
        """The figures, for people."""

    def words(self) -> list[str]:
        """What they mean, and what to do."""
        return []

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The figures, for programs."""

    @abstractmethod
    def draw(self, figure: Figure) -> None:
        """Draw them."""

    def text(self) -> str:
        """Tables and sentences, as the command prints them."""
        parts = [table.text() for table in self.tables()]
        return "\n\n".join([*parts, "\n".join(self.words())] if self.words() else parts)

    def write(self, path: Path | str) -> Path:
        """Write a picture (.png, .svg) or data (.json), by the file's suffix."""
        return write(self, Path(path))


def write(result: Result, path: Path) -> Path:
    """Write a result as a picture (.png, .svg) or as data (.json), by the file's suffix.

    >>> from windlass.gradients.activations import activations
    >>> write(activations(), Path("x.gif"))
    Traceback (most recent call last):
    windlass.core.errors.WindlassError: x.gif: cannot write '.gif': name it .png, .svg or .json
    """
    check_suffix(path)
    suffix = path.suffix.lower()
    path.parent.mkdir(parents=True, exist_ok=True)
    if suffix == ".json":
        atomic_write(path, (json.dumps(result.to_json(), ensure_ascii=False, indent=1) + "\n").encode())
        return path
    from matplotlib.figure import Figure

    figure = Figure(figsize=result.size, layout="constrained")
    result.draw(figure)
    save(figure, path)
    return path


def check_suffix(path: Path) -> None:
    """Refuse a file that is neither a picture nor JSON.

    >>> check_suffix(Path("x.PNG"))
    """
    if path.suffix.lower() not in (".png", ".svg", ".json"):
        raise WindlassError(f"{path}: cannot write {path.suffix!r}: name it .png, .svg or .json")


def style(axes: Axes, title: str, x: str, y: str) -> None:
    """Titles and grid of a panel, as in the other pictures.

    >>> from matplotlib.figure import Figure
    >>> axes = Figure().subplots()
    >>> style(axes, "loss", "epoch", "nats")
    >>> axes.get_xlabel()
    'epoch'
    """
    axes.set_title(title, fontsize=10, color=INK)
    axes.set_xlabel(x, color=GREY, fontsize=9)
    axes.set_ylabel(y, color=GREY, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(color="#e3e8ed")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def number(x: float, digits: int = 3) -> str:
    """A number with three digits, whatever its size.

    >>> [number(x) for x in (0.0, 1.0, 0.1234, 0.00515, 123.4, 5.15e-07, 12345.6)]
    ['0', '1.00', '0.123', '0.00515', '123', '5.15e-07', '12,346']
    """
    if x == 0:
        return "0"
    if not 1e-3 <= abs(x) < 1e6:
        return f"{x:.{digits - 1}e}"
    return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:#.{digits}g}".rstrip(".")


def chosen(most: int) -> list[int]:
    """The distances that a table shows: 1, 2, 4 ... and the largest.

    >>> chosen(50)
    [1, 2, 4, 8, 16, 32, 50]
    """
    doubling = [2**n for n in range(most.bit_length()) if 2**n < most]
    return [*doubling, most] if most > 0 else []
