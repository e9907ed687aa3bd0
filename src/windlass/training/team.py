"""Gradients of a batch: in this process alone, or shared out among several that hold the same weights in shared memory.

On a CPU two processes of one thread often do more than one process of two: small products do not fill a second
thread, and nothing waits at the end of every product. Each process takes every n-th row of a batch; their gradients
are added, weighed by how many tokens each had, so that the sum is that of the whole batch. A member draws its random
numbers from the seed, the step and its own number, so that a run which is resumed makes the same steps. What running
text carries on goes to a member with its rows and comes back with its sums: a member keeps nothing from step to step.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Protocol

import torch
from torch import Tensor, nn

from windlass.core.errors import TrainingError
from windlass.core.records import Batch, Carry, Padded, Record, Scored
from windlass.core.serialise import deserialise, serialise
from windlass.core.weights import weights


class Gradients(Protocol):
    """Leaves the gradients of a batch's mean loss in a model's parameters; returns what was summed, without a graph.

    >>> hasattr(Alone(nn.Linear(1, 1)), "__call__")
    True
    """

    def __call__(self, batch: Batch, own: float, step: int, carry: Carry | None = None) -> Scored:
        """The gradients of step number `step`; `own` is the chance of sampling, `carry` what the batch before left."""


@dataclass(frozen=True)
class Alone:
    """All of it here.

    >>> Alone(nn.Linear(1, 1)).model.in_features
    1
    """

    model: nn.Module

    def __call__(self, batch: Batch, own: float, step: int, carry: Carry | None = None) -> Scored:
        """Forward and backward. What is carried on comes back without its graph: truncated back-propagation."""
        for parameter in self.model.parameters():
            parameter.grad = None
        scored: Scored = self.model(batch, own=own) if carry is None else self.model(batch, carry, own)
        torch.autograd.backward(scored.mean)
        return scored.map(Tensor.detach)


@dataclass(frozen=True)
class Part(Record):
    """What a member gets of a batch, and of what the batch before left.

    >>> Part(Batch({}, None, torch.arange(2))).carry is None
    True
    """

    batch: Batch
    carry: Carry | None = None


def share(batch: Batch, members: int, carry: Carry | None = None) -> list[Part]:
    """Every n-th row for each of n members, without the padding that only the others' rows needed.

    >>> batch = Batch({"source": Padded.of([[4, 5, 6], [7]])}, None, torch.arange(2))
    >>> [part.batch.inputs["source"].values.tolist() for part in share(batch, 2)]
    [[[4, 5, 6]], [[7]]]
    """
    every = [torch.arange(first, batch.size, members) for first in range(min(members, batch.size))]
    return [Part(_narrow(batch.select(rows)), None if carry is None else carry.select(rows)) for rows in every]


def gathered(parts: Sequence[Carry], members: int) -> Carry:
    """What `share` took apart, the rows again in their order.

    >>> whole = Carry(((torch.arange(5.0)[:, None],),))
    >>> apart = [whole.select(torch.arange(first, 5, 2)) for first in range(2)]
    >>> gathered(apart, 2).layers[0][0].flatten().tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    taken = [part.tensors() for part in parts]
    whole = {}
    for name, first in taken[0].items():
        whole[name] = first.new_empty(sum(part[name].size(0) for part in taken), *first.shape[1:])
        for n, part in enumerate(taken):
            whole[name][n::members] = part[name]
    found = Carry.of(whole)
    assert found is not None
    return found


def _narrow(batch: Batch) -> Batch:
    inputs = {name: _cut(side) for name, side in batch.inputs.items()}
    target = None if batch.target is None else _cut(batch.target)
    alignment = batch.alignment
    if alignment is not None and target is not None:
        alignment = alignment[:, : target.mask.size(1), : inputs["source"].mask.size(1)]
    return replace(batch, inputs=inputs, target=target, alignment=alignment)


def _cut(side: Padded) -> Padded:
    width = max(1, int(side.mask.sum(1).max()))
    return replace(side, values=side.values[:, :width], mask=side.mask[:, :width])


# -- weights and gradients in memory that several processes see


def layout(model: nn.Module) -> tuple[list[tuple[Tensor, int]], int]:
    """Where in shared memory each floating tensor of a model begins, and how many numbers there are in all.

    >>> layout(nn.Linear(2, 3))[1]
    9
    """
    found, place = [], 0
    for tensor in weights(model).values():
        if tensor.is_floating_point():
            found.append((tensor, place))
            place += tensor.numel()
    return found, place


def attach(model: nn.Module, memory: Tensor, fill: bool) -> None:
    """Let a model's weights live in shared memory; with `fill`, what they are now goes there first.

    >>> layer, memory = nn.Linear(1, 1, bias=False), torch.zeros(1)
    >>> attach(layer, memory, fill=True)
    >>> _ = nn.init.constant_(layer.weight, 5.0)
    >>> memory.item()
    5.0
    """
    state = model.state_dict(keep_vars=True)
    places = {tensor.data_ptr(): place for tensor, place in layout(model)[0]}
    for tensor in state.values():
        place = places.get(tensor.data_ptr())
        if place is not None:
            own = memory[place : place + tensor.numel()].view(tensor.shape)
            if fill:
                own.copy_(tensor.detach())
            tensor.data = own


def gradients_in(model: nn.Module, memory: Tensor) -> dict[str, Tensor]:
    """A view of shared memory for the gradient of every parameter that is trained.

    >>> gradients_in(nn.Linear(2, 3), torch.zeros(9))["weight"].shape
    torch.Size([3, 2])
    """
    found, place = {}, 0
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            found[name] = memory[place : place + parameter.numel()].view(parameter.shape)
            place += parameter.numel()
    return found


def mapped(path: Path, numbers: int, dtype: torch.dtype) -> Tensor:
    """A tensor that lives in a file, seen by every process that maps it.

    >>> path = Path(tempfile.mkdtemp()) / "memory"
    >>> mapped(path, 3, torch.float32).fill_(2.0).sum().item(), mapped(path, 3, torch.float32).sum().item()
    (6.0, 6.0)
    """
    return torch.from_file(str(path), shared=True, size=numbers, dtype=dtype)


def member_seed(seed: int, step: int, member: int) -> int:
    """What a member seeds its random numbers with at a step.

    >>> member_seed(1, 2, 1) != member_seed(1, 3, 1)
    True
    """
    return (seed * 1_000_003 + step) * 64 + member


def send(pipe: IO[bytes], content: bytes) -> None:
    """Write a message, its length first.

    >>> import io
    >>> pipe = io.BytesIO()
    >>> send(pipe, b"abc")
    >>> receive(io.BytesIO(pipe.getvalue()))
    b'abc'
    """
    pipe.write(len(content).to_bytes(8, "little") + content)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes:
    """Read a message; nothing where the other side has gone.

    >>> import io
    >>> receive(io.BytesIO())
    b''
    """
    return pipe.read(int.from_bytes(pipe.read(8), "little"))


class Team:
    """This process and others, each with a part of every batch.

    The others build the model from the run's folder, `python -m windlass.training.worker`, and end with this process.

    >>> Team.__name__
    'Team'
    """

    def __init__(self, model: nn.Module, folder: Path, processes: int, seed: int):
        kinds = {tensor.dtype for tensor, _ in layout(model)[0]}
        if len(kinds) != 1 or any(t.device.type != "cpu" for t in weights(model).values()):
            raise TrainingError(
                "several processes need a model of one floating type on the CPU: set train.processes: 1"
            )
        self.model, self.seed = model, seed
        (dtype,) = kinds
        numbers = layout(model)[1]
        trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
        where = "/dev/shm" if os.path.isdir("/dev/shm") else None
        descriptor, name = tempfile.mkstemp(prefix="windlass-", dir=where)
        os.close(descriptor)
        path = Path(name)
        try:
            memory = mapped(path, numbers + (processes - 1) * trained, dtype)
            attach(model, memory[:numbers], fill=True)
            self.theirs = [
                gradients_in(model, memory[numbers + n * trained : numbers + (n + 1) * trained])
                for n in range(processes - 1)
            ]
            told = {"folder": str(folder), "memory": name, "dtype": str(dtype).removeprefix("torch."), "seed": seed}
            self.members = [self._start(told | {"member": n, "members": processes}) for n in range(1, processes)]
            for member in self.members:
                self._reply(member)
        finally:
            path.unlink()  # the memory lives until the last process lets go of it

    @staticmethod
    def _start(told: dict[str, Any]) -> subprocess.Popen[bytes]:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        member = subprocess.Popen(
            [sys.executable, "-m", "windlass.training.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is for this process, which tells the others
        )
        assert member.stdin is not None
        send(member.stdin, json.dumps(told).encode())
        return member

    @staticmethod
    def _reply(member: subprocess.Popen[bytes]) -> bytes:
        assert member.stdout is not None
        content = receive(member.stdout)
        if not content:
            raise TrainingError(
                f"a process of the run has died (exit code {member.wait()}): "
                "resume with --set train.processes=1 if memory is short"
            )
        return content

    def __call__(self, batch: Batch, own: float, step: int, carry: Carry | None = None) -> Scored:
        """Share the batch out, do this process's part, and add everything up."""
        parts = share(batch, len(self.members) + 1, carry)
        busy = self.members[: len(parts) - 1]
        try:
            for member, part in zip(busy, parts[1:], strict=True):
                assert member.stdin is not None
                order = json.dumps({"own": own, "step": step}).encode()
                send(member.stdin, len(order).to_bytes(8, "little") + order + serialise(part))
        except BrokenPipeError:
            raise TrainingError("a process of the run has died: resume with --set train.processes=1") from None
        mine = Alone(self.model)(parts[0].batch, own, step, parts[0].carry)
        scored = [mine, *(deserialise(self._reply(member)) for member in busy)]
        self._add([float(one.count) for one in scored])
        carried = [one.carry for one in scored if one.carry is not None]
        return Scored(
            torch.stack([one.loss_sum for one in scored]).sum(),
            torch.stack([one.count for one in scored]).sum(),
            {name: torch.stack([(one.terms or {})[name] for one in scored]).sum() for name in scored[0].terms or {}},
            gathered(carried, len(self.members) + 1) if carried else None,
        )

    @torch.no_grad()
    def _add(self, counts: list[float]) -> None:
        """The gradient of the whole mean: every part's by its share of the tokens."""
        total = max(1.0, sum(counts))
        trained = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        for parameter in trained.values():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            elif parameter.grad.is_sparse:  # the others give whole ones
                parameter.grad = parameter.grad.to_dense()
        own = [p.grad for p in trained.values() if p.grad is not None]
        torch._foreach_mul_(own, counts[0] / total)
        for theirs, count in zip(self.theirs, counts[1:], strict=False):
            torch._foreach_add_(own, [theirs[name] for name in trained], alpha=count / total)

    def end(self) -> None:
        """Let the others go."""
        for member in self.members:
            for pipe in (member.stdin, member.stdout):
                with suppress(BrokenPipeError):  # a member that has died reads no more
                    assert pipe is not None
                    pipe.close()
            member.wait()
