"""Attention is the same on every path: of a search, of any entry of its list, and forced on the same output.

Every attention is held to this under every search in test_contracts_search.py; here, every task is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from task_models import CTC, smaller, task_model
from windlass.core.marks import EOS
from windlass.core.records import Padded
from windlass.decoding.options import Beam, Greedy, Sample
from windlass.inference.predict import predict, score
from windlass.recipe import compose, setting
from windlass.tasks import TASKS

SHORT = {"length_factor": 0.0, "length_plus": 4}
WAYS = {
    "greedy": (Greedy(**SHORT), 1),
    "beam": (Beam(size=3, **SHORT), 1),
    "beam without penalty": (Beam(size=3, length_penalty=0.0, **SHORT), 1),
    "n-best": (Beam(size=4, **SHORT), 4),
    "sample": (Sample(seed=3, **SHORT), 3),
}
READING = [name for name, task in TASKS.items() if not task.language_model]
WRITING = [name for name in READING if TASKS[name].target in ("text", "tree")]


def forced(bundle, value, prediction):
    """The attention (T, S) of the model when it is forced to write the tokens of a prediction."""
    tokenizer, copied = bundle.sides.tokenizer, bundle.sides.copied(bundle.sides.read(value))
    ids = [len(tokenizer) + copied.index(t) if t in copied else tokenizer.find(t) for t in prediction.answer.tokens]
    if tokenizer.options.tokens.kind == "tree":  # its tokens are shown without their words
        ids = tokenizer.encode(prediction.text)
    batch = bundle.sides.collate([bundle.sides.encode(bundle.sides.read(value))], [0])
    batch = replace(batch, target=Padded.of([[*ids, *([EOS] if prediction.finished else [])]]))
    with torch.no_grad():
        memory = bundle.model.encode(batch)
        (hypothesis,) = bundle.model.head.force(memory, batch)
    return hypothesis.weights[:, memory.parts.get("words", memory).mask[0]]


@pytest.mark.parametrize("task", WRITING)
def test_attention_of_a_search_is_that_of_forcing_what_it_found(task):
    decoder = smaller(compose(task, None, [setting("model.head=text")]).model.decoder.model_dump(mode="json"))
    bundle, value = task_model(task, model={"decoder": decoder})  # also where the default is CTC
    compared = set()
    for way, (options, nbest) in WAYS.items():
        best = predict([bundle], [value], options, nbest)[0]
        for found in (best, *best.alternatives):
            again = forced(bundle, value, found)
            assert len(found.attention) == len(again) == len(found.answer.tokens) + found.finished, way
            assert np.allclose(found.attention, again, atol=2e-5), way
            compared.add(found.answer.tokens)
    assert len(compared) > 3  # different outputs, not one found again and again


@pytest.mark.parametrize("task", sorted(set(READING) - set(WRITING)))
def test_attention_of_a_prediction_is_that_of_scoring_it(task):
    bundle, value = task_model(task)
    (found,) = predict([bundle], [value])
    target = " ".join(found.answer.tokens) if found.answer.per_place else found.text
    (again,) = score(bundle, [(value, target)])
    assert again.answer.tokens == found.answer.tokens
    assert (found.attention is None) == (again.attention is None)
    if found.attention is not None:
        assert np.allclose(found.attention, again.attention, atol=2e-5)
    for one, other in zip(found.word_attention, again.word_attention, strict=True):
        assert np.allclose(one, other, atol=2e-5)


def test_alignments_of_ctc_are_those_of_forcing_what_it_found():
    bundle, value = task_model("pronounce", **CTC)
    for options, nbest in ((Greedy(), 1), (Beam(size=4, length_penalty=0.0), 4)):
        best = predict([bundle], [value], options, nbest)[0]
        for found in (best, *best.alternatives):
            if found.answer.tokens:
                assert np.allclose(found.attention, forced(bundle, value, found), atol=2e-5)
    assert len(best.alternatives) == 3


def test_no_task_is_left_out():
    assert {*READING, "lm"} == set(TASKS)
