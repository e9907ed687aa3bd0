"""The nearest neighbour: the baseline of sources that have feature vectors, such as pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from windlass.core.errors import BundleError
from windlass.core.options import reason
from windlass.core.tensors import read_tensors, write_tensors
from windlass.data.examples import Pairs, Value

FILE = "baseline_nearest.safetensors"
Vector = Callable[[Value], NDArray[np.float32]]
"""The feature vector of a source."""

MOST_EXAMPLES = 20_000
"""Training examples that are kept; of more, a sample."""
MOST_CELLS = 2**25
"""Numbers of all vectors together, 64 MB in float16: long vectors leave room for fewer examples."""
PORTION = 256
"""Sources that are compared at once."""


@dataclass(frozen=True, eq=False)
class Nearest:
    """The target of the training example whose vector has the highest cosine similarity with that of the source.

    >>> colours = {"red": [9, 1], "pink": [5, 2], "blue": [1, 8]}
    >>> nearest = Nearest.fit([("red", "warm"), ("blue", "cold")], lambda name: np.array(colours[name]))
    >>> nearest.predict(["pink", "blue"])
    ['warm', 'cold']
    """

    targets: tuple[str, ...]
    vectors: NDArray[np.float16]  # (N, D), of length 1
    vector: Vector  # not saved: that of the bundle's source
    name: str = "nearest"

    @classmethod
    def fit(cls, train: Pairs, vector: Vector) -> Nearest:
        """Keep the vectors of all sources, or of a sample, each with its first target."""
        first: dict[Value, str] = {}
        for source, target in train:
            first.setdefault(source, target)
        sources = list(first)
        most = min(MOST_EXAMPLES, max(1, MOST_CELLS // max(1, vector(sources[0]).size)))
        if len(sources) > most:
            kept = np.sort(np.random.default_rng(1).choice(len(sources), most, replace=False))
            sources = [sources[n] for n in kept]
        vectors = np.stack([_unit(vector(source)).astype(np.float16) for source in sources])
        return cls(tuple(first[source] for source in sources), vectors, vector)

    def predict(self, sources: Sequence[Value]) -> list[str]:
        """Return the target of the nearest training example of every source; of equally near ones, the first."""
        known, predicted = self.vectors.astype(np.float32), []
        for start in range(0, len(sources), PORTION):
            queries = np.stack([_unit(self.vector(source)) for source in sources[start : start + PORTION]])
            predicted += [self.targets[n] for n in (queries @ known.T).argmax(1)]
        return predicted

    def save(self, folder: Path) -> None:
        """Write the vectors and targets next to the model."""
        write_tensors(folder / FILE, {"vectors": torch.from_numpy(self.vectors)}, {"targets": self.targets})

    @classmethod
    def load(cls, folder: Path, vector: Vector) -> Nearest:
        """Return the baseline saved with a bundle; a damaged one is a BundleError."""
        tensors, note = read_tensors(folder / FILE)
        try:
            vectors, targets = tensors["vectors"], note["targets"]
            if vectors.dtype != torch.float16 or vectors.dim() != 2 or not bool(vectors.isfinite().all()):
                raise ValueError("its vectors are not a matrix of finite numbers")
            if len(targets) != len(vectors) or not targets or not all(isinstance(target, str) for target in targets):
                raise ValueError("its targets are not one text per vector")
        except (KeyError, ValueError, TypeError) as error:
            raise BundleError(
                f"{folder / FILE}: damaged: {reason(error)}; restore it, or delete it to go without a baseline"
            ) from None
        return cls(tuple(targets), vectors.numpy(), vector)


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """The vector with length 1; zeros stay zeros."""
    unit: NDArray[np.float32] = np.asarray(vector, dtype=np.float32) / (float(np.linalg.norm(vector)) or 1.0)
    return unit
