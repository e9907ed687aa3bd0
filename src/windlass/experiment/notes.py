"""What a run notes, for users of Python: hints name settings, not options of the command line."""

from __future__ import annotations

import json
import re

from windlass.experiment.data import in_python
from windlass.training.observe import Forwarding

KEYS = {
    "--epochs": "train.epochs",
    "--minutes": "train.minutes",
    "--batch-tokens": "train.batch_tokens",
    "--lr": "train.optimiser.lr",
    "--header": "data.header",
}
"""The settings that options of the command line stand for."""
_FLAG = "|".join(KEYS)
_VALUES = {"no": "False", "yes": "True"}


class PythonNotes(Forwarding):
    """Passes events on, with notes in the words of Python.

    >>> from windlass.training.observe import Observer
    >>> class Shown(Observer):
    ...     def note(self, text): print(text)
    >>> PythonNotes(Shown()).note("a warm-up of 6 steps; else: --set train.schedule.warmup=100")
    a warm-up of 6 steps; else: settings={"train.schedule.warmup": 100}
    """

    def note(self, text: str) -> None:
        """Forward what Python calls it."""
        self.inner.note(in_python(as_settings(text)))


def as_settings(message: str) -> str:
    """A message that names options of the command line which are settings in Python.

    >>> as_settings("as texts are single words; else: --set source.tokens=words")
    'as texts are single words; else: settings={"source.tokens": "words"}'
    >>> as_settings("67 epochs; else: --epochs, --batch-tokens")
    '67 epochs; else: settings={"train.epochs": ..., "train.batch_tokens": ...}'
    """
    message = re.sub(r"--set ([\w.]+)=(\S+)", lambda m: f'settings={{"{m[1]}": {_value(m[2])}}}', message)
    message = re.sub(rf"({_FLAG}) (\w+)", lambda m: f'settings={{"{KEYS[m[1]]}": {_value(m[2])}}}', message)
    return re.sub(rf"(?:{_FLAG})(?:, (?:{_FLAG}))*", lambda m: _unset(m[0].split(", ")), message)


def _unset(flags: list[str]) -> str:
    return "settings={" + ", ".join(f'"{KEYS[flag]}": ...' for flag in flags) + "}"


def _value(text: str) -> str:
    """A value as Python writes it."""
    number = re.fullmatch(r"-?\d+(\.\d+)?", text)
    return _VALUES.get(text) or (text if number else json.dumps(text, ensure_ascii=False))
