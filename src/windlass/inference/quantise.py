"""Post-training quantisation to 8 bits: a quarter of the size, for a small loss in quality.

Every matrix is rounded to integers from -127 to 127 with a scale per row. Search multiplies integers where that is
faster: by large matrices and in recurrent layers. Nothing is retrained. Measure the loss on your own data:
`windlass quantise DIR FILE`.
"""

from __future__ import annotations

from dataclasses import replace

from windlass.bundle import Bundle, network
from windlass.core.errors import WindlassError
from windlass.core.weights import set_weights, weights
from windlass.nn.fast.int8 import dequantise, levels
from windlass.nn.fast.int8 import quantise as quantise_tensors


def quantise(bundle: Bundle) -> Bundle:
    """Return a copy of the bundle in 8 bits, without the scores of the original.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> quantise(Bundle.new(Recipe(), Sides.tiny())).int8
    True
    """
    if bundle.int8:
        raise WindlassError("the model is in 8 bits already")
    if not levels():
        raise WindlassError("this build of torch has no 8-bit products for this machine: use the model in float32")
    model = network(bundle.recipe, bundle.sides)
    set_weights(model, dequantise(quantise_tensors({n: t.cpu() for n, t in weights(bundle.model).items()})))
    return replace(bundle, model=model.eval(), scores={}, int8=True)
