"""Pretrained word vectors for any recipe that reads words."""

from __future__ import annotations

from itertools import islice
from typing import Any

from windlass.core.errors import DataError, RecipeError
from windlass.data.files import lines
from windlass.data.findings import Findings
from windlass.recipe import Recipe, parse

SAMPLE = 10_000
"""Lines of a file of vectors that tell whether its words have capitals: one in twenty has, if they do."""
MORE = 50_000
"""Words of a file of vectors that a model learns to read beside those of its training data."""


def with_vectors(recipe: Recipe, path: str) -> Recipe:
    """Return a recipe whose word embeddings start from a file of vectors, as large as they are there.

    If the file has words with capitals, a source of words looks them up as they are written before it tries lower case.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "vectors.txt"
    >>> _ = file.write_text("the 0.1 0.2 0.3\\ncat 0.3 0.1 0.5\\nUlm 0.2 0.4 0.1\\n")
    >>> from windlass.recipe import compose
    >>> recipe = with_vectors(compose("tag", None), str(file))
    >>> recipe.model.encoder.source_embedding.size, recipe.source.lowercase
    (3, 'unknown')
    """
    content = recipe.model_dump(mode="json")
    size, cased = _look(path)
    if not _replace(content["model"]["encoder"], {"kind": "vectors", "path": path, "size": size, "more": MORE}):
        raise RecipeError("--vectors: the encoder of this recipe has no embedding of its own")
    source = content["source"]
    if cased and source["kind"] == "words" and source["lowercase"]:
        source["lowercase"] = "unknown"
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


def _look(path: str) -> tuple[int, bool]:
    """The size of the vectors of a file, which may begin with a count and a size; whether words have capitals."""
    size, capitals, words = None, 0, 0
    for number, line in islice(lines(path, Findings()), SAMPLE):
        word, *numbers = line.split() or [""]
        if number == 1 and len(numbers) == 1 and word.isdigit() and numbers[0].isdigit():
            size = int(numbers[0])
            continue
        size = size or len(numbers)
        words, capitals = words + 1, capitals + (word != word.lower())
    if not size or size < 2:
        what = "a line is a word and its numbers, such as 'cat 0.1 -0.2 ...'"
        raise DataError(f"{path}:1: not a file of vectors: {what}")
    return size, capitals > words / 20
