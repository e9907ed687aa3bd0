"""What the units of recurrent layers do over a sequence: their states and gates at every step.

A model is run step by step, with its fast paths off, and every cell is watched from outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import cast

import torch
from torch import Tensor

from windlass.bundle import Bundle
from windlass.core.errors import WindlassError
from windlass.core.marks import EOS
from windlass.core.records import Batch
from windlass.data.examples import Value
from windlass.data.running import chunk_of
from windlass.explain.attention import explain_cut
from windlass.explain.coloured import Row
from windlass.heads.running import force_chunk
from windlass.heads.text import TextHead
from windlass.nn.recording import Step, recorded

LIVELIEST = 4
"""Units that are shown of every layer if none are chosen: those whose state varies most."""


@dataclass(frozen=True)
class Trace:
    """The states and gates of one layer at every step.

    >>> trace = Trace("decoder 1", ("a", "b"), {"hidden": torch.tensor([[0.0, 0.5], [0.1, -0.5]])}, {})
    >>> trace.liveliest(1), trace.row(2).values
    ([2], [0.5, -0.5])
    """

    layer: str
    tokens: tuple[str, ...]  # what each step reads
    states: dict[str, Tensor]  # (S, H): hidden and, of an LSTM, cell
    gates: dict[str, Tensor]  # (S, H)

    @property
    def state(self) -> str:
        """The state that is drawn: the cell, if there is one."""
        return "cell" if "cell" in self.states else "hidden"

    @property
    def bounded(self) -> Tensor:
        """That state (S, H), within -1..1: a cell through tanh, as the LSTM reads it."""
        return self.states["cell"].tanh() if "cell" in self.states else self.states["hidden"].clamp(-1, 1)

    def liveliest(self, count: int) -> list[int]:
        """The units whose state varies most, numbered from 1."""
        spread = self.bounded.std(0, correction=0)
        return (spread.argsort(descending=True, stable=True)[:count] + 1).tolist()

    def row(self, unit: int, title: str | None = None) -> Row:
        """One unit, to be drawn."""
        size = self.bounded.size(1)
        if not 1 <= unit <= size:
            raise WindlassError(f"there is no unit {unit} in {self.layer}: it has units 1 to {size}")
        gates = {name: values[:, unit - 1].tolist() for name, values in self.gates.items()}
        value = "tanh(cell)" if self.state == "cell" else self.state
        title = title or f"{self.layer}, unit {unit}"
        return Row(title, self.tokens, self.bounded[:, unit - 1].tolist(), gates, value)


def traces(bundle: Bundle, text: Value, target: str | None = None) -> list[Trace]:
    """Return the states and gates of every recurrent layer over one input, and over what the model writes for it.

    Given a target, the decoder is forced to write it. A language model reads the text.

    >>> from windlass.inference.likelihood import tiny_lm
    >>> (trace,) = traces(tiny_lm(), "abc")
    >>> trace.layer, trace.tokens, trace.state, sorted(trace.gates)
    ('decoder 1', ('a', 'b', 'c'), 'cell', ['forget', 'input', 'output'])
    """
    sides, model = bundle.sides, bundle.model.eval()
    if bundle.task.language_model:
        if target is not None:
            raise WindlassError("a language model reads the text and has no target: leave it out")
        return language_traces(bundle, str(text))
    prediction = explain_cut(bundle, text, target)
    value, written = sides.read(text), prediction.answer.written
    batch = sides.collate([sides.encode(value, prediction.text if written else None)], [0]).to(bundle.device)
    with torch.no_grad(), recorded(model) as steps:
        memory = model.encode(batch)
        if written:
            model.head.force(memory, batch)
    read = sides.source.places(value)
    second, output = read.parts.get("second"), ("<s>", *prediction.answer.tokens)
    known = [
        [read.names],
        *([] if second is None else [[read.names, second.names], [second.names]]),
        *([[output], [read.names, output]] if written else []),
        *([read.grouped(k).names] for k in (2, 4, 8)),  # of an encoder that joins places
    ]
    found = {name: _trace(name, each, known) for name, each in steps.items()}
    if read.within:
        words = [part.names for part in read.within]
        with torch.no_grad(), recorded(model) as steps:  # words of one sentence do not see those of another
            for sentence in read.names:
                model.encode(sides.collate([sides.encode((sentence,), None)], [0]).to(bundle.device))
        found |= {name: _trace(name, steps[name], [words]) for name, trace in found.items() if trace is None}
    return _some([trace for trace in found.values() if trace is not None])


def language_batch(bundle: Bundle, text: str) -> Batch:
    """A text for a language model to read whole: the step that would write the end has read the last token.

    >>> from windlass.inference.likelihood import tiny_lm
    >>> language_batch(tiny_lm(), "ab").target.values.shape
    torch.Size([1, 3])
    """
    ids = bundle.sides.tokenizer.encode(text)
    if not ids:
        raise WindlassError("nothing to explain in a blank text")
    values = torch.tensor([[*ids, EOS]])
    return chunk_of(values, torch.ones_like(values) > 0, 0, values.size(1)).to(bundle.device)


def language_traces(bundle: Bundle, text: str) -> list[Trace]:
    """`traces` of a language model.

    >>> from windlass.inference.likelihood import tiny_lm
    >>> len(language_traces(tiny_lm(), "ab")[0].tokens)
    2
    """
    batch = language_batch(bundle, text)
    with torch.no_grad(), recorded(bundle.model.eval()) as steps:
        force_chunk(cast("TextHead", bundle.model.head), batch, None)
    tokens = tuple(bundle.sides.tokenizer.pieces(text))
    found = [_trace(name, each[1:], [[tokens]]) for name, each in steps.items()]  # the first reads the start mark
    return _some([trace for trace in found if trace is not None])


def _trace(name: str, steps: list[Step], known: Sequence[Sequence[tuple[str, ...]]]) -> Trace | None:
    """The steps of one cell with what they read, one sequence or several in turn; None if they are not known."""
    read = next((parts for parts in known if sum(map(len, parts)) == len(steps)), None)
    if not steps or read is None or any(part.size(0) != 1 for states, _ in steps for part in states.values()):
        return None
    if "backward_cells" in name:
        ends = list(accumulate(map(len, read), initial=0))
        steps = [step for a, b in pairwise(ends) for step in steps[a:b][::-1]]
    states, gates = (
        {k: torch.cat([part[k] for part in parts]) for k in parts[0]} for parts in zip(*steps, strict=True)
    )
    return Trace(_layer(name), tuple(token for part in read for token in part), states, gates)


def _layer(module: str) -> str:
    """What a user calls the layer of a cell.

    >>> _layer("encoder.stack.backward_cells.0"), _layer("head.stack.cells.1"), _layer("encoder.sentences.cells.0")
    ('encoder 1 backward', 'decoder 2', 'encoder sentences 1')
    """
    *path, cells, number = module.split(".")
    parts = ["decoder" if part == "head" else part for part in path if part != "stack"]
    return " ".join([*parts, str(int(number) + 1), *(["backward"] if cells == "backward_cells" else [])])


def _some(found: list[Trace]) -> list[Trace]:
    if not found:
        raise WindlassError("this model has no recurrent layer that reads the input or the output place by place")
    return found


def gate_rows(found: Sequence[Trace], units: Sequence[int] = (), layer: str | None = None) -> list[Row]:
    """Rows to draw: the chosen units of a layer, or those of every layer that vary most.

    >>> from windlass.inference.likelihood import tiny_lm
    >>> [row.title for row in gate_rows(traces(tiny_lm(), "abc"), units=[3, 1])]
    ['decoder 1, unit 3', 'decoder 1, unit 1']
    """
    names = [trace.layer for trace in found]
    if layer is not None and layer not in names:
        raise WindlassError(f"there is no layer {layer!r}: this model has {', '.join(map(repr, names))}")
    chosen = [trace for trace in found if layer in (None, trace.layer)]
    return [trace.row(unit) for trace in chosen for unit in units or trace.liveliest(LIVELIEST)]
