"""A document as its sentences, each as its words: the source of whatever reads in two levels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from pydantic import Field, model_validator

from windlass.core.fitting import Gives, Refuses, Term
from windlass.core.marks import UNK
from windlass.core.options import Options
from windlass.data.codecs import SPACE_MARK, Inputs, TextCodec
from windlass.data.cutting import cut, marked
from windlass.data.examples import Example, Source
from windlass.data.sentences import RuleSentences, SplitterOptions
from windlass.data.tokens import TextOptions, TokenOptions, WordTokens


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

    @model_validator(mode="after")
    def _all_used(self) -> DocumentOptions:
        if self.cut is not None and self.tokens.kind != "words":
            raise ValueError(f"cut: {self.cut} is for tokens: words, not {self.tokens.kind}: leave it out")
        if isinstance(self.tokens, WordTokens) and self.tokens.cut != "spaces":
            raise ValueError("tokens.cut is for a text: of a document, set source.cut")
        return self

    def _terms(self, at: str) -> Iterator[Term]:
        yield Gives(f"{at} sentences")
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


class Sentence(NamedTuple):
    """A sentence as the model reads it.

    >>> Sentence("A cat.", ("A", "cat", "."), (1, 5, 4)).words[1]
    'cat'
    """

    text: str
    words: tuple[str, ...]  # as they stand in the text; of subwords, the pieces
    ids: tuple[int, ...]


@dataclass(frozen=True)
class DocumentCodec:
    """Turns a document into the ids of the words of its sentences.

    >>> codec = DocumentCodec.fit(DocumentOptions(tokens="words"), ["A cat. A dog sat."])
    >>> codec.inputs("The cat sat. A dog?"), codec.pieces("The cat sat. A dog?")
    ({'source': [[1, 6, 8, 4], [5, 7, 1]]}, ['The cat sat.', 'A dog?'])
    """

    options: DocumentOptions
    words: TextCodec

    @classmethod
    def fit(cls, options: DocumentOptions, texts: Iterable[Source]) -> DocumentCodec:
        """Choose the words from the training data."""
        flat = TextOptions(tokens=options.tokens, normal_form=options.normal_form, lowercase=options.lowercase)
        empty = cls(options, TextCodec(flat, ()))
        return cls(options, TextCodec.fit(flat, empty._spaced(texts)))

    def _spaced(self, texts: Iterable[Source]) -> Iterable[str]:
        """Sentences with a space between words, for the codec of words to learn from."""
        for text in texts:
            for sentence in self.sentences(text):
                yield " ".join(sentence[a:b] for a, b in self._places(sentence)) if self._by_word else sentence

    @property
    def _by_word(self) -> bool:
        return self.options.tokens.kind == "words"

    def _places(self, sentence: str) -> list[tuple[int, int]]:
        return cut(sentence, self.options.cut or "punctuation")

    def sentences(self, source: Source) -> list[str]:
        """The sentences of a source, as they are given or as they are cut, whatever their length."""
        return self.options.splitter.split(source) if isinstance(source, str) else [part.strip() for part in source]

    def parts(self, source: Source) -> list[Sentence]:
        """What of a source the model reads: sentences that are no longer, and no more of them, than the options say.

        A sentence that is given but blank is there all the same, as one unknown word.

        >>> codec = DocumentCodec.fit(DocumentOptions(most_words=2, most_sentences=2), ["a b c d e f"])
        >>> [part.text for part in codec.parts("a b c d e f")]
        ['a b', 'c d']
        """
        return self.scan(source)[0]

    def scan(self, source: Source) -> tuple[list[Sentence], int]:
        """The sentences that are read, and how many words are not, as there are too many of them or of sentences.

        >>> codec = DocumentCodec.fit(DocumentOptions(most_words=2, longer="cut"), ["a b c d e f"])
        >>> codec.scan("a b c d e f")[1], codec.scan("a b")[1]
        (4, 0)
        """
        found: list[Sentence] = []
        every = 0
        for sentence in self.sentences(source):
            parts, words = self._read(sentence)
            found += parts
            every += words
        found = found[: self.options.most_sentences]
        return found, every - sum(len(part.ids) for part in found)

    def _read(self, sentence: str) -> tuple[list[Sentence], int]:
        """A sentence, or the parts that a long one is broken into; and how many words it has."""
        most = self.options.most_words
        if self._by_word:
            places = self._places(sentence)
            words = [sentence[a:b] for a, b in places]
            ids = [self._id(word) for word in words]
        else:
            words, ids, places = self.words.pieces(sentence), self.words.encode(sentence), []
        if not ids:
            return [Sentence(sentence, (sentence,), (UNK,))], 1
        if len(ids) <= most:
            return [Sentence(sentence, tuple(words), tuple(ids))], len(ids)
        found = []
        for n in range(0, len(ids) if self.options.longer == "break" else 1, most):
            if places:
                text = sentence[places[n][0] : places[min(n + most, len(places)) - 1][1]]
            else:
                text = "".join(words[n : n + most]).replace(SPACE_MARK, " ").strip()
            found.append(Sentence(text, tuple(words[n : n + most]), tuple(ids[n : n + most])))
        return found, len(ids)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {self.words.token(n): n for n in range(4, len(self.words))}

    @cached_property
    def _seen(self) -> dict[str, int]:
        return {}  # the ids of words as they are written: cleaning one is slow, and most come again

    def _id(self, word: str) -> int:
        found = self._seen.get(word)
        if found is None:
            found = self._index.get(self.words.clean(word), UNK)
            self._seen[word] = found
        return found

    def left_out(self, examples: Iterable[Example]) -> str | None:
        """Say how much of documents is beyond what the model reads, if any.

        >>> from windlass.data.examples import Place
        >>> data = [Example(text, ("x",), None, Place("a.tsv", 1)) for text in ("One. Two three.", "Four.")]
        >>> DocumentCodec.fit(DocumentOptions(most_sentences=1), ["One."]).left_out(data)
        '1 of 2 documents are longer than the model reads: 3 of their words (42.9 % of all) are not read; ...'
        """
        if self.options.most_sentences is None and self.options.longer == "break":
            return None
        count = longer = words = unread = 0
        for example in examples:
            count += 1
            parts, beyond = self.scan(example.source)
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

    @property
    def sizes(self) -> dict[str, int]:
        """How many ids the input has."""
        return {"source": len(self.words)}

    @property
    def tokens(self) -> TextCodec:
        """The codec of the words, which have vectors."""
        return self.words

    def inputs(self, source: Source) -> Inputs:
        """The ids of the words of every sentence."""
        return {"source": [list(part.ids) for part in self.parts(source)]}

    def pieces(self, source: Source) -> list[str]:
        """The sentences that are read."""
        return [part.text for part in self.parts(source)]

    def lends(self, source: Source) -> list[list[str]]:
        """The words of every sentence as a target would have them, for a decoder that copies.

        Words that were cut around punctuation are marked as those of a text are, see `data/cutting.py`.

        >>> DocumentCodec.fit(DocumentOptions(), []).lends("The cat (Tom) sat. A dog?")
        [['the', 'cat', '(￭', 'tom', '￭)', 'sat', '￭.'], ['a', 'dog', '￭?']]
        """
        return [self._lent(part) for part in self.parts(source)]

    def _lent(self, part: Sentence) -> list[str]:
        if not self._by_word:
            return list(part.words)
        words = marked(part.text) if (self.options.cut or "punctuation") == "punctuation" else part.words
        return [self.words.clean(word) for word in (words if len(words) == len(part.words) else part.words)]

    def unknown(self, source: Source) -> tuple[str, ...]:
        """The different words that the codec has never seen, in order."""
        return unknown(self.parts(source))

    def extend(self, texts: Iterable[Source]) -> tuple[DocumentCodec, tuple[str, ...]]:
        """Add what new texts bring, with every old id unchanged."""
        words, new = self.words.extend(self._spaced(texts))
        return DocumentCodec(self.options, words), new

    def to_json(self) -> dict[str, Any]:
        """Everything `from_json` needs, as plain JSON values."""
        return {"options": self.options.model_dump(mode="json"), "words": self.words.to_json()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> DocumentCodec:
        """The codec that `to_json` described."""
        return cls(DocumentOptions.model_validate(content["options"]), TextCodec.from_json(content["words"]))


def unknown(parts: Iterable[Sentence]) -> tuple[str, ...]:
    """The different words of sentences that the codec has never seen, in order.

    >>> unknown([Sentence("A cat", ("A", "cat"), (5, 1))])
    ('cat',)
    """
    pairs = ((n, word) for part in parts for n, word in zip(part.ids, part.words, strict=True))
    return tuple(dict.fromkeys(word for n, word in pairs if n == UNK and word))


def given(text: str) -> Source:
    """A document as a line of a file or a command gives it: a text, or a JSON list of sentences.

    >>> given('["One.", "Two."]'), given("[sic] One. Two.")
    (('One.', 'Two.'), '[sic] One. Two.')
    """
    if text.lstrip().startswith("["):
        try:
            parts = json.loads(text)
        except ValueError:
            return text
        if isinstance(parts, list) and parts and all(isinstance(part, str) for part in parts):
            return tuple(parts)
    return text
