"""The outputs of an evaluation that match no reference, to be looked through."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass.core.errors import WindlassError
from windlass.core.records import Prediction
from windlass.data.examples import Example, Place, as_text
from windlass.metrics.edit import accuracy
from windlass.metrics.labels import exact_match

MATCHES: dict[str, Callable[[Sequence[str], Sequence[Sequence[str]]], dict[str, float]] | None] = {
    "labels": exact_match,
    "number": None,
}
"""How outputs are compared, by kind of target, if not as texts; None: they are never simply wrong."""


@dataclass(frozen=True)
class Mistake:
    """An output that matches none of its references.

    >>> Mistake(Place("test.tsv", 3), "cat", "k a t s", ("k a t",), 0.9).output
    'k a t s'
    """

    place: Place
    source: str
    output: str
    references: tuple[str, ...]
    confidence: float | None  # the model's probability of the output


def find_mistakes(kind: str, examples: Sequence[Example], predictions: Sequence[Prediction]) -> tuple[Mistake, ...]:
    """The outputs that are wrong, the surest first; `kind` is that of the target. A number is never just wrong.

    >>> from windlass.core.records import TextAnswer
    >>> one = Prediction("k a t s", TextAnswer((), ()), confidence=0.9)
    >>> [m.output for m in find_mistakes("text", [Example("cat", ("k a t",), None, Place("test.tsv", 1))], [one])]
    ['k a t s']
    """
    match = MATCHES.get(kind, accuracy)
    if match is None:
        return ()
    found = []
    for example, prediction in zip(examples, predictions, strict=True):
        references = tuple(map(as_text, example.targets))
        if not all(match([prediction.text], [references]).values()):
            found.append(Mistake(example.place, example.text, prediction.text, references, prediction.confidence))
    return tuple(sorted(found, key=lambda one: 1.0 if one.confidence is None else -one.confidence))


def write_mistakes(mistakes: Sequence[Mistake], path: Path) -> None:
    """Write a table with a header, separated by tabs, or by commas if the file's name ends in .csv.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "wrong.tsv"
    >>> write_mistakes([Mistake(Place("test.tsv", 3), "cat", "k a t s", ("k a t",), 0.9)], path)
    >>> print(path.read_text(), end="")
    place	source	output	reference	probability
    test.tsv:3	cat	k a t s	k a t	0.9000
    """
    comma = path.suffix.lower() == ".csv"  # for spreadsheets, which take UTF-8 for another encoding without a mark
    try:
        with path.open("w", encoding="utf-8-sig" if comma else "utf-8", newline="") as file:
            rows = csv.writer(file, "excel" if comma else "excel-tab", lineterminator="\n")
            rows.writerow(("place", "source", "output", "reference", "probability"))
            for one in mistakes:
                chance = "" if one.confidence is None else f"{one.confidence:.4f}"
                rows.writerow((one.place, one.source, one.output, " | ".join(one.references), chance))
    except OSError as error:
        raise WindlassError(f"{path}: cannot write the mistakes: {error.strerror}") from None
