"""Units that follow something nameable: states correlated with simple events of the text (Karpathy et al. 2015).

The units that fit an event best are chosen on the first half of the tokens; what counts is their correlation on the
second half, which had no part in the choice.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from windlass.bundle import Bundle
from windlass.core.errors import DataError, WindlassError
from windlass.core.marks import EOS
from windlass.core.records import Carry
from windlass.data.cutting import JOINER
from windlass.data.examples import Value
from windlass.data.running import chunk_of
from windlass.data.sides.base import Track
from windlass.data.tokenizer import SPACE_MARK
from windlass.explain.coloured import Row
from windlass.explain.gates import Trace, language_traces, traces
from windlass.explain.subjects import Numbers
from windlass.heads.running import force_chunk
from windlass.heads.text import TextHead
from windlass.nn.recording import recorded

LONGEST = 200_000
"""Tokens that are read of a file."""
RARE = 20
"""Places of each half at which an event must differ from its usual value; rarer events are left out."""
SUBJECT = "number of the subject"
_BURN_IN = 1024  # tokens that a row of running text reads before its own: a quote may have begun long before
_ROWS = 32
_COLUMNS = 128  # of those rows that are read at once

Events = dict[str, NDArray[np.float64]]
"""The value of every event at every token."""


@dataclass(frozen=True)
class Found:
    """A unit that follows an event.

    >>> Found("inside quotes", "decoder 1", 7, 0.8, 0.75).nameable
    True
    """

    event: str
    layer: str
    unit: int  # from 1
    correlation: float  # on the half it was chosen on
    held_out: float  # on the other half

    @property
    def nameable(self) -> bool:
        """Whether it explains more than a quarter of the event's variance: |r| of at least 0.5 on the held-out half."""
        return abs(self.held_out) >= 0.5


def events(tokens: Sequence[str], spaced: bool = False, subjects: Numbers | None = None) -> Events:
    """The events of a text, each with a value for every token: that of its last letter.

    `spaced` tokens are words with spaces between. `subjects` are of the letters without spaces.

    >>> {name: values.astype(int).tolist() for name, values in events(list('"Hi (x)" he\\n')).items()}["inside quotes"]
    [1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0]
    """
    surfaces = [token.replace(SPACE_MARK, " ") for token in tokens]
    if spaced:
        surfaces = [surface if surface.startswith(JOINER) else f" {surface}" for surface in surfaces]
        surfaces = [surface.replace(JOINER, "") for surface in surfaces]
    text = "".join(surfaces)
    last = np.cumsum([len(surface) for surface in surfaces]) - 1
    ahead = f"{text[1:]}\n"
    names = ("place in the text", "place in the line", "place in the sentence", "place in the word", "inside quotes",
             "inside brackets")  # fmt: skip
    values: dict[str, list[float]] = {name: [] for name in names}
    line = sentence = word = depth = 0
    quoted = False
    for n, letter in enumerate(text):
        line = 0 if letter == "\n" else line + 1
        sentence = 0 if letter in ".!?" else sentence + 1
        word = word + 1 if letter.isalnum() or letter in "'’" else 0
        quoted = _quoted(quoted, letter, text[n - 1] if n else "\n")
        depth = max(0, depth + (letter in "([{") - (letter in ")]}"))
        for name, value in zip(names, (n, line, sentence, word, quoted, depth > 0), strict=True):
            values[name].append(float(value))
    found = {name: np.array(each) for name, each in values.items()}
    tests = {
        "capital letter": (text, str.isupper),
        "digit": (text, str.isdigit),
        "punctuation": (text, lambda letter: unicodedata.category(letter)[0] == "P"),
        "space": (text, str.isspace),
        "end of a word: a space is next": (ahead, str.isspace),
        "end of a line: a break is next": (ahead, lambda letter: letter == "\n"),
    }
    found |= {name: np.array([test(c) for c in part], dtype=np.float64) for name, (part, test) in tests.items()}
    if subjects is not None:
        letters = np.cumsum([not letter.isspace() for letter in text])
        if len(letters) and letters[-1] != len(subjects) and len(tokens) < LONGEST:
            raise DataError("the model's tokens are not those of the text: their subjects cannot be told")
        found[SUBJECT] = np.concatenate([[np.nan], subjects])[letters]
    return {name: each[last.clip(0)] for name, each in found.items()} if len(last) else {}


def _quoted(now: bool, letter: str, before: str) -> bool:
    """Whether text is inside quotes after a letter; a blank line ends them."""
    if letter == "\n" and before == "\n":
        return False
    if letter == '"':
        return not now
    return True if letter in "“«„" else False if letter in "”»" else now


def follow(traced: Sequence[Trace], happening: Sequence[Events], best: int = 1) -> list[Found]:
    """Find the units of every layer that follow each event best; the strongest on the held-out half first.

    Traces of one layer stand one after the other, with the events of each.

    >>> count = torch.arange(400.0)
    >>> trace = Trace("encoder 1", ("a",) * 400, {"hidden": torch.stack([count.sin(), count / 400], 1)}, {})
    >>> found = follow([trace], [{"place in the text": count.numpy()}])
    >>> [(one.event, one.unit, round(one.held_out, 2)) for one in found]
    [('place in the text', 2, 1.0)]
    """
    layers: dict[str, list[Tensor]] = {}
    owned: dict[str, list[Events]] = {}
    for trace, own in zip(traced, happening, strict=True):
        layers.setdefault(trace.layer, []).append(trace.bounded)
        owned.setdefault(trace.layer, []).append(own)
    found: list[Found] = []
    for layer, parts in layers.items():
        states = torch.cat(parts).double()  # (N, H)
        half = len(states) // 2
        for event in owned[layer][0]:
            value = torch.from_numpy(np.concatenate([own[event] for own in owned[layer]]))
            known = ~value.isnan()
            first, second = known.clone(), known.clone()
            first[half:], second[:half] = False, False
            if any(_rare(value[part]) for part in (first, second)):
                continue
            chosen, held_out = (_correlation(states[part], value[part]) for part in (first, second))
            for unit in chosen.abs().argsort(descending=True, stable=True)[:best].tolist():
                found.append(Found(event, layer, unit + 1, float(chosen[unit]), float(held_out[unit])))
    if not layers:
        raise WindlassError("this model has no recurrent layer, and so no units that follow a text")
    if not found:
        raise DataError("too little text: no event holds often enough in both halves; give more of it")
    by_event: dict[str, list[Found]] = {}
    for one in sorted(found, key=lambda one: -abs(one.correlation)):
        by_event.setdefault(one.event, []).append(one)
    return sorted((one for each in by_event.values() for one in each[:best]), key=lambda one: -abs(one.held_out))


def _rare(value: Tensor) -> bool:
    counts = value.unique(return_counts=True)[1]
    return len(counts) < 2 or int(len(value) - counts.max()) < RARE


def _correlation(states: Tensor, value: Tensor) -> Tensor:
    """Pearson's r of every unit with an event: (N, H), (N,) -> (H,); zero for a unit that never moves."""
    states, value = states - states.mean(0), value - value.mean()
    norms = states.norm(dim=0) * value.norm()
    return torch.where(norms > 1e-9, (states * value[:, None]).sum(0) / norms.clamp(min=1e-9), 0.0)


def untold(numbers: range, count: int, what: str) -> Iterable[int]:
    """Some work of which nobody is told: the `Track` by default.

    >>> list(untold(range(2), 2, "reading"))
    [0, 1]
    """
    return numbers


def units(
    bundle: Bundle,
    texts: Sequence[Value],
    best: int = 1,
    subjects: Sequence[Numbers] | None = None,
    track: Track = untold,
) -> tuple[list[Found], list[Trace]]:
    """Find units that follow events of texts; return them with the states that they were found in.

    A language model reads the texts. Other models read them as inputs, and write: both sides are searched.
    `subjects` are the numbers of the subjects in each text (`windlass.explain.subjects`): another event.
    `track` is told how much is read.

    >>> from windlass.inference.likelihood import tiny_lm
    >>> units(tiny_lm(), ["abc"])
    Traceback (most recent call last):
    windlass.core.errors.DataError: too little text: ...
    """
    if not texts:
        raise DataError("there is no text to look for units in")
    sides = bundle.sides
    known: Sequence[Numbers | None] = [None] * len(texts) if subjects is None else subjects
    numbers = track(range(len(texts)), len(texts), "reading the texts") if len(texts) > 1 else range(len(texts))
    if bundle.task.language_model:
        within = untold if len(texts) > 1 else track
        read_by = [(trace, known[n]) for n in numbers for trace in _running(bundle, str(texts[n]), within)]
        words, traced = sides.tokenizer.spaced, [trace for trace, _ in read_by]
        return follow(traced, [events(trace.tokens, words, own) for trace, own in read_by], best), traced
    if (vocabulary := sides.source.vocabulary) is None:
        raise WindlassError("events are looked for in text, and this model reads none")
    traced, happening, seen = [], [], 0
    for n in numbers:
        for trace in traces(bundle, texts[n]):
            writes = trace.layer.startswith("decoder")
            marks = ("<s>", "</s>")
            tokens = ["\n" if token in marks else token for token in trace.tokens]
            traced.append(trace)
            own = None if writes else known[n]
            happening.append(events(tokens, (sides.tokenizer if writes else vocabulary).spaced, own))
        seen += len(traced[-1].tokens)
        if seen > LONGEST:
            break
    return follow(traced, happening, best), traced


def _running(bundle: Bundle, text: str, track: Track) -> list[Trace]:
    """The states of a language model over a running text, read in several rows at once."""
    tokenizer = bundle.sides.tokenizer
    ids = tokenizer.encode(text)[:LONGEST]
    rows = min(_ROWS, len(ids) // (4 * _BURN_IN))
    if rows < 2:
        return language_traces(bundle, text)
    width = -(-len(ids) // rows)
    starts = [max(0, row * width - _BURN_IN) for row in range(rows)]
    parts = [[*ids[start : (row + 1) * width], EOS] for row, start in enumerate(starts)]
    longest = max(map(len, parts))
    values = torch.tensor([[*part, *[EOS] * (longest - len(part))] for part in parts])
    mask, head = torch.ones_like(values) > 0, cast("TextHead", bundle.model.head)
    carry: Carry | None = None
    with torch.no_grad(), recorded(bundle.model.eval()) as steps:
        for begin in track(range(0, longest, _COLUMNS), -(-longest // _COLUMNS), f"reading {len(ids):,} tokens"):
            batch = chunk_of(values, mask, begin, min(longest, begin + _COLUMNS)).to(bundle.device)
            carry = force_chunk(head, batch, carry)[1]
    found = []
    for number, each in enumerate(steps.values(), 1):
        states = {}
        for name in each[0][0]:
            whole = torch.stack([states[name] for states, _ in each[1:]], 1)  # (rows, W, H), without the start mark
            own = [whole[row, row * width - start : len(parts[row]) - 1] for row, start in enumerate(starts)]
            states[name] = torch.cat(own)
        found.append(Trace(f"decoder {number}", tuple(tokenizer.pieces(text)[: len(ids)]), states, {}))
    return found


def excerpt(found: Sequence[Found], traced: Sequence[Trace], length: int = 400) -> list[Row]:
    """The units that were found over a part of the held-out text, to be drawn: one in which the first of them moves.

    >>> count = torch.arange(400.0)
    >>> trace = Trace("encoder 1", ("a",) * 400, {"hidden": torch.stack([count.sin(), count / 400], 1)}, {})
    >>> (row,) = excerpt(follow([trace], [{"place in the text": count.numpy()}]), [trace], 50)
    >>> row.title, len(row.tokens)
    ('place in the text: encoder 1, unit 2, r = 1.00', 50)
    """
    rows, chosen = [], dict[str, slice]()
    for one in found:
        own = [trace for trace in traced if trace.layer == one.layer]
        tokens = [token for trace in own for token in (*trace.tokens, *(["\n"] if len(own) > 1 else []))]
        ends = [0.0] if len(own) > 1 else []
        values = [v for trace in own for v in (*trace.bounded[:, one.unit - 1].tolist(), *ends)]
        part = chosen.setdefault(one.layer, _liveliest(tokens, values, length))
        title = f"{one.event}: {one.layer}, unit {one.unit}, r = {one.held_out:.2f}"
        rows.append(Row(title, tokens[part], values[part]))
    return rows


def _liveliest(tokens: Sequence[str], values: Sequence[float], length: int) -> slice:
    """The part of the second half, from the beginning of a line, in which the values vary most."""
    half = len(tokens) // 2
    starts = [n for n in range(half, len(tokens) - length) if tokens[n - 1] == "\n"] or [half]
    begin = max(starts, key=lambda n: float(np.std(values[n : n + length])))
    return slice(begin, begin + length)
