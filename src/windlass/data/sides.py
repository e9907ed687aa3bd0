"""The two sides of an example: every kind of source and of target, and both as codecs.

A source codec has `inputs(source)` (ids by name, of which `source` is the main one), `pieces` (what its places stand
for), `unknown`, `extend`, `sizes` and `tokens`. A target codec has `encode`, `decode`, `token`, `unknown`, `extend`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from windlass.core.errors import BundleError, RecipeError
from windlass.core.marks import EOS
from windlass.core.records import Batch
from windlass.data import copies
from windlass.data.codecs import TextCodec
from windlass.data.documents import DocumentCodec, DocumentOptions
from windlass.data.examples import Example, Source, joined
from windlass.data.labels import LabelCodec, LabelOptions, TagsCodec, TagsOptions
from windlass.data.loader import Encoded, Loader, collate
from windlass.data.nothing import NothingCodec, NothingOptions
from windlass.data.pairs import PairCodec, PairOptions, text_unless_said
from windlass.data.store import Tokens
from windlass.data.tokens import TextOptions
from windlass.data.trees import with_words
from windlass.data.words import WordsCodec, WordsOptions

SourceOptions = Annotated[
    TextOptions | WordsOptions | DocumentOptions | NothingOptions | PairOptions,
    Field(discriminator="kind"),
    BeforeValidator(text_unless_said),
]
"""Every kind of source a recipe can name; one that names none is text."""
TargetOptions = Annotated[
    TextOptions | LabelOptions | TagsOptions, Field(discriminator="kind"), BeforeValidator(text_unless_said)
]
"""Every kind of target a recipe can name; one that names none is text."""

SourceCodec = TextCodec | WordsCodec | DocumentCodec | NothingCodec | PairCodec
TargetCodec = TextCodec | LabelCodec | TagsCodec

SOURCES: dict[str, type[TextCodec] | type[WordsCodec] | type[DocumentCodec] | type[NothingCodec] | type[PairCodec]] = {
    "text": TextCodec,
    "words": WordsCodec,
    "document": DocumentCodec,
    "none": NothingCodec,
    "pair": PairCodec,
}
TARGETS: dict[str, type[TextCodec] | type[LabelCodec] | type[TagsCodec]] = {
    "text": TextCodec,
    "label": LabelCodec,
    "tags": TagsCodec,
}


def fit_source(
    options: TextOptions | WordsOptions | DocumentOptions | NothingOptions | PairOptions, sources: Iterable[Source]
) -> SourceCodec:
    """Learn how a source becomes ids.

    >>> len(fit_source(TextOptions(), ["abc"]))
    7
    """
    if isinstance(options, WordsOptions):
        return WordsCodec.fit(options, sources)
    if isinstance(options, DocumentOptions):
        return DocumentCodec.fit(options, sources)
    if isinstance(options, NothingOptions):
        return NothingCodec.fit(options, sources)
    if isinstance(options, PairOptions):
        return PairCodec.fit(options, sources)
    return TextCodec.fit(options, sources)


def knowing(codec: SourceCodec, words: Iterable[str], most: int) -> SourceCodec:
    """The codec with ids for the first so many words that it can meet and has none for yet.

    >>> codec = fit_source(TextOptions(tokens="words", lowercase=True), ["a cat"])
    >>> knowing(codec, ["a", "Dog", "dog", "two words", "emu", "fox"], 2).tokens.symbols
    ('a', 'cat', 'dog', 'emu')
    """
    if isinstance(codec, PairCodec):
        each = codec.each
        if isinstance(each, WordsCodec):
            return replace(codec, each=replace(each, words=_knowing(each.words, words, most)))
        return replace(codec, each=_knowing(each, words, most))
    if isinstance(codec, WordsCodec | DocumentCodec):
        return replace(codec, words=_knowing(codec.words, words, most))
    return _knowing(codec, words, most) if isinstance(codec, TextCodec) else codec


def _knowing(codec: TextCodec, words: Iterable[str], most: int) -> TextCodec:
    known = set(codec.symbols)
    new = dict.fromkeys(word for word in words if word not in known and codec.cut(word) == [word])
    return replace(codec, symbols=(*codec.symbols, *islice(new, most)))


def fit_target(options: TextOptions | LabelOptions | TagsOptions, targets: Iterable[str]) -> TargetCodec:
    """Learn how a target becomes ids.

    >>> fit_target(LabelOptions(), ["spam", "ham", "ham"]).symbols
    ('ham', 'spam')
    """
    if isinstance(options, LabelOptions):
        return LabelCodec.fit(options, targets)
    if isinstance(options, TagsOptions):
        return TagsCodec.fit(options, targets)
    return TextCodec.fit(options, targets)


@dataclass(frozen=True)
class Codecs:
    """How the two sides become ids.

    For a model that copies, examples also say what the places of their source hold, and a target may hold ids beyond
    its vocabulary: see `data/copies.py`.

    >>> codec = TextCodec.fit(TextOptions(), ["abc"])
    >>> Codecs.from_json(Codecs(codec, codec).to_json()).source.encode("b")
    [5]
    >>> Codecs(codec, codec, copying=True).encode("az", "zb")
    Encoded(source=[4, 1], target=[7, 5], alignment=None, more={'copy': [4, 7, 3]})
    """

    source: SourceCodec
    target: TargetCodec
    copying: bool = False  # not saved: it is the model that copies, or does not

    @property
    def written(self) -> TextCodec:
        """The target's codec, where the target is text."""
        if not isinstance(self.target, TextCodec):
            raise RecipeError(f"this model writes no text: its target is {self.target.options.kind}")
        return self.target

    @property
    def source_end(self) -> bool:
        """Whether a source ends with the end mark: a text does, unless each of its places has a tag."""
        return isinstance(self.source, TextCodec) and not isinstance(self.target, TagsCodec)

    def pieces(self, source: Source) -> tuple[str, ...]:
        """What the places of the memory stand for."""
        return (*self.source.pieces(source), *([self.source.tokens.token(EOS)] if self.source_end else []))

    def words(self, source: Source) -> tuple[str, ...]:
        """What the places of the memory's lower level stand for: of a document its words, all in a row.

        >>> from windlass.data.documents import DocumentCodec, DocumentOptions
        >>> codec = TextCodec.fit(TextOptions(), ["abc"])
        >>> Codecs(DocumentCodec.fit(DocumentOptions(), ["A. B."]), codec).words(("A cat.", "A dog?"))
        ('A', 'cat', '.', 'A', 'dog', '?')
        """
        if isinstance(self.source, DocumentCodec):
            return tuple(word for part in self.source.parts(source) for word in part.words)
        return self.pieces(source)

    def sentence(self, source: Source) -> list[str]:
        """The words of a sentence: as its codec cuts them, or else what stands between spaces.

        >>> codec = TextCodec.fit(TextOptions(), ["abc"])
        >>> Codecs(codec, codec).sentence("a cab")
        ['a', 'cab']
        """
        return self.source.pieces(source) if isinstance(self.source, WordsCodec) else joined(source).split()

    @property
    def writes_trees(self) -> bool:
        """Whether a target is the brackets of a tree, whose words are those of the source."""
        return isinstance(self.target, TextCodec) and self.target.options.tokens.kind == "tree"

    def write(self, ids: Sequence[int], source: Source) -> str:
        """The text of a target for a source: its own words come from there, and those of a tree."""
        text = self.written.decode(ids, self.beyond(source))
        return with_words(text, self.sentence(source)) if self.writes_trees else text

    def encode(self, source: Source, target: str | None = None, example: Example | None = None) -> Encoded:
        """A source, with its target if there is one, as ids.

        >>> codec = TextCodec.fit(TextOptions(), ["abc"])
        >>> Codecs(codec, codec).encode("ab", "c").target
        [6]
        """
        inputs = self.source.inputs(source)
        more = {name: ids for name, ids in inputs.items() if name != "source"}
        if self.copying:
            lent = self._lent(source)
            beyond = copies.beyond(self.written, [piece for part in lent for piece in part])
            held = [copies.held(self.written, part, beyond) for part in lent]
            nested = isinstance(self.source, DocumentCodec)
            more["copy"] = held if nested else [*held[0], *([EOS] if self.source_end else [])]
            answer = None if target is None else copies.wanted(self.written, target, beyond)
        else:
            answer = None if target is None else self.target.encode(target)
        return Encoded(inputs["source"], answer, example.alignment if example else None, more or None)

    def beyond(self, source: Source) -> tuple[str, ...]:
        """What a source holds beyond the target's vocabulary and can lend it; nothing where nothing is copied.

        >>> codec = TextCodec.fit(TextOptions(), ["abc"])
        >>> Codecs(codec, codec, copying=True).beyond("azyz"), Codecs(codec, codec).beyond("azyz")
        (('z', 'y'), ())
        """
        if not self.copying:
            return ()
        return copies.beyond(self.written, [piece for part in self._lent(source) for piece in part])

    def _lent(self, source: Source) -> list[list[str]]:
        """What the places of a source hold: of a document sentence by sentence, else in one part."""
        return self.source.lends(source) if isinstance(self.source, DocumentCodec) else [self.source.pieces(source)]

    def examples(self, examples: Sequence[Example]) -> list[Encoded]:
        """Examples as ids."""
        return [self.encode(e.source, e.target, e) for e in examples]

    def loader(
        self, encoded: Tokens | Iterable[Encoded], batch_tokens: int, seed: int = 0, shuffle: bool = False
    ) -> Loader:
        """Serve them as batches."""
        return Loader(encoded, batch_tokens, seed, shuffle, self.source_end, isinstance(self.target, TextCodec))

    def collate(self, rows: Sequence[Encoded], keys: Sequence[int]) -> Batch:
        """Make one batch of them."""
        return collate(rows, keys, self.source_end, isinstance(self.target, TextCodec))

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"source": self.source.to_json(), "target": self.target.to_json()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Codecs:
        """What `to_json` described."""
        source, target = content["source"], content["target"]
        try:
            kinds = source["options"].get("kind", "text"), target["options"].get("kind", "text")
            return cls(SOURCES[kinds[0]].from_json(source), TARGETS[kinds[1]].from_json(target))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise BundleError(f"damaged codec: {error!r}; take the file from a fresh copy") from error
