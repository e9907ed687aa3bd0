"""BLEU-1 to BLEU-4 and CIDEr-D, as captioning papers report them.

Texts are lowercased and punctuation is removed; clitics are words of their own ("man's" -> "man s", "don't" ->
"do n't"), and hyphenated words stay whole, as in the tokenisation of coco-caption. Words are not stemmed.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence

from windlass.metrics.edit import check_references
from windlass.metrics.text import streams

ORDERS = (1, 2, 3, 4)
SIGMA = 6.0
"""CIDEr-D: standard deviation of the length penalty, in words."""

_CLITIC = re.compile(r"(n't|'(?:s|m|d|re|ve|ll))\b")
_Ngram = tuple[str, ...]


def caption_words(text: str) -> list[str]:
    """Return the words of a caption.

    >>> caption_words("The man's T-shirt isn't blue, it is 'red'.")
    ['the', 'man', 's', 't-shirt', 'is', "n't", 'blue', 'it', 'is', 'red']
    """
    split = _CLITIC.sub(r" \1", unicodedata.normalize("NFC", text).lower().replace("’", "'"))
    kept = (" " if unicodedata.category(c)[0] == "P" and c not in "'-" else c for c in split)
    return [word for piece in "".join(kept).split() if (word := piece.strip("'-"))]


def caption_bleu(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return corpus BLEU up to unigrams, bigrams, trigrams and 4-grams, without smoothing.

    BLEU-n = BP (p_1 ... p_n)^(1/n)        BP = min(1, exp(1 - r / c))

    p_k is the clipped precision of k-grams over the corpus, c the length of the predictions, and r that of the closest
    references (on a tie, the shorter).

    >>> caption_bleu(["a dog runs on grass"], [["A dog runs!", "a dog on the grass"]])
    {'bleu_1': 100.0, 'bleu_2': 70.71..., 'bleu_3': 55.03..., 'bleu_4': 0.0}
    """
    from sacrebleu.metrics.bleu import BLEU

    check_references(predictions, references)
    found = BLEU(tokenize="none", smooth_method="none", force=True).corpus_score(
        [" ".join(caption_words(text)) for text in predictions],
        streams([[" ".join(caption_words(text)) for text in texts] for texts in references]),
    )
    precisions = [precision / 100 for precision in found.precisions]
    return {f"bleu_{n}": 100 * found.bp * math.prod(precisions[:n]) ** (1 / n) for n in ORDERS}


def cider(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return CIDEr-D (Vedantam et al. 2015), from 0 to 10: the mean over all items.

    cos_n(c, s) = min(g_n(c), g_n(s)) . g_n(s) / (|g_n(c)| |g_n(s)|)
    CIDEr-D(c)  = 10 mean over n = 1..4 and references s of exp(-(|c| - |s|)^2 / (2 sigma^2)) cos_n(c, s)

    g_n(s) has a value for every n-gram of s: its count, times log(items / items that have it in a reference). So the
    score depends on all references of the data, and for a single item it is 0. As in coco-caption, words are not
    stemmed, and counts are not divided by the length of the text. Papers often report 100 times this score.

    >>> cider(["a dog runs on grass", "two men"], [["a dog runs on grass"], ["a cat"]])
    {'cider': 5.0}
    """
    check_references(predictions, references)
    items = [
        (caption_words(prediction), [caption_words(text) for text in texts])
        for prediction, texts in zip(predictions, references, strict=True)
    ]
    total = 0.0
    for n in ORDERS:
        documents = Counter(ngram for _, texts in items for ngram in {g for text in texts for g in _ngrams(text, n)})
        for words, texts in items:
            vector = _tf_idf(words, n, documents, len(items))
            pairs = ((text, _tf_idf(text, n, documents, len(items))) for text in texts)
            scores = [_penalty(words, text) * _clipped_cosine(vector, other) for text, other in pairs]
            total += sum(scores) / len(scores)
    return {"cider": 10 * total / len(ORDERS) / len(items)}


def _ngrams(words: Sequence[str], n: int) -> list[_Ngram]:
    return list(zip(*(words[k:] for k in range(n)), strict=False))


def _tf_idf(words: Sequence[str], n: int, documents: Mapping[_Ngram, int], items: int) -> dict[_Ngram, float]:
    return {g: count * math.log(items / max(1, documents[g])) for g, count in Counter(_ngrams(words, n)).items()}


def _clipped_cosine(candidate: Mapping[_Ngram, float], reference: Mapping[_Ngram, float]) -> float:
    product = sum(min(value, reference[g]) * reference[g] for g, value in candidate.items() if g in reference)
    return product / (math.hypot(*candidate.values()) * math.hypot(*reference.values())) if product else 0.0


def _penalty(candidate: Sequence[str], reference: Sequence[str]) -> float:
    return math.exp(-((len(candidate) - len(reference)) ** 2) / (2 * SIGMA**2))
