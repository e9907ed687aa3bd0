"""Finetuning with new target symbols: what a model knew before, it knows after."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

import windlass
from toy import SMALL, strings
from windlass.bundle import Bundle
from windlass.data.examples import Example, Place
from windlass.experiment.loaders import fit_sides
from windlass.inference.predict import score
from windlass.recipe import compose, setting
from windlass.training.finetune import extend_bundle

WORDS = strings("abc", 2, 5)
FAST = {name: value for name, value in SMALL.items() if name.startswith("train.")}
POOLED = {"model.encoder.size": 16, "model.encoder.layers": 1, "train.epochs": 10}


def code(word: str) -> str:
    return word.translate(str.maketrans("abc", "xyz"))


def spaced(word: str) -> str:
    return " ".join(word)


TEXT = [(word, code(word)) for word in WORDS], [("cab", "qrs"), ("abba", "rqqr")]
TAGS = [(tuple(word), tuple(word.upper())) for word in WORDS], [(("c", "a"), ("Q", "A"))]
LABEL = [(spaced(word), f"begins {word[0]}") for word in WORDS], [("a b c", "other"), ("c b a", "strange")]
LABELS = [(spaced(word), ",".join(sorted(set(word)))) for word in WORDS], [("a b c", "a,other"), ("c b a", "strange")]
TRANSFORMER = {
    "model.encoder.size": 32,
    "model.decoder": {"kind": "transformer", "size": 32, "layers": 1, "heads": 2, "dropout": 0.0},
    "model.tie": "none",
    "train.optimiser.lr": 0.005,
    "train.epochs": 20,
    "search": "greedy",
}
KINDS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "recurrent": ("text", TEXT, SMALL),
    "transformer": ("text", TEXT, FAST | TRANSFORMER),
    "ctc": ("text", TEXT, FAST | {"model.head": {"kind": "ctc", "frames": 3}, "model.encoder.size": 16}),
    "softmax tags": ("tag", TAGS, FAST | POOLED | {"model.head.output": "softmax"}),
    "crf tags": ("tag", TAGS, FAST | POOLED | {"model.head.output": "crf"}),
    "label": ("classify", LABEL, FAST | POOLED),
    "labels": ("multilabel", LABELS, FAST | POOLED),
}


@pytest.mark.parametrize("kind", KINDS)
def test_new_target_symbols_do_not_change_what_a_model_predicts(kind):
    task, (known, new), settings = KINDS[kind]
    asked = [source for source, _ in known[:30]]
    parent = windlass.fit(known[30:], known[:30], task=task, settings=settings, quiet=True)
    still = {"train.optimiser.lr": 1e-12, "train.epochs": 1}
    child = windlass.fit(known[30:60] + new * 3, known[:30], base=parent, settings=still, quiet=True)
    assert len(child.bundle.sides.target) > len(parent.bundle.sides.target)
    before, after = parent.predict(asked), child.predict(asked)
    assert len({p.text for p in before}) > 2
    known_tokens = {token for p in before for token in p.answer.tokens}  # several labels: a new one may be added
    kept = [[t for t in p.answer.tokens if t in known_tokens or kind != "labels"] for p in after]
    assert kept == [list(p.answer.tokens) for p in before]


CTC = {"model.tie": "none", "model.encoder.size": 16}
GROWN: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "recurrent": ("text", TEXT, {"model.tie": "none"}),
    "recurrent, tied": ("text", TEXT, {"model.tie": "target"}),
    "recurrent, one table": ("text", TEXT, {"vocabulary": "joint", "model.tie": "all"}),
    "transformer": ("text", TEXT, {"model.decoder": "transformer", "model.tie": "none"}),
    "transformer, tied": ("text", TEXT, {"model.decoder": "transformer", "model.tie": "target"}),
    "ctc": ("text", TEXT, CTC | {"model.head": {"kind": "ctc", "frames": 1}}),
    "ctc, two frames": ("text", TEXT, CTC | {"model.head": {"kind": "ctc", "frames": 2}}),
    "ctc, three frames, hidden": ("text", TEXT, CTC | {"model.head": {"kind": "ctc", "frames": 3, "hidden": [4]}}),
    "softmax tags": ("tag", TAGS, {"model.head.output": "softmax"}),
    "crf tags": ("tag", TAGS, {"model.head.output": "crf"}),
    "label": ("classify", LABEL, {}),
    "labels": ("multilabel", LABELS, {}),
}


@pytest.mark.parametrize("kind", GROWN)
def test_the_outputs_of_old_target_symbols_keep_their_logits(kind):
    task, (known, new), settings = GROWN[kind]
    recipe = compose(task, None, [setting(f"{name}={json.dumps(value)}") for name, value in settings.items()])
    base = Bundle.new(recipe, fit_sides(recipe, _examples(known)))
    for parameter in base.model.parameters():  # not as the seed of the recipe draws them
        torch.nn.init.normal_(parameter, std=0.3)
    grown = extend_bundle(base, recipe, _examples(new), lambda _: None)
    old, more = len(base.sides.target), len(grown.sides.target)
    assert more > old
    before, after = _logits(base, known[:1], old), _logits(grown, known[:1], more)
    assert before.shape[:-1] == after.shape[:-1]
    assert torch.allclose(after[..., :old], before, atol=1e-5)
    assert not (after[..., old:, None] == before[..., None, :]).any()  # new rows, and not those of other symbols


def _examples(pairs: Any) -> list[Example]:
    return [
        Example(source, (target if isinstance(target, str) else " ".join(target),), None, Place("x", n))
        for n, (source, target) in enumerate(pairs)
    ]


def _logits(bundle: Bundle, pairs: Any, outputs: int) -> torch.Tensor:
    """What the output layer gives for the first pair, with the outputs of every frame in a row of its own."""
    seen: list[torch.Tensor] = []
    layer = bundle.model.head.output
    hook = layer.register_forward_hook(lambda _, __, logits: seen.append(logits.detach()))
    score(bundle, [(e.source, e.target) for e in _examples(pairs)])
    hook.remove()
    return seen[0].unflatten(-1, (-1, outputs))
