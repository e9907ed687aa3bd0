"""Typed options: what a recipe is made of.

A part of a model (a cell, an attention, an encoder ...) is chosen by a record of options with a literal field `kind`;
the union of such records is the table of contents of its folder. A record holds only what its own part uses, so an
option that changes nothing cannot be written down.
"""

from __future__ import annotations

from typing import Annotated, Any, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict


class Options(BaseModel):
    """A frozen record of options. An unknown key is an error.

    >>> class Size(Options):
    ...     size: int = 4
    >>> Size(size=8).size
    8
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


def _kind_alone(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


named = BeforeValidator(_kind_alone)
"""Lets a recipe say `cell: gru` where `cell: {kind: gru}` is meant."""


def members(union: Any) -> dict[str, type[Options]]:
    """Return the parts in a union of options, by their `kind`.

    >>> from windlass.nn.cells import CellOptions
    >>> sorted(members(CellOptions))
    ['gru', 'leaky', 'lstm', 'rnn']
    """
    found: dict[str, type[Options]] = {}
    for part in get_args(union):
        if isinstance(part, type) and issubclass(part, Options):
            for kind in get_args(part.model_fields["kind"].annotation):
                found[kind] = part
        else:
            found |= members(part)
    return found


__all__ = ["Annotated", "Options", "members", "named"]
