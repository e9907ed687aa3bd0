"""Windlass trains, looks inside and ships small sequence models on the machine you have.

>>> import windlass
>>> model = windlass.fit([("ab", "ba"), ("ba", "ab")] * 9, settings={"train.epochs": 1}, quiet=True)
>>> prediction = model.predict("ab")[0]
>>> explained = model.explain("ab")
"""

from windlass.api import Trained, fit, load
from windlass.comparing.compare import compare
from windlass.core.records import Prediction
from windlass.core.version import __version__
from windlass.data.sentences import use_splitter

__all__ = ["Prediction", "Trained", "__version__", "compare", "fit", "load", "use_splitter"]
