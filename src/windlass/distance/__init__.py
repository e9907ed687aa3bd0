"""The long-distance test: over how many steps a cell can carry what it has read.

>>> from windlass import distance
>>> from windlass.nn.cells import RNN
>>> training = distance.Training(size=4, updates=2, gaps=(0, 2), further=(), tested=8)
>>> report = distance.measure({"rnn": RNN.Options()}, ["agreement"], attention=[False], training=training)
>>> report.outcomes[0].cell
'rnn'
"""

from windlass.distance.probe import FURTHER, GAPS, Network, Outcome, Training, probe
from windlass.distance.problems import PROBLEMS, Problem, Sample
from windlass.distance.report import Report, measure

__all__ = ["FURTHER", "GAPS", "PROBLEMS", "Network", "Outcome", "Problem", "Report", "Sample", "Training", "measure",
           "probe"]  # fmt: skip
