"""Cheap baselines to stand beside every score, so that a user sees whether a model has learned anything.

of a text    copy                         the source itself
             most frequent                the commonest target of the training data
             last part                    where the source has parts: of a dialog, the last turn
             first words                  as many of the source's as the task says, where it is about them
             letter by letter             each letter's commonest counterpart, guessed by how far along a letter stands
of a label   most frequent                the commonest label
             bag of words                 a linear model of which words and pairs of words a text has; of a pair of
                                          texts, of which words both have, and which one of them alone
of tags      most frequent tag of a word  and for a word never seen the commonest of all
             hidden Markov model          which tag follows which, and which word a tag has
             bag of words of each         where tags are of sentences: every sentence by itself
of a tree    right-branching              with the commonest labels, and every word's commonest tag
             commonest tree of its length what sentences with as many words mostly have
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from windlass.baseline.bag import BagOfEach, BagOfWords
from windlass.baseline.hmm import HiddenMarkov
from windlass.baseline.text import (
    Baseline,
    Pairs,
    copy,
    first_words,
    last_part,
    letter_by_letter,
    most_frequent,
    most_frequent_tag,
)
from windlass.baseline.trees import COMMONEST, RIGHT, TreeGuess, tree_guesses
from windlass.core.errors import DataError
from windlass.core.tensors import atomic_write
from windlass.data.examples import Source, joined
from windlass.metrics import get_metric

AnyBaseline = Baseline | BagOfWords | BagOfEach | HiddenMarkov | TreeGuess

LONGEST_FOR_LETTERS = 40
"""Mean source length, in characters, above which nobody would write letter by letter."""


def fit(train: Pairs, target: str = "text", source: str = "text", lead: int | None = None) -> list[AnyBaseline]:
    """Return every baseline that makes sense for the data and the kinds of its sides, the simplest first.

    `lead` is how many of the first words are an answer, where they can be one.

    >>> [baseline.name for baseline in fit([("a", "x")])]
    ['copy', 'most frequent', 'letter by letter']
    """
    if not train:
        raise DataError("a baseline needs training examples, and there are none")
    if target == "label":
        return [most_frequent(train), BagOfWords.fit(train, source == "pair")]
    if target == "tags" and source == "document":
        return [most_frequent_tag(train), BagOfEach.fit(train)]
    if target == "tree":
        return list(tree_guesses(train))
    if target == "tags":
        return [most_frequent_tag(train), HiddenMarkov.fit(train)]
    found: list[AnyBaseline] = [copy(), most_frequent(train)]
    if any(not isinstance(source, str) for source, _ in train):
        found.append(last_part())
    if lead is not None:
        found.append(first_words(lead))
    if sum(len(joined(source)) for source, _ in train) <= LONGEST_FOR_LETTERS * len(train):
        found.append(letter_by_letter(train))
    return found


def best_baseline(
    train: Pairs,
    sources: Sequence[Source],
    references: Sequence[Sequence[str]],
    metric: str,
    target: str = "text",
    source: str = "text",
    lead: int | None = None,
) -> AnyBaseline:
    """Return the baseline that does best on held-out examples; of equally good ones, the simplest.

    >>> best_baseline([("ab", "αβ"), ("ba", "βα")], ["aab"], [["ααβ"]], "accuracy").name
    'letter by letter'
    """
    measure = get_metric(metric)
    sign = 1 if measure.higher_is_better else -1
    return max(
        fit(train, target, source, lead),
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
        kinds: dict[str, type[AnyBaseline]] = {
            "bag of words": BagOfWords,
            "bag of words of each": BagOfEach,
            "hidden Markov model": HiddenMarkov,
            RIGHT: TreeGuess,
            COMMONEST: TreeGuess,
        }
        return kinds.get(content["name"], Baseline)(**content)
    except (OSError, ValueError, TypeError, KeyError):
        return None


__all__ = [
    "AnyBaseline",
    "BagOfEach",
    "BagOfWords",
    "Baseline",
    "HiddenMarkov",
    "Pairs",
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
