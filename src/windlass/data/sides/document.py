"""A document as its sentences, each as its words: the source of whatever reads in two levels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from random import Random
from typing import ClassVar, Literal, NamedTuple, final

from pydantic import Field, model_validator

from windlass.core.fitting import Gives, Refuses, Term
from windlass.core.marks import UNK
from windlass.core.options import Options
from windlass.core.records import Padded, Places
from windlass.core.serialise import read_json
from windlass.data.cutting import cut, marked
from windlass.data.encoded import Arrays
from windlass.data.examples import Value
from windlass.data.padding import pad, pad_nested
from windlass.data.sentences import RuleSentences, SplitterOptions
from windlass.data.sides.base import Json, TokenizedSource, ids
from windlass.data.sides.text import hashed_ngrams
from windlass.data.sides.words import CACHED
from windlass.data.sparse import hashed_features
from windlass.data.tokenizer import SPACE_MARK, Tokenizer
from windlass.data.tokens import (
    NgramOrder,
    SparseFeatures,
    TextOptions,
    TokenOptions,
    WordTokens,
    sparse_terms,
)


class DocumentOptions(Options):
    """The sentences of a document (or the turns of a dialog), and the words of each.

    >>> DocumentOptions(splitter="lines").most_words
    100
    """

    kind: Literal["document"] = "document"
    splitter: SplitterOptions = Field(
        RuleSentences(), description="how a text that is not yet cut into sentences is; a list of texts stays as it is"
    )
    tokens: TokenOptions = Field(WordTokens(min_count=2), description="what a token of a sentence is")
    cut: Literal["punctuation", "spaces"] | None = Field(
        None, description="of tokens: words, where a word ends: at punctuation too (none: this), or at spaces"
    )
    normal_form: Literal["NFC", "NFD", "NFKC", "NFKD", "none"] = Field("NFC", description="of Unicode")
    lowercase: bool = Field(True, description="words are looked up in lower case")
    most_words: int = Field(100, ge=1, description="tokens of a sentence that are read at most")
    longer: Literal["break", "cut"] = Field(
        "break", description="a longer sentence goes on as another one (break), or its rest is not read, which is told"
    )
    most_sentences: int | None = Field(
        None, ge=1, description="sentences of a document that are read at most, from its start; what is not is told"
    )
    ngrams: NgramOrder = 0
    sparse: SparseFeatures = ()

    @model_validator(mode="after")
    def _all_used(self) -> DocumentOptions:
        if self.cut is not None and self.tokens.kind != "words":
            raise ValueError(f"cut: {self.cut} is for tokens: words, not {self.tokens.kind}: leave it out")
        if isinstance(self.tokens, WordTokens) and self.tokens.cut != "spaces":
            raise ValueError("tokens.cut is for a text: of a document, set source.cut")
        return self

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} sentences")
        yield from sparse_terms(at, self.ngrams, self.sparse)
        yield Gives(f"{at} pieces", self.tokens.kind)
        yield Gives(f"{at} whole tokens", self.tokens.whole)
        if isinstance(self.tokens, WordTokens):
            yield Gives(f"{at}.tokens.cut", self.cut or "punctuation")  # as if the document were one text
        if self.longer == "break" or self.most_sentences is not None:
            yield Refuses(
                "target for every place",
                f"every sentence has its tag, so none may be broken or left out: set {at}.longer: cut, and leave "
                f"{at}.most_sentences out",
            )


class _Sentence(NamedTuple):
    """A sentence as the model reads it."""

    text: str
    words: tuple[str, ...]  # as they stand in the text; of subwords, the pieces
    ids: tuple[int, ...]


@final
@dataclass(frozen=True)
class DocumentSource(TokenizedSource):
    """A document as the ids of the words of its sentences.

    >>> side = DocumentSource.fit(DocumentOptions(tokens="words"), ["A cat. A dog sat."])
    >>> {name: array.tolist() for name, array in side.encode("The cat sat. A dog?").items()}
    {'source': [1, 6, 8, 4, 5, 7, 1], 'source_lengths': [4, 3]}
    >>> side.places("The cat sat. A dog?").names
    ('The cat sat.', 'A dog?')
    """

    multiline = True  # lines may well be sentences
    unit = "sentences"
    separated = (
        "give the sentences as a list (jsonl), or see source.splitter; tags are separated by spaces, or a list too"
    )
    instead: ClassVar[Mapping[str, str]] = {"hidden Markov model": "bag of words of each"}

    options: DocumentOptions

    @classmethod
    def fit(cls, options: DocumentOptions, values: Iterable[Value]) -> DocumentSource:
        flat = TextOptions(tokens=options.tokens, normal_form=options.normal_form, lowercase=options.lowercase)
        empty = cls(Tokenizer(flat, ()), options)
        return cls(Tokenizer.fit(flat, empty._spaced(values)), options)

    def _spaced(self, values: Iterable[Value]) -> Iterable[str]:
        """Sentences with a space between words, for the tokenizer to learn from."""
        for value in values:
            for sentence in self.split(self.options, value):
                yield " ".join(sentence[a:b] for a, b in self._words(sentence)) if self._by_word else sentence

    @classmethod
    def from_line(cls, options: DocumentOptions, line: str) -> Value:
        """A text, or a JSON list of sentences.

        >>> DocumentSource.from_line(DocumentOptions(), '["One.", "Two."]')
        ('One.', 'Two.')
        >>> DocumentSource.from_line(DocumentOptions(), "[sic] One. Two.")
        '[sic] One. Two.'
        """
        if line.lstrip().startswith("["):
            try:
                parts = read_json(line, finite=False)
            except ValueError:
                return line
            if isinstance(parts, list) and parts and all(isinstance(part, str) for part in parts):
                return tuple(parts)
        return line

    @classmethod
    def split(cls, options: DocumentOptions, value: Value) -> tuple[str, ...]:
        """The sentences, whatever their length: those of a list, or those that the splitter finds."""
        return tuple(options.splitter.split(value) if isinstance(value, str) else (part.strip() for part in value))

    @property
    def _by_word(self) -> bool:
        return self.options.tokens.kind == "words"

    def _words(self, sentence: str) -> list[tuple[int, int]]:
        return cut(sentence, self.options.cut or "punctuation")

    def sentences(self, value: Value) -> list[_Sentence]:
        """The sentences that the model reads: no longer, and no more of them, than the options say.

        A sentence that is given but blank is there all the same, as one unknown word.
        """
        return self._scan(value)[0]

    def _scan(self, value: Value) -> tuple[list[_Sentence], int]:
        """The sentences that are read, and how many words are not, as there are too many of them or of sentences."""
        found: list[_Sentence] = []
        every = 0
        for sentence in self.split(self.options, value):
            parts, words = self._read(sentence)
            found += parts
            every += words
        found = found[: self.options.most_sentences]
        return found, every - sum(len(part.ids) for part in found)

    def _read(self, sentence: str) -> tuple[list[_Sentence], int]:
        """A sentence, or the parts that a long one is broken into; and how many words it has."""
        most = self.options.most_words
        if self._by_word:
            places = self._words(sentence)
            words = [sentence[a:b] for a, b in places]
            numbers = [self._id(word) for word in words]
        else:
            words, numbers, places = self.tokenizer.pieces(sentence), self.tokenizer.encode(sentence), []
        if not numbers:
            return [_Sentence(sentence, (sentence,), (UNK,))], 1
        if len(numbers) <= most:
            return [_Sentence(sentence, tuple(words), tuple(numbers))], len(numbers)
        found = []
        for n in range(0, len(numbers) if self.options.longer == "break" else 1, most):
            if places:
                text = sentence[places[n][0] : places[min(n + most, len(places)) - 1][1]]
            else:
                text = "".join(words[n : n + most]).replace(SPACE_MARK, " ").strip()
            found.append(_Sentence(text, tuple(words[n : n + most]), tuple(numbers[n : n + most])))
        return found, len(numbers)

    @cached_property
    def _seen(self) -> dict[str, int]:
        return {}

    def _id(self, word: str) -> int:
        found = self._seen.get(word)
        if found is None:
            if len(self._seen) >= CACHED:
                self._seen.clear()
            found = self._seen[word] = self.tokenizer.index.get(self.tokenizer.clean(word), UNK)
        return found

    def note(self, values: Iterable[Value]) -> str | None:
        """How much of documents is beyond what the model reads, if any.

        >>> DocumentSource.fit(DocumentOptions(most_sentences=1), ["One."]).note(["One. Two three.", "Four."])
        '1 of 2 documents are longer than the model reads: 3 of their words (42.9 % of all) are not read; ...'
        """
        if self.options.most_sentences is None and self.options.longer == "break":
            return None
        count = longer = words = unread = 0
        for value in values:
            count += 1
            parts, beyond = self._scan(value)
            longer += beyond > 0
            unread += beyond
            words += beyond + sum(len(part.ids) for part in parts)
        if not longer:
            return None
        return (
            f"{longer} of {count} documents are longer than the model reads: {unread:,} of their words "
            f"({100 * unread / words:.1f} % of all) are not read; see source.most_sentences, source.most_words and "
            "source.longer"
        )

    def encode(self, value: Value) -> Arrays:
        """The ids of the words, a sentence after the other, and how many each sentence has."""
        parts = self.sentences(value)
        numbers = [number for part in parts for number in part.ids]
        arrays = {"source": ids(numbers), "source_lengths": ids([len(part.ids) for part in parts])}
        if order := self.options.ngrams:
            found = (hashed_ngrams([self.tokenizer.clean(word) for word in part.words], order) for part in parts)
            arrays["ngrams"] = ids(sorted(set(chain.from_iterable(found))))
        if kinds := self.options.sparse:
            found = (hashed_features(part.words, kinds) for part in parts)
            arrays["sparse"] = ids(sorted(set(chain.from_iterable(found))))
        return arrays

    def collate(self, rows: Sequence[Arrays]) -> dict[str, Padded]:
        """Input `source`: (B, P, S); and `ngrams` and `sparse` of all sentences, if there are: (B, N)."""
        nested = pad_nested([row["source"] for row in rows], [row["source_lengths"] for row in rows])
        return {"source": nested} | {
            name: pad([row[name] for row in rows]) for name in ("ngrams", "sparse") if name in rows[0]
        }

    def length(self, arrays: Arrays) -> int:
        """How many sentences there are."""
        return len(arrays["source_lengths"])

    def places(self, value: Value) -> Places:
        """The sentences that are read, the words of each, and how many words are not read."""
        parts, unread = self._scan(value)
        within = tuple(Places("words", part.words) for part in parts)
        return Places("sentences", tuple(part.text for part in parts), within=within, unread=unread)

    def lends(self, value: Value) -> list[list[str]]:
        """The words of every sentence as a target would have them.

        Words that were cut around punctuation are marked as those of a text are, see `data/cutting.py`.

        >>> DocumentSource.fit(DocumentOptions(), []).lends("The cat (Tom) sat. A dog?")
        [['the', 'cat', '(￭', 'tom', '￭)', 'sat', '￭.'], ['a', 'dog', '￭?']]
        """
        return [self._lent(part) for part in self.sentences(value)]

    def _lent(self, part: _Sentence) -> list[str]:
        if not self._by_word:
            return list(part.words)
        words = marked(part.text) if (self.options.cut or "punctuation") == "punctuation" else part.words
        return [self.tokenizer.clean(word) for word in (words if len(words) == len(part.words) else part.words)]

    def unknown(self, value: Value) -> tuple[str, ...]:
        pairs = ((n, word) for part in self.sentences(value) for n, word in zip(part.ids, part.words, strict=True))
        return tuple(dict.fromkeys(word for n, word in pairs if n == UNK and word))

    def extend(self, values: Iterable[Value]) -> tuple[DocumentSource, tuple[str, ...]]:
        tokenizer, new = self.tokenizer.extend(self._spaced(values))
        return replace(self, tokenizer=tokenizer), new

    def random_values(self, count: int) -> list[Value]:
        draws, sentences = Random(2), self.tokenizer.random_texts(200)
        return [tuple(draws.choices(sentences, k=draws.randint(4, 16))) for _ in range(count)]

    def to_json(self) -> Json:
        return super().to_json() | {"words": self.tokenizer.to_json()}

    @classmethod
    def from_json(cls, options: DocumentOptions, content: Json) -> DocumentSource:
        return cls(Tokenizer.from_json(content["words"]), options)

    @classmethod
    def tiny(cls) -> tuple[DocumentSource, tuple[Value, ...]]:
        values = ("A cat sat. The dog ran!", ("the cat", "a dog ran"), "Zebras?")
        return cls.fit(DocumentOptions(tokens="words", ngrams=2, sparse=("ngrams", "shape")), values[:2]), values
