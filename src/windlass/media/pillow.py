"""Pillow, imported when a picture is first read: whoever reads texts goes without it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL import Image
else:

    class _Image:
        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("PIL.Image"), name)

    Image = _Image()

__all__ = ["Image"]
