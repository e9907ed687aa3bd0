"""A network interpolated with an n-gram model, which knows best what a short context determines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from windlass.core.errors import BundleError
from windlass.core.options import reason
from windlass.core.records import Member
from windlass.core.tensors import pack_tensors, read_tensors
from windlass.decoding.ngram import KneserNey, NgramDecoder

FILE = "ngram.safetensors"
STEPS = 30
"""Halvings of the interval that holds the best weight."""
MARGIN = 1e-3
"""What is left of both models at least."""


@dataclass(frozen=True)
class Interpolation:
    """p = (1 - w) p_network + w p_ngram (Jelinek and Mercer 1980).

    >>> both = Interpolation(KneserNey.fit([[4, 5, 4, 5]], vocabulary=6, order=2), weight=0.5)
    >>> both.mix(torch.zeros(2), [[4, 5]]).exp() > 0.5
    tensor([True, True])
    """

    ngram: KneserNey
    weight: float

    def mix(self, network: Tensor, sequences: Sequence[Sequence[int]]) -> Tensor:
        """Log probabilities of all tokens of some texts, from those of the network (N,)."""
        return _mixed(network.double(), torch.from_numpy(self.ngram.logprobs(sequences)), self.weight)

    def members(self, network: Member) -> tuple[Member, Member]:
        """Network and n-gram model as the members of an ensemble."""
        beside = Member(NgramDecoder(self.ngram), network.memory, weight=network.weight * self.weight)
        return network._replace(weight=network.weight * (1 - self.weight)), beside

    def pack(self) -> bytes:
        """The content of its file."""
        arrays = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in self.ngram.arrays().items()}
        return pack_tensors(arrays, {"weight": self.weight})

    @classmethod
    def load(cls, path: Path) -> Interpolation:
        """The inverse of `pack`."""
        tensors, note = read_tensors(path)
        try:
            weight = float(note["weight"])
            if not 0 < weight < 1:
                raise ValueError("its weight is not between 0 and 1")
            return cls(KneserNey.from_arrays({name: tensor.numpy() for name, tensor in tensors.items()}), weight)
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise BundleError(f"{path}: damaged: {reason(error)}; use another copy") from None


def best_weight(network: Tensor, ngram: Tensor) -> float:
    """The weight of the n-gram model under which a text is most probable, from both models' log probabilities (N,).

    The log likelihood is concave in the weight, so that its slope tells on which side of a weight the best one is.

    >>> round(best_weight(torch.tensor([0.9, 0.1]).log(), torch.tensor([0.1, 0.9]).log()), 3)
    0.5
    """
    low, high = MARGIN, 1 - MARGIN
    for _ in range(STEPS):
        middle = (low + high) / 2
        mixed = _mixed(network, ngram, middle)
        slope = ((ngram - mixed).exp() - (network - mixed).exp()).sum()
        low, high = (middle, high) if slope > 0 else (low, middle)
    return (low + high) / 2


def _mixed(network: Tensor, ngram: Tensor, weight: float) -> Tensor:
    return torch.logaddexp(network + math.log1p(-weight), ngram + math.log(weight))
