"""Typed options, the building blocks of a recipe.

Each component (a cell, an attention, an encoder ...) has its own options class with a literal field `kind`. The union
of these classes lists the components of a folder. An options class holds only what its component uses, so that an
option without effect cannot be written. What depends on other components, a component declares: see `core/fitting.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType
from typing import Any, ClassVar, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, field_validator

from windlass.core.errors import short
from windlass.core.fitting import Gives, Term

LARGEST_TINY, TINY_SIZE = 8, 6
"""`Options.small` replaces a size above the first by the second, which 1, 2 and 3 heads can share."""

LARGEST = 2**53
"""The largest integer of an option: JSON, float64 and torch all hold it exactly."""


class Options(BaseModel):
    """Base class: frozen; an unknown key is an error, and so are NaN and infinity.

    >>> class Size(Options):
    ...     size: int = 4
    >>> Size(size=8).size
    8
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)
    part: ClassVar[Any]  # the class that the options build, if they are nested in one (see `Part`)

    @field_validator("*")
    @classmethod
    def _fits_a_machine(cls, value: Any) -> Any:
        numbers = value if isinstance(value, tuple) else (value,)
        if any(isinstance(number, int) and abs(number) > LARGEST for number in numbers):
            raise ValueError(f"at most {LARGEST:,}")
        return value

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
        """
        return (cls.small(),)

    @classmethod
    def small(cls, **settings: Any) -> Self:
        """The part with these settings, and every other size cut down to a few units."""
        for name, field in cls.model_fields.items():
            value = field.default
            if name not in settings and isinstance(value, Options):
                settings[name] = type(value).tiny()[0]
            elif name not in settings and type(value) is int and value > LARGEST_TINY:
                settings[name] = TINY_SIZE
        return cls(**settings)


class Part:
    """The base of parts that a recipe names by the `kind` of their nested `Options`, which know their part.

    >>> class Layer(Part):
    ...     class Options(Options):
    ...         size: int = 4
    >>> Layer.Options().part is Layer
    True
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "Options" in vars(cls):
            vars(cls)["Options"].part = cls


def _expand_shorthand(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


named = BeforeValidator(_expand_shorthand)
"""Lets a recipe say `cell: gru` instead of `cell: {kind: gru}`."""


def reason(error: Exception) -> str:
    """Say in one line what an error found wrong with the content of a file.

    >>> try:
    ...     Options.model_validate({"size": 4})
    ... except ValidationError as error:
    ...     reason(error)
    'size: extra inputs are not permitted, not 4'
    >>> reason(KeyError("symbols"))
    "no 'symbols'"
    """
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        key, message = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        return f"{key}: {message[:1].lower()}{message[1:]}, not {short(first['input'])}"
    if isinstance(error, KeyError):
        return f"no {short(error.args[0])}" if error.args else "a key is missing"
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]} ..."


def members(union: Any) -> dict[str, type[Options]]:
    """Return the options classes of a union by `kind`.

    >>> from windlass.nn.cells import CellOptions
    >>> {"gru", "lstm"} <= members(CellOptions).keys(), members(CellOptions)["gru"]().reset
    (True, 'after')
    """
    by_kind: dict[str, type[Options]] = {}
    for member in get_args(union):
        if isinstance(member, type) and issubclass(member, Options):
            for kind in get_args(member.model_fields["kind"].annotation) if "kind" in member.model_fields else ():
                by_kind[kind] = member
        else:
            by_kind |= members(member)
    return by_kind


def options_class(annotation: Any) -> type[Options] | None:
    """Return the options class of an annotation, `X` or `X | None`; None if it is something else.

    >>> class Size(Options):
    ...     size: int = 4
    >>> options_class(Size | None) is Size, options_class(int)
    (True, None)
    """
    types = [member for member in get_args(annotation) if member is not NoneType] or [annotation]
    only = types[0] if len(types) == 1 else None
    return only if isinstance(only, type) and issubclass(only, Options) else None
