"""Finetuning with new target symbols: what a model knew before, it knows after."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import windlass
from toy import SMALL, strings
from windlass.bundle import Bundle
from windlass.data.examples import Example, Place
from windlass.experiment.run import fit_sides
from windlass.recipe import compose
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


@pytest.mark.parametrize("hidden", [(), (4,)], ids=["no hidden layer", "a hidden layer"])
def test_every_frame_of_ctc_keeps_the_outputs_of_its_old_symbols(hidden):
    recipe = compose(
        "pronounce", None, [{"model": {"head": {"kind": "ctc", "frames": 3, "hidden": hidden, "dropout": 0.0}}}]
    )
    known, more = ([Example(s, (t,), None, Place("x", 1))] for s, t in (("ab", "x y"), ("ab", "x q y r")))
    base = Bundle.new(recipe, fit_sides(recipe, known))
    torch.nn.init.normal_(base.model.head.output[-1].weight)  # not as the seed of the recipe draws them
    grown = extend_bundle(base, recipe, more, lambda _: None)
    old, new = base.model.head, grown.model.head
    assert new.vocabulary == old.vocabulary + 2
    states = torch.randn(2, 5, old.output[0].in_features)
    before, after = (head.output(states).unflatten(2, (3, -1)) for head in (old, new))
    assert torch.allclose(after[..., : old.vocabulary], before, atol=1e-6)
    rows = new.output[-1].weight.unflatten(0, (3, -1))
    fresh, copied = rows[:, old.vocabulary :].flatten(0, 1), old.output[-1].weight
    assert not (fresh[:, None] == copied).all(-1).any()  # fresh rows, and not those of other symbols
