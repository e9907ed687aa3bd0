"""Errors of pictures, clips and sound."""

from __future__ import annotations

from typing import Literal, TypeAlias

from windlass.core.errors import DataError

Kind: TypeAlias = Literal[
    "missing file", "unreadable picture", "unreadable clip", "unreadable sound", "too large", "too small"
]


class MediaError(DataError):
    """A picture, clip or sound that cannot be used. `kind` sorts such errors; the text names the file and the remedy.

    >>> error = MediaError("missing file", "cat.jpg: no such file: check the path")
    >>> error.kind, str(error)
    ('missing file', 'cat.jpg: no such file: check the path')
    """

    def __init__(self, kind: Kind, text: str):
        super().__init__(text)
        self.kind: Kind = kind

    def __reduce__(self) -> tuple[type[MediaError], tuple[Kind, str]]:
        return type(self), (self.kind, self.args[0])  # an error of a worker process keeps its kind
