"""Windlass trains, looks inside and ships small sequence models on the machine you have.

>>> import windlass
>>> model = windlass.fit([("ab", "ba"), ("ba", "ab")] * 9, settings={"train.epochs": 1}, quiet=True)
>>> prediction = model.predict("ab")[0]
>>> explained = model.explain("ab")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.core.version import __version__

__all__ = ["Prediction", "Trained", "__version__", "compare", "fit", "load", "use_splitter"]

if TYPE_CHECKING:
    from windlass.api import Trained, fit, load
    from windlass.comparing.compare import compare
    from windlass.core.records import Prediction
    from windlass.data.sentences import use_splitter
else:
    _MODULES = {
        **dict.fromkeys(("Trained", "fit", "load"), "windlass.api"),
        "compare": "windlass.comparing.compare",
        "Prediction": "windlass.core.records",
        "use_splitter": "windlass.data.sentences",
    }

    def __getattr__(name: str) -> object:
        """Import a public name on first use: torch takes a second, which `windlass --help` does not need."""
        if name not in _MODULES:
            raise AttributeError(f"module 'windlass' has no attribute {name!r}")
        from importlib import import_module

        globals()[name] = value = getattr(import_module(_MODULES[name]), name)
        return value

    def __dir__() -> list[str]:
        """Return the public names, also those that are not imported yet."""
        return sorted({*globals(), *__all__})
