"""What a model looks at while it writes."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import torch

from windlass.bundle import Bundle
from windlass.core.errors import WindlassError
from windlass.core.records import Prediction
from windlass.core.tensors import atomic_write
from windlass.data.examples import Value
from windlass.decoding.options import SearchOptions
from windlass.explain.document import draw_documents
from windlass.explain.render import Heat, sheet
from windlass.inference.predict import predict, score


def explain(bundle: Bundle, text: Value, target: str | None = None, search: SearchOptions | None = None) -> Prediction:
    """Predict for one text, or force a given target, and return it with the attention on the way.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> found = explain(Bundle.new(Recipe(), Sides.tiny()), "ab", target="ba")
    >>> len(found.attention), found.places.names
    (3, ('a', 'b', '</s>'))
    """
    if bundle.sides.source.blank(bundle.sides.read(text)):
        raise WindlassError("there is nothing to explain in a blank text")
    if target is not None and not target.strip():
        raise WindlassError("there is nothing to explain in a blank target")
    if target is not None and search is not None:
        raise WindlassError("a search has no use where the target is given: leave one of them out")
    found = score(bundle, [(text, target)])[0] if target is not None else predict([bundle], [text], search)[0]
    return replace(found, alternatives=())


def self_attention(bundle: Bundle, text: Value) -> list[Heat]:
    """What every place of a text looks at inside an encoder of self-attention: a table for every layer and head.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> bundle = Bundle.new(Recipe(model={"encoder": {"kind": "attention", "layers": 1}}), Sides.tiny())
    >>> [heat.title for heat in self_attention(bundle, "ab")][:2]
    ['layer 1, head 1', 'layer 1, head 2']
    """
    encoder, sides = bundle.model.encoder, bundle.sides
    value = sides.read(text)
    if sides.source.blank(value):
        raise WindlassError("there is nothing to explain in a blank text")
    batch = sides.collate([sides.encode(value)], [0]).to(bundle.device)
    with torch.no_grad():
        seen = encoder.eval().self_attention(batch)
    pieces = sides.source.places(value).names
    return [
        Heat(weights.tolist(), pieces, pieces, f"layer {layer}, head {head}")
        for layer, heads in enumerate(seen, 1)
        for head, weights in enumerate(heads[0], 1)
    ]


def draw(predictions: list[Prediction], path: Path, title: str | None = None) -> Path:
    """Write predictions with their attention to a picture (.png), a page (.html) or data (.json).

    >>> draw([], Path("x.gif"))
    Traceback (most recent call last):
    windlass.core.errors.WindlassError: x.gif: cannot write '.gif': name it .png, .html or .json
    """
    if path.suffix.lower() == ".json" and predictions:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = [asdict(p) for p in predictions]
        atomic_write(
            path,
            json.dumps(content if len(content) > 1 else content[0], ensure_ascii=False, indent=1).encode(),
        )
        return path
    if predictions and all(p.places.within and not p.answer.written for p in predictions):
        return draw_documents(predictions, path, title)
    heats = []
    for p in predictions:
        if p.answer.per_place:  # of tags: how probable each is at each word
            heats.append(Heat(tuple(p.answer.by_place().values()), p.places.names, tuple(p.answer.by_place()), p.text))
            continue
        if p.attention is None:
            raise WindlassError(
                "this model has no attention to draw (its decoder's context, its pool, or the encoder of its pairs "
                "has none); "
                "name the file .json for tokens and probabilities"
            )
        second = p.places.parts.get("second")  # of a pair, the second text's words over the first's
        rows = p.answer.tokens if second is None else second.names
        heats.append(Heat(p.attention, p.places.names, rows, p.text or None))
    return sheet(heats, path, title)
