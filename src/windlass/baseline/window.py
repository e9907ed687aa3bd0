"""A feed-forward language model over a window of tokens: the neural language model to beat.

p(w | last n tokens) = softmax(V tanh(W [e_1; ...; e_n] + b) + c)      (Bengio et al. 2003)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from windlass.decoding.ngram import concatenate
from windlass.nn.fast.optimiser import without_compiler

BATCH = 512
RATE = 0.003
WORK = 2e11
"""Multiplications of training that are always allowed: some ten seconds."""
EPOCHS, MIN_STEPS = 10, 200
CHECKS, PATIENCE = 20, 3
"""Training is scored on dev CHECKS times; it ends if PATIENCE of them in a row bring no improvement."""


@dataclass(frozen=True)
class WindowModel:
    """Embeddings of the last n tokens, a hidden layer and an output layer.

    >>> model = WindowModel.fit([[4, 5, 6] * 40], vocabulary=7, length=2, size=8, hidden=16)
    >>> bool(np.exp(model.logprobs([[4, 5, 6, 4]]))[2:].min() > 0.9)
    True
    """

    length: int  # tokens of context
    table: Tensor  # (V, E)
    inner: Tensor  # (H, n E)
    bias: Tensor  # (H)
    output: Tensor  # (V, H)
    output_bias: Tensor  # (V)

    @property
    def name(self) -> str:
        """The name shown to users."""
        return f"window of {self.length}"

    @classmethod
    def fit(
        cls,
        sequences: Sequence[Sequence[int]],
        vocabulary: int,
        length: int,
        size: int = 32,
        hidden: int = 128,
        dev: Sequence[Sequence[int]] = (),
        work: float = WORK,
    ) -> WindowModel:
        """Train until dev stops improving, at most EPOCHS epochs and `work` multiplications; deterministic.

        The best weights on dev are kept; without dev, the last.
        """
        generator = torch.Generator().manual_seed(1)

        def random_matrix(rows: int, columns: int) -> Tensor:
            return torch.randn(rows, columns, generator=generator).div_(columns**0.5).requires_grad_()

        model = cls(
            length,
            torch.randn(vocabulary, size, generator=generator).requires_grad_(),
            random_matrix(hidden, length * size),
            torch.zeros(hidden, requires_grad=True),
            random_matrix(vocabulary, hidden),
            torch.zeros(vocabulary, requires_grad=True),
        )
        flat, real = concatenate(sequences, length)
        ids, places = torch.from_numpy(flat), torch.from_numpy(real)
        of_step = 3 * BATCH * (length * size * hidden + hidden * vocabulary)
        steps = max(20, min(int(work / of_step), max(MIN_STEPS, EPOCHS * (len(places) // BATCH + 1))))
        optimiser = without_compiler(torch.optim.Adam)(model._parameters(), lr=RATE)
        best, best_score, since = model._parameters(), -math.inf, 0
        for step in range(steps):
            with torch.enable_grad():
                for group in optimiser.param_groups:
                    group["lr"] = RATE * (1 - step / steps)
                batch = places[torch.randint(len(places), (BATCH,), generator=generator)]
                optimiser.zero_grad()
                torch.autograd.backward(F.cross_entropy(model._logits(ids, batch), ids[batch]))
                optimiser.step()
            if not dev or (step + 1) % max(1, steps // CHECKS):
                continue
            score, since = float(model.logprobs(dev).sum()), since + 1
            if score > best_score:
                best, best_score, since = tuple(part.detach().clone() for part in model._parameters()), score, 0
            if since == PATIENCE:
                break
        return cls(length, *(part.detach() for part in best))

    def _parameters(self) -> tuple[Tensor, ...]:
        return self.table, self.inner, self.bias, self.output, self.output_bias

    def _logits(self, ids: Tensor, places: Tensor) -> Tensor:
        seen = ids[places[:, None] - torch.arange(1, self.length + 1)]  # (M, n), the nearest token first
        h = torch.tanh(F.linear(F.embedding(seen, self.table).flatten(1), self.inner, self.bias))
        return F.linear(h, self.output, self.output_bias)

    @torch.no_grad()
    def logprobs(self, sequences: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """Return the log probabilities of all tokens, sequence by sequence."""
        flat, real = concatenate(sequences, self.length)
        ids, places = torch.from_numpy(flat), torch.from_numpy(real)
        portion = max(1, 8_000_000 // self.output.size(0))
        parts = [
            torch.log_softmax(self._logits(ids, part), dim=1).gather(1, ids[part][:, None]).squeeze(1).double()
            for part in places.split(portion)
        ]
        return torch.cat([torch.zeros(0, dtype=torch.float64), *parts]).numpy()

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the parameters by name, for saving."""
        names = ("table", "inner", "bias", "output", "output_bias")
        named = {name: part.numpy() for name, part in zip(names, self._parameters(), strict=True)}
        return {"length": np.array([self.length]), **named}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> WindowModel:
        """The inverse of `arrays`."""
        names = ("table", "inner", "bias", "output", "output_bias")
        model = cls(int(np.asarray(arrays["length"])[0]), *(torch.from_numpy(arrays[name]) for name in names))
        (V, size), H = model.table.shape, len(model.bias)
        expected = [(V, size), (H, model.length * size), (H,), (V, H), (V,)]
        if [tuple(part.shape) for part in model._parameters()] != expected or model.length < 1:
            raise ValueError("the shapes of its weights do not match")
        if not all(part.dtype == torch.float32 and bool(part.isfinite().all()) for part in model._parameters()):
            raise ValueError("its weights are not finite numbers")
        return model
