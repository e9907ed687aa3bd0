"""The number of the subject, from the dependencies of a CoNLL-U file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from windlass.bundle import Bundle
from windlass.core.errors import DataError
from windlass.data.conll import Block, blocks
from windlass.data.findings import Findings
from windlass.data.readers import DataOptions

Numbers = NDArray[np.float64]
"""For every letter that is not a space: 1 after a plural subject, 0 after a singular one, nan from its verb on."""

_FEATS, _HEAD, _RELATION, _MISC = 5, 6, 7, 9
_NUMBER = {"Number=Plur": 1.0, "Number=Sing": 0.0}


def treebank(bundle: Bundle, path: str | Path) -> tuple[list[str], list[Numbers]]:
    """Read a CoNLL-U file for a model: the texts, and the numbers of their subjects.

    A language model reads one text, a sentence a line; others a sentence at a time.
    """
    read = read_subjects(str(path), spaced=bundle.sides.source.word_by_word)
    if bundle.task.language_model:
        return ["\n".join(text for text, _ in read)], [np.concatenate([numbers for _, numbers in read])]
    return [text for text, _ in read], [numbers for _, numbers in read]


def read_subjects(path: str, spaced: bool = False) -> list[tuple[str, Numbers]]:
    """Read sentences and the number of their subjects, from the subject to the word that it depends on.

    `spaced` puts a space between all words, also where the text has none.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.conllu"
    >>> rows = ["1\\tDogs\\t_\\tNOUN\\t_\\tNumber=Plur\\t3\\tnsubj\\t_\\t_", "2\\tof\\t_\\tX\\t_\\t_\\t1\\tx\\t_\\t_",
    ...         "3\\tbark\\t_\\tVERB\\t_\\t_\\t0\\troot\\t_\\t_"]
    >>> _ = file.write_text("\\n".join(rows) + "\\n")
    >>> ((text, numbers),) = read_subjects(str(file))
    >>> text, numbers.tolist()
    ('Dogs of bark', [nan, nan, nan, 1.0, 1.0, 1.0, nan, nan, nan, nan])
    """
    found = [_sentence(block, spaced) for block in blocks(path, "conllu", DataOptions(), Findings()) if block.rows]
    if not any(np.isfinite(numbers).any() for _, numbers in found):
        raise DataError(
            f"{path}: no subject with a number: a CoNLL-U file with Number in its features, and nsubj in its relations,"
            " is needed"
        )
    return found


def _sentence(block: Block, spaced: bool) -> tuple[str, Numbers]:
    """A sentence, and the number that waits for a verb at each letter: that of the latest subject."""
    rows = [block.lines[row].split("\t") for row in block.rows]
    rows = [[*row, *["_"] * (10 - len(row))] for row in rows]
    ends = np.cumsum([len("".join(word.split())) for word in block.words])
    numbers = np.full(int(ends[-1]), np.nan)
    for place, row in enumerate(rows):
        number = next((_NUMBER[one] for one in row[_FEATS].split("|") if one in _NUMBER), None)
        verb = int(row[_HEAD]) - 1 if row[_HEAD].isdigit() else -1
        if row[_RELATION].startswith("nsubj") and number is not None and place < verb < len(rows):
            numbers[ends[place] - 1 : ends[verb - 1]] = number
    joined = [not spaced and "SpaceAfter=No" in row[_MISC].split("|") for row in rows]
    text = "".join(word + ("" if join else " ") for word, join in zip(block.words, joined, strict=True))
    return text.strip(), numbers
