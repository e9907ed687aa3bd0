"""Every registered part, put together into small models that the contracts are held against."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from itertools import product
from typing import Any, get_args

import torch
from torch import Tensor

from windlass.core.errors import RecipeError
from windlass.core.marks import EOS
from windlass.core.options import Options, members
from windlass.core.records import Batch, Padded
from windlass.data.sides import SourceOptions
from windlass.decoding.options import Beam, Greedy, Sample
from windlass.encoders.kinds import EncoderOptions
from windlass.heads.kinds import DecoderOptions
from windlass.heads.options import ContextOptions, ReadoutOptions
from windlass.heads.recurrent import RecurrentDecoder
from windlass.model import LossOptions, Model, ModelOptions, build
from windlass.nn.attention import AttentionOptions
from windlass.nn.cells import CellOptions
from windlass.nn.embedding import EmbeddingOptions
from windlass.recipe import Recipe, default, parse
from windlass.tasks import TASKS

torch.set_num_threads(1)  # products this small are slower on many threads than on one

H, E, V = 6, 4, 9
SEARCHES = {
    "greedy": Greedy(length_factor=0.5, length_plus=2),
    "beam": Beam(size=3, length_factor=0.5, length_plus=2),
    "sample": Sample(seed=3, top_k=6, length_factor=0.5, length_plus=2),
    "blocked beam": Beam(size=4, length_penalty=0, block_ngrams=1, length_factor=0.5, length_plus=2),
}


def parts(union: Any) -> dict[str, Options]:
    """The tiny variants of every part in a union: by its kind, and by what sets a variant apart from the first."""
    found: dict[str, Options] = {}
    for kind, options in members(union).items():
        first, *others = options.tiny()
        for variant in (first, *others):
            differs = [f for f in options.model_fields if getattr(variant, f) != getattr(first, f)]
            found[" ".join([kind, *(f"{f}={_said(getattr(variant, f))}" for f in differs)])] = variant
    return found


def _said(value: Any) -> str:
    if not isinstance(value, Options):
        return str(value)
    if "kind" in type(value).model_fields:
        return str(value.kind)
    return "(" + " ".join(f"{f}={_said(v)}" for f, v in value if v != type(value).model_fields[f].default) + ")"


def first_variants(union: Any) -> dict[str, Options]:
    return {name: options for name, options in parts(union).items() if " " not in name}


USUAL = {task: default(task) for task in TASKS}
TABLE = {"kind": "learned", "size": E}
PLAINER = {
    "characters": {"characters": False},
    "each": {"each": {"kind": "words", "characters": False}},
    "ngrams": {"ngrams": 0, "sparse": []},
}
"""What a source leaves out where nothing reads it."""


def fitting(task: str, model: dict[str, Any]) -> Recipe | None:
    """The recipe of a task with such a model, from one of the kinds of source that it reads; None: nothing fits."""
    usual = USUAL[task]
    for kind in TASKS[task].sources:
        given = usual["source"] if usual["source"]["kind"] == kind else {"kind": kind}
        fields = members(SourceOptions)[kind].model_fields
        for source in (given, *({**given, **PLAINER[field]} for field in fields if field in PLAINER)):
            content = {key: usual[key] for key in ("task", "data", "target")} | {"source": source, "model": model}
            joint = "joint" if source == usual["target"] else "separate"
            with suppress(RecipeError):
                return parse({**content, "vocabulary": joint})
    return None


def writes(encoder: dict[str, Any], decoder: dict[str, Any]) -> bool:
    """Whether a text can be written so from a text."""
    return fitting("text", {"encoder": encoder, "decoder": decoder}) is not None


def plain(encoder: Options) -> dict[str, Any]:
    """An encoder whose vectors are of another length than its states."""
    return {**encoder.model_dump(), **({"embedding": TABLE} if "embedding" in type(encoder).model_fields else {})}


CELLS = parts(CellOptions)
SCORES = parts(AttentionOptions)
READOUTS = parts(ReadoutOptions)
ENCODERS = {name: plain(encoder) for name, encoder in parts(EncoderOptions).items()}
TRANSFORMERS = {
    name: {**decoder.model_dump(), "embedding": TABLE}
    for name, decoder in parts(DecoderOptions).items()
    if name.startswith("transformer")
}
STARTS = get_args(RecurrentDecoder.Options.model_fields["start"].annotation)


def started(encoder: dict[str, Any], decoder: dict[str, Any], first: int = 0) -> dict[str, Any] | None:
    """A decoder with the first start that fits, and a readout that fits if it has none; None: nothing fits."""
    starts = STARTS[first % len(STARTS) :] + STARTS[: first % len(STARTS)]
    readouts = [decoder["readout"]] if "readout" in decoder else READOUTS.values()
    tried = ({**decoder, "start": start, "readout": readout} for start in starts for readout in readouts)
    return next((each for each in tried if writes(encoder, each)), None)


CONTEXTS: dict[str, dict[str, Any]] = {}
for _n, (_name, _context) in enumerate(parts(ContextOptions).items()):
    _decoder = started({"kind": "recurrent"}, {"context": _context}, first=3 - _n)
    if _decoder is not None:  # or it is for another source than a text
        CONTEXTS[_name] = _decoder
PREVIOUS, CURRENT = (CONTEXTS[name] for name in ("attention", "attention query=current"))


def sized(score: Options, query: int = H, keys: int = 2 * H) -> Options:
    """A score for queries and keys of these sizes: with projected keys if it needs both to be of one size."""
    try:
        score.build(query, keys)
    except RecipeError:
        return score.model_copy(update={"keys": query})
    return score


def attending(kind: str, query: str, feeding: bool, coverage: bool) -> dict[str, Any]:
    readout = {"kind": "joined", "size": 5} if query == "current" else {"kind": "state"}
    score = sized(SCORES[kind]).model_copy(update={"coverage": coverage})
    return {
        "context": {"kind": "attention", "score": score, "query": query, "input_feeding": feeding},
        "readout": readout,
        "start": "summary",
    }


ATTENDING = {
    f"{kind} {query}{' fed' * feeding}{' covered' * coverage}": attending(kind, query, feeding, coverage)
    for kind, query, feeding, coverage in product(SCORES, ("previous", "current"), (False, True), (False, True))
}


def _variants() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for (cell, options), (n, context) in product(CELLS.items(), enumerate(CONTEXTS)):
        if " " in cell and n % 2:  # the first variant of a cell goes with every context, the others with half of them
            continue
        encoder = {"kind": "recurrent", "cell": options}
        decoder = started(encoder, {**CONTEXTS[context], "cell": options}, STARTS.index(CONTEXTS[context]["start"]))
        if decoder is not None:
            found[f"{cell} - {context}"] = {"encoder": encoder, "decoder": decoder}
    for cell, options in first_variants(CellOptions).items():
        prefix = {"cell": options, "context": "none", "start": "learned"}
        found[f"{cell} - prefix"] = {"encoder": {"kind": "prefix"}, "decoder": prefix}
    for (name, encoder), (context, usual) in product(ENCODERS.items(), list(CONTEXTS.items())[1:3]):
        decoder = started(encoder, {**usual, "cell": "gru"}, STARTS.index("summary"))
        if decoder is not None:
            found[f"{name} encoder - {context}"] = {"encoder": encoder, "decoder": decoder}
    found["convolution tied"] = {
        **{"encoder": ENCODERS["convolution"], "tie": "all"},
        "decoder": {"readout": {"kind": "joined", "size": E}},
    }
    found |= {name: {"decoder": decoder} for name, decoder in ATTENDING.items()}
    for (name, readout), (context, usual) in product(READOUTS.items(), CONTEXTS.items()):
        decoder = started({"kind": "recurrent"}, {**usual, "readout": readout}, STARTS.index("summary"))
        if decoder is not None and readout != usual["readout"]:
            found[f"{name} - {context}"] = {"decoder": decoder}
    deep = {"kind": "deep", "size": 5}
    additive = PREVIOUS["context"]
    projected = {"kind": "attention", "score": {"kind": "bilinear", "keys": 3, "values": 4}}
    found |= {
        "no feedback": {"decoder": {"feedback": False, "context": "none", "start": "summary"}},
        "no feedback, prefix": {
            "encoder": {"kind": "prefix"},
            "decoder": {"feedback": False, "context": "none", "start": "learned"},
        },
        "no feedback, summary": {"decoder": {"feedback": False, "context": "summary"}},
        "no feedback, attention": {"decoder": {"feedback": False, "context": additive, "embedding": None}},
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
                "context": {"kind": "attention", "score": {"kind": "additive", "size": 5, "values": 2}},
            },
            "sizes": {"embedding": {"kind": "learned", "size": H}, "decoder_embedding": H - 2},
        },
    }
    fed = attending("additive", "current", True, False)
    found |= {
        "copying": {"decoder": {"copying": True}},
        "copying current": {"decoder": {**CURRENT, "copying": True}},
        "copying fed covered": {"decoder": {**attending("additive", "previous", True, True), "copying": True}},
        "copying current fed": {"decoder": {**fed, "copying": True}},
        "copying deep": {"decoder": {"readout": deep, "copying": True, "cell": "lstm", "layers": 2}},
        "copying without feedback": {
            "decoder": {"feedback": False, "context": additive, "embedding": None, "copying": True}
        },
        "copying projected values, step by step": {"decoder": {"context": projected, "copying": True, "cell": "rnn"}},
        "copying tied": {"decoder": {"readout": {"kind": "deep", "size": E}, "copying": True}, "tie": "all"},
    }
    for name, decoder in TRANSFORMERS.items():
        found[name] = {"decoder": decoder}
        found[f"{name} - prefix"] = {"encoder": {"kind": "prefix"}, "decoder": {**decoder, "context": "none"}}
    usual, after, turned, _ = TRANSFORMERS.values()
    found["transformer to transformer"] = {"encoder": ENCODERS["attention"], "decoder": turned}
    tied = {**usual, "embedding": {"kind": "learned", "size": H}}
    found |= {
        "transformer copying": {"decoder": {**usual, "copying": True}},
        "transformer copying after": {"decoder": {**after, "copying": True}},
        "transformer tied": {"decoder": tied, "tie": "target"},
        "transformer tied all": {"decoder": tied, "tie": "all", "sizes": {"embedding": tied["embedding"]}},
    }
    for connect in ("residual", "highway"):
        stack = {"layers": 2, "connect": connect}
        found[connect] = {"encoder": stack, "decoder": {**stack, "start": "summary"}}
        found[f"{connect}, summary"] = {"encoder": stack, "decoder": {**stack, "context": "summary"}}
    for name, table in parts(EmbeddingOptions).items():
        found[f"{name} embedding"] = {"encoder": {"embedding": table}, "decoder": {"embedding": table}}
    return found


VARIANTS = _variants()


@cache
def model(name: str) -> Model:
    """A model of a variant, in float64, all of its parameters moved away from their start."""
    return fresh(name)


def model_options(name: str) -> ModelOptions:
    spec = VARIANTS[name]
    sizes = spec.get("sizes", {})
    encoder = spec.get("encoder", {})
    if encoder.get("kind", "recurrent") == "recurrent":
        given = {"kind": "recurrent", "cell": "gru", "size": H, "embedding": sizes.get("embedding", TABLE)}
        encoder = {**given, **encoder}
    mine = {"kind": "learned", "size": sizes.get("decoder_embedding", E)}
    decoder = spec.get("decoder", {})
    if "kind" not in decoder:
        decoder = {"cell": "gru", "size": H, "embedding": mine, "context": PREVIOUS["context"], **decoder}
    if not decoder.get("feedback", True) and encoder["kind"] != "prefix":
        decoder.pop("embedding")
    return ModelOptions.model_validate({"encoder": encoder, "decoder": decoder, "tie": spec.get("tie", "none")})


def fresh(name: str, seed: int = 0) -> Model:
    torch.manual_seed(seed)
    options = model_options(name)
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
