"""A sentence as its words, each with its letters: the source of a tagger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from pydantic import Field

from windlass.core.fitting import Gives, Offers, Term
from windlass.core.marks import UNK
from windlass.core.options import Options
from windlass.data.codecs import Inputs, TextCodec
from windlass.data.cutting import cut
from windlass.data.examples import Source
from windlass.data.tokens import CharacterTokens, TextOptions, WordTokens

BLANK = "␣"  # for a space inside a word, which some treebanks have


class WordsOptions(Options):
    """The words of a sentence, and the letters of each.

    >>> WordsOptions(characters=False).min_count
    2
    """

    kind: Literal["words"] = "words"
    min_count: int = Field(2, ge=1, description="a rarer word is unknown, and known by its letters only")
    normal_form: Literal["NFC", "NFD", "NFKC", "NFKD", "none"] = Field("NFC", description="of Unicode")
    lowercase: bool = Field(True, description="words are looked up in lower case; letters keep their case")
    characters: bool = Field(True, description="the letters of every word are an input too")
    longest: int = Field(30, ge=1, description="of a longer word only so many letters are read, half from each end")
    cut: Literal["punctuation", "spaces"] = Field(
        "punctuation", description="how a text that is not yet cut into words is: around punctuation too, or at spaces"
    )

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} sequence")
        yield Gives(f"{at} whole tokens")
        if self.characters:
            yield Gives(f"{at} letters")
            yield Offers(
                f"{at} letters",
                f"{at}.characters gives letters that nothing reads: set it to false, or set model.encoder.spelling",
            )


@dataclass(frozen=True)
class WordsCodec:
    """Turns a sentence into the ids of its words and of their letters.

    >>> codec = WordsCodec.fit(WordsOptions(min_count=1), [("The", "cat"), ("a", "cat")])
    >>> codec.inputs(("the", "act"))
    {'source': [6, 1], 'characters': [[6, 9, 8], [4, 5, 6]]}
    >>> codec.pieces("A cat!"), codec.offsets("A cat!")
    (['A', 'cat', '!'], ((0, 1), (2, 5), (5, 6)))
    """

    options: WordsOptions
    words: TextCodec
    letters: TextCodec

    @classmethod
    def fit(cls, options: WordsOptions, texts: Iterable[Source]) -> WordsCodec:
        """Choose words and letters from the training data."""
        form = options.normal_form
        tokens = WordTokens(min_count=options.min_count)
        empty = cls(
            options,
            TextCodec(TextOptions(tokens=tokens, normal_form=form, lowercase=options.lowercase), ()),
            TextCodec(TextOptions(tokens=CharacterTokens(), normal_form=form), ()),
        )
        words, letters = Counter[str](), Counter[str]()
        for text in texts:  # one at a time, as they may come from a file
            row = empty.pieces(text)
            words.update(empty.words.cut(" ".join(map(_one, row))))
            for word in row:
                letters.update(empty.letters.cut(word))
        return cls(
            options,
            TextCodec.of_counts(empty.words.options, words),
            TextCodec.of_counts(empty.letters.options, letters),
        )

    @property
    def sizes(self) -> dict[str, int]:
        """How many ids each input has."""
        letters = {"characters": len(self.letters)} if self.options.characters else {}
        return {"source": len(self.words), **letters}

    @property
    def tokens(self) -> TextCodec:
        """The codec of the words, which have vectors."""
        return self.words

    def offsets(self, source: Source) -> tuple[tuple[int, int], ...]:
        """Where each word is in the text; of words that come as such, in the text they make with a space between."""
        if isinstance(source, str):
            return tuple(cut(source, self.options.cut))
        ends, at = [], 0
        for word in source:
            ends.append((at, at + len(word)))
            at += len(word) + 1
        return tuple(ends)

    def pieces(self, source: Source) -> list[str]:
        """The words."""
        return [source[a:b] for a, b in cut(source, self.options.cut)] if isinstance(source, str) else list(source)

    def inputs(self, source: Source) -> Inputs:
        """The ids of the words and, if told, of the letters of each."""
        words = self.pieces(source)
        ids: Inputs = {"source": [self._word(word) for word in words]}
        if self.options.characters:
            ids["characters"] = [self._letters(word) for word in words]
        return ids

    @cached_property
    def _index(self) -> dict[str, int]:
        return {self.words.token(n): n for n in range(4, len(self.words))}

    @cached_property
    def _alphabet(self) -> frozenset[str]:
        return frozenset(self.letters.symbols)

    def _word(self, word: str) -> int:
        return self._index.get(self.words.clean(_one(word)), UNK)

    def _letters(self, word: str) -> list[int]:
        ids, most = self.letters.encode(word), self.options.longest
        return ids if len(ids) <= most else ids[: most - most // 2] + ids[len(ids) - most // 2 :]

    def unknown(self, source: Source) -> tuple[str, ...]:
        """The words never seen; where letters are read, the letters: an unknown word is nothing new then."""
        words = self.pieces(source)
        if self.options.characters:
            new = (word for word in words if not (word.isascii() and self._alphabet.issuperset(word)))
            return tuple(dict.fromkeys(letter for word in new for letter in self.letters.unknown(word)))
        return tuple(dict.fromkeys(word for word in words if self._word(word) == UNK))

    def extend(self, texts: Iterable[Source]) -> tuple[WordsCodec, tuple[str, ...]]:
        """Add what new texts bring, with every old id unchanged."""
        rows = [self.pieces(text) for text in texts]
        words, new = self.words.extend(" ".join(map(_one, row)) for row in rows)
        letters, more = self.letters.extend(word for row in rows for word in row)
        return WordsCodec(self.options, words, letters), new + (more if self.options.characters else ())

    def to_json(self) -> dict[str, Any]:
        """Everything `from_json` needs, as plain JSON values."""
        return {
            "options": self.options.model_dump(mode="json"),
            "words": self.words.to_json(),
            "letters": self.letters.to_json(),
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> WordsCodec:
        """The codec that `to_json` described."""
        options = WordsOptions.model_validate(content["options"])
        return cls(options, TextCodec.from_json(content["words"]), TextCodec.from_json(content["letters"]))


def _one(word: str) -> str:
    return BLANK.join(word.split())
