"""Every registered part, put together into small models that the contracts are held against."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import torch
from torch import Tensor

from windlass.core.marks import EOS
from windlass.core.options import members
from windlass.core.records import Batch, Padded
from windlass.decoding.options import Beam, Greedy, Sample
from windlass.model import LossOptions, Model, ModelOptions, build
from windlass.nn.attention import AttentionOptions
from windlass.nn.cells import CellOptions
from windlass.nn.embedding import EmbeddingOptions

torch.set_num_threads(1)  # products this small are slower on many threads than on one

H, E, V = 6, 4, 9
SEARCHES = {
    "greedy": Greedy(length_factor=0.5, length_plus=2),
    "beam": Beam(size=3, length_factor=0.5, length_plus=2),
    "sample": Sample(seed=3, top_k=6, length_factor=0.5, length_plus=2),
    "blocked beam": Beam(size=4, length_penalty=0, block_ngrams=1, length_factor=0.5, length_plus=2),
}

CELLS: dict[str, dict[str, Any]] = {kind: {"kind": kind} for kind in members(CellOptions)} | {
    "rnn relu": {"kind": "rnn", "activation": "relu"},
    "rnn sigmoid": {"kind": "rnn", "activation": "sigmoid", "bias": False},
    "rnn identity": {"kind": "rnn", "activation": "identity"},
    "lstm sigmoid": {"kind": "lstm", "output": "sigmoid", "bias": False},
    "lstm peepholes": {"kind": "lstm", "peepholes": True},
    "gru before": {"kind": "gru", "reset": "before"},
    "gru no bias": {"kind": "gru", "bias": False},
    "convolution": {"kind": "convolution", "width": 8},  # wide enough to see from one chunk of a text into the next
    "convolution relu": {"kind": "convolution", "width": 7, "activation": "relu"},
}
ENCODERS: dict[str, dict[str, Any]] = {
    "convolution": {"kind": "convolution", "widths": [3]},
    "convolutions": {"kind": "convolution", "widths": [1, 2, 4], "activation": "tanh"},
    "convolution layers": {"kind": "convolution", "layers": 3, "connect": "residual", "activation": "gated"},
    "attention": {"kind": "attention", "heads": 2, "hidden": 5, "layers": 1},
    "attention after": {"kind": "attention", "heads": 3, "hidden": 5, "norm": "after", "positions": "learned"},
    "attention over gru": {
        **{"kind": "attention", "heads": 1, "hidden": 5, "layers": 1, "positions": "none"},
        "below": {"cell": "gru", "size": 4},
    },
}
CONTEXTS: dict[str, dict[str, Any]] = {
    "none": {"context": "none", "start": "final"},
    "summary": {"context": "summary", "start": "summary"},
    "previous": {"context": {"kind": "attention", "score": {"kind": "additive", "size": 5}}},
    "current": {
        "context": {"kind": "attention", "query": "current", "score": {"kind": "additive", "size": 5}},
        "readout": {"kind": "joined", "size": 5},
    },
}


def _score(kind: str, **more: Any) -> dict[str, Any]:
    sizes = {"size": 5} if kind in ("additive", "mlp") else {}
    keys = {"keys": H} if kind in ("dot", "scaled_dot", "cosine") else {}
    return {"kind": kind, **sizes, **keys, **more}


def _attention(kind: str, query: str, feeding: bool, coverage: bool) -> dict[str, Any]:
    readout = {"kind": "joined", "size": 5} if query == "current" else {"kind": "state"}
    score = _score(kind, coverage=coverage)
    return {
        "context": {"kind": "attention", "score": score, "query": query, "input_feeding": feeding},
        "readout": readout,
        "start": "summary",
    }


def _variants() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for (cell, given), (context, decoder) in product(CELLS.items(), CONTEXTS.items()):
        if " " in cell and context in (
            "summary",
            "current",
        ):  # the registered kinds alone go with every context
            continue
        if cell.startswith("convolution"):  # which has no state that a source could set
            if context == "none":
                continue
            decoder = {**decoder, "start": "zeros"}
        found[f"{cell} - {context}"] = {"encoder": {"cell": given}, "decoder": {"cell": given, **decoder}}
    for cell, given in list(CELLS.items())[: len(members(CellOptions))]:
        prefix = {"cell": given, "context": "none", "start": "learned"}
        found[f"{cell} - prefix"] = {"encoder": {"kind": "prefix"}, "decoder": prefix}
    for name, given in ENCODERS.items():
        found[name] = {"encoder": given, "decoder": {"start": "summary"}}
        found[f"{name} - summary"] = {"encoder": given, "decoder": CONTEXTS["summary"]}
    found["convolution tied"] = {
        **{"encoder": ENCODERS["convolution"], "tie": "all"},
        "decoder": {"readout": {"kind": "joined", "size": E}},
    }
    for kind, query, feeding, coverage in product(
        members(AttentionOptions), ("previous", "current"), (False, True), (False, True)
    ):
        name = f"{kind} {query}{' fed' * feeding}{' covered' * coverage}"
        found[name] = {"encoder": {}, "decoder": _attention(kind, query, feeding, coverage)}
    deep = {"kind": "deep", "size": 5}
    additive = CONTEXTS["previous"]["context"]
    projected = {"kind": "attention", "score": _score("bilinear", keys=3, values=4)}
    found |= {
        "deep": {"decoder": {"readout": deep}},
        "deep without context": {"decoder": {"readout": deep, "context": "none", "start": "final"}},
        "deep summary": {"decoder": {"readout": deep, "context": "summary"}},
        "joined summary": {"decoder": {"readout": {"kind": "joined", "size": 5}, "context": "summary"}},
        "no feedback": {"decoder": {"feedback": False, "context": "none", "start": "summary"}},
        "no feedback, summary": {"decoder": {"feedback": False, "context": "summary"}},
        "no feedback, attention": {"decoder": {"feedback": False, "context": additive, "embedding": None}},
        "learned start": {"decoder": {"start": "learned"}},
        "projected values": {"decoder": {"context": projected}},
        "two layers": {"encoder": {"layers": 2}, "decoder": {"layers": 2, "start": "final"}},
        "more decoder layers": {"decoder": {"layers": 3, "start": "final"}},
        "gru to lstm": {"encoder": {"cell": "gru"}, "decoder": {"cell": "lstm", "start": "final"}},
        "lstm to gru": {"encoder": {"cell": "lstm"}, "decoder": {"cell": "gru", "start": "final"}},
        "one way": {"encoder": {"bidirectional": False}, "decoder": {"start": "summary"}},
        "tied": {"decoder": {"readout": {"kind": "deep", "size": E}}, "tie": "target"},
        "tied all": {"decoder": {"readout": {"kind": "joined", "size": E}}, "tie": "all"},
        "leaky, not projected": {
            "encoder": {"cell": {"kind": "leaky", "project": False}, "bidirectional": False, "layers": 2},
            "decoder": {
                "cell": {"kind": "leaky", "project": False},
                "context": {"kind": "attention", "score": _score("additive", values=2)},
            },
            "sizes": {"embedding": {"kind": "learned", "size": H}, "decoder_embedding": H - 2},
        },
    }
    current = CONTEXTS["current"]
    fed = {"context": {**current["context"], "input_feeding": True}, "readout": current["readout"]}
    found |= {
        "copying": {"decoder": {"copying": True}},
        "copying current": {"decoder": {**current, "copying": True}},
        "copying fed covered": {"decoder": {**_attention("additive", "previous", True, True), "copying": True}},
        "copying current fed": {"decoder": {**fed, "copying": True}},
        "copying deep": {"decoder": {"readout": deep, "copying": True, "cell": "lstm", "layers": 2}},
        "copying without feedback": {
            "decoder": {"feedback": False, "context": additive, "embedding": None, "copying": True}
        },
        "copying projected values, step by step": {"decoder": {"context": projected, "copying": True, "cell": "rnn"}},
        "copying tied": {"decoder": {"readout": {"kind": "deep", "size": E}, "copying": True}, "tie": "all"},
    }
    for connect in ("residual", "highway"):
        stack = {"layers": 2, "connect": connect}
        found[connect] = {"encoder": stack, "decoder": {**stack, "start": "summary"}}
        found[f"{connect}, summary"] = {"encoder": stack, "decoder": {**stack, "context": "summary"}}
    for kind in members(EmbeddingOptions):
        if kind != "vectors":  # which is a learned or fixed table once it is loaded
            found[f"{kind} embedding"] = {"encoder": {"embedding": kind}, "decoder": {"embedding": kind}}
    return found


VARIANTS = _variants()


@cache
def model(name: str) -> Model:
    """A model of a variant, in float64, all of its parameters moved away from their start."""
    return fresh(name)


def fresh(name: str, seed: int = 0) -> Model:
    spec = VARIANTS[name]
    torch.manual_seed(seed)
    table = {"kind": "learned", "size": E}
    sizes = spec.get("sizes", {})
    encoder = spec.get("encoder", {})
    if encoder.get("kind") != "prefix":
        encoder = {"size": H, "embedding": sizes.get("embedding", table), **encoder}
    if encoder.get("kind", "recurrent") == "recurrent":
        encoder = {"kind": "recurrent", "cell": "gru", **encoder}
    mine = {"kind": "learned", "size": sizes.get("decoder_embedding", E)}
    decoder = {"cell": "gru", "size": H, "embedding": mine, "context": CONTEXTS["previous"]["context"]}
    decoder |= spec.get("decoder", {})
    if not decoder.get("feedback", True):
        decoder.pop("embedding")
    options = ModelOptions.model_validate({"encoder": encoder, "decoder": decoder, "tie": spec.get("tie", "none")})
    made = build(options, LossOptions(), V, V).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        made.head.output.weight.mul_(2)  # decided distributions: outputs of many lengths
    return made


def batch(rows: tuple[int, ...] = (0, 1, 2), wider: int = 0, blank: bool = False) -> Batch:
    """Three pairs of unequal length; `wider` adds padding with rubbish in it.

    What a source place holds for copying is its own id, but for 8, which stands for a word beyond the vocabulary.
    """
    sources = [[4, 5, 6, 7, 8], [5, 4], [8, 7, 7]]
    targets = [[6, 5, EOS], [4, 8, 8, 7, EOS], [5, EOS]]
    if blank:
        sources[1] = []
    source = Padded.of([sources[r] for r in rows])
    copy = Padded.of([[V if n == 8 else n for n in sources[r]] for r in rows])
    target = Padded.of([targets[r] for r in rows])
    inputs = {"source": _widened(source, wider), "copy": _widened(copy, wider)}
    return Batch(inputs, _widened(target, wider), torch.tensor(rows))


def _widened(padded: Padded, by: int) -> Padded:
    if not by:
        return padded
    B = padded.values.size(0)
    values = torch.cat([padded.values, torch.full((B, by), 7)], 1)
    mask = torch.cat([padded.mask, torch.zeros(B, by, dtype=torch.bool)], 1)
    return Padded(torch.where(mask, values, torch.full_like(values, 7)), mask)


def close(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-9, atol=1e-11)
