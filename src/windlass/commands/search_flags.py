"""Search options from command-line flags, on top of those of the recipe."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError

from windlass.core.errors import RecipeError, nearest
from windlass.core.options import members
from windlass.decoding.options import SearchOptions

_FLAGS = {"size": "--beam", "kind": "--search", "length_plus": "--length"}


def search_options(base: SearchOptions, kind: str | None = None, **flags: Any) -> SearchOptions:
    """Override a recipe's search with the flags that are set; a flag that the search does not have is an error.

    >>> from windlass.decoding.options import Beam
    >>> search_options(Beam(), size=3).size
    3
    >>> search_options(Beam(), top_k=3)
    Traceback (most recent call last):
    windlass.core.errors.RecipeError: --top-k has no use in beam search; it belongs to: sample
    """
    overrides = {name: value for name, value in flags.items() if value is not None}
    known = members(SearchOptions)
    if kind is None:
        kind = "beam" if "size" in overrides else base.kind
    if kind not in known:
        raise RecipeError(f"--search {kind}: unknown; {nearest(kind, known)}")
    for name in overrides:
        if name not in known[kind].model_fields:
            kinds = ", ".join(k for k, options in known.items() if name in options.model_fields)
            raise RecipeError(f"{flag_of(name)} has no use in {kind} search; it belongs to: {kinds}")
    common = {n: v for n, v in base.model_dump().items() if n in known[kind].model_fields and n != "kind"}
    try:
        return TypeAdapter(SearchOptions).validate_python({"kind": kind, **common, **overrides})
    except ValidationError as error:
        first = error.errors()[0]
        raise RecipeError(f"{flag_of(str(first['loc'][-1]))}: {first['msg'].lower()}, not {first['input']!r}") from None


def flag_of(name: str) -> str:
    """Return the command-line flag of a search option.

    >>> flag_of("top_k"), flag_of("size")
    ('--top-k', '--beam')
    """
    return _FLAGS.get(name, "--" + name.replace("_", "-"))
