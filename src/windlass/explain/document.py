"""Draw the attention over a document: sentences and words shaded by their weights, as a page or a picture.

A word with no more than its even share of the sentence's attention is white; the word with the most is darkest, if it
has several times its even share. Words are paler in sentences of little weight, so that what the decision rests on
stands out. On the page a switch shows words regardless of the weight of their sentence.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass.core.errors import DataError, WindlassError
from windlass.core.records import Prediction
from windlass.data.tokenizer import SPACE_MARK
from windlass.explain import fonts
from windlass.explain.pages import Html, fill, page
from windlass.explain.render import GREY, INK, check_suffix, save

MAX_LABELS = 5
"""Labels shown above a document, with their probabilities."""
FULL_SHADE = 3.0
"""Multiple of the even share that gets the full shade; if no word reaches it, the darkest word stays paler."""
WORDS, SENTENCES = (8, 81, 156), (217, 95, 14)
"""Colours of weights, RGB."""


@dataclass(frozen=True)
class _Word:
    """A word to draw."""

    gap: str  # the space before it
    text: str
    weight: float | None  # share of the sentence; None without word attention
    shade: float  # from 0 (an even share or less) to 1


@dataclass(frozen=True)
class _Line:
    """A sentence to draw."""

    words: tuple[_Word, ...]
    weight: float | None  # share of the document; None without sentence attention
    shade: float  # relative to the sentence of the largest weight
    tag: tuple[str, float] | None  # and its probability, if sentences are tagged


def lines(prediction: Prediction) -> list[_Line]:
    """Return the sentences of a document to draw.

    >>> from windlass.core.records import Places, TextAnswer
    >>> places = Places("sentences", ("A cat.",), within=(Places("words", ("A", "cat", ".")),))
    >>> prediction = Prediction("x", TextAnswer(("x",)), places, attention=((1.0,),), word_attention=((0.2, 0.6, 0.2),))
    >>> [(word.gap, word.text, round(word.shade, 2)) for word in lines(prediction)[0].words]
    [('', 'A', 0.0), (' ', 'cat', 0.4), ('', '.', 0.0)]
    """
    answer, read = prediction.answer, prediction.places
    weights = prediction.attention[0] if prediction.attention else None
    most = max(weights, default=0) if weights else 0
    tags = list(zip(answer.tokens, answer.probabilities, strict=True)) if answer.per_place else []
    sentences = []
    for n, (text, words) in enumerate(zip(read.names, (part.names for part in read.within), strict=True)):
        own = prediction.word_attention[n] if prediction.word_attention else None
        shades = _shades(own or ())
        drawn = tuple(
            _Word(gap, shown, own[k] if own else None, shades[k] if own else 0)
            for k, (gap, shown) in enumerate(_spaced(text, words))
        )
        share = weights[n] if weights else None
        sentences.append(_Line(drawn, share, share / most if share and most else 0, tags[n] if tags else None))
    return sentences


def _shades(weights: Sequence[float]) -> list[float]:
    """The shade of every word of a sentence, from the multiple of its even share."""
    times = [weight * len(weights) for weight in weights]
    most = max([*times, FULL_SHADE])
    return [max(0.0, time - 1) / (most - 1) for time in times]


def _spaced(text: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Words, each with the space before it in the text; subwords carry their own."""
    at = 0
    for n, word in enumerate(words):
        place = text.find(word, at)
        if place >= 0 and not text[at:place].strip():
            yield text[at:place], word
            at = place + len(word)
        elif word.startswith(SPACE_MARK):
            yield " " if n else "", word.removeprefix(SPACE_MARK)
        else:
            yield "", word


def draw_documents(predictions: Sequence[Prediction], path: Path, title: str | None = None) -> Path:
    """Write documents with their attention as a page (.html) or a picture (.png).

    >>> from windlass.core.records import Places, TextAnswer
    >>> draw_documents([Prediction("x", TextAnswer(), Places("sentences", ("A",)))], Path("x.html"))
    Traceback (most recent call last):
    windlass.core.errors.WindlassError: this model has no attention to draw: train one with pool: attention in ...
    """
    check_suffix(path)
    for prediction in predictions:
        if not (prediction.attention or prediction.word_attention or prediction.answer.per_place):
            raise WindlassError(
                "this model has no attention to draw: train one with pool: attention in model.encoder.words or "
                "model.head, or name the file .json for its probabilities"
            )
        if not prediction.places.within:
            raise DataError(f"{path}: nothing to draw: the document has no sentences")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".html":
        path.write_text(_page(predictions, title), encoding="utf-8")
    else:
        _picture(predictions, path, title)
    return path


def _choices(prediction: Prediction) -> list[tuple[str, float]]:
    """The most probable labels, and the predicted or forced one."""
    labels = prediction.answer.by_label()
    ranked = sorted(labels.items(), key=lambda item: -item[1])[:MAX_LABELS]
    known = {name for name, _ in ranked}
    own = [(prediction.text, prediction.confidence or 0.0)] if labels and prediction.text not in known else []
    return [*ranked, *own]


# ---- .html ------------------------------------------------------------


def _page(predictions: Sequence[Prediction], title: str | None) -> str:
    first = predictions[0]
    heading = title or (first.text if first.answer.by_label() else "Attention over a document")
    return page(heading, Html.joined(map(_document, predictions), "\n"), "document")


def _document(prediction: Prediction) -> Html:
    drawn = lines(prediction)
    weighed, worded = any(line.weight is not None for line in drawn), bool(prediction.word_attention)
    keys = [("sentences", weighed), ("words", worded), ("alone", weighed and worded)]
    bars = Html.joined(
        fill("document.bar", name=name, percent=f"{100 * chance:.1f}") for name, chance in _choices(prediction)
    )
    unread = prediction.places.unread
    return fill(
        "document.document",
        choices=fill("document.choices", bars=bars) if bars else "",
        keys=Html.joined(fill(f"document.{key}") for key, there in keys if there),
        tagged=Html(' class="tagged"' if prediction.answer.per_place else ""),
        sentences=Html.joined(map(_sentence, drawn)),
        beyond=fill("document.beyond", count=f"{unread:,}") if unread else "",
    )


def _sentence(line: _Line) -> Html:
    share: str = "" if line.weight is None else f"{100 * line.weight:.1f} %"
    if line.tag is not None:
        share = fill("document.tag", tag=line.tag[0], percent=f"{100 * line.tag[1]:.0f}")
    pale = 1.0 if line.weight is None else math.sqrt(line.shade)
    words = Html.joined(html.escape(word.gap) + _word(word) for word in line.words)
    return fill("document.sentence", pale=f"{pale:.3f}", shade=f"{line.shade:.3f}", share=share, words=words)


def _word(word: _Word) -> str:
    if word.weight is None:
        return html.escape(word.text)
    return fill("document.word", shade=f"{word.shade:.3f}", percent=f"{100 * word.weight:.1f}", text=word.text)


# ---- .png and .svg ------------------------------------------------------------

_WIDE, _SIZE, _STEP, _EDGE = 9.5, 11, 0.235, 0.3  # inches, points, inches a line, inches
_DPI = 150  # as the picture is saved


def _tint(colour: tuple[int, int, int], share: float) -> tuple[float, float, float]:
    """A colour on white, light enough for text over it to be legible."""
    strength = 0.7 * max(0.0, min(1.0, share))
    red, green, blue = (1 - strength * (1 - part / 255) for part in colour)
    return red, green, blue


def _picture(predictions: Sequence[Prediction], path: Path, title: str | None) -> None:
    gutter = 1.75 if any(p.answer.per_place for p in predictions) else 0.85
    left, right = _EDGE + gutter, _WIDE - _EDGE
    measure = _Measure()
    placed: list[tuple[float, list[tuple[float, float, _Word]], _Line, float]] = []  # top, words, sentence, height
    heads: list[tuple[float, str]] = []
    y = _EDGE + (0.4 if title else 0)
    for prediction in predictions:
        chances = ",  ".join(f"{name} {100 * chance:.1f} %" for name, chance in _choices(prediction)[:3])
        if chances:
            heads.append((y, chances))
            y += 0.42
        for line in lines(prediction):
            words, x, top = [], left + 0.12, y
            for word in line.words:
                wide = measure(word.text)
                gap = measure.space if word.gap else 0
                if x + gap + wide > right and x > left + 0.12:
                    x, y, gap = left + 0.12, y + _STEP, 0
                words.append((x + gap, y, word))
                x += gap + wide
            y += _STEP + 0.09
            placed.append((top, words, line, y - top - 0.09))
        y += 0.25
    height = y + 0.15
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch, Rectangle

    figure = Figure(figsize=(_WIDE, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, _WIDE), ylim=(height, 0))
    axes.set_axis_off()
    if title:
        axes.text(_EDGE, _EDGE, title, size=15, va="top", color=INK, family=fonts.families(title))
    for at, text in heads:
        axes.text(_EDGE, at, text, size=12.5, va="top", weight="bold", color=INK, family=fonts.families(text))
    for top, words, line, tall in placed:
        axes.add_patch(Rectangle((left - 0.09, top), 0.09, tall, lw=0, color=_tint(SENTENCES, line.shade)))
        label = "" if line.weight is None else f"{100 * line.weight:.1f} %"
        if line.tag is not None:
            label = f"{line.tag[0]} {100 * line.tag[1]:.0f} %"
        family = fonts.families(label)
        axes.text(left - 0.17, top + _STEP / 2, label, size=9, va="center", ha="right", color=GREY, family=family)
        pale = 1.0 if line.weight is None else math.sqrt(line.shade)
        for x, at, word in words:
            if word.weight is not None and word.shade * pale > 0.02:
                box = FancyBboxPatch(
                    (x - 0.01, at + 0.025), measure(word.text) + 0.02, _STEP - 0.05, lw=0, mutation_aspect=1,
                    boxstyle="round,pad=0,rounding_size=0.04", color=_tint(WORDS, word.shade * pale),
                )  # fmt: skip
                axes.add_patch(box)
            family = fonts.families(word.text)
            axes.text(x, at + _STEP / 2, word.text, size=_SIZE, va="center", color=INK, family=family, parse_math=False)
    note = "blue: weight of a word in its sentence, above an even share"
    if any(line.weight is not None for _, _, line, _ in placed):
        note += ", paler in sentences of less weight; orange: weight of the sentence"
    axes.text(_EDGE, height - 0.16, note, size=8, va="center", color=GREY)
    save(figure, path)


class _Measure:
    """The width of a text in inches."""

    def __init__(self) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.renderer = FigureCanvasAgg(Figure(dpi=_DPI)).get_renderer()  # type: ignore[no-untyped-call]
        self.known: dict[str, float] = {}
        self.space = self("n n") - 2 * self("n")

    def __call__(self, text: str) -> float:
        from matplotlib.font_manager import FontProperties

        if text not in self.known:
            font = FontProperties(family=fonts.families(text), size=_SIZE)
            self.known[text] = self.renderer.get_text_width_height_descent(text, font, False)[0] / _DPI
        return self.known[text]
