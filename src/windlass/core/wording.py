"""Numbers in sentences."""

from __future__ import annotations


def counted(count: int, noun: str, several: str | None = None) -> str:
    """Return a number with its noun in singular or plural.

    >>> counted(1, "example"), counted(2500, "example"), counted(2, "process", "processes")
    ('1 example', '2,500 examples', '2 processes')
    """
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"
