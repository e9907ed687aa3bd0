"""What a recipe can say of tokens, and of a text that is made of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from windlass.core.fitting import Gives, Needs, Offers, Refuses, Term
from windlass.core.options import Options, named
from windlass.data.sparse import SparseFeature


class _Tokens(Options):
    whole: ClassVar[bool] = True  # whether a word that training lacks can be a token


class CharacterTokens(_Tokens):
    """Every code point is a token; a space is one like any other.

    >>> CharacterTokens().kind
    'characters'
    """

    kind: Literal["characters"] = "characters"
    min_count: int = Field(1, ge=1, description="a rarer one is unknown")


class GraphemeTokens(_Tokens):
    """Every grapheme cluster (a letter with its combining marks) is a token.

    >>> GraphemeTokens(min_count=2).min_count
    2
    """

    kind: Literal["graphemes"] = "graphemes"
    min_count: int = Field(1, ge=1, description="a rarer one is unknown")


class WordTokens(_Tokens):
    """What stands between whitespace is a token, or, cut around punctuation, a word or a mark of its own.

    Decoding puts one space between tokens; a mark of punctuation knows on which side it has none.

    >>> WordTokens(size=10_000).size
    10000
    """

    kind: Literal["words"] = "words"
    min_count: int = Field(1, ge=1, description="a rarer one is unknown")
    size: int | None = Field(None, ge=5, description="the most ids, marks included; the most frequent words stay")
    cut: Literal["spaces", "punctuation"] = Field(
        "spaces", description="where a word ends: at spaces, or at punctuation too, whose marks are tokens themselves"
    )


class BpeTokens(_Tokens):
    """Byte-pair encoding: frequent pairs of pieces become one piece (Sennrich et al. 2016).

    >>> BpeTokens(size=4000).size
    4000
    """

    whole: ClassVar[bool] = False
    kind: Literal["bpe"] = "bpe"
    size: int = Field(8000, ge=5, description="the most ids, marks included; every character of the data has one")


class UnigramTokens(_Tokens):
    """Pieces of a unigram language model, the likeliest cut of each word (Kudo 2018).

    >>> UnigramTokens().size
    8000
    """

    whole: ClassVar[bool] = False
    kind: Literal["unigram"] = "unigram"
    size: int = Field(8000, ge=5, description="the most ids, marks included; every character of the data has one")


class TreeTokens(_Tokens):
    """The brackets of a tree such as (NP (DT the) (NN cat)), from left to right (Vinyals et al. 2015).

    >>> TreeTokens(close="labelled").words
    'placeholder'
    """

    kind: Literal["tree"] = "tree"
    words: Literal["placeholder", "kept"] = Field(
        "placeholder", description="a place for each, to be filled from the sentence; or the words themselves"
    )
    close: Literal["plain", "labelled"] = Field("plain", description="a constituent is closed by ), or by )NP")
    min_count: int = Field(1, ge=1, description="a rarer one is unknown")

    def _terms(self, at: str) -> Iterator[Term]:
        if at.startswith("target"):
            yield Gives("target: tree")
            yield Needs(
                "task target: tree", f"{at}: tree is for a task that writes trees, not for <task>: leave it out"
            )
        if self.words == "kept":
            yield Refuses("task target: tree", f"{at}.words: kept has no use: a tree gets its words from the sentence")


TokenOptions = Annotated[
    CharacterTokens | GraphemeTokens | WordTokens | BpeTokens | UnigramTokens | TreeTokens,
    Field(discriminator="kind"),
    named,
]


NgramOrder = Annotated[
    int, Field(ge=0, le=5, description="longest n-grams, hashed, that model.head.wide reads; 0: none")
]
SparseFeatures = Annotated[
    tuple[SparseFeature, ...],
    Field(
        description="what model.head.svm reads: ngrams, one and two words; skip, two words with one between; affix, "
        "beginnings and endings; opening, a word with the first two; shape, n-grams with names and numbers alike"
    ),
]


def sparse_terms(at: str, ngrams: int, sparse: tuple[SparseFeature, ...]) -> Iterator[Term]:
    """What a source gives beside its tokens, to a head that must read it.

    >>> [type(term).__name__ for term in sparse_terms("source", 2, ())]
    ['Gives', 'Offers']
    """
    if ngrams:
        yield Gives(f"{at} ngrams")
        yield Offers(f"{at} ngrams", f"{at}.ngrams are read by model.head.wide: set that, or {at}.ngrams: 0")
    if sparse:
        yield Gives(f"{at} sparse")
        yield Offers(f"{at} sparse", f"{at}.sparse is read by model.head.svm: set that, or {at}.sparse: []")


class TextOptions(Options):
    """A text, as a sequence of tokens.

    >>> TextOptions(tokens="words").tokens
    WordTokens(kind='words', min_count=1, size=None, cut='spaces')
    """

    kind: Literal["text"] = "text"
    tokens: TokenOptions = Field(CharacterTokens(), description="what a token is")
    normal_form: Literal["NFC", "NFD", "NFKC", "NFKD", "none"] = Field(
        "NFC", description="of Unicode, before cutting; outputs are composed (NFC) unless it is none"
    )
    lowercase: bool = Field(False, description="lowercase the text first")
    ngrams: NgramOrder = 0
    sparse: SparseFeatures = ()

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} sequence")
        yield from sparse_terms(at, self.ngrams, self.sparse)
        yield Gives(f"{at} pieces", self.tokens.kind)
        yield Gives(f"{at} whole tokens", self.tokens.whole)
