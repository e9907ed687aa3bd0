"""JSON objects, one a line or in an array."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from windlass.core.serialise import read_json
from windlass.data.files import undecoded
from windlass.data.findings import Finding, blank_line

Objects = Iterator[tuple[int, dict[str, Any] | Finding]]
"""The objects of lines, or what is wrong with a line."""


def objects(name: str, numbered: Iterator[tuple[int, str]]) -> Objects:
    """The objects of lines with a JSON object each, or of a JSON array of objects.

    >>> [value for _, value in objects("a.jsonl", iter([(1, '[{"word": "cat"},'), (2, '{"word": "dog"}]')]))]
    [{'word': 'cat'}, {'word': 'dog'}]
    """
    first = next(numbered, None)
    if first is None:
        return
    begin: list[tuple[int, str]] = [first]
    if first[1].lstrip().startswith("["):
        if not _is_json(first[1]):  # an array of several lines
            begin += numbered
        values = _array("\n".join(text for _, text in begin))
        if values is not None:
            yield from enumerate(values, 1)
            begin = []
    for line, text in chain(begin, numbered):
        yield line, _object(name, line, text)


def _object(name: str, line: int, text: str) -> dict[str, Any] | Finding:
    if bad := undecoded(text):
        return Finding(name, line, "invalid UTF-8", bad, "skipped")
    if not text.strip():
        return blank_line(name, line)
    try:
        value = read_json(text, finite=False)
    except ValueError as error:
        what = f"not JSON ({error}); every line must be one whole object"
        return Finding(name, line, "wrong JSON", what, "skipped")
    if isinstance(value, dict):
        return value
    what = f"not a JSON object but {type(value).__name__}; write one object a line"
    return Finding(name, line, "wrong JSON", what, "skipped")


def _is_json(text: str) -> bool:
    try:
        read_json(text, finite=False)
    except ValueError:
        return False
    return True


def _array(text: str) -> list[dict[str, Any]] | None:
    """The objects of a text that is one JSON array of them."""
    try:
        values = read_json(text, finite=False)
    except ValueError:
        return None
    return values if isinstance(values, list) and all(isinstance(value, dict) for value in values) else None


def first_object(line: str) -> dict[str, Any] | None:
    """The object that the first line of a text holds, or begins an array with; None if it is another text.

    >>> first_object('{"word": "cat"}'), first_object("cat")
    ({'word': 'cat'}, None)
    """
    text = line.strip()
    if text.startswith("["):
        values = _array(text if text.endswith("]") else f"{text.rstrip(',')}]")
        return values[0] if values else None
    value = _object("", 1, text) if text.startswith("{") else None
    return value if isinstance(value, dict) else None
