"""A recipe: the whole experiment as typed data, in YAML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from windlass.core.errors import LONGEST_NAME, RecipeError, nearest, short
from windlass.core.fitting import Equal, Needs, Refuses, Term, misfits
from windlass.core.options import Options, members, options_class
from windlass.data.readers import DataOptions
from windlass.data.sides import SourceOptions, TargetOptions
from windlass.data.tokens import TextOptions
from windlass.decoding.options import Beam, Sample, SearchOptions
from windlass.heads.base import LossOptions
from windlass.model import ModelOptions
from windlass.recipe.train import TrainOptions
from windlass.tasks import TASKS

ALIGNMENT_ERROR = "aer"
"""A metric of every task whose decoder has attention, if the data have gold alignments."""
MOST_DEEPER = 6
"""How many keys are named for an unknown one that is the last name of each."""


class FilesOptions(DataOptions):
    """The files to train on, and how to read them.

    >>> FilesOptions(train=("pairs.tsv",)).store
    'auto'
    """

    train: tuple[str, ...] = Field((), description="training files; line-parallel ones as 'a.en,a.de'")
    dev: str | None = Field(None, description="validation file; default: held out from train")
    dev_fraction: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="share of train held out if there is no dev; default: a tenth, up to 10,000 examples",
    )
    store: Literal["auto", "memory", "disk"] = Field(
        "auto", description="where training examples are kept; auto: on disk if files exceed 32 MB"
    )

    def _terms(self, at: str) -> Iterator[Term]:
        yield from super()._terms(at)
        if self.store == "disk":
            yield Refuses(
                "source nothing",
                f"{at}.store: disk is for examples, and a language model reads running text: leave it out",
            )


class Recipe(Options):
    """The whole experiment: data, tokens, network, training, search.

    >>> Recipe(task="pronounce").search.kind
    'beam'
    """

    task: str = "text"
    seed: int = Field(1, ge=0, lt=2**32)
    data: FilesOptions = FilesOptions()
    source: SourceOptions = TextOptions()
    target: TargetOptions = TextOptions()
    vocabulary: Literal["separate", "joint"] = Field("separate", description="joint: one vocabulary for both sides")
    model: ModelOptions = ModelOptions()
    loss: LossOptions = LossOptions()
    train: TrainOptions = TrainOptions()
    search: SearchOptions | None = Field(
        None, description="decoding; default: beam search, sampling for a language model, none without a text head"
    )
    choose_by: str | None = Field(
        None, description="dev metric that selects the best weights; default: the task's; aer: alignment error rate"
    )

    ngrams: int | None = Field(
        None,
        ge=1,
        le=100,
        description="language model: order of the n-gram model; default: 6 for characters, 3 for other tokens",
    )
    ngram_weight: Annotated[float, Field(ge=0, lt=1)] | Literal["auto"] = Field(
        0,
        description="language model: weight of the n-gram model that the network is interpolated with after training; "
        "auto: the best on dev; 0: the network alone",
    )
    lead: int | None = Field(None, ge=1, description="summaries: words of the lead baseline; default: the task's")
    samples: int | None = Field(
        None, ge=1, description="language model: tokens to sample at four stages of training, into training/samples.txt"
    )

    @field_validator("task")
    @classmethod
    def _known(cls, task: str) -> str:
        if task not in TASKS:
            raise ValueError(f"no task {short(task)}: {nearest(task, TASKS)}")
        return task

    @field_validator("search")
    @classmethod
    def _with_search(cls, search: SearchOptions | None, info: ValidationInfo) -> SearchOptions | None:
        """The first search that suits the source and the model, unless the recipe names one."""
        if search is not None or not {"source", "model"} <= info.data.keys():
            return search
        others = (*info.data["source"].declare("source"), *info.data["model"].declare("model"))
        defaults = (Beam(), Beam(length_penalty=0), Sample())
        return next((one for one in defaults if not any(misfits(one.declare("search"), others))), None)

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
        for name in ("ngrams", "ngram_weight", "samples"):
            if value := getattr(self, name):
                yield Needs("source nothing", f"{name}: {value} is for a language model: leave it out, or set task: lm")
        if self.choose_by == ALIGNMENT_ERROR:
            mend = f"choose_by: {ALIGNMENT_ERROR} needs gold links (data.alignment) and a decoder with attention"
            yield Needs("data.alignment", mend)
            yield Needs("model.decoder.context links", mend)
        elif self.choose_by is not None:
            metrics = (*task.reported_metrics, *task.span_metrics)
            hint = nearest(self.choose_by, (*metrics, *([ALIGNMENT_ERROR] if self.model.decoder else [])))
            yield Needs(
                tuple(f"choose_by: {metric}" for metric in metrics),
                f"choose_by: {self.task} has no metric {short(self.choose_by)}: {hint}",
            )

    def to_yaml(self) -> str:
        """Return the whole recipe as YAML."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)

    @classmethod
    def from_yaml(cls, text: str, where: str = "recipe") -> Recipe:
        """Read a recipe; an error names the key, what is wrong, and the nearest known key."""
        return parse(read_yaml(text, where), where)


def read_yaml(text: str, where: str) -> dict[str, Any]:
    """Return the mapping in a YAML text.

    >>> read_yaml("seed: 3", "recipe")
    {'seed': 3}
    """
    try:
        content = yaml.safe_load(text)
    except RecursionError:
        raise RecipeError(f"{where}: nested too deep for a recipe") from None
    except (yaml.YAMLError, ValueError) as error:
        raise RecipeError(f"{where}: not valid YAML: {' '.join(str(error).split())[:300]}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise RecipeError(f"{where}: a recipe is a mapping such as 'task: pronounce', not a {type(content).__name__}")
    return content


def parse(content: dict[str, Any], where: str = "recipe") -> Recipe:
    """Validate plain data as a recipe.

    >>> parse({"seed": -1})
    Traceback (most recent call last):
    windlass.core.errors.RecipeError: recipe: seed: input should be greater than or equal to 0, not -1
    """
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        messages: dict[str, str] = {}
        for one in error.errors():
            key, what = _explain(dict(one), content)
            messages.setdefault(key, f"{key}: {what}" if key else what)  # one error per key, not one per union member
        raise RecipeError("; ".join(f"{where}: {line}" for line in messages.values())) from None


def _keys(content: dict[str, Any]) -> list[str]:
    """All keys of a recipe, the shallowest first."""
    keys, parts, seen = [], [("", content)], set()
    for at, part in parts:  # grows
        if isinstance(part, dict) and id(part) not in seen:  # an alias of YAML may hold itself
            seen.add(id(part))
            inner = [(f"{at}.{name}" if at else str(name), value) for name, value in part.items()]
            keys += [key for key, _ in inner]
            parts += inner
    return keys


def _explain(error: dict[str, Any], content: dict[str, Any]) -> tuple[str, str]:
    """The key that a pydantic error is about, as the user wrote it, and what is wrong with it."""
    path: list[str] = []
    known: dict[str, Any] = dict(Recipe.model_fields)
    choices: dict[str, type[Options]] = {}
    leaf = False
    for part in error["loc"]:
        if part in choices:  # the tag of a union, not a key
            known, choices = dict(choices[part].model_fields), {}
            continue
        if leaf and not isinstance(part, int):  # pydantic's name of a type, not a key
            continue
        if part in known and not leaf:
            annotation = known[part].annotation
            inner = options_class(annotation)
            choices = members(annotation) if get_args(annotation) and inner is None else {}
            leaf = not choices and inner is None
            known = dict(inner.model_fields) if inner else known
        path.append(str(part)[:LONGEST_NAME])
    key = ".".join(path)
    kind, value = error["type"], error.get("input")
    if kind == "extra_forbidden":
        within = key.removesuffix(path[-1])
        deeper = [
            one
            for one in _keys(content)
            if one.startswith(within) and one.endswith(f".{path[-1]}") and not f"{one}.".startswith(f"{key}.")
        ]
        hint = f"did you mean {' or '.join(deeper[:MOST_DEEPER])}?" if deeper else nearest(path[-1], known)
        return key, f"unknown key; {hint}"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        tag = value.get("kind") if isinstance(value, dict) else value
        if tag is None:
            return key, f"needs a kind; known: {', '.join(sorted(choices))}"
        return key, f"unknown kind {short(tag)}; {nearest(str(tag), choices)}"
    message = str(error["msg"]).removeprefix("Value error, ")
    if kind == "value_error":
        return key, message
    if kind == "model_type":
        return key, f"holds options of its own, such as {key}.{next(iter(known))}, and is not {short(value)}"
    return key, f"{message[:1].lower()}{message[1:]}, not {short(value)}"
