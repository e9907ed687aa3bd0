"""Draw the attention over a picture, a clip, a recording or a sequence of numbers, as a picture or a page.

grid          one panel for each word, the regions it attends to lit up (Xu et al. 2015); of a label, one panel
frames        the frames in a row; under them a line of weights for each word, or one for a label
spectrogram   the same under the spectrogram, and `steps` under the lines of the readings

Where every place has a tag, the lines are the tags, with their probabilities.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten, wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from windlass.core.errors import DataError
from windlass.core.records import Places, Prediction
from windlass.explain import fonts
from windlass.explain.pages import Html, fill, page
from windlass.explain.render import COLOURS, GREY, INK, check_suffix, label, save

if TYPE_CHECKING:  # 40 MB, loaded only to draw
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Shown = NDArray[Any]
"""What `SourceSide.shown` returns: pixels (H, W, 3), frames (F, H, W, 3), numbers of places (S, N)."""
MOST_LINES = 12
"""Numbers of a place that are drawn as lines; more of them are drawn as a band of colours."""
MOST_FRAMES = 20
"""Frames that are drawn of a clip; of a longer one, some of them."""
_ACROSS = 5  # panels in a row
_PANEL, _LINE, _EDGE = 2.1, 0.27, 0.25  # inches: a panel, a line of weights, the edge of the page


def draw_media(
    predictions: Sequence[Prediction],
    over: Sequence[Shown],
    path: Path,
    title: str | None = None,
    value: str | None = None,
    whole: bool = False,
) -> Path:
    """Write predictions with their attention over what they were made from, as .png, .svg or .html.

    Of a text, every token has a line or, if the weights are of the `whole` text, it has one.

    >>> draw_media([], [], Path("x.gif"))
    Traceback (most recent call last):
    windlass.core.errors.WindlassError: x.gif: cannot write '.gif': name it .png, .svg, .html or .json
    """
    check_suffix(path)
    views = [View.of(p, shown, value or weights_of(p), whole) for p, shown in zip(predictions, over, strict=True)]
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".html":
        path.write_text(_page(views, title), encoding="utf-8")
    else:
        save(_stacked(views, title), path)
    return path


def weights_of(prediction: Prediction) -> str:
    """What the weights of a written output are: attention, or an alignment, which has no row for an end mark.

    CTC has no end mark: its weights are where a token was written, not what a decoder looked at.

    >>> from windlass.core.records import TextAnswer
    >>> weights_of(Prediction("a b", TextAnswer(("a", "b"), (0.9, 0.8))))
    'alignment'
    """
    answer = prediction.answer
    aligned = answer.written and prediction.finished and len(answer.probabilities) == len(answer.tokens)
    return "alignment" if aligned else "attention"


@dataclass(frozen=True)
class View:
    """What is drawn of one prediction: lines of weights over the places of an input.

    >>> from windlass.core.records import TextAnswer
    >>> p = Prediction("a b", TextAnswer(("a", "b")), Places("steps", ("1", "2")), attention=((1, 0), (0, 1), (0, 1)))
    >>> view = View.of(p, np.zeros((2, 3)))
    >>> view.names, view.weights.shape, view.heading
    (('a', 'b'), (2, 2), 'a b')
    """

    shown: Shown
    places: Places
    names: tuple[str, ...]  # of the lines: words, tags, or an answer
    weights: NDArray[np.float64]  # (lines, places)
    heading: str
    value: str = "attention"  # what a weight is

    @classmethod
    def of(cls, prediction: Prediction, shown: Shown, value: str = "attention", whole: bool = False) -> View:
        """The lines of a prediction; that of an end mark is left out."""
        answer, places, text = prediction.answer, prediction.places, prediction.text
        if answer.per_place:
            chances = answer.by_place()
            return cls(shown, places, tuple(chances), np.array([*chances.values()]), shorten(text, 90), "probability")
        if prediction.attention is None or not places.names:
            raise DataError("no attention to draw: the source or the output is empty")
        weights = np.array(prediction.attention)
        if answer.written:
            names = (shorten(text, 40),) if whole else tuple(map(label, answer.tokens))
            return cls(shown, places, names or ("end",), weights[: max(1, len(names))], text, value)
        likely = list(answer.by_label().items())[:3]
        heading = ",  ".join(f"{name} {100 * chance:.0f} %" for name, chance in likely) or text
        if (question := places.parts.get("question")) is not None:
            heading = f"{' '.join(question.names)}  {heading}"
        return cls(shown, places, (text,), weights[:1], heading, value)

    @property
    def edges(self) -> list[int]:
        """Where the places begin and end, in places of the input."""
        ends = (self.places.joined * n for n in range(self.weights.shape[1] + 1))
        return [min(end, len(self.shown)) for end in ends]

    @property
    def height(self) -> float:
        """Inches that it takes."""
        if self.places.kind == "grid":
            return 0.4 + (_PANEL + 0.3) * -(-len(_panels(self)) // _ACROSS)
        return 0.4 + self._above + _LINE * len(self.names) + 0.4

    @property
    def _above(self) -> float:
        return _thumbnail(len(self.shown)) if self.places.kind == "frames" else 1.7


# ---- pictures ------------------------------------------------------------


def lit(picture: NDArray[np.uint8], weights: NDArray[Any]) -> NDArray[np.uint8]:
    """A picture (H, W, 3) with light on its regions (rows, columns) by their weights; the rest is dark and grey.

    The weights are smoothed with a Gaussian of a little more than half a region. A region is fully lit if it has the
    largest weight and at least three times its even share, so that attention to everything looks like it.

    >>> white = np.full((8, 8, 3), 255, np.uint8)
    >>> picture = lit(white, np.array([[1.0, 0.0], [0.0, 0.0]]))
    >>> picture[0, 0, 0] > 200 > 120 > picture[7, 7, 0]
    np.True_
    """
    light = weights.astype(np.float64)
    for axis, pixels in enumerate(picture.shape[:2]):
        regions = weights.shape[axis]
        at = (np.arange(pixels) + 0.5) * regions / pixels - 0.5
        kernel = np.exp(-((at[:, None] - np.arange(regions)) ** 2) / (2 * 0.6**2))
        light = np.moveaxis(np.tensordot(kernel / kernel.sum(1, keepdims=True), light, (1, axis)), 0, axis)
    light = (light / max(light.max(), 3 / weights.size))[..., None]
    grey = picture.mean(axis=2, keepdims=True)
    bright = 0.7 * picture + 0.3 * 255  # what is black is seen in the light, too
    dark = 0.3 * (0.7 * grey + 0.3 * picture)
    return np.asarray(light * bright + (1 - light) * dark).round().astype(np.uint8)


def _panels(view: View) -> list[tuple[str, NDArray[np.uint8]]]:
    """The picture, and one for each word."""
    rows, columns = (max(int(name.split(",")[axis]) for name in view.places.names) for axis in (0, 1))
    drawn = [lit(view.shown, line.reshape(rows, columns)) for line in view.weights]
    return [("", view.shown), *zip(view.names, drawn, strict=True)]


def _draw_panels(figure: Figure, view: View, top: float) -> None:
    wide, tall = figure.get_size_inches()
    for n, (name, pixels) in enumerate(_panels(view)):
        row, column = divmod(n, _ACROSS)
        x, y = _EDGE + (_PANEL + 0.12) * column, top + 0.4 + (_PANEL + 0.3) * row + 0.24
        axes = figure.add_axes((x / wide, 1 - (y + _PANEL) / tall, _PANEL / wide, _PANEL / tall))
        axes.imshow(pixels, interpolation="bilinear", aspect="auto")
        axes.set_axis_off()
        if name:
            axes.set_title(name, size=12, color=INK, pad=4, family=fonts.families(name), parse_math=False)


# ---- sequences ------------------------------------------------------------


def _thumbnail(frames: int) -> float:
    """The height of a frame, in inches."""
    return min(1.5, 10.5 / min(frames, MOST_FRAMES))


def _draw_sequence(figure: Figure, view: View, top: float) -> None:
    wide, tall = figure.get_size_inches()
    left = _EDGE + max(0.5, 0.115 * max(map(len, view.names)) + 0.1)
    across = wide - left - _EDGE
    if view.places.kind == "frames":
        across = min(across, _thumbnail(len(view.shown)) * min(len(view.shown), MOST_FRAMES))

    def axes_at(y: float, height: float) -> Axes:
        return figure.add_axes((left / wide, 1 - (y + height) / tall, across / wide, height / tall))

    above, below = view._above, _LINE * len(view.names)
    upper, lower = axes_at(top + 0.4, above), axes_at(top + 0.4 + above + 0.06, below)
    _draw_input(upper, view)
    upper.set(xlim=(0, len(view.shown)), xticks=[], yticks=[])
    lower.pcolormesh(view.edges, range(len(view.names) + 1), view.weights, cmap=COLOURS, vmin=0, vmax=_most(view))
    lower.invert_yaxis()
    lower.set_yticks([n + 0.5 for n in range(len(view.names))], labels=list(view.names))
    ticks = _ticks(view)
    lower.set_xticks([at + 0.5 for at in ticks], labels=list(ticks.values()))
    lower.tick_params(length=0, labelsize=10, labelcolor=INK)
    lower.tick_params(axis="x", labelsize=8.5, labelcolor=GREY)
    for tick in lower.get_yticklabels():
        tick.set_fontfamily(fonts.families(tick.get_text()))
    for axes in (upper, lower):
        axes.spines[:].set_color("#c9d2da")


def _draw_input(axes: Axes, view: View) -> None:
    """The input above the weights, one unit of width for each of its places."""
    shown, kind = view.shown, view.places.kind
    if kind == "frames":
        count = min(len(shown), MOST_FRAMES)
        wide = len(shown) / count
        gap = 0.015 * wide
        for n in range(count):
            pixels = shown[int((n + 0.5) * wide)]
            axes.imshow(
                pixels, extent=(n * wide + gap, (n + 1) * wide - gap, 0, 1), aspect="auto", interpolation="bilinear"
            )
        axes.set(ylim=(0, 1))
    elif kind == "spectrogram" or shown.shape[1] > MOST_LINES:
        low, high = np.percentile(shown, [2, 99.8])
        axes.imshow(shown.T, origin="lower", aspect="auto", cmap="magma", vmin=low, vmax=high,
                    extent=(0, len(shown), 0, shown.shape[1]), interpolation="nearest")  # fmt: skip
    else:
        for line in shown.T:
            marker = "o" if len(shown) < 60 else None
            axes.plot(np.arange(len(line)) + 0.5, line, lw=1.3, marker=marker, markersize=2.5)


def _most(view: View) -> float:
    """The weight of the strongest colour: the largest, and at least three even shares."""
    if view.value == "probability":
        return 1.0
    return float(max(view.weights.max(), min(1.0, 3 / view.weights.shape[1])))


def _ticks(view: View) -> dict[int, str]:
    """Some places of the input by number, and what they are called."""
    count, hop = len(view.shown), max(1, -(-len(view.shown) // 12))
    if view.places.kind != "spectrogram":
        return {n: str(n + 1) for n in range(0, count, hop)}
    last = float(view.places.names[-1].split("-")[0]) / max(1, view.edges[-2])  # seconds of a frame
    return {n: f"{n * last:.2f} s" for n in range(0, count, hop)}


# ---- .png and .html ------------------------------------------------------------


def _stacked(views: Sequence[View], title: str | None) -> Figure:
    """One figure of several predictions, one below the other."""
    from matplotlib.figure import Figure

    head = 0.5 if title else 0.0
    panels = max((len(_panels(view)) if view.places.kind == "grid" else _ACROSS) for view in views)
    wide = 2 * _EDGE + (_PANEL + 0.12) * min(_ACROSS, max(2, panels))
    tall = head + sum(view.height for view in views) + 0.42
    figure = Figure(figsize=(wide, tall))
    if title:
        family = fonts.families(title)
        figure.text(_EDGE / wide, 1 - 0.3 / tall, title, size=15, va="center", color=INK, family=family)
    top = head
    for view in views:
        heading, family = view.heading, fonts.families(view.heading)
        at = (_EDGE / wide, 1 - (top + 0.22) / tall)
        size = min(12.5, 12.5 * (wide - 2 * _EDGE) / (0.108 * max(1, len(heading))))
        figure.text(*at, heading, size=size, weight="bold", va="center", color=INK, family=family, parse_math=False)
        (_draw_panels if view.places.kind == "grid" else _draw_sequence)(figure, view, top)
        top += view.height
    legend = "\n".join(wrap(_legend(views[0]), max(30, int(14 * wide))))
    figure.text(_EDGE / wide, 0.22 / tall, legend, size=8, va="center", color=GREY)
    return figure


def _legend(view: View) -> str:
    if view.places.kind == "grid":
        return f"Bright: where the {view.value} is large. Only the square in the middle of a picture is seen."
    strongest = f"The darkest colour stands for {100 * _most(view):.0f} %."
    return f"{view.value[0].upper()}{view.value[1:]} over {_UNITS.get(view.places.kind, 'places')}. {strongest}"


_UNITS = {"frames": "frames", "spectrogram": "time", "steps": "steps"}


def _page(views: Sequence[View], title: str | None) -> str:
    drawn = [_panels_of(view) if view.places.kind == "grid" else _strips_of(view) for view in views]
    parts = (fill("media.view", heading=v.heading, drawn=d) for v, d in zip(views, drawn, strict=True))
    body = fill("media.body", legend=_legend(views[0]), views=Html.joined(parts))
    return page(title or f"{views[0].value[0].upper()}{views[0].value[1:]}", body, "media")


def _panels_of(view: View) -> Html:
    """The picture, and one panel for each word; every region tells its weight."""
    figures = []
    for n, (name, pixels) in enumerate(_panels(view)):
        regions: str = ""
        if n:
            across = max(int(place.split(",")[1]) for place in view.places.names)
            hints = (
                f"{name}, region {place}: {view.value} {100 * weight:.1f} %"
                for place, weight in zip(view.places.names, view.weights[n - 1], strict=True)
            )
            cells = Html.joined(fill("media.region", hint=hint) for hint in hints)
            regions = fill("media.regions", across=across, cells=cells)
        image = _image(_encoded(pixels, "JPEG"), name, "jpeg")
        figures.append(fill("media.figure", caption=name, image=image, regions=regions))
    return fill("media.panels", figures=Html.joined(figures))


def _strips_of(view: View) -> Html:
    """The input, and under it a strip of cells for each line of weights."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, view._above))
    axes = figure.add_axes((0, 0, 1, 1))
    _draw_input(axes, view)
    axes.set(xlim=(0, len(view.shown)), xticks=[], yticks=[])
    file = io.BytesIO()
    save(figure, file)
    edges, most, strips = view.edges, _most(view), []
    for name, line in zip(view.names, view.weights, strict=True):
        cells = Html.joined(
            fill(
                "media.place",
                wide=edges[n + 1] - edges[n],
                strength=f"{100 * min(1.0, weight / most):.1f}",
                hint=f"{name}, {place}: {view.value} {100 * weight:.1f} %",
            )
            for n, (place, weight) in enumerate(zip(view.places.names, line, strict=True))
        )
        strips.append(fill("media.strip", name=name, cells=cells))
    image = _image(file.getvalue(), f"{view.value} of {', '.join(view.names)}")
    return fill("media.strips", image=image, strips=Html.joined(strips))


def _encoded(pixels: NDArray[np.uint8], kind: str) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, quality=88)
    return file.getvalue()


def _image(content: bytes, alternative: str, kind: str = "png") -> Html:
    data = base64.b64encode(content).decode()
    return fill("media.image", kind=kind, data=data, alternative=alternative or "the input")
