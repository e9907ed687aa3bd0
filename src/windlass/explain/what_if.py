"""What a model would have said instead: with another input, another beginning of the output, or given attention.

What-if is the question of Seq2Seq-Vis (Strobelt et al. 2019). Given attention takes the place of the model's own at
every step: c_t = sum_s w_ts h_s with w from outside, such as an alignment that is known to be right. In a transformer
it does so in every head of every layer, so that a step reads nothing else of the source.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import get_ident
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from windlass.bundle import Bundle
from windlass.core.errors import DataError, WindlassError
from windlass.core.records import Prediction
from windlass.data.examples import Value
from windlass.decoding.options import SearchOptions
from windlass.explain.attention import draw, explain, shown
from windlass.explain.render import sheet
from windlass.explain.saliency import attends, saliency, saliency_heat
from windlass.heads.text import TextHead
from windlass.inference.predict import predict
from windlass.nn import fast
from windlass.nn.attention import MemoryAttention

Matrix = Sequence[Sequence[float]]


def what_if(
    bundle: Bundle,
    text: Value,
    instead: Value | None = None,
    prefix: str = "",
    attention: Matrix | None = None,
    search: SearchOptions | None = None,
) -> tuple[Prediction, Prediction]:
    """Return the model's own prediction, and the one with another input, a given beginning or given attention.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> bundle = Bundle.new(Recipe(), Sides.tiny())
    >>> before, after = what_if(bundle, "ab", prefix="ca")
    >>> after.answer.tokens[:2]
    ('c', 'a')
    """
    if instead is None and not prefix and attention is None:
        raise WindlassError("nothing is changed: give another input, a beginning of the output, or attention")
    before = explain(bundle, text, None, search)
    if attention is not None:
        if prefix or instead is not None:
            raise WindlassError("given attention is for the input as it is: leave the other input and the prefix out")
        return before, with_attention(bundle, text, attention, search)
    changed = text if instead is None else instead
    if bundle.sides.source.blank(bundle.sides.read(changed)):
        raise WindlassError("nothing to explain in a blank text")
    return before, predict([bundle], [changed], search, prefix=prefix)[0]


def with_attention(bundle: Bundle, text: Value, attention: Matrix, search: SearchOptions | None = None) -> Prediction:
    """Predict with given attention: a row for every output token, over the places of the input. Each row must sum to 1.

    A model that writes more tokens than there are rows uses its own attention from there on.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> found = with_attention(Bundle.new(Recipe(), Sides.tiny()), "ab", [[0.5, 0.25, 0.25]])
    >>> found.attention[0]
    (0.5, 0.25, 0.25)
    """
    head = bundle.model.head
    attentions = head.attentions if isinstance(head, TextHead) else ()
    if not attentions:
        raise WindlassError("this model has no attention to replace: only a decoder with context: attention has")
    names = explain(bundle, text, None, search).places.names
    weights = torch.tensor(_checked(attention, names))
    with imposed(attentions, weights):
        return predict([bundle], [text], search)[0]


@contextmanager
def imposed(attentions: Sequence[MemoryAttention], weights: Tensor) -> Iterator[None]:
    """Inside, step t of a search attends with row t of weights (T, S), of one sentence; what runs takes plain steps.

    Other threads, which may use the same modules, are not affected.

    >>> from windlass.core.records import Memory
    >>> from windlass.nn.attention import Additive, Attention
    >>> attend = Attention(Additive.Options(size=5), query_size=3, memory_size=4)
    >>> keys = attend.prepare(Memory(torch.randn(1, 2, 4), torch.ones(1, 2) > 0, torch.zeros(1, 4)))
    >>> with imposed([attend], torch.tensor([[0.25, 0.75]])):
    ...     attend(torch.randn(1, 1, 3), keys)[1].tolist()
    [[[0.25, 0.75]]]
    """
    thread = get_ident()

    def instead(attention: MemoryAttention) -> Callable[..., object]:
        rows = iter(weights)

        def hook(module: nn.Module, inputs: tuple[Any, ...], own: object) -> object:
            row = next(rows, None) if get_ident() == thread else None
            return own if row is None else attention.impose(row, *inputs)

        return hook

    with ExitStack() as hooks, fast.disabled():
        for attention in attentions:
            hooks.callback(attention.register_forward_hook(instead(attention)).remove)
        yield


def _checked(given: Matrix, names: Sequence[str]) -> Matrix:
    """The rows, if they are distributions over the places of an input."""
    try:
        attention = [[float(weight) for weight in row] for row in given]
    except (TypeError, ValueError):
        raise DataError("attention is a list of rows of numbers, a row for every output token") from None
    if not attention:
        raise DataError("the given attention has no rows: give one for every output token")
    for n, row in enumerate(attention, 1):
        if len(row) != len(names):
            raise DataError(
                f"row {n} of the attention has {len(row)} numbers for {len(names)} places: {' '.join(names)}"
            )
        for weight in row:
            if not weight >= 0:  # NaN too
                raise DataError(f"row {n} of the attention has {weight:.3g}: weights are numbers from 0 to 1")
        if abs(sum(row) - 1) > 0.01:
            raise DataError(f"row {n} of the attention sums to {sum(row):.3g}: the weights of a row sum to 1")
    return attention


def read_matrix(path: Path) -> Matrix:
    """Read attention: .npy, .csv (a line for each output token), .json (a list of lists, or what `explain` wrote).

    >>> read_matrix(Path("x.txt"))
    Traceback (most recent call last):
    windlass.core.errors.DataError: x.txt: cannot read attention from '.txt': give a .json, .csv or .npy file
    """
    suffix = path.suffix.lower()
    if suffix not in (".json", ".csv", ".npy"):
        raise DataError(f"{path}: cannot read attention from {path.suffix!r}: give a .json, .csv or .npy file")
    try:
        if suffix == ".npy":
            matrix = np.load(path, allow_pickle=False).tolist()
        elif suffix == ".csv":
            matrix = [
                [float(n) for n in line.split(",")] for line in path.read_text("utf-8").splitlines() if line.strip()
            ]
        else:
            matrix = _of_prediction(json.loads(path.read_text("utf-8")), path)
        return [[float(number) for number in row] for row in matrix]
    except OSError as error:
        raise DataError(f"{path}: cannot read it: {error.strerror}") from None
    except (ValueError, TypeError, EOFError, AttributeError, RecursionError) as error:
        raise DataError(f"{path}: this is no matrix of attention: {error}") from None


def _of_prediction(content: Any, path: Path) -> Any:
    """The attention of a prediction in JSON, or what is no prediction as it is."""
    if isinstance(content, list) and content and all(isinstance(one, dict) for one in content):
        if len(content) > 1:
            raise DataError(f"{path}: it holds {len(content)} predictions: give a file with one, or with its attention")
        (content,) = content
    if isinstance(content, dict):
        content = content.get("attention")
        if content is None:
            raise DataError(f"{path}: it holds no attention")
    return content


def draw_what_if(
    bundle: Bundle, inputs: Sequence[Value], predictions: Sequence[Prediction], path: Path, titles: Sequence[str]
) -> Path:
    """Draw predictions side by side, with attention or, without it, integrated gradients.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> bundle = Bundle.new(Recipe(), Sides.tiny())
    >>> draw_what_if(bundle, ["ab", "ab"], what_if(bundle, "ab", prefix="ca"), Path("x.gif"), ["as it is", "with ca"])
    Traceback (most recent call last):
    windlass.core.errors.WindlassError: x.gif: cannot write '.gif': name it .png, .svg, .html or .json
    """
    if path.suffix.lower() == ".json" or all(map(attends, predictions)):
        if path.suffix.lower() != ".json" and predictions[0].answer.written:
            named = zip(titles, predictions, strict=True)
            predictions, titles = [replace(p, text=f"{title}: {p.text}") for title, p in named], ("What if",)
        return draw(list(predictions), path, " / ".join(titles), [shown(bundle, value) for value in inputs])
    targets = [p.text.strip() or None if p.answer.written else None for p in predictions]
    found = [saliency(bundle, value, target) for value, target in zip(inputs, targets, strict=True)]
    return sheet([saliency_heat(one) for one in found], path, " / ".join(titles))
