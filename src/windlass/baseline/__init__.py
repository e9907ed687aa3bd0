"""Cheap baselines to stand beside every score, so that a user sees whether a model has learned anything.

of a text    copy                         the source itself
             most frequent                the commonest target of the training data
             last part                    where the source has parts: of a dialog, the last turn
             first words                  as many of the source's as the task says, where it is about them
             letter by letter             each letter's commonest counterpart, guessed by how far along a letter stands
of a label   most frequent                the commonest label
             bag of words                 a linear model of which words and pairs of words a text has; of a pair of
                                          texts, of which words both have, and which one of them alone
of labels    most frequent                the commonest set of labels
of a number  mean                         that of the training data
of tags      most frequent tag of a word  and for a word never seen the commonest of all
             hidden Markov model          which tag follows which, and which word a tag has
             bag of words of each         where tags are of sentences: every sentence by itself
of a tree    right-branching              with the commonest labels, and every word's commonest tag
             commonest tree of its length what sentences with as many words mostly have
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from windlass.baseline.bag import BagOfEach, BagOfWords
from windlass.baseline.hmm import HiddenMarkov
from windlass.baseline.text import (
    Baseline,
    copy,
    first_words,
    last_part,
    letter_by_letter,
    mean_number,
    most_frequent,
    most_frequent_tag,
)
from windlass.baseline.trees import COMMONEST, RIGHT, TreeGuess, tree_guesses
from windlass.core.errors import DataError
from windlass.core.tensors import atomic_write
from windlass.data.examples import Pairs, Value, as_text
from windlass.data.sides import SideOptions
from windlass.metrics import get_metric

AnyBaseline = Baseline | BagOfWords | BagOfEach | HiddenMarkov | TreeGuess

LONGEST_FOR_LETTERS = 40
"""Mean source length, in characters, above which nobody would write letter by letter."""


def _last_part(train: Pairs, lead: int | None) -> list[Baseline]:
    return [last_part()] if any(isinstance(source, tuple) for source, _ in train) else []


def _letters(train: Pairs, lead: int | None) -> list[Baseline]:
    short = sum(len(as_text(source)) for source, _ in train) <= LONGEST_FOR_LETTERS * len(train)
    return [letter_by_letter(train)] if short else []


BASELINES: dict[str, Callable[[Pairs, int | None], Sequence[AnyBaseline]]] = {
    "copy": lambda train, lead: [copy()],
    "most frequent": lambda train, lead: [most_frequent(train)],
    "mean": lambda train, lead: [mean_number(train)],
    "last part": _last_part,
    "first words": lambda train, lead: [] if lead is None else [first_words(lead)],
    "letter by letter": _letters,
    "bag of words": lambda train, lead: [BagOfWords.fit(train)],
    "bag of words of a pair": lambda train, lead: [BagOfWords.fit(train, pair=True)],
    "bag of words of each": lambda train, lead: [BagOfEach.fit(train)],
    "most frequent tag of a word": lambda train, lead: [most_frequent_tag(train)],
    "hidden Markov model": lambda train, lead: [HiddenMarkov.fit(train)],
    "guessed trees": lambda train, lead: tree_guesses(train),
}
"""By the names that target sides call them: fitted to pairs of a source and a target; none where one makes no sense.
`lead` is how many of the first words are an answer, where they can be one."""
LOADED: dict[str, type[AnyBaseline]] = {
    "bag of words": BagOfWords,
    "bag of words of each": BagOfEach,
    "hidden Markov model": HiddenMarkov,
    RIGHT: TreeGuess,
    COMMONEST: TreeGuess,
}
"""The classes of saved baselines by their names; all others are tables."""


def fit(train: Pairs, sides: SideOptions | None = None, lead: int | None = None) -> list[AnyBaseline]:
    """Return every baseline that suits the sides and the data, the simplest first.

    >>> [baseline.name for baseline in fit([("a", "x")])]
    ['copy', 'most frequent', 'letter by letter']
    """
    if not train:
        raise DataError("a baseline needs training examples, and there are none")
    sides = sides or SideOptions()
    names = [sides.source_side.instead.get(name, name) for name in sides.target_side.baselines]
    return [baseline for name in names for baseline in BASELINES[name](train, lead)]


def best_baseline(
    train: Pairs,
    sources: Sequence[Value],
    references: Sequence[Sequence[str]],
    metric: str,
    sides: SideOptions | None = None,
    lead: int | None = None,
) -> AnyBaseline:
    """Return the baseline that does best on held-out examples; of equally good ones, the simplest.

    >>> best_baseline([("ab", "αβ"), ("ba", "βα")], ["aab"], [["ααβ"]], "accuracy").name
    'letter by letter'
    """
    measure = get_metric(metric)
    sign = 1 if measure.higher_is_better else -1
    return max(
        fit(train, sides, lead),
        key=lambda baseline: sign * measure.function(baseline.predict(sources), references)[metric],
    )


def save_baseline(folder: Path, baseline: AnyBaseline) -> None:
    """Write a baseline beside the model, as plain data.

    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> save_baseline(folder, Baseline("copy"))
    >>> load_baseline(folder)
    Baseline(name='copy', unit='whole', table={}, default=None, joiner='', count=None)
    """
    atomic_write(folder / "baseline.json", json.dumps(asdict(baseline), ensure_ascii=False, indent=1).encode())


def load_baseline(folder: Path) -> AnyBaseline | None:
    """The baseline saved with a bundle, if it is there and readable.

    >>> load_baseline(Path("/nowhere")) is None
    True
    """
    try:
        content = json.loads((folder / "baseline.json").read_text(encoding="utf-8"))
        return LOADED.get(content["name"], Baseline)(**content)
    except (OSError, ValueError, TypeError, KeyError):
        return None


__all__ = [
    "BASELINES",
    "AnyBaseline",
    "BagOfEach",
    "BagOfWords",
    "Baseline",
    "HiddenMarkov",
    "TreeGuess",
    "best_baseline",
    "copy",
    "first_words",
    "fit",
    "last_part",
    "letter_by_letter",
    "load_baseline",
    "most_frequent",
    "most_frequent_tag",
    "save_baseline",
]
