"""A bundle in 8 bits: a quarter of the size, and quicker to search with on a CPU, for a small loss in quality.

Every matrix is rounded to whole numbers from -127 to 127 with a scale for each of its rows; a search multiplies in
whole numbers. Nothing is trained again. Measure the loss on data of your own: `windlass quantise DIR FILE`.
"""

from __future__ import annotations

from windlass.bundle import Bundle, network
from windlass.core.errors import WindlassError
from windlass.core.weights import set_weights, weights
from windlass.nn.fast.int8 import dequantise, levels
from windlass.nn.fast.int8 import quantise as quantise_tensors


def quantise(bundle: Bundle) -> Bundle:
    """The same model in 8 bits; the one that was given stays as it is. The scores it reached are not this one's.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> small = quantise(Bundle.new(Recipe(), Sides.tiny()))
    >>> small.int8
    True
    >>> quantise(small)
    Traceback (most recent call last):
    windlass.core.errors.WindlassError: the model is in 8 bits already
    """
    if bundle.int8:
        raise WindlassError("the model is in 8 bits already")
    if not levels():
        raise WindlassError("this build of torch has no 8-bit products for this machine: use the model as it is")
    model = network(bundle.recipe, bundle.sides)
    set_weights(model, dequantise(quantise_tensors({n: t.cpu() for n, t in weights(bundle.model).items()})))
    return Bundle(bundle.recipe, bundle.sides, model.eval(), {}, int8=True)
