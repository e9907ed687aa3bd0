"""BLEU and chrF by sacreBLEU, with its signatures; the diversity of outputs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from windlass.core.errors import WindlassError
from windlass.metrics.edit import check_references

if TYPE_CHECKING:  # 15 MB and more, so each function imports what it needs
    from sacrebleu.metrics.base import Metric


def streams(references: Sequence[Sequence[str]]) -> list[list[Any]]:  # str or None, which sacreBLEU's annotations omit
    """Transpose references to the streams of sacreBLEU; None where an item has fewer.

    >>> streams([["a", "b"], ["c"]])
    [['a', 'c'], ['b', None]]
    """
    count = max(map(len, references))
    return [[item[k] if k < len(item) else None for item in references] for k in range(count)]


def _score(metric: Metric, predictions: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, str]:
    check_references(predictions, references)
    score = metric.corpus_score(list(predictions), streams(references)).score
    return float(score), str(metric.get_signature())


def bleu(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return corpus BLEU of detokenised text, cased (`bleu`) and lowercased (`bleu_lc`).

    >>> bleu(["a man walks the dog"], [["A man walks the dog"]])
    {'bleu': 66.87..., 'bleu_lc': 100.0...}
    """
    from sacrebleu.metrics.bleu import BLEU

    # `force` only silences a warning at every evaluation that the outputs look tokenised.
    return {
        "bleu": _score(BLEU(force=True), predictions, references)[0],
        "bleu_lc": _score(BLEU(lowercase=True, force=True), predictions, references)[0],
    }


def chrf(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return chrF2: F2 of character n-grams up to 6.

    >>> chrf(["a dog"], [["a dog"]])
    {'chrf': 100.0}
    """
    from sacrebleu.metrics.chrf import CHRF

    return {"chrf": _score(CHRF(), predictions, references)[0]}


def signatures(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, str]:
    """Return the sacreBLEU signature of each metric of this module.

    >>> signatures(["a dog"], [["a dog"]])["bleu"]
    'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:...'
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    metrics: dict[str, Metric] = {"bleu": BLEU(force=True), "bleu_lc": BLEU(lowercase=True, force=True), "chrf": CHRF()}
    return {name: _score(metric, predictions, references)[1] for name, metric in metrics.items()}


def bleu_moses_lowercased(
    predictions: Sequence[str], references: Sequence[Sequence[str]], language: str = "en"
) -> dict[str, float]:
    """Return BLEU of lowercased, Moses-tokenised text, as in older papers, which differ in details.

    >>> import pytest; _ = pytest.importorskip("sacremoses")
    >>> bleu_moses_lowercased(["A dog, running."], [["a dog , running ."]])
    {'bleu_moses_lc': 100.0...}
    """
    from sacrebleu.metrics.bleu import BLEU

    try:
        moses = import_module("sacremoses")
    except ImportError:
        raise WindlassError("Moses-tokenised BLEU needs sacremoses: pip install 'windlass[moses]'") from None
    tokenise = moses.MosesTokenizer(lang=language).tokenize

    def prepare(text: str) -> str:
        return str(tokenise(text.lower(), return_str=True, escape=False))

    score, _ = _score(
        BLEU(tokenize="none", force=True),
        [prepare(prediction) for prediction in predictions],
        [[prepare(reference) for reference in item] for item in references],
    )
    return {"bleu_moses_lc": score}


def distinct(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return distinct-1 and distinct-2: distinct unigrams and bigrams in percent of all (Li et al. 2016).

    Words are lowercased and split at spaces; bigrams do not cross texts. The scores fall with the amount of text:
    compare them on the same inputs only.

    >>> distinct(["no no no", "I see"], [["yes"], ["yes"]])
    {'distinct_1': 60.0, 'distinct_2': 66.66...}
    """
    check_references(predictions, references)
    texts = [text.lower().split() for text in predictions]
    scores = {}
    for n in (1, 2):
        ngrams = [ngram for text in texts for ngram in zip(*(text[k:] for k in range(n)), strict=False)]
        scores[f"distinct_{n}"] = 100 * len(set(ngrams)) / max(1, len(ngrams))
    return scores
