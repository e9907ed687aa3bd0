"""A recipe: the whole experiment as typed data, in YAML."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import Field, ValidationError, model_validator

from windlass.core.errors import RecipeError, nearest
from windlass.core.options import Options, members, options_class
from windlass.data.copies import comparable
from windlass.data.documents import DocumentOptions
from windlass.data.pairs import PairOptions
from windlass.data.readers import DataOptions
from windlass.data.sides import SourceOptions, TargetOptions
from windlass.data.tokens import BpeTokens, TextOptions, UnigramTokens
from windlass.decoding.options import Beam, Sample, SearchOptions
from windlass.encoders.base import TokenOptions
from windlass.encoders.pair import PairEncoder
from windlass.model import LossOptions, ModelOptions, head_kind
from windlass.nn.embedding import Vectors
from windlass.recipe.train import TrainOptions
from windlass.tasks import TASKS


class FilesOptions(DataOptions):
    """Which files to learn from, and how to read them.

    >>> FilesOptions(train=("pairs.tsv",)).store
    'auto'
    """

    train: tuple[str, ...] = Field((), description="files; two line-parallel ones as 'a.en,a.de'")
    dev: str | None = Field(None, description="the file to choose by; not given: a part of train")
    dev_fraction: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="how much of train to set aside where dev is not given; none: a tenth, of examples up to 10,000",
    )
    store: Literal["auto", "memory", "disk"] = Field(
        "auto", description="where training examples and their ids are held; auto: on disk where files exceed 32 MB"
    )


class Recipe(Options):
    """Everything that makes a model: data, tokens, network, training, search.

    >>> Recipe(task="pronounce").search.kind
    'beam'
    """

    task: str = "text"
    seed: int = Field(1, ge=0)
    data: FilesOptions = FilesOptions()
    source: SourceOptions = TextOptions()
    target: TargetOptions = TextOptions()
    vocabulary: Literal["separate", "joint"] = Field("separate", description="joint: one vocabulary for both sides")
    model: ModelOptions = ModelOptions()
    loss: LossOptions = LossOptions()
    train: TrainOptions = TrainOptions()
    search: SearchOptions | None = Field(
        None, description="how texts are found: by a beam, unless you say; not given where nothing is written"
    )
    choose_by: str | None = Field(
        None, description="the figure on dev that the best weights are chosen by; none: the task's own; aer: alignments"
    )

    ngrams: int | None = Field(
        None, ge=1, description="language model: order of the n-gram baseline; none: 6 of characters, 3 of other tokens"
    )
    lead: int | None = Field(
        None, ge=1, description="summaries: how many of the first words the baseline says; none: the task's own number"
    )
    samples: int | None = Field(
        None, ge=1, description="language model: write so many tokens at four stages of training, training/samples.txt"
    )

    @model_validator(mode="before")
    @classmethod
    def _with_search(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("search") is None and head_kind(given.get("model", {})) == "text":
            task = TASKS.get(str(given.get("task")))
            return {**given, "search": Sample() if task is not None and task.reads_nothing else Beam()}
        return given

    @model_validator(mode="after")
    def _fits(self) -> Recipe:
        if self.task not in TASKS:
            raise ValueError(f"task: no task {self.task!r}: {nearest(self.task, TASKS)}")
        self._sides_fit()
        self._choice_fits()
        self._text_fits()
        self._vectors_fit()
        if self.vocabulary == "joint" and self.source != self.target:
            raise ValueError("vocabulary: joint needs source and target options that are the same")
        if self.vocabulary == "separate" and (self.model.tie == "all" or self.model.encoder.kind == "prefix"):
            what = "model.tie: all" if self.model.tie == "all" else "model.encoder: prefix"
            raise ValueError(f"{what} needs one vocabulary for both sides: set vocabulary: joint")
        return self

    def _sides_fit(self) -> None:
        """Task, sides, encoder and head must speak of the same thing."""
        task, source, target = TASKS[self.task], self.source, self.target
        encoder, head = self.model.encoder, self.model.head
        if source.kind not in task.sources:
            raise ValueError(f"source: {source.kind}, but task {task.name} reads {' or '.join(task.sources)}")
        self._trees_fit()
        if target.kind != ("text" if task.target == "tree" else task.target):
            raise ValueError(f"target: {target.kind}, but task {task.name} gives {task.target}")
        if head.kind != target.kind:
            raise ValueError(
                f"model.head: {head.kind} cannot give target: {target.kind}: set model.head: {target.kind}"
            )
        if source.kind not in encoder.reads:
            raise ValueError(f"model.encoder: {encoder.kind} reads {' or '.join(encoder.reads)}, not {source.kind}")
        if (source.kind == "pair") != (self.data.second is not None):
            raise ValueError(
                "data.second is the column of a pair's second text: name it"
                if source.kind == "pair"
                else f"data.second is for a source of kind pair, not {source.kind}: leave it out"
            )
        cut = source.each if isinstance(source, PairOptions) else source
        reader = encoder.reader if isinstance(encoder, PairEncoder.Options) else encoder
        if cut.kind == "words" and isinstance(reader, TokenOptions) and cut.characters != bool(reader.spelling):
            raise ValueError(
                "source.characters gives letters that nothing reads: set it to false, or set model.encoder.spelling"
                if cut.characters
                else "model.encoder.spelling reads letters: set source.characters: true"
            )
        if self.model.decoder is not None and self.model.decoder.copying:
            assert isinstance(target, TextOptions)  # as the head was checked
            if not isinstance(source, TextOptions | DocumentOptions):
                raise ValueError(f"model.decoder.copying cannot copy from source: {source.kind}: use source: text")
            if isinstance(source, DocumentOptions) and self.model.decoder.context.kind != "hierarchical":
                raise ValueError("model.decoder.copying copies words, and not sentences: set context: hierarchical")
            if why := comparable(source, target, self.vocabulary == "joint"):
                raise ValueError(f"model.decoder.copying: {why}")
        whole = source.kind != "document" or (source.longer == "cut" and source.most_sentences is None)
        if target.kind == "tags" and not whole:
            raise ValueError(
                "every sentence has its tag, so none may be broken or left out: set source.longer: cut, and leave "
                "source.most_sentences out"
            )
        if head.kind != "text":
            if self.search is not None:
                raise ValueError(f"search has no use with model.head: {head.kind}: leave it out")
            if self.train.sampling.kind != "none":
                raise ValueError(f"train.sampling has no use with model.head: {head.kind}: leave it out")
            if self.vocabulary != "separate":
                raise ValueError(f"vocabulary: {self.vocabulary} has no use with model.head: {head.kind}: leave it out")

    def _vectors_fit(self) -> None:
        """Words that training data lacks can be read, where a word is a token, but not written."""
        embedding = getattr(self.model.decoder, "embedding", None)
        if isinstance(embedding, Vectors) and embedding.more:
            raise ValueError("model.decoder.embedding.more: a word that training lacks is never written: leave it out")
        embedding = self.model.source_embedding
        if isinstance(embedding, Vectors) and embedding.more:
            cut = self.source.each if isinstance(self.source, PairOptions) else self.source
            if isinstance(cut, TextOptions) and isinstance(cut.tokens, BpeTokens | UnigramTokens):
                raise ValueError(f"embedding.more adds words, but tokens are {cut.tokens.kind}: set tokens: words")
            if self.vocabulary == "joint":
                raise ValueError("embedding.more adds words to be read, not written: set vocabulary: separate")

    def _trees_fit(self) -> None:
        """Trees are written by a task that gives them, and get their words from the sentence."""
        tokens = getattr(self.target, "tokens", None)
        writes = tokens is not None and tokens.kind == "tree"
        if writes != (TASKS[self.task].target == "tree"):
            raise ValueError(
                f"target.tokens: tree is for a task that writes trees, not for {self.task}: leave it out"
                if writes
                else f"target.tokens: {self.task} writes trees: set target.tokens: tree"
            )
        if writes and tokens is not None and tokens.words == "kept":
            raise ValueError("target.tokens.words: kept has no use: a tree gets its words from the sentence")
        if writes and self.search is not None and self.search.block_ngrams:
            raise ValueError("search.block_ngrams has no use for trees, whose brackets repeat: leave it out")

    def _text_fits(self) -> None:
        """What is for a language model alone, and what one has no use for; what is for summaries alone."""
        for name in ("history", "speaker"):
            if getattr(self.data, name) is not None and not TASKS[self.task].turns:
                raise ValueError(f"data.{name} is for dialogs: leave it out, or set task: reply")
        if self.lead is not None and TASKS[self.task].lead is None:
            raise ValueError(f"lead: {self.lead} is for summaries: leave it out, or set task: summarise")
        if TASKS[self.task].reads_nothing and self.data.store == "disk":
            raise ValueError("data.store: disk is for examples, and a language model reads running text: leave it out")
        if not TASKS[self.task].reads_nothing:
            for name, value in (("train.chunk", self.train.chunk), ("ngrams", self.ngrams), ("samples", self.samples)):
                if value is not None:
                    raise ValueError(f"{name}: {value} is for a language model: leave it out, or set task: lm")
        elif self.train.chunk is not None and self.train.sampling.kind != "none":
            raise ValueError("train.sampling has no use with train.chunk, where a chunk goes through at once")
        elif self.search is not None and self.search.kind == "beam":
            raise ValueError("search: beam has no use for a language model, which has no best text: use sample, greedy")
        elif self.search is not None and not self.search.unknown:
            raise ValueError("search.unknown: a language model never writes the unknown mark: leave it out")

    def _choice_fits(self) -> None:
        task, decoder = TASKS[self.task], self.model.decoder
        figures = (*task.figures, *task.span_metrics, *(["aer"] if decoder is not None else []))
        if self.choose_by is not None and self.choose_by not in figures:
            hint = nearest(self.choose_by, figures)
            raise ValueError(f"choose_by: {self.task} has no figure {self.choose_by!r}: {hint}")
        attends = decoder is not None and decoder.context.kind == "attention"
        late = decoder is not None and decoder.context.kind == "attention" and decoder.context.links == "reading"
        if late and self.data.alignment is None:
            raise ValueError("links: reading is for gold links: name their column in data.alignment, or leave it out")
        if self.choose_by == "aer" and (self.data.alignment is None or not attends):
            raise ValueError("choose_by: aer needs gold links (data.alignment) and a decoder with attention")

    def to_yaml(self) -> str:
        """Write the recipe out, whole.

        >>> Recipe.from_yaml(Recipe(seed=7).to_yaml()).seed
        7
        """
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)

    @classmethod
    def from_yaml(cls, text: str, where: str = "recipe") -> Recipe:
        """Read a recipe; an error names the key, what is wrong with it, and the nearest known one.

        >>> Recipe.from_yaml("train: {epoch: 3}")
        Traceback (most recent call last):
        windlass.core.errors.RecipeError: recipe: train.epoch: unknown key; did you mean 'epochs'?
        """
        return parse(read_yaml(text, where), where)


def read_yaml(text: str, where: str) -> dict[str, Any]:
    """Read a mapping from YAML text.

    >>> read_yaml("seed: 3", "recipe")
    {'seed': 3}
    """
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise RecipeError(f"{where}: not valid YAML: {' '.join(str(error).split())}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise RecipeError(f"{where}: a recipe is a mapping such as 'task: pronounce', not a {type(content).__name__}")
    return content


def parse(content: dict[str, Any], where: str = "recipe") -> Recipe:
    """Make a recipe of plain data.

    >>> parse({"seed": -1})
    Traceback (most recent call last):
    windlass.core.errors.RecipeError: recipe: seed: input should be greater than or equal to 0, not -1
    """
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        said: dict[str, str] = {}
        for found in error.errors():
            key, what = _explain(dict(found))
            said.setdefault(key, f"{key}: {what}" if key else what)  # a value that no kind of a union fits is one error
        raise RecipeError("; ".join(f"{where}: {line}" for line in said.values())) from None


def _explain(error: dict[str, Any]) -> tuple[str, str]:
    """One of pydantic's errors as the key that the user wrote, and what is wrong with it."""
    path: list[str] = []
    known: dict[str, Any] = dict(Recipe.model_fields)
    choices: dict[str, type[Options]] = {}
    leaf = False
    for part in error["loc"]:
        if part in choices:  # the tag of a union: not a key that the user wrote
            known, choices = dict(choices[part].model_fields), {}
            continue
        if leaf and not isinstance(part, int):  # pydantic's name of a type: not a key either
            continue
        if part in known and not leaf:
            annotation = known[part].annotation
            inner = options_class(annotation)
            choices = members(annotation) if get_args(annotation) and inner is None else {}
            leaf = not choices and inner is None
            known = dict(inner.model_fields) if inner else known
        path.append(str(part))
    key = ".".join(path)
    kind, given = error["type"], error.get("input")
    if kind == "extra_forbidden":
        return key, f"unknown key; {nearest(path[-1], known)}"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        tag = given.get("kind") if isinstance(given, dict) else given
        if tag is None:
            return key, f"say which kind; known: {', '.join(sorted(choices))}"
        return key, f"no kind {str(tag)!r}; {nearest(str(tag), choices)}"
    message = str(error["msg"]).removeprefix("Value error, ")
    if kind == "value_error":
        return key, message
    if kind == "model_type":
        return key, f"holds options of its own, such as {key}.{next(iter(known))}, and is not {given!r}"
    return key, f"{message[:1].lower()}{message[1:]}, not {given!r}"


def merge(base: Any, over: Any) -> Any:
    """Lay one mapping over another. A part of another kind replaces the whole part; of the same kind, its keys.

    >>> merge({"cell": {"kind": "lstm", "bias": True}, "size": 4}, {"cell": {"kind": "lstm", "bias": False}})
    {'cell': {'kind': 'lstm', 'bias': False}, 'size': 4}
    >>> merge({"cell": {"kind": "lstm", "bias": True}}, {"cell": "gru"})
    {'cell': {'kind': 'gru'}}
    """
    if isinstance(base, dict) and "kind" in base and isinstance(over, str):
        over = {"kind": over}
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    if "kind" in over and over["kind"] != base.get("kind", over["kind"]):
        return over
    return base | {key: merge(base[key], value) if key in base else value for key, value in over.items()}


def setting(text: str) -> dict[str, Any]:
    """Read `train.epochs=5` as a mapping to lay over a recipe.

    >>> setting("train.epochs=5")
    {'train': {'epochs': 5}}
    """
    key, equals, value = text.partition("=")
    names = key.strip().split(".")
    if not equals or not all(names):
        raise RecipeError(f"--set {text}: write it as key=value, such as --set train.epochs=5")
    try:
        content: Any = yaml.safe_load(value) if value.strip() else None
    except yaml.YAMLError:
        raise RecipeError(f"--set {text}: the value is not valid YAML; quote it if it is text") from None
    for name in reversed(names):
        content = {name: content}
    return content  # type: ignore[no-any-return]


def override(key: str, value: Any) -> dict[str, Any]:
    """The same of a key and a value that is there already.

    >>> override("train.epochs", 5)
    {'train': {'epochs': 5}}
    """
    content = value
    for name in reversed(key.split(".")):
        content = {name: content}
    return content  # type: ignore[no-any-return]


def default(task: str) -> dict[str, Any]:
    """The recipe that comes with a task, whole, as plain data.

    >>> default("pronounce")["target"]["tokens"]["kind"]
    'words'
    """
    if task not in TASKS:
        raise RecipeError(f"no task {task!r}: {nearest(task, TASKS)}")
    path = Path(__file__).parent / "defaults" / f"{task}.yaml"
    recipe = parse(read_yaml(path.read_text(encoding="utf-8"), path.name), path.name)
    return recipe.model_dump(mode="json")


def compose(task: str | None, file: Path | None, settings: Sequence[dict[str, Any]] = ()) -> Recipe:
    """Make a recipe: the task's own, then a file laid over it, then settings, the last word last.

    >>> compose("pronounce", None, [setting("train.epochs=5")]).train.epochs
    5
    >>> over = [setting("model.decoder.feedback=false"), setting("model.decoder.readout=state")]
    >>> compose("pronounce", None, over).model.decoder.feedback
    False
    """
    over: dict[str, Any] = {}
    where = "recipe"
    if file is not None:
        where = str(file)
        try:
            over = read_yaml(file.read_text(encoding="utf-8"), where)
        except OSError as error:
            raise RecipeError(f"{file}: cannot read the recipe: {error.strerror}") from None
        except UnicodeDecodeError:
            raise RecipeError(f"{file}: cannot read the recipe: it is not UTF-8 text") from None
    if task is not None and over.get("task", task) != task:
        raise RecipeError(f"{where}: its task is {over['task']}, but --task says {task}")
    content = merge(default(task or over.get("task", "text")), over)
    given = over
    for part in settings:
        content, given = merge(content, part), merge(given, part)
    model = content["model"]
    decoder = model.get("decoder") if isinstance(model, dict) else None
    if isinstance(decoder, dict) and decoder.get("feedback") is False and "embedding" not in given["model"]["decoder"]:
        decoder.pop("embedding", None)  # the task's own, which nobody asked for and nothing would use
    return parse(content, where)
