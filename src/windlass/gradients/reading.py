"""What the gradient lab looks at: a cell, fresh or of a trained model, and the sequence that it reads, in float64."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from windlass.bundle import Bundle
from windlass.core.errors import WindlassError
from windlass.core.records import Batch, CellState
from windlass.data.examples import Value
from windlass.data.running import chunk_of
from windlass.inference.likelihood import encode_texts
from windlass.inference.predict import predict
from windlass.nn.cell import Cell
from windlass.nn.cells import CellOptions
from windlass.nn.fast.switch import disabled
from windlass.nn.recurrence import Stack, StackState, run

LONGEST = 200
"""Steps of a text that are read: the work grows with their square."""
ONE_STEP = "this text is one step long, and no gradient goes back: give a longer one"
_NUMBERS = 16_000_000  # in memory at once


@dataclass(frozen=True)
class Reading:
    """A cell and what it reads.

    >>> from windlass.nn.cells import LSTM
    >>> reading = fresh(LSTM.Options(), size=4, steps=6)
    >>> reading.inputs.shape, [state[0].shape for state in reading.unroll()][:2]
    (torch.Size([6, 4]), [torch.Size([1, 4]), torch.Size([1, 4])])
    """

    name: str
    cell: Cell
    inputs: Tensor  # (S, I)
    start: CellState  # (1, H) each
    upstream: Tensor | None = None  # (S, H) the gradient of the loss that reaches each output directly
    tokens: tuple[str, ...] = ()  # what was read, where each step is a token

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return self.inputs.size(0)

    @property
    def block(self) -> int:
        """How many rows to unroll at once, for the sake of memory."""
        return max(1, _NUMBERS // (self.steps * self.cell.size * 8 * self.cell.parts))

    def unroll(self, rows: int = 1, cut: Collection[int] = ()) -> list[CellState]:
        """Every state s_0 .. s_S, in `rows` equal rows, as nodes of a graph: each part is a variable of its own.

        A gradient with respect to one part holds the other parts of that state fixed. It does not pass the states
        that are `cut`, as at the border of two chunks of truncated BPTT.
        """
        with disabled():
            projected, products = self.cell.project(self.inputs), self.cell.products()
            state = tuple(part.detach().expand(rows, -1).clone().requires_grad_() for part in self.start)
            states = [state]
            for n, x in enumerate(projected.unbind(0)):
                if n in cut:
                    state = tuple(part.detach() for part in state)
                new = self.cell.step(x.expand(rows, -1), state, products)
                # A cell may detach a part that its values do not depend on, such as a normaliser.
                state = tuple(
                    part.view_as(part) if part.requires_grad else part.clone().requires_grad_() for part in new
                )
                states.append(state)
        return states


def spectral_norm(matrix: Tensor) -> float:
    """The largest singular value, from the largest eigenvalue of A'A: several times as fast as all singular values.

    >>> round(spectral_norm(torch.diag(torch.tensor([3.0, -4.0], dtype=torch.float64))), 9)
    4.0
    """
    scale = float(matrix.abs().max())
    if not scale:
        return 0.0
    scaled = matrix / scale  # so that a tiny matrix, squared, does not underflow
    return scale * float(torch.linalg.eigvalsh(scaled @ scaled.t())[-1].clamp(min=0).sqrt())


def fresh(
    options: CellOptions,
    size: int = 32,
    steps: int = 50,
    gain: float = 1.0,
    seed: int = 1,
    name: str | None = None,
) -> Reading:
    """A cell with initial weights, which reads standard normal noise.

    `gain` multiplies the recurrent weights. The loss has a gradient of norm 1 at every output, of random direction.

    >>> from windlass.nn.cells import RNN
    >>> reading = fresh(RNN.Options(), size=4, steps=3, gain=1.5)
    >>> bool((torch.linalg.svdvals(reading.cell.weight_h) - 1.5).abs().max() < 1e-6)  # orthogonal, times 1.5
    True
    """
    torch.manual_seed(seed)
    cell = options.build(size, size).double().eval()
    if gain != 1.0:
        if not hasattr(cell, "weight_h"):
            raise WindlassError(f"gain has no use: a {options.kind} cell has no recurrent weights; leave it out")
        cell.weight_h.data *= gain
    inputs = torch.randn(steps, size, dtype=torch.float64)
    direction = torch.randn(steps, size, dtype=torch.float64)
    upstream = direction / direction.norm(dim=1, keepdim=True)
    return Reading(name or options.kind, cell, inputs, cell.zero_state(1, inputs), upstream)


def read(bundle: Bundle, text: Value, target: str | None = None) -> list[Reading]:
    """All recurrent layers of a trained model that read a text, first layer first.

    The loss is that of `target` or, without one, of the model's own output; of a language model, that of the text. The
    last layer of every stack knows what of its gradient reaches each step. A decoder that attends before its step
    cannot be run without its attention, and is left out.

    >>> from windlass.inference.likelihood import tiny_lm
    >>> [reading.name for reading in read(tiny_lm(), "abcab")]
    ['decoder']
    """
    model, seen = bundle.model.eval(), dict[str, tuple[tuple[Any, ...], Tensor]]()
    stacks = {name: module for name, module in model.named_modules() if isinstance(module, Stack)}
    if not stacks:
        raise WindlassError("this model has no recurrent layers: its gradient takes as many steps as it has layers")
    batch, source, output = batch_of(bundle, text, target)
    after = bundle.recipe.model.encoder.kind == "prefix"  # then the decoder reads the source first
    handles = [
        stack.register_forward_hook(lambda _, args, out, name=name: seen.setdefault(name, (args, out[0])) and None)
        for name, stack in stacks.items()
    ]
    try:
        with disabled(), torch.enable_grad():
            loss = model(batch.to(bundle.device)).loss_sum
    finally:
        for handle in handles:
            handle.remove()
    if not seen:
        raise WindlassError("none of this model's recurrent layers runs without its attention: nothing to measure here")
    reached = torch.autograd.grad(loss, [out for _, out in seen.values()], allow_unused=True)
    readings: list[Reading] = []
    for (name, (args, _)), gradient in zip(seen.items(), reached, strict=True):
        tokens = output if name.startswith("head.") and not after else source
        readings += _layers(layer_title(name), stacks[name], args, gradient, tokens)
    several = [reading for reading in readings if reading.steps > 1]  # a document may have one sentence
    if not several:
        raise WindlassError(ONE_STEP)
    return several


def layer_title(name: str) -> str:
    """Name a part of a model as a reader would: the head's stack is the decoder.

    >>> layer_title("encoder.stack"), layer_title("head")
    ('encoder', 'decoder')
    """
    kept = [part for part in name.split(".") if part != "stack"]
    return " ".join("decoder" if part == "head" else part.replace("_", " ") for part in kept)


def batch_of(bundle: Bundle, text: Value, target: str | None) -> tuple[Batch, tuple[str, ...], tuple[str, ...]]:
    """A text with its target, or the model's own output, as a batch; and what an encoder and a decoder read of it.

    >>> from windlass.inference.likelihood import tiny_lm
    >>> batch_of(tiny_lm(), "abc", None)[1:]
    ((), ('<s>', 'a', 'b'))
    """
    sides = bundle.sides
    if bundle.task.language_model:
        if target is not None:
            raise WindlassError("a target has no use: a language model predicts the text itself; leave it out")
        if not isinstance(text, str) or not text:
            raise WindlassError("nothing to read in a blank text")
        ids = encode_texts(sides, [text], bundle.recipe.train.chunk is not None)[0][:LONGEST]
        values = torch.tensor([ids])
        batch = chunk_of(values, torch.ones_like(values, dtype=torch.bool), 0, len(ids))
        return batch, (), ("<s>", *sides.tokenizer.pieces(text))[: len(ids)]  # a step reads the token before its own
    value = sides.read(text)
    if sides.source.blank(value):
        raise WindlassError("nothing to read in a blank text")
    if target is None:
        target = predict([bundle], [text])[0].text
    batch = sides.collate([sides.encode(value, target)], [0])
    written = sides.tokenizer.pieces(target) if sides.target.written else []
    return batch, sides.source.places(value).names, ("<s>", *written)


def _layers(
    title: str, stack: Stack, args: tuple[Any, ...], reached: Tensor | None, tokens: tuple[str, ...]
) -> Iterator[Reading]:
    """The readings of every layer and direction of a stack, in the longest row of its inputs."""
    x, mask, state = (*args, None, None)[:3]
    length = x.size(1) if mask is None else int(mask.sum(1).max())
    row = 0 if mask is None else int(mask.sum(1).argmax())
    x, start = x[row : row + 1, :length].detach(), _row(state, row)
    many, last = len(stack.cells) > 1, len(stack.cells) - 1
    for n, cell in enumerate(stack.cells):
        name = f"{title}, layer {n + 1}" if many else title
        back = stack.backward_cells[n] if stack.backward_cells else None
        with disabled(), torch.no_grad():
            y = run(cell, x, state=start[n] if start else None)[0]
            y = y if back is None else torch.cat([y, run(back, x, reverse=True)[0]], -1)
        y.requires_grad_()
        with torch.enable_grad():
            out = stack.connect(n, x, y)
        upstream = None
        if n == last and reached is not None:
            (upstream,) = torch.autograd.grad(out, y, reached[row : row + 1, :length])
        names = tokens if len(tokens) == length else ()
        yield _reading(name, cell, x[0], start[n] if start else None, _half(upstream, cell, 0), names)
        if back is not None:
            flipped = _half(upstream, back, 1)
            flipped = None if flipped is None else flipped.flip(0)
            yield _reading(f"{name}, right to left", back, x[0].flip(0), None, flipped, names[::-1])
        x = out.detach()


def _row(state: StackState | None, row: int) -> tuple[CellState, ...]:
    if state is None:
        return ()
    return tuple(tuple(part[row : row + 1].detach() for part in layer) for layer in state.layers)


def _half(upstream: Tensor | None, cell: Cell, which: int) -> Tensor | None:
    return None if upstream is None else upstream[0, :, which * cell.size : (which + 1) * cell.size]


def _reading(
    name: str, cell: Cell, x: Tensor, start: CellState | None, upstream: Tensor | None, tokens: tuple[str, ...]
) -> Reading:
    copy, kept = deepcopy(cell).double().cpu().eval(), slice(max(0, x.size(0) - LONGEST), None)
    inputs = x.double().cpu()
    begin = copy.zero_state(1, inputs) if start is None else tuple(part.double().cpu() for part in start)
    if inputs.size(0) > LONGEST:  # start where the last steps do
        with disabled(), torch.no_grad():
            begin = run(copy, inputs[None, :-LONGEST], state=begin)[1]
    above = None if upstream is None else upstream.double().cpu()[kept]
    return Reading(name, copy, inputs[kept], begin, above, tokens[kept])
