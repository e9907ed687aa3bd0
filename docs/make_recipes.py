"""Writes docs/recipes.md from the options themselves, so that the page cannot say anything else than the code.

python docs/make_recipes.py
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from windlass.core.options import Options, members, options_class
from windlass.recipe import Recipe
from windlass.tasks import TASKS

PAGE = Path(__file__).with_name("recipes.md")

INTRODUCTION = """\
# Recipes

A recipe is the whole experiment as YAML: data, tokens, network, loss, training, search. This page lists every option.
It is written by `python docs/make_recipes.py` from the options' own classes.

A recipe file only says what differs from the task's own recipe (`windlass recipes TASK` prints that one, whole):

```yaml
task: pronounce
data: {train: [train.tsv], dev: dev.tsv}
model:
  encoder: {size: 256, layers: 2}
  decoder: {cell: {kind: gru, reset: before}}
train: {epochs: 20}
```

```sh
windlass train --recipe my.yaml --out model --set train.epochs=5
```

- What is laid over what: first the task's recipe, then the file, then every `--set`. The last word wins.
- `kind` chooses a part. Where its other options may stay as they are, the name alone will do: `cell: gru`.
- A part of the same kind keeps the options you do not name. A part of another kind starts from its own defaults.
- An unknown key, a wrong value, or an option that would change nothing is an error. It names the key and, where there
  is one, the nearest known key.
- `windlass train pairs.tsv`, with neither task nor recipe, picks tokens and sizes from the data and says what it
  picked. What you `--set` stays as you set it.

The defaults below are those of the options. A task's recipe sets many of them to other values.
"""

# Options whose classes have no words of their own for them.
SAID = {
    (Recipe, "task"): ", ".join(TASKS),
    (Recipe, "seed"): "of the first weights, the order of the data, dropout, and the split of a dev set",
    ("LossOptions", "label_smoothing"): "share of the loss that asks for all outputs alike",
}
HEADINGS = {
    "data": "Which files, and how they are read. See [data](data.md).",
    "source": "What goes in, and how it becomes tokens. Without a `kind` it is `text`.",
    "target": "What comes out. Without a `kind` it is `text`.",
    "model": "The network.",
    "decoder": "What writes the target: `model.decoder`, with `head: text`.",
    "head": "What comes out of the model: `model.head`. It must fit `target`.",
    "pool": "`model.head.pool`, with `head: label`, and `model.encoder.words.pool`: how states become one vector.",
    "wide": "`model.head.wide`: a linear layer on the n-grams of the source, beside the network.",
    "svm": "`model.head.svm`, with `head: label`: a support vector machine on sparse features of the source.",
    "splitter": "`source.splitter`, of a document: how a text becomes sentences. See [documents](documents.md).",
    "words": "`model.encoder.words`, of `encoder: hierarchical`: the network over the words of a sentence.",
    "sentences": "`model.encoder.sentences`, of `encoder: hierarchical`: the network over the sentences.",
    "spelling": "`model.encoder.spelling`: a word's vector from its letters.",
    "loss": "What is minimised beside the likelihood.",
    "train": "How to train.",
    "encoder": "What reads the source: `model.encoder`.",
    "tokens": "In `source` and `target`.",
    "cell": "In `model.encoder` and `model.decoder`. See [the decks](decks.md) for what each equation stands for.",
    "embedding": "In `model.encoder` and `model.decoder`.",
    "context": "`model.decoder.context`: what the decoder sees of the source.",
    "score": "`model.decoder.context.score`, with `context: attention` or `hierarchical` (there `within`, too); "
    "`model.head.pool.score`, with `pool: attention`.",
    "readout": "`model.decoder.readout`.",
    "optimiser": "`train.optimiser`.",
    "schedule": "`train.schedule`: the learning rate over the run.",
    "average": "`train.average`: what is evaluated and kept.",
    "sampling": "`train.sampling`: scheduled sampling.",
    "search": "How outputs are found. See [search](search.md).",
    "below": "`model.encoder.below`, with `encoder: attention`.",
    "attention": "`model.encoder.attention`, with `encoder: pair`. See [entail](entail.md).",
    "picture": "`model.encoder.picture`, with `encoder: question`: regions of the picture. See [answer](answer.md).",
    "compose": "`model.encoder.attention.compose`, with `encoder: pair`.",
    "augment": "`model.encoder.embedding.augment`, with `embedding: features`: SpecAugment.",
}
# Options that hold kinds of another one, where these are told.
LIKE = {"each": "source", "reader": "encoder", "within": "score"}
LIKE |= {"picture": "source", "question": "source", "attention": "score"}


def _record(field: FieldInfo) -> type[Options] | None:
    return options_class(field.annotation)


def _choices(field: FieldInfo) -> dict[str, type[Options]]:
    return {} if _record(field) else members(field.annotation)


def _yaml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_yaml, value))}]"
    return str(value)


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is PydanticUndefined:
        return "must be given"
    if value is None:
        return "not given"
    if isinstance(value, Options):
        return f"`{value.kind}`" if hasattr(value, "kind") else ""
    return f"`{_yaml(value)}`"


def _bounds(metadata: list[Any]) -> str:
    words = {"ge": "{} or more", "gt": "above {}", "le": "{} or less", "lt": "below {}"}
    said = [text.format(getattr(m, name)) for m in metadata for name, text in words.items() if hasattr(m, name)]
    return ", ".join(said)


def _values(annotation: Any, metadata: list[Any]) -> str:
    """What may be written, for a person."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _values(parts[0], [inner for m in parts[1:] for inner in getattr(m, "metadata", [m])])
    if origin is Literal:
        return ", ".join(f"`{part}`" for part in parts)
    if origin is tuple and Ellipsis in parts:
        return f"list of {_values(parts[0], [])}s"
    if origin is tuple:
        return f"{len(parts)} numbers"
    if parts:
        said = [_values(part, metadata if part in (int, float) else []) for part in parts if part is not NoneType]
        return (", " if Literal in map(get_origin, parts) else ", or ").join(dict.fromkeys(said))
    name = {int: "whole number", float: "number", str: "text", bool: "`true`, `false`"}[annotation]
    bounds = _bounds(metadata)
    return f"{name}, {bounds}" if bounds else name


def _about(owner: type[Options], name: str, field: FieldInfo) -> str:
    said = field.description or SAID.get((owner, name)) or SAID.get((owner.__name__, name))
    if said is None and _record(field) is None and not _choices(field):
        raise SystemExit(f"{owner.__module__}.{owner.__qualname__}.{name} has no description: add one")
    return (said or HEADINGS.get(name, "")).replace("|", "\\|")


def _table(owner: type[Options]) -> list[str]:
    rows = []
    for name, field in owner.model_fields.items():
        if name == "kind":
            continue
        record, choices = _record(field), _choices(field)
        if record is not None:
            values = f"[`{name}`](#{name})"
        elif choices:
            values = f"[{', '.join(f'`{kind}`' for kind in choices)}](#{LIKE.get(name, name)})"
        else:
            values = _values(field.annotation, field.metadata)
        rows.append(f"| `{name}` | {_default(field)} | {values} | {_about(owner, name, field)} |")
    if not rows:
        return ["No options.", ""]
    return ["| option | default | values | what it is |", "|---|---|---|---|", *rows, ""]


def _told(part: type[Options]) -> list[str]:
    """What the class says of itself; the equation of a class that is built by nested options, too."""
    outer = part.__qualname__.rpartition(".")[0]
    owner = getattr(sys.modules[part.__module__], outer) if outer else part
    text = (inspect.getdoc(owner) or "").partition(">>>")[0].strip()
    paragraphs = text.split("\n\n")
    out = [" ".join(paragraphs[0].split()), ""]
    if outer and len(paragraphs) > 1 and " = " in paragraphs[1]:
        out += ["```text", paragraphs[1], "```", ""]
    return out


def page() -> str:
    """The whole page."""
    out = [INTRODUCTION, "## The recipe", "", *_table(Recipe)]
    unions: dict[str, FieldInfo] = {}
    records: list[tuple[str, type[Options]]] = []

    def walk(owner: type[Options]) -> None:
        for name, field in owner.model_fields.items():
            if (record := _record(field)) is not None:
                if not any(known == name for known, _ in records):
                    records.append((name, record))
                    walk(record)
            elif (choices := _choices(field)) and name not in unions and name not in LIKE:
                unions[name] = field
                for part in choices.values():
                    walk(part)

    walk(Recipe)
    for name, options in records:
        out += [f"## `{name}`", "", HEADINGS[name], ""]
        out += _table(options)
    for name, field in unions.items():
        out += [f"## `{name}`", "", HEADINGS[name], ""]
        for kind, part in _choices(field).items():
            out += [f"### `{name}: {kind}`", "", *_told(part), *_table(part)]
    return "\n".join(out).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE}: written")
