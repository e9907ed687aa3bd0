"""Cheap baselines to report beside every score, so that a user sees whether a model has learned anything.

text    copy                          the source
        most frequent                 the most frequent target of the training data
        last part                     the last turn of a dialog
        first words                   the first words of the source (the lead), if the task has a lead
        letter by letter              each letter's most frequent counterpart, aligned by relative position
label   most frequent                 the most frequent label
        bag of words                  logistic regression on tf-idf of unigrams and bigrams; for a pair of texts, on
                                      shared words and words of either text alone; for a question about a
                                      picture, on the question: what can be answered without a look
labels  most frequent                 the most frequent set of labels
number  mean                          the mean of the training data
tags    most frequent tag of a word   an unknown word gets the most frequent tag overall
        hidden Markov model           a bigram tagger with Viterbi decoding
        bag of words of each          tags of sentences: a bag of words per sentence
tree    right-branching               with the most frequent labels, and every word's most frequent tag
        commonest tree of its length  the most frequent tree for the number of words
        most frequent tag             of what is no text: the most frequent tag at every place
any     nearest                       the target of the most similar training example, if sources have feature vectors
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter

from windlass.baseline.bag import BagOfWords, BagOfWordsTagger
from windlass.baseline.hmm import HiddenMarkov
from windlass.baseline.nearest import FILE as NEAREST_FILE
from windlass.baseline.nearest import Nearest
from windlass.baseline.places import NAME as FREQUENT_TAG
from windlass.baseline.places import FrequentTag
from windlass.baseline.text import (
    Baseline,
    TooLargeError,
    first_words,
    letter_by_letter,
    mean_number,
    most_frequent,
    most_frequent_tag,
)
from windlass.baseline.trees import COMMONEST, RIGHT, TreeBaseline, tree_baselines
from windlass.bundle import load_checked, load_definition, save_checked
from windlass.core.errors import BundleError, DataError, short
from windlass.core.options import reason
from windlass.core.serialise import read_json
from windlass.data.examples import Pairs, Value, as_text
from windlass.data.sides import SideOptions, SourceSide
from windlass.metrics import get_metric

FILE = "baseline.json"
_SavedAsJson = Baseline | BagOfWords | BagOfWordsTagger | HiddenMarkov | TreeBaseline
AnyBaseline = _SavedAsJson | Nearest | FrequentTag

LONGEST_FOR_LETTERS = 40
"""Mean source length, in characters, up to which letter by letter is tried."""


def _last_part(train: Pairs, lead: int | None) -> list[Baseline]:
    return [Baseline("last part", "last part")] if any(isinstance(source, tuple) for source, _ in train) else []


def _letters(train: Pairs, lead: int | None) -> list[Baseline]:
    short = sum(len(as_text(source)) for source, _ in train) <= LONGEST_FOR_LETTERS * len(train)
    return [letter_by_letter(train)] if short else []


BASELINES: dict[str, Callable[[Pairs, int | None], Sequence[AnyBaseline]]] = {
    "copy": lambda train, lead: [Baseline("copy")],
    "most frequent": lambda train, lead: [most_frequent(train)],
    "mean": lambda train, lead: [mean_number(train)],
    "last part": _last_part,
    "first words": lambda train, lead: [] if lead is None else [first_words(lead)],
    "letter by letter": _letters,
    "bag of words": lambda train, lead: [BagOfWords.fit(train)],
    "bag of words of a pair": lambda train, lead: [BagOfWords.fit(train, pair=True)],
    "bag of words of the question": lambda train, lead: [BagOfWords.fit(train, question=True)],
    "bag of words of each": lambda train, lead: [BagOfWordsTagger.fit(train)],
    "most frequent tag of a word": lambda train, lead: [most_frequent_tag(train)],
    "hidden Markov model": lambda train, lead: [HiddenMarkov.fit(train)],
    "guessed trees": lambda train, lead: tree_baselines(train),
}
"""Fitting functions by the names that target sides use; one that does not apply to the data returns none. `lead` is the
number of words of the lead baseline, if the task has one."""
CLASSES: dict[str, type[_SavedAsJson]] = {
    "bag of words": BagOfWords,
    "bag of words of the question": BagOfWords,
    "bag of words of each": BagOfWordsTagger,
    "hidden Markov model": HiddenMarkov,
    RIGHT: TreeBaseline,
    COMMONEST: TreeBaseline,
}
"""Classes of baselines saved as JSON by name; all others are `Baseline`."""


def fit(
    train: Pairs,
    sides: SideOptions | None = None,
    lead: int | None = None,
    note: Callable[[str], None] = lambda text: None,
    source: SourceSide | None = None,
) -> list[AnyBaseline]:
    """Fit every baseline that suits the sides and the data, the simplest first; note those that are left out.

    `source` is the fitted source, for the vectors of its values.

    >>> [baseline.name for baseline in fit([("a", "x")])]
    ['copy', 'most frequent', 'letter by letter']
    """
    if not train:
        raise DataError("no training examples to fit a baseline on")
    sides = sides or SideOptions()
    names = [sides.source_side.instead.get(name, name) for name in sides.target_side.baselines]
    fitted: list[AnyBaseline] = []
    for name in filter(None, (*names, *sides.source_side.beside)):
        try:
            if name == "nearest":
                fitted += _nearest(train, source)
            elif name == FREQUENT_TAG:
                fitted.append(FrequentTag.fit(train, partial(sides.source_side.split, sides.source)))
            else:
                fitted += BASELINES[name](train, lead)
        except TooLargeError as error:
            note(f"the baseline {name} is left out: {error}")
    return fitted


def _nearest(train: Pairs, source: SourceSide | None) -> list[Nearest]:
    vector = getattr(source, "vector", None)  # of a source with features
    return [] if vector is None else [Nearest.fit(train, vector)]


def best_baseline(
    train: Pairs,
    sources: Sequence[Value],
    references: Sequence[Sequence[str]],
    metric: str,
    sides: SideOptions | None = None,
    lead: int | None = None,
    note: Callable[[str], None] = lambda text: None,
    source: SourceSide | None = None,
) -> AnyBaseline:
    """Return the baseline that does best on held-out examples; on a tie, the simplest.

    >>> best_baseline([("ab", "αβ"), ("ba", "βα")], ["aab"], [["ααβ"]], "accuracy").name
    'letter by letter'
    """
    measure = get_metric(metric)
    sign = 1 if measure.higher_is_better else -1
    return max(
        fit(train, sides, lead, note, source),
        key=lambda baseline: sign * measure.function(baseline.predict(sources), references)[metric],
    )


def save_baseline(folder: Path, baseline: AnyBaseline) -> None:
    """Write a baseline beside the model, as plain data; vectors go to a file of their own.

    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> save_baseline(folder, Baseline("copy"))
    >>> load_baseline(folder)
    Baseline(name='copy', unit='whole', table={}, default=None, joiner='', count=None)
    """
    if isinstance(baseline, Nearest):
        baseline.save(folder)
        return
    content = {name: value for name, value in asdict(baseline).items() if name != "split"}
    save_checked(folder, FILE, json.dumps(content, ensure_ascii=False, indent=1).encode())


def load_baseline(folder: Path, source: SourceSide | None = None) -> AnyBaseline | None:
    """Return the baseline saved with a bundle; None if it has none. A damaged one is a BundleError.

    `source` is the source whose values it will be asked for; None: that of the bundle.

    >>> load_baseline(Path("/nowhere")) is None
    True
    """
    saved = load_checked(folder, FILE)
    if saved is None:
        return _load_nearest(folder, source)
    try:
        content = read_json(saved)
        if not isinstance(content, dict):
            raise ValueError("not a JSON object")
        if content["name"] == FREQUENT_TAG:
            side = source or load_definition(folder)[1].source
            return FrequentTag(str(content["tag"]), partial(side.split, side.options))
        baseline = TypeAdapter(CLASSES.get(content["name"], Baseline)).validate_python(content)
        if strange := content.keys() - asdict(baseline).keys():
            raise ValueError(f"unknown key {short(min(strange))}")
        baseline.check()
    except (ValueError, TypeError, KeyError) as error:
        raise BundleError(
            f"{folder / FILE}: damaged: {reason(error)}; restore it, or delete it to go without a baseline"
        ) from None
    return baseline


def _load_nearest(folder: Path, source: SourceSide | None) -> Nearest | None:
    if not (folder / NEAREST_FILE).exists():
        return None
    vector = getattr(source or load_definition(folder)[1].source, "vector", None)
    if vector is None:
        raise BundleError(
            f"{folder / NEAREST_FILE}: the source of this model has no vectors; delete it to go without a baseline"
        )
    return Nearest.load(folder, vector)
