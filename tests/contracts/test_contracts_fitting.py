"""Any two parts fit, and then the model scores a batch, or the recipe is refused with what to set instead.

Every registered task, source, encoder, head, start and context is tried: a new one without its line in `INPUTS` or
`TARGETS` fails here.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, get_args

import pytest
import torch

from windlass.core.errors import RecipeError
from windlass.core.options import members
from windlass.core.records import Batch, Padded
from windlass.data.sides import SourceOptions, TargetOptions
from windlass.encoders.kinds import EncoderOptions
from windlass.heads.kinds import HeadOptions
from windlass.heads.options import ContextOptions, TextHeadOptions
from windlass.model import build
from windlass.recipe import Recipe, default, merge, parse
from windlass.tasks import TASKS

FLAT, NESTED = Padded.of([[5, 6], [7, 4]]), Padded.nested([[[5, 6], [4]], [[7], [4]]])
INPUTS = {
    "text": {"source": FLAT},
    "words": {"source": FLAT, "characters": NESTED},
    "document": {"source": NESTED},
    "pair": {"source": FLAT, "second": FLAT},
    "none": {},
}
TARGETS = {"text": Padded.of([[8, 3], [9, 3]]), "label": Padded.of([[1], [0]]), "tags": Padded.of([[1, 0], [2, 2]])}
SOURCES: dict[str, list[dict[str, Any]]] = {kind: [{}] for kind in members(SourceOptions)} | {
    "words": [{"characters": True}, {"characters": False}],
    "document": [{"longer": "break"}, {"longer": "cut"}],
}
LETTERS = {"spelling": {"kind": "convolution", "embedding": 4, "size": 4}}
USUAL = {task: default(task) for task in TASKS}
STARTS = get_args(TextHeadOptions.model_fields["start"].annotation)
MEND = re.compile(r"\b(set|use|leave|change|name)\b")


def scored(recipe: Recipe) -> bool:
    """Whether the model of a recipe gives a batch a loss that every weight it uses can learn from."""
    sizes = {"source": 12, "characters": 12}
    model = build(recipe.model, recipe.loss, sizes, 12)
    found = model(Batch(INPUTS[recipe.source.kind], TARGETS[recipe.target.kind], torch.arange(2)))
    found.mean.backward()
    return bool(found.count > 0) and bool(found.loss_sum.isfinite())


@cache
def outcome(task: str, source: int, encoder: str, letters: bool, head: str, start: str = "", context: str = "") -> str:
    """What is wrong with a recipe, or nothing, if its model scores a batch."""
    usual = USUAL[task]
    given = merge(usual["source"], SOURCES[usual["source"]["kind"]][source])
    model = {"encoder": {"kind": encoder, **(LETTERS if letters else {})}, "head": head}
    if start:
        model["decoder"] = {"start": start, "context": context}
    joint = "joint" if given == usual["target"] else "separate"
    content = {key: usual[key] for key in ("task", "data", "target")} | {"source": given, "vocabulary": joint}
    try:
        recipe = parse({**content, "model": model})
    except RecipeError as error:
        return str(error)
    assert scored(recipe)
    return ""


def outcomes(task: str, encoder: str, head: str, start: str = "", context: str = "") -> list[str]:
    kinds = range(len(SOURCES[USUAL[task]["source"]["kind"]]))
    spelled = (False, True) if "spelling" in members(EncoderOptions)[encoder].model_fields else (False,)
    return [outcome(task, n, encoder, letters, head, start, context) for n in kinds for letters in spelled]


def test_every_kind_of_side_has_a_tiny_batch():
    assert members(SourceOptions).keys() == INPUTS.keys()
    assert members(TargetOptions).keys() == TARGETS.keys()


@pytest.mark.parametrize("head", members(HeadOptions))
@pytest.mark.parametrize("encoder", members(EncoderOptions))
def test_an_encoder_and_a_head_fit_or_what_to_set_is_told(encoder, head):
    for task in TASKS:
        for said in outcomes(task, encoder, head):
            assert not said or MEND.search(said), said


@pytest.mark.parametrize("context", members(ContextOptions))
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("encoder", members(EncoderOptions))
def test_a_start_and_a_context_fit_an_encoder_or_what_to_set_is_told(encoder, start, context):
    by_source = {task.sources[0]: name for name, task in TASKS.items() if task.target == "text"}
    for task in by_source.values():
        for said in outcomes(task, encoder, "text", start, context):
            assert not said or MEND.search(said), said


@pytest.mark.parametrize("encoder", members(EncoderOptions))
def test_every_encoder_fits_some_head(encoder):
    starts = [("", ""), ("zeros", "none")]
    assert any("" in outcomes(t, encoder, h, *s) for t in TASKS for h in members(HeadOptions) for s in starts)


@pytest.mark.parametrize("head", members(HeadOptions))
def test_every_head_fits_some_encoder(head):
    assert any("" in outcomes(task, encoder, head) for task in TASKS for encoder in members(EncoderOptions))
