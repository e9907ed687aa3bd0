"""A sentence as its words, each with its letters: the source of a tagger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, final

from pydantic import Field

from windlass.core.fitting import Gives, Offers, Term
from windlass.core.marks import UNK
from windlass.core.options import Options
from windlass.core.records import Padded, Places
from windlass.data.cutting import cut
from windlass.data.encoded import Arrays
from windlass.data.examples import Value
from windlass.data.padding import pad, pad_nested
from windlass.data.sides.base import Json, TokenizedSource, ids
from windlass.data.tokenizer import Tokenizer
from windlass.data.tokens import CharacterTokens, TextOptions, WordTokens

BLANK = "␣"  # for a space inside a word, which some treebanks have
CACHED = 2**16
"""Words whose ids are remembered: to clean one is slow, and most come again."""


class WordsOptions(Options):
    """The words of a sentence, and the letters of each.

    >>> WordsOptions(characters=False).min_count
    2
    """

    kind: Literal["words"] = "words"
    min_count: int = Field(2, ge=1, description="a rarer word is unknown, and known by its letters only")
    normal_form: Literal["NFC", "NFD", "NFKC", "NFKD", "none"] = Field("NFC", description="of Unicode")
    lowercase: bool | Literal["unknown"] = Field(
        True,
        description="words are looked up in lower case; unknown: only a word that is unknown as it is written; letters "
        "keep their case",
    )
    characters: bool = Field(True, description="the letters of every word are an input too")
    longest: int = Field(30, ge=1, description="letters read of a word; of a longer one, half from each end")
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


@final
@dataclass(frozen=True)
class WordsSource(TokenizedSource):
    """A sentence as the ids of its words and, if set, of their letters.

    >>> side = WordsSource.fit(WordsOptions(min_count=1), [("The", "cat"), ("a", "cat")])
    >>> {name: array.tolist() for name, array in side.encode(("the", "act")).items()}
    {'source': [6, 1], 'characters': [6, 9, 8, 4, 5, 6], 'characters_lengths': [3, 3]}
    >>> side.places("A cat!").names, side.places("A cat!").offsets
    (('A', 'cat', '!'), ((0, 1), (2, 5), (5, 6)))
    """

    word_by_word = True

    options: WordsOptions
    letters: Tokenizer

    @classmethod
    def fit(cls, options: WordsOptions, values: Iterable[Value]) -> WordsSource:
        form = options.normal_form
        tokens = WordTokens(min_count=options.min_count)
        empty = cls(
            Tokenizer(TextOptions(tokens=tokens, normal_form=form, lowercase=options.lowercase is True), ()),
            options,
            Tokenizer(TextOptions(tokens=CharacterTokens(), normal_form=form), ()),
        )
        words, letters = Counter[str](), Counter[str]()
        for value in values:
            row = empty.words(value)
            words.update(empty.tokenizer.cut(" ".join(map(_without_space, row))))
            for word in row:
                letters.update(empty.letters.cut(word))
        return cls(empty.tokenizer.with_counts(words), options, empty.letters.with_counts(letters))

    @classmethod
    def split(cls, options: WordsOptions, value: Value) -> tuple[str, ...]:
        """The words; of a text in a file, whose tags are separated by spaces, those between spaces."""
        return tuple(value.split()) if isinstance(value, str) else value

    def words(self, value: Value) -> tuple[str, ...]:
        """The words; a text is cut as the options say."""
        if isinstance(value, str):
            return tuple(value[a:b] for a, b in cut(value, self.options.cut))
        return tuple(value)

    @property
    def sizes(self) -> dict[str, int]:
        letters = {"characters": len(self.letters)} if self.options.characters else {}
        return super().sizes | letters

    @cached_property
    def _seen(self) -> dict[str, tuple[int, list[int]]]:
        return {}

    def _read(self, word: str) -> tuple[int, list[int]]:
        """The id of a word, and those of its letters."""
        found = self._seen.get(word)
        if found is None:
            if len(self._seen) >= CACHED:
                self._seen.clear()
            clean, index = self.tokenizer.clean(_without_space(word)), self.tokenizer.index
            other = clean.lower() if self.options.lowercase == "unknown" else clean
            found = self._seen[word] = index.get(clean, index.get(other, UNK)), self._letters(word)
        return found

    def _letters(self, word: str) -> list[int]:
        found, most = self.letters.encode(word), self.options.longest
        return found if len(found) <= most else found[: most - most // 2] + found[len(found) - most // 2 :]

    def encode(self, value: Value) -> Arrays:
        found = [self._read(word) for word in self.words(value)]
        arrays = {"source": ids([number for number, _ in found])}
        if self.options.characters:
            arrays["characters"] = ids([letter for _, letters in found for letter in letters])
            arrays["characters_lengths"] = ids([len(letters) for _, letters in found])
        return arrays

    def collate(self, rows: Sequence[Arrays]) -> dict[str, Padded]:
        """Inputs `source`, (B, S), and `characters`, (B, S, C)."""
        inputs = {"source": pad([row["source"] for row in rows])}
        if self.options.characters:
            flat, lengths = ([row[name] for row in rows] for name in ("characters", "characters_lengths"))
            inputs["characters"] = pad_nested(flat, lengths)
        return inputs

    def places(self, value: Value) -> Places:
        """The words, and where each is in the text; words are taken to have a space between them."""
        words = self.words(value)
        if isinstance(value, str):
            return Places("words", words, tuple(cut(value, self.options.cut)))
        offsets, at = [], 0
        for word in words:
            offsets.append((at, at + len(word)))
            at += len(word) + 1
        return Places("words", words, tuple(offsets))

    @cached_property
    def _alphabet(self) -> frozenset[str]:
        return frozenset(self.letters.symbols)

    def unknown(self, value: Value) -> tuple[str, ...]:
        """The words never seen; where letters are read, the letters: an unknown word is nothing new then."""
        words = self.words(value)
        if self.options.characters:
            new = (word for word in words if not (word.isascii() and self._alphabet.issuperset(word)))
            return tuple(dict.fromkeys(letter for word in new for letter in self.letters.unknown(word)))
        return tuple(dict.fromkeys(word for word in words if self._read(word)[0] == UNK))

    def extend(self, values: Iterable[Value]) -> tuple[WordsSource, tuple[str, ...]]:
        rows = [self.words(value) for value in values]
        words, new = self.tokenizer.extend(" ".join(map(_without_space, row)) for row in rows)
        letters, more = self.letters.extend(word for row in rows for word in row)
        return WordsSource(words, self.options, letters), new + (more if self.options.characters else ())

    def to_json(self) -> Json:
        return super().to_json() | {"words": self.tokenizer.to_json(), "letters": self.letters.to_json()}

    @classmethod
    def from_json(cls, options: WordsOptions, content: Json) -> WordsSource:
        return cls(Tokenizer.from_json(content["words"]), options, Tokenizer.from_json(content["letters"]))

    @classmethod
    def tiny(cls) -> tuple[WordsSource, tuple[Value, ...]]:
        values = (("the", "cat", "runs"), ("dogs", "run"), "The zebra!")
        return cls.fit(WordsOptions(min_count=1), values[:2]), values


def _without_space(word: str) -> str:
    return BLANK.join(word.split())
