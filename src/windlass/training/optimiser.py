"""Build an optimiser from its options, and save and restore its state as plain tensors.

Weight decay applies to matrices (including embeddings), not to biases and other vectors, where it has little use and,
for the bias of a forget gate, does harm.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from windlass.core.errors import TrainingError
from windlass.nn.fast.optimiser import without_compiler
from windlass.recipe.train import OptimiserOptions
from windlass.training.lazy import lazy, make_sparse

FUSED = {"cpu", "cuda", "xpu", "mps"}  # where one kernel makes the whole update


def build_optimiser(options: OptimiserOptions, model: nn.Module) -> torch.optim.Optimizer:
    """Return an optimiser of the trainable parameters of a model.

    >>> from windlass.recipe.train import Adam
    >>> optimiser = build_optimiser(Adam(weight_decay=0.1), nn.Linear(2, 3))
    >>> [group["weight_decay"] for group in optimiser.param_groups]
    [0.1, 0.0]
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise TrainingError("the model has no parameters to train")
    matrices = [p for p in trained if p.dim() >= 2]
    vectors = [p for p in trained if p.dim() < 2]
    groups = [
        {"params": params, "weight_decay": decay}
        for params, decay in ((matrices, options.weight_decay), (vectors, 0.0))
        if params
    ]
    fused = all(p.device.type in FUSED and p.is_floating_point() for p in trained)
    algorithm, settings = options.algorithm()
    kind = without_compiler(algorithm)
    if options.sparse_updates:
        make_sparse(model)
        kind = lazy(kind)
    made: torch.optim.Optimizer = kind(groups, lr=options.lr, fused=fused, **settings)
    return made


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of the next step.

    >>> from windlass.recipe.train import SGD
    >>> optimiser = build_optimiser(SGD(), nn.Linear(2, 3))
    >>> set_rate(optimiser, 0.5)
    >>> optimiser.param_groups[1]["lr"]
    0.5
    """
    for group in optimiser.param_groups:
        group["lr"] = rate


def _names(optimiser: torch.optim.Optimizer, model: nn.Module) -> list[str]:
    """The names of the parameters, in the order of the optimiser."""
    name_of = {id(p): name for name, p in model.named_parameters()}
    return [name_of[id(p)] for group in optimiser.param_groups for p in group["params"]]


def optimiser_tensors(optimiser: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Return the state of an optimiser, as `parameter/key` -> tensor.

    >>> from windlass.recipe.train import SGD
    >>> layer = nn.Linear(2, 3)
    >>> optimiser = build_optimiser(SGD(momentum=0.9), layer)
    >>> layer(torch.ones(2)).sum().backward()
    >>> optimiser.step()
    >>> sorted(optimiser_tensors(optimiser, layer))
    ['bias/momentum_buffer', 'weight/momentum_buffer']
    """
    names = _names(optimiser, model)
    return {
        f"{names[index]}/{key}": value
        for index, state in optimiser.state_dict()["state"].items()
        for key, value in state.items()
        if value is not None  # SGD without momentum
    }


def restore_optimiser(optimiser: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Restore the state that `optimiser_tensors` returned.

    >>> from windlass.recipe.train import SGD
    >>> layer = nn.Linear(2, 1, bias=False)
    >>> optimiser = build_optimiser(SGD(momentum=0.9), layer)
    >>> restore_optimiser(optimiser, layer, {"weight/momentum_buffer": torch.ones(1, 2)})
    >>> optimiser.state[layer.weight]["momentum_buffer"].tolist()
    [[1.0, 1.0]]
    """
    index_of = {name: index for index, name in enumerate(_names(optimiser, model))}
    state: dict[int, dict[str, Tensor]] = {}
    for path, value in tensors.items():
        name, _, key = path.rpartition("/")
        if name not in index_of:
            raise TrainingError(f"the checkpoint has a parameter {name}, but the model has not; resume with its recipe")
        state.setdefault(index_of[name], {})[key] = value.clone()
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
