"""Pretrained word vectors for any recipe that reads words."""

from __future__ import annotations

from typing import Any

from windlass.core.errors import DataError, RecipeError
from windlass.data.files import lines
from windlass.data.findings import Findings
from windlass.recipe import Recipe, parse

MORE = 50_000
"""Words of a file of vectors that a model learns to read beside those of its training data."""


def with_vectors(recipe: Recipe, path: str) -> Recipe:
    """Return a recipe whose word embeddings start from a file of vectors, as large as they are there.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "vectors.txt"
    >>> _ = file.write_text("the 0.1 0.2 0.3\\ncat 0.3 0.1 0.5\\n")
    >>> from windlass.recipe import compose
    >>> with_vectors(compose("tag", None), str(file)).model.encoder.source_embedding.size
    3
    """
    content = recipe.model_dump(mode="json")
    size = _size(path)
    if not _replace(content["model"]["encoder"], {"kind": "vectors", "path": path, "size": size, "more": MORE}):
        raise RecipeError("--vectors: the encoder of this recipe has no embedding of its own")
    return parse(content)


def _replace(part: Any, vectors: dict[str, Any]) -> bool:
    """Replace the first learned embedding, that of words; dropout stays."""
    if not isinstance(part, dict):
        return False
    old = part.get("embedding")
    if isinstance(old, dict):
        part["embedding"] = {**vectors, "dropout": old["dropout"], "blank": old["blank"]}
        return True
    return any(_replace(value, vectors) for value in part.values())


def _size(path: str) -> int:
    """The numbers of a vector in a file, whose first line may be a count and a size."""
    for number, line in lines(path, Findings()):
        parts = line.split()
        if number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts):
            return int(parts[1])
        if len(parts) > 2:
            return len(parts) - 1
        break
    raise DataError(f"{path}:1: not a file of vectors: a line is a word and its numbers, such as 'cat 0.1 -0.2 ...'")
