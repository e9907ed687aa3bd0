"""Text to ids and back.

A tokenizer is fitted on the training data, never changes, and is saved with the model as JSON. Ids 0 to 3 are
marks (padding, unknown, start, end); no text can spell them.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from random import Random
from typing import Any

import regex
import tokenizers

from windlass.core.errors import BundleError
from windlass.core.marks import MARKS, UNK
from windlass.core.options import reason
from windlass.data import subwords
from windlass.data.cutting import marked, unmarked
from windlass.data.tokens import BpeTokens, TextOptions, TreeTokens, UnigramTokens, WordTokens
from windlass.data.trees import Tree, joined_tokens, shown

SPACE_MARK = "▁"  # how a space inside a piece of bpe or unigram is shown
REPLACEMENT = "\ufffd"  # how an unknown token is written in a text
_SURROGATES = re.compile("[\ud800-\udfff]")  # half characters: JSON can smuggle them in, UTF-8 cannot hold them
_GRAPHEME = regex.compile(r"\X")


@dataclass(frozen=True)
class Tokenizer:
    """Turns text into ids and ids into text.

    >>> tokenizer = Tokenizer.fit(TextOptions(), ["tac", "cat", "a"])
    >>> tokenizer.encode("cat!"), tokenizer.pieces("cat!"), tokenizer.unknown("cat!")
    ([5, 4, 6, 1], ['c', 'a', 't', '!'], ('!',))
    >>> tokenizer.decode([2, 5, 4, 6, UNK, 3, 0])
    'cat\ufffd'
    """

    options: TextOptions
    symbols: tuple[str, ...]  # from id 4 on
    model: str | None = None  # the pieces of bpe or unigram, as JSON

    @classmethod
    def fit(cls, options: TextOptions, texts: Iterable[str]) -> Tokenizer:
        """Choose the symbols from the training texts."""
        empty, tokens = cls(options, ()), options.tokens
        if isinstance(tokens, BpeTokens | UnigramTokens):
            size = tokens.size - len(MARKS) + 1  # the library counts its own unknown piece
            return cls._of_model(options, subwords.train(tokens.kind, size, map(empty.clean, texts)))
        return empty.extend(texts)[0]

    @classmethod
    def _of_model(cls, options: TextOptions, model: str) -> Tokenizer:
        return cls(options, tuple(subwords.pieces(model)), model)

    @cached_property
    def index(self) -> dict[str, int]:
        """The id of every symbol."""
        return {symbol: n for n, symbol in enumerate(self.symbols, len(MARKS))}

    @cached_property
    def _pieces(self) -> tokenizers.Tokenizer:
        return tokenizers.Tokenizer.from_str(self.model or "")

    def clean(self, text: str) -> str:
        """Bring a text into the chosen normal form and case."""
        if text.isascii():  # is in every normal form
            return text.lower() if self.options.lowercase else text
        text = _SURROGATES.sub(REPLACEMENT, text)
        form = self.options.normal_form
        if form != "none":
            text = unicodedata.normalize(form, text)
        if self.options.lowercase:
            text = text.lower()
            if form != "none":  # lower case can leave the normal form: a dotted capital I does
                text = unicodedata.normalize(form, text)
        return text

    def cut(self, text: str) -> list[str]:
        """The surface of every token, where a token needs no trained model."""
        text = self.clean(text)
        if not text.strip():
            return []
        match self.options.tokens.kind:
            case "characters":
                return list(text)
            case "graphemes":
                return [str(cluster) for cluster in _GRAPHEME.findall(text)]
            case "words":
                return marked(text) if self._by_punctuation else text.split()
            case "tree":
                assert isinstance(self.options.tokens, TreeTokens)
                return Tree.read(text).tokens(self.options.tokens.words, self.options.tokens.close)
            case "bpe" | "unigram":
                raise AssertionError("bpe and unigram cut with their model")

    @property
    def _by_punctuation(self) -> bool:
        tokens = self.options.tokens
        return isinstance(tokens, WordTokens) and tokens.cut == "punctuation"

    def _subwords(self, text: str) -> tuple[list[int], list[str]]:
        """Ids and, for the unknown ones, the text they stand for; for the others the piece as shown."""
        text = " " + self.clean(text)
        if not text.strip():
            return [], []
        found = self._pieces.encode(text)
        ids = [UNK if n == 0 else n + len(MARKS) - 1 for n in found.ids]
        shown = [text[a:b] if n == UNK else self.token(n) for n, (a, b) in zip(ids, found.offsets, strict=True)]
        return ids, shown

    def encode(self, text: str, more: Sequence[str] = ()) -> list[int]:
        """The ids of a text, without start and end marks. A piece never seen is UNK; a blank text has none.

        `more` are symbols beyond the tokenizer's own, copied from a source.
        """
        if self.model is not None:
            ids = self._subwords(text)[0]
        else:
            find = self.index.get
            ids = [find(piece, UNK) for piece in self.cut(text)]
        if more and UNK in ids:
            extra = {piece: n for n, piece in enumerate(more, len(self))}
            ids = [extra.get(piece, UNK) if n == UNK else n for n, piece in zip(ids, self.pieces(text), strict=True)]
        return ids

    def pieces(self, text: str) -> list[str]:
        """What each id of `encode(text)` stands for: `token(id)`, or the text itself where it is unknown."""
        return self._subwords(text)[1] if self.model is not None else self.cut(text)

    def unknown(self, text: str) -> tuple[str, ...]:
        """The different pieces of a text that training has not shown, in order."""
        pairs = zip(self.encode(text), self.pieces(text), strict=True)
        return tuple(dict.fromkeys(piece for n, piece in pairs if n == UNK))

    def token(self, number: int, more: Sequence[str] = ()) -> str:
        """The name of an id, for people: a space inside a bpe or unigram piece is shown as U+2581.

        `more` are symbols beyond the tokenizer's own, copied from a source. In a tree, a word with its tag is shown as
        the tag.
        """
        if number < len(MARKS):
            return MARKS[number]
        if number >= len(self):
            return more[number - len(self)]
        symbol = self.symbols[number - len(MARKS)]
        if self.options.tokens.kind == "tree":
            return shown(symbol)
        return symbol if self.model is None else symbol.replace(" ", SPACE_MARK)

    def find(self, piece: str) -> int:
        """The id of a token by its name: what `token` turns round, UNK where there is none."""
        return self.index.get(piece if self.model is None else piece.replace(SPACE_MARK, " "), UNK)

    def decode(self, ids: Sequence[int], more: Sequence[str] = ()) -> str:
        """The text of ids. Marks are left out, but an unknown token is shown as U+FFFD.

        `more` are symbols beyond the tokenizer's own, copied from a source.

        Unless the normal form is "none" the text is composed (NFC): decomposed tokens are a means of the
        model, and neither readers nor metrics should meet them.
        """
        first = len(MARKS)
        found = [
            REPLACEMENT if n == UNK else self.symbols[n - first] if n < len(self) else more[n - len(self)]
            for n in ids
            if n == UNK or n >= first
        ]
        if self.options.tokens.kind == "tree":
            return joined_tokens(found)
        text = unmarked(found) if self._by_punctuation else (" " if self.spaced else "").join(found)
        if self.model is not None:
            text = text.removeprefix(" ")
        return text if self.options.normal_form == "none" else unicodedata.normalize("NFC", text)

    @property
    def by_character(self) -> bool:
        """Whether a token is a character, or a grapheme."""
        return self.options.tokens.kind in ("characters", "graphemes")

    @property
    def spaced(self) -> bool:
        """Whether tokens are words, which a text has spaces between."""
        return self.options.tokens.kind == "words"

    def __len__(self) -> int:
        return len(MARKS) + len(self.symbols)

    def with_words(self, words: Iterable[str], most: int) -> Tokenizer:
        """The same with ids for the first `most` words that it can meet and has none for yet.

        >>> tokenizer = Tokenizer.fit(TextOptions(tokens="words", lowercase=True), ["a cat"])
        >>> tokenizer.with_words(["a", "Dog", "dog", "two words", "emu", "fox"], 2).symbols
        ('a', 'cat', 'dog', 'emu')
        """
        known = set(self.symbols)
        new = dict.fromkeys(word for word in words if word not in known and self.cut(word) == [word])
        return replace(self, symbols=(*self.symbols, *islice(new, most)))

    def random_texts(self, count: int, longest: int = 24) -> list[str]:
        """Texts of random symbols, always the same ones."""
        draws = Random(1)
        ids = range(len(MARKS), len(self))
        lengths = (draws.randint(longest // 4, longest) for _ in range(count))
        texts = [self.decode([draws.choice(ids) for _ in range(length)]) for length in lengths]
        return [text if text.strip() else self.decode([ids[0]]) for text in texts]

    def extend(self, texts: Iterable[str]) -> tuple[Tokenizer, tuple[str, ...]]:
        """Add what new texts bring, with every old id unchanged. Returns the tokenizer and the new symbols.

        `min_count` and `size` hold here too. To bpe and unigram, single characters are added.
        """
        if self.model is not None:
            letters = Counter(letter for text in texts for letter in self.clean(text) if letter not in self.index)
            added = tuple(by_count(letters))
            model = subwords.add_characters(self.model, added) if added else self.model
            return self._of_model(self.options, model), added
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(self.cut(text))
        longer = self.with_counts(counts)
        return longer, longer.symbols[len(self.symbols) :]

    def with_counts(self, counts: Counter[str]) -> Tokenizer:
        """The same with ids for what was counted and has none yet; not for bpe and unigram, which learn theirs."""
        tokens = self.options.tokens
        assert not isinstance(tokens, BpeTokens | UnigramTokens)
        new = [piece for piece in by_count(counts) if counts[piece] >= tokens.min_count and piece not in self.index]
        size = tokens.size if isinstance(tokens, WordTokens) else None
        return replace(self, symbols=(*self.symbols, *(new if size is None else new[: max(0, size - len(self))])))

    def to_json(self) -> dict[str, Any]:
        """Everything `from_json` needs, as plain JSON values."""
        content: dict[str, Any] = {"options": self.options.model_dump(mode="json")}
        if self.model is not None:
            return content | {"model": json.loads(self.model)}
        return content | {"symbols": list(self.symbols)}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Tokenizer:
        """The tokenizer that `to_json` described."""
        try:
            options = TextOptions.model_validate(content["options"])
            if isinstance(options.tokens, BpeTokens | UnigramTokens):
                subwords.check(content["model"])
                tokenizer = cls._of_model(options, json.dumps(content["model"], ensure_ascii=False))
                _ = tokenizer._pieces  # a damaged model is found now, not in the first text
                return tokenizer
            symbols = content["symbols"]
            if not isinstance(symbols, list) or not all(isinstance(s, str) for s in symbols):
                raise TypeError("symbols must be a list of strings")
            return cls(options, tuple(symbols))
        except Exception as error:  # the library raises a bare Exception for a model it cannot read
            if (
                not isinstance(error, KeyError | TypeError | ValueError | AttributeError)
                and type(error) is not Exception
            ):
                raise
            raise BundleError(f"damaged codec: {reason(error)}; take the file from a fresh copy") from error


def by_count(counts: Counter[str]) -> list[str]:
    """Symbols, the most frequent first.

    >>> by_count(Counter("bacb"))
    ['b', 'a', 'c']
    """
    return sorted(counts, key=lambda symbol: (-counts[symbol], symbol))
