"""The attention of a model: explain one prediction, and draw it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from windlass.bundle import Bundle
from windlass.core.errors import DataError, RecipeError, WindlassError
from windlass.core.records import Prediction
from windlass.core.tensors import atomic_write
from windlass.data.examples import Value
from windlass.decoding.options import SearchOptions
from windlass.explain.document import draw_documents
from windlass.explain.media import Shown, draw_media, weights_of
from windlass.explain.render import Heat, sheet
from windlass.inference.predict import predict, score


def explain(bundle: Bundle, text: Value, target: str | None = None, search: SearchOptions | None = None) -> Prediction:
    """Predict for one text, or force a target, and return the prediction with its attention.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> prediction = explain(Bundle.new(Recipe(), Sides.tiny()), "ab", target="ba")
    >>> len(prediction.attention), prediction.places.names
    (3, ('a', 'b', '</s>'))
    """
    if bundle.task.language_model:
        raise RecipeError("a language model has no source to attend to: use saliency or gates, or score")
    if bundle.sides.source.blank(bundle.sides.read(text)):
        raise WindlassError("nothing to explain in a blank text")
    if target is not None and not target.strip():
        raise WindlassError("nothing to explain in a blank target")
    if target is not None and search is not None:
        raise WindlassError("search options have no use where the target is given: leave one of them out")
    if target is not None:
        (prediction,) = score(bundle, [(text, target)], refuse=True)
    else:
        (prediction,) = predict([bundle], [text], search)
    if prediction.error:
        raise DataError(prediction.error)
    return replace(prediction, alternatives=())


def explain_cut(bundle: Bundle, text: Value, target: str | None = None) -> Prediction:
    """`explain`, with the output in the tokens that its text is cut into, for whatever reads this text again.

    A model may write a text in other subwords than the tokenizer would, or a letter and its accent one by one.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> explain_cut(Bundle.new(Recipe(), Sides.tiny()), "ab", target="ba").answer.tokens
    ('b', 'a')
    """
    prediction = explain(bundle, text, target)
    if target is not None or not prediction.answer.written:
        return prediction
    tokenizer = bundle.sides.tokenizer
    cut = tuple(map(tokenizer.token, tokenizer.encode(prediction.text)))
    if cut and cut != prediction.answer.tokens:
        return explain(bundle, text, prediction.text)
    return replace(prediction, answer=replace(prediction.answer, tokens=cut))


def shown(bundle: Bundle, text: Value) -> Shown | None:
    """What the attention over an input is drawn on: pixels, a spectrogram, readings; None for text.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> shown(Bundle.new(Recipe(), Sides.tiny()), "ab") is None
    True
    """
    return bundle.sides.source.shown(bundle.sides.read(text))


def draw(
    predictions: list[Prediction], path: Path, title: str | None = None, over: Sequence[Shown | None] = ()
) -> Path:
    """Write predictions with their attention as a picture (.png), a page (.html) or data (.json).

    `over` has what `shown` returned for each input, if it is not text.

    >>> draw([], Path("x.gif"))
    Traceback (most recent call last):
    windlass.core.errors.WindlassError: x.gif: cannot write '.gif': name it .png, .svg, .html or .json
    """
    if path.suffix.lower() == ".json" and predictions:
        path.parent.mkdir(parents=True, exist_ok=True)
        each = [asdict(p) for p in predictions]
        content = json.dumps(each if len(each) > 1 else each[0], ensure_ascii=False, indent=1)
        atomic_write(path, content.encode())
        return path
    if predictions and all(p.places.within and not p.answer.written for p in predictions):
        return draw_documents(predictions, path, title)
    drawn = [p for p in predictions if p.answer.per_place or p.attention is not None]
    pictured = [each for each in over if each is not None]
    if len(pictured) == len(drawn) == len(predictions) > 0:
        return draw_media(predictions, pictured, path, title)
    heats = []
    for p in predictions:
        if p.answer.per_place:
            chances = p.answer.by_place()
            axes = ("words", "tags")
            heats.append(Heat(tuple(chances.values()), p.places.names, tuple(chances), p.text, "probability", axes))
            continue
        second = p.places.parts.get("second")  # of a pair: the second text's words attend to the first's
        if p.attention is None:
            part = "model.decoder.context=attention" if p.answer.written else "model.head.pool=attention"
            part = part if second is None else "model.encoder.attention={}"
            raise WindlassError(
                f"this model has no attention to draw: train one with --set {part}, or name the file .json for its "
                "answer alone"
            )
        if p.answer.written:
            heats.append(Heat(p.attention, p.places.names, p.answer.tokens, p.text or None, weights_of(p)))
        elif second is not None:
            axes = ("first text", "second text")
            heats.append(Heat(p.attention, p.places.names, second.names, p.text or None, axes=axes))
        else:
            axes, note = ("source", "answer"), _on_the_end_mark(p)
            heats.append(Heat(p.attention, p.places.names, (p.text,), p.text, "weight in pooling", axes, note))
    return sheet(heats, path, title)


def _on_the_end_mark(prediction: Prediction) -> str | None:
    """A note where most of the weight lies on the end mark, which stands for no part of the text."""
    weights = prediction.attention[0] if prediction.attention else ()
    if not weights or prediction.places.names[-1] != "</s>" or weights[-1] < max(weights):
        return None
    share, what = f"{weights[-1]:.0%}", prediction.places.kind
    return f"{share} lies on the end mark, whose state has read the whole text: single {what} say less here."
