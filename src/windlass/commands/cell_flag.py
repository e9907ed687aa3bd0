"""A cell as an option of a command: its name, or its options in YAML."""

from __future__ import annotations

import yaml
from pydantic import TypeAdapter, ValidationError

from windlass.core.errors import WindlassError, nearest
from windlass.core.options import members, reason
from windlass.nn.cells import CellOptions


def parse_cell(text: str) -> tuple[str, CellOptions]:
    """Return a short name and the options of a cell.

    >>> parse_cell("{kind: rnn, activation: relu}")[0]
    'rnn, activation: relu'
    >>> parse_cell("lsmt")
    Traceback (most recent call last):
    windlass.core.errors.WindlassError: --cell lsmt: there is no such cell; did you mean 'lstm'?
    """
    try:
        content = yaml.safe_load(text)
        kind = content.get("kind") if isinstance(content, dict) else content
        if kind not in (known := members(CellOptions)):
            raise WindlassError(f"--cell {text}: there is no such cell; {nearest(str(kind), known)}")
        options: CellOptions = TypeAdapter(CellOptions).validate_python(content)
    except (ValidationError, yaml.YAMLError) as error:
        raise WindlassError(f"--cell {text}: {reason(error)}") from None
    return text.strip("{} ").removeprefix("kind: "), options
