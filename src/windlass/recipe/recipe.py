"""A recipe: the whole experiment as typed data, in YAML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args

import yaml
from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from windlass.core.errors import RecipeError, nearest
from windlass.core.fitting import Equal, Needs, Refuses, Term, misfits
from windlass.core.options import Options, members, record
from windlass.data.readers import DataOptions
from windlass.data.sides import SourceOptions, TargetOptions
from windlass.data.tokens import TextOptions
from windlass.decoding.options import Beam, Sample, SearchOptions
from windlass.heads.base import LossOptions
from windlass.model import ModelOptions
from windlass.recipe.train import TrainOptions
from windlass.tasks import TASKS

ALIGNMENT_ERROR = "aer"
"""The figure of any task whose decoder attends, where files have gold links."""


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

    def _terms(self, at: str) -> Iterator[Term]:
        yield from super()._terms(at)
        if self.store == "disk":
            yield Refuses(
                "source nothing",
                f"{at}.store: disk is for examples, and a language model reads running text: leave it out",
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

    @field_validator("task")
    @classmethod
    def _known(cls, task: str) -> str:
        if task not in TASKS:
            raise ValueError(f"no task {task!r}: {nearest(task, TASKS)}")
        return task

    @field_validator("search")
    @classmethod
    def _with_search(cls, search: SearchOptions | None, info: ValidationInfo) -> SearchOptions | None:
        """The first search that suits what is written, unless the recipe names one."""
        if search is not None or not {"source", "model"} <= info.data.keys():
            return search
        others = (*info.data["source"].declare("source"), *info.data["model"].declare("model"))
        usual = (Beam(), Sample())
        return next((one for one in usual if not any(misfits(one.declare("search"), others))), None)

    @model_validator(mode="after")
    def _fits(self) -> Recipe:
        for misfit in misfits(self.declare("")):
            raise ValueError(misfit)
        return self

    def _terms(self, at: str) -> Iterator[Term]:
        task, target = TASKS[self.task], self.target.kind
        yield from task.declare()
        yield Needs(
            f"model.head: {target}", f"model.head: <model.head> cannot give target: {target}: set model.head: {target}"
        )
        if self.vocabulary == "joint":
            yield Equal(("source", "target"), "vocabulary: joint needs source and target options that are the same")
        if self.lead is not None:
            yield Needs("task lead", f"lead: {self.lead} is for summaries: leave it out, or set task: summarise")
        for name in ("ngrams", "samples"):
            if (value := getattr(self, name)) is not None:
                yield Needs("source nothing", f"{name}: {value} is for a language model: leave it out, or set task: lm")
        if self.choose_by == ALIGNMENT_ERROR:
            said = f"choose_by: {ALIGNMENT_ERROR} needs gold links (data.alignment) and a decoder with attention"
            yield Needs("data.alignment", said)
            yield Needs("model.decoder.context links", said)
        elif self.choose_by is not None:
            figures = (*task.reported_metrics, *task.span_metrics)
            hint = nearest(self.choose_by, (*figures, *([ALIGNMENT_ERROR] if self.model.decoder else [])))
            yield Needs(
                tuple(f"choose_by: {figure}" for figure in figures),
                f"choose_by: {self.task} has no figure {self.choose_by!r}: {hint}",
            )

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
            inner = record(annotation)
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
