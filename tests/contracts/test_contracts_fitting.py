"""Any two parts fit, and then the model scores a batch, or the recipe is refused with what to set instead.

Every registered task, source, target, encoder, head, start and context is tried, on the `tiny()` values of its sides.
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
from windlass.data.sides import SourceOptions
from windlass.encoders.kinds import EncoderOptions
from windlass.experiment.data import sides_of
from windlass.heads.kinds import HeadOptions
from windlass.heads.options import ContextOptions
from windlass.heads.recurrent import RecurrentDecoder
from windlass.model import build
from windlass.recipe import Recipe, default, merge, parse
from windlass.tasks import TASKS

SOURCES: dict[str, list[dict[str, Any]]] = {kind: [{}] for kind in members(SourceOptions)} | {
    "text": [{}, {"ngrams": 0, "sparse": []}],
    "words": [{"characters": True}, {"characters": False}],
    "document": [{"longer": "break"}, {"longer": "cut"}],
}
LETTERS = {"spelling": {"kind": "convolution", "embedding": 4, "size": 4}}
USUAL = {task: default(task) for task in TASKS}
STARTS = get_args(RecurrentDecoder.Options.model_fields["start"].annotation)
MEND = re.compile(r"\b(set|use|leave|change|name)\b")


IDS = 40  # of every vocabulary: more than any tiny side has


def tiny_batch(recipe: Recipe) -> tuple[Batch, int]:
    """Two rows of the kinds of source and target that a recipe names, and how many outputs there are."""
    source, values = sides_of(recipe).source_side.tiny()
    inputs = source.collate([source.encode(value) for value in values[:2]])
    target, answers = sides_of(recipe).target_side.tiny()
    if target.per_place:
        real = inputs["source"].mask.flatten(2).any(-1) if inputs["source"].mask.dim() > 2 else inputs["source"].mask
        gold = Padded(torch.zeros(real.shape, dtype=torch.long), real)
    else:
        gold = target.collate([target.encode(answer) for answer in answers[:2]])
    return Batch(inputs, gold, torch.arange(2)), IDS if target.written else len(target)


def scored(recipe: Recipe) -> bool:
    """Whether the model of a recipe gives a batch a loss that every weight it uses can learn from."""
    batch, outputs = tiny_batch(recipe)
    source, _ = sides_of(recipe).source_side.tiny()
    sizes = {"source": IDS, "characters": IDS, "picture": source.sizes.get("picture", 0)}
    model = build(recipe.model, recipe.loss, sizes, outputs, front=source.front())
    found = model(batch)
    found.mean.backward()
    return bool(found.count > 0) and bool(found.loss_sum.isfinite())


@cache
def outcome(task: str, source: int, encoder: str, letters: bool, head: str, start: str = "", context: str = "") -> str:
    """What is wrong with a recipe, or nothing, if its model scores a batch."""
    usual = USUAL[task]
    given = merge(usual["source"], SOURCES[usual["source"]["kind"]][source])
    pooled = encoder == "question" and "pool" in members(HeadOptions)[head].model_fields
    model: dict[str, Any] = {"encoder": {"kind": encoder, **(LETTERS if letters else {})}, "head": head}
    if pooled:  # its states are one: the question and the picture together
        model["head"] = {"kind": head, "pool": "summary"}
    if start == "transformer":
        model["decoder"] = {"kind": "transformer", "context": context, "size": 8, "hidden": 8}
    elif start:
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


@pytest.mark.parametrize("context", ["attention", "none"])
@pytest.mark.parametrize("encoder", members(EncoderOptions))
def test_a_transformer_decoder_fits_an_encoder_or_what_to_set_is_told(encoder, context):
    by_source = {task.sources[0]: name for name, task in TASKS.items() if task.target == "text"}
    found = [o for task in by_source.values() for o in outcomes(task, encoder, "text", "transformer", context)]
    assert all(not said or MEND.search(said) for said in found)
    if (context == "none") != (encoder in ("none", "prefix")):  # a memory that is not seen, or none to see
        assert "" not in found
    elif encoder not in ("prefix", "pair", "question"):  # these are for tasks that are not tried here
        assert "" in found


@pytest.mark.parametrize("encoder", members(EncoderOptions))
def test_every_encoder_fits_some_head(encoder):
    starts = [("", ""), ("zeros", "none")]
    assert any("" in outcomes(t, encoder, h, *s) for t in TASKS for h in members(HeadOptions) for s in starts)


@pytest.mark.parametrize("head", members(HeadOptions))
def test_every_head_fits_some_encoder(head):
    assert any("" in outcomes(task, encoder, head) for task in TASKS for encoder in members(EncoderOptions))
