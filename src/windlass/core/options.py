"""Typed options: what a recipe is made of.

A part of a model (a cell, an attention, an encoder ...) is chosen by a record of options with a literal field `kind`;
the union of such records is the table of contents of its folder. A record holds only what its own part uses, so an
option that changes nothing cannot be written down. What depends on other parts, a part declares: see `core/fitting.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType
from typing import Annotated, Any, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict

from windlass.core.fitting import Gives, Term

LARGEST_TINY, TINY_SIZE = 8, 6
"""`Options.small` replaces a size above the first by the second, which 1, 2 and 3 heads can share."""


class Options(BaseModel):
    """A frozen record of options. An unknown key is an error.

    >>> class Size(Options):
    ...     size: int = 4
    >>> Size(size=8).size
    8
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    def declare(self, at: str) -> Iterator[Term]:
        """What the part gives to others and needs of them; `at` is the key that it stands under in a recipe.

        That is `_terms`, every setting by its key, every choice as `key: kind`, and the same of the parts within.
        """
        yield from self._terms(at)
        for name in type(self).model_fields:
            value, key = getattr(self, name), f"{at}.{name}" if at else name
            choice = getattr(value, "kind", value)
            yield Gives(key, value)
            if isinstance(choice, str):
                yield Gives(f"{key}: {choice}")
            if isinstance(value, Options):
                yield from value.declare(key)

    def _terms(self, at: str) -> Iterator[Term]:
        """What the part itself declares beside its settings."""
        return iter(())

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Small variants of the part, the plain one first; the contracts hold for each of them.

        By default the one with its large sizes cut down. A part with options that change its computation overrides it.

        >>> class Layer(Options):
        ...     size: int = 256
        ...     layers: int = 2
        >>> Layer.tiny()
        (Layer(size=6, layers=2),)
        """
        return (cls.small(),)

    @classmethod
    def small(cls, **settings: Any) -> Self:
        """The part with these settings, and every other size cut down to a few units.

        >>> class Layer(Options):
        ...     size: int = 256
        ...     bias: bool = True
        >>> Layer.small(bias=False)
        Layer(size=6, bias=False)
        """
        for name, field in cls.model_fields.items():
            value = field.default
            if name not in settings and isinstance(value, Options):
                settings[name] = type(value).tiny()[0]
            elif name not in settings and type(value) is int and value > LARGEST_TINY:
                settings[name] = TINY_SIZE
        return cls(**settings)


def _kind_alone(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


named = BeforeValidator(_kind_alone)
"""Lets a recipe say `cell: gru` where `cell: {kind: gru}` is meant."""


def members(union: Any) -> dict[str, type[Options]]:
    """Return the parts in a union of options, by their `kind`.

    >>> from windlass.nn.cells import CellOptions
    >>> {"gru", "lstm"} <= members(CellOptions).keys(), members(CellOptions)["gru"]().reset
    (True, 'after')
    """
    found: dict[str, type[Options]] = {}
    for part in get_args(union):
        if isinstance(part, type) and issubclass(part, Options):
            for kind in get_args(part.model_fields["kind"].annotation) if "kind" in part.model_fields else ():
                found[kind] = part
        else:
            found |= members(part)
    return found


def record(annotation: Any) -> type[Options] | None:
    """The record of options that a field holds, or may leave out; None where it holds something else.

    >>> record(Options | None).__name__, record(int) is None
    ('Options', True)
    """
    parts = [part for part in get_args(annotation) if part is not NoneType] or [annotation]
    alone = parts[0] if len(parts) == 1 else None
    return alone if isinstance(alone, type) and issubclass(alone, Options) else None


__all__ = ["Annotated", "Options", "members", "named", "record"]
