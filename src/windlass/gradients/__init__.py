"""The gradient lab: why gradients vanish and explode, measured.

>>> from windlass import gradients
>>> from windlass.nn.cells import LSTM, RNN
>>> found = gradients.distances([gradients.fresh(RNN.Options()), gradients.fresh(LSTM.Options())])
>>> found.words()[0]
'rnn vanishes: from ... steps back on, less than 1 % arrives of what does one step back.'
"""

from windlass.gradients.activations import activations
from windlass.gradients.distance import distances, flow, model_distances
from windlass.gradients.lstm import finite_differences, one_steps, paths
from windlass.gradients.reading import Reading, fresh, read
from windlass.gradients.result import Result, Table
from windlass.gradients.scalar import scalar, scalars
from windlass.gradients.share import share, shares
from windlass.gradients.terms import bptt, terms, two_layers, two_step

__all__ = [
    "Reading", "Result", "Table", "activations", "bptt", "distances", "finite_differences", "flow", "fresh",
    "model_distances", "one_steps", "paths", "read", "scalar", "scalars", "share", "shares", "terms", "two_layers",
    "two_step",
]  # fmt: skip
