"""Compose a recipe: the task's default, overridden by a file and by settings of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from windlass.core.errors import RecipeError, nearest, short
from windlass.heads.recurrent import RecurrentDecoder
from windlass.heads.transformer import TransformerDecoder
from windlass.recipe.recipe import Recipe, parse, read_yaml
from windlass.tasks import TASKS

DEFAULTS = Path(__file__).parent / "defaults"
"""The recipe of every task; in the folder `recurrent`, those for a recurrent decoder where the default is another; in
the folder `small`, parts for few examples."""


def merge(base: Any, over: Any) -> Any:
    """Override one mapping by another, recursively; a part of another kind replaces the whole part.

    >>> merge({"cell": {"kind": "lstm", "bias": True}, "size": 4}, {"cell": {"kind": "lstm", "bias": False}})
    {'cell': {'kind': 'lstm', 'bias': False}, 'size': 4}
    >>> merge({"cell": {"kind": "lstm", "bias": True}}, {"cell": "gru"})
    {'cell': {'kind': 'gru'}}
    >>> merge({"cell": "gru"}, {"cell": {"bias": False}})
    {'cell': {'kind': 'gru', 'bias': False}}
    """
    if isinstance(base, dict) and "kind" in base and isinstance(over, str):
        over = {"kind": over}
    if isinstance(base, str) and isinstance(over, dict):
        base = {"kind": base}
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    if "kind" in over and over["kind"] != base.get("kind", over["kind"]):
        return over
    return base | {key: merge(base[key], value) if key in base else value for key, value in over.items()}


def setting(text: str) -> dict[str, Any]:
    """Parse `train.epochs=5` into a mapping that overrides a recipe.

    >>> setting("train.epochs=5")
    {'train': {'epochs': 5}}
    """
    key, equals, value = text.partition("=")
    names = key.strip().split(".")
    shown = short(text)[1:-1]
    if not equals or not all(names):
        raise RecipeError(f"--set {shown}: write it as key=value, such as --set train.epochs=5")
    try:
        content: Any = yaml.safe_load(value) if value.strip() else None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise RecipeError(f"--set {shown}: the value is not valid YAML; quote it if it is text") from None
    return override(key.strip(), content)


def override(key: str, value: Any) -> dict[str, Any]:
    """Return the mapping that sets a dotted key to a value.

    >>> override("train.epochs", 5)
    {'train': {'epochs': 5}}
    """
    content = value
    for name in reversed(key.split(".")):
        content = {name: content}
    return content  # type: ignore[no-any-return]


def default(task: str) -> dict[str, Any]:
    """Return the default recipe of a task as plain data.

    >>> default("pronounce")["target"]["tokens"]["kind"]
    'words'
    """
    if not isinstance(task, str) or task not in TASKS:
        raise RecipeError(f"task: no task {short(task)}: {nearest(str(task), TASKS)}")
    path = DEFAULTS / f"{task}.yaml"
    return _complete(read_yaml(path.read_text(encoding="utf-8"), path.name), path.name)


def small_parts(task: str) -> tuple[str, dict[str, Any]]:
    """What a task's recipe has instead with few examples, in words, and these parts by their keys; often none.

    >>> small_parts("translate")[0]
    'a GRU encoder'
    >>> small_parts("lm")
    ('', {})
    """
    path = DEFAULTS / "small" / f"{task}.yaml"
    content = read_yaml(path.read_text(encoding="utf-8"), path.name) if path.exists() else {}
    return content.pop("what", ""), content


def _complete(content: dict[str, Any], where: str) -> dict[str, Any]:
    return parse(content, where).model_dump(mode="json")


def compose(task: str | None, file: Path | None, settings: Sequence[dict[str, Any]] = ()) -> Recipe:
    """Return the default recipe of a task, overridden by a file, then by settings in order.

    >>> compose("pronounce", None, [setting("train.epochs=5")]).train.epochs
    5
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
        raise RecipeError(f"{where}: its task is {over['task']}, but --task is {task}: leave --task out")
    explicit = over
    for part in settings:
        explicit = merge(explicit, part)
    base = _base(task or over.get("task", "text"), explicit)
    content = merge(base, over)
    for part in settings:
        content = merge(content, part)
    model = content["model"] if isinstance(content["model"], dict) else {}
    decoder, encoder = model.get("decoder"), model.get("encoder")
    if (
        isinstance(decoder, dict)
        and decoder.get("feedback") is False
        and "embedding" not in explicit["model"]["decoder"]
        and not (isinstance(encoder, dict) and encoder.get("kind") == "prefix")
    ):
        decoder.pop("embedding", None)  # a default of the task that nothing would use
    if isinstance(model.get("head"), dict) and model["head"].get("kind") != base["model"]["head"]["kind"]:
        _drop_defaults(content, explicit)
    _keep_own(content, base["train"], over, settings)
    return parse(content, where)


def recompose(recipe: Recipe, settings: Sequence[dict[str, Any]] = ()) -> Recipe:
    """Return the recipe of a model for another run, on other data, overridden by settings in order.

    A warm-up that is not set follows the length of that run.

    >>> recompose(compose("classify", None), [setting("train.epochs=5")]).train.auto
    ('warmup',)
    """
    content = recipe.model_dump(mode="json") | {"data": {}}
    content["train"]["auto"] = ["warmup"]
    for part in settings:
        content = merge(content, part)
    _keep_own(content, {}, {}, settings)
    return parse(content)


def _base(task: str, explicit: dict[str, Any]) -> dict[str, Any]:
    """The default recipe of a task, for the decoder that is asked for.

    Where another kind of decoder is asked for than the default has, the task's recipe of that kind, if there is one;
    where the default is CTC and a decoder is asked for, the recurrent one, or the default with the decoder of `text`.
    """
    base = default(task)
    model = explicit.get("model")
    asked = model if isinstance(model, dict) else {}
    head = asked.get("head") or ("text" if asked.get("decoder") else None)
    kind = head.get("kind") if isinstance(head, dict) else head
    decodes = base["model"]["head"]["kind"] == "ctc" and kind == "text"
    decoder = "recurrent" if decodes else _decoder_kind(asked.get("decoder"))
    if decoder is not None and (own := DEFAULTS / decoder / f"{task}.yaml").exists():
        return _complete(merge(base, read_yaml(own.read_text(encoding="utf-8"), own.name)), own.name)
    if not decodes:
        return base
    text = default("text")
    parts = {name: text["model"][name] for name in ("head", "decoder")}
    return base | {"loss": text["loss"], "search": text["search"], "model": base["model"] | parts}


def _decoder_kind(decoder: Any) -> str | None:
    """The kind of decoder that settings name, or whose options they have and no other has."""
    if not isinstance(decoder, dict):
        return decoder if decoder in ("recurrent", "transformer") else None
    own = {*RecurrentDecoder.Options.model_fields} - {*TransformerDecoder.Options.model_fields}
    context = decoder.get("context", "none")
    recurrent = own & {*decoder} or context not in ("none", "attention")
    kind = decoder.get("kind", "recurrent" if recurrent else None)
    return kind if kind in ("recurrent", "transformer") else None


def _drop_defaults(content: dict[str, Any], explicit: dict[str, Any]) -> None:
    """With another head, leave out what the task's default says for its own: decoder, loss and search."""
    if "decoder" not in explicit["model"]:
        content["model"]["decoder"] = None
    for name in ("loss", "search"):
        if name not in explicit:
            content.pop(name, None)


def _keep_own(content: dict[str, Any], base: dict[str, Any], file: dict[str, Any], settings: Sequence[Any]) -> None:
    """Leave no setting of training to the data that the user chose.

    A file that names `auto`, such as a recipe that was printed, chose what differs from the default.
    """
    train = content["train"]
    if not isinstance(train, dict) or not isinstance(train.get("auto"), list):
        return  # an error, which parsing reports
    given = _training(file)
    own = {
        name for name, value in given.items() if "auto" not in given or value != _training({"train": base}).get(name)
    }
    own |= {name for part in settings for name in _training(part)}
    train["auto"] = [name for name in train["auto"] if name not in own]


def _training(content: dict[str, Any]) -> dict[str, Any]:
    """The settings of training in a part of a recipe, with those of the schedule, by their last name."""
    train = content.get("train")
    train = train if isinstance(train, dict) else {}
    schedule = train.get("schedule")
    return train | (schedule if isinstance(schedule, dict) else {})
