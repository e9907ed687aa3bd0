"""Data-parallel training: the gradients of a batch, from this process alone or from several with shared weights.

On a CPU, two single-threaded processes often do more than one process with two threads: small matrix products do not
fill a second thread, and threads synchronise after every product. Each process takes every n-th row of a batch. Their
gradients are averaged, weighted by token counts, so that the result is the gradient of the whole batch. A worker seeds
its random numbers from the seed, the step and its rank, so that a resumed run makes the same steps. The carried state
of running text goes to a worker with its rows and comes back with its sums: a worker keeps no state between steps.
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


class ComputeGradients(Protocol):
    """Computes the gradients of a batch's mean loss into `.grad` of the parameters; returns the sums, detached.

    >>> def no_gradients(batch, sampling_prob, step, carry=None):
    ...     return Scored(torch.tensor(3.0), torch.tensor(batch.size))
    >>> compute_gradients: ComputeGradients = no_gradients
    >>> compute_gradients(Batch({}, None, torch.arange(2)), 0.0, 1).mean.item()
    1.5
    """

    def __call__(self, batch: Batch, sampling_prob: float, step: int, carry: Carry | None = None) -> Scored:
        """Forward and backward of step number `step`; `carry` is the state after the batch before."""


@dataclass(frozen=True)
class SingleProcess:
    """Computes the whole batch in this process.

    >>> class Square(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.w = nn.Parameter(torch.tensor(3.0))
    ...     def forward(self, batch, carry=None, sampling_prob=0.0):
    ...         return Scored(self.w**2 * batch.size, torch.tensor(batch.size))
    >>> model = Square()
    >>> scored = SingleProcess(model)(Batch({}, None, torch.arange(4)), 0.0, 1)
    >>> model.w.grad.item(), scored.loss_sum.requires_grad
    (6.0, False)
    """

    model: nn.Module

    def __call__(self, batch: Batch, sampling_prob: float, step: int, carry: Carry | None = None) -> Scored:
        """Forward and backward. The carry is detached: truncated backpropagation through time."""
        for parameter in self.model.parameters():
            parameter.grad = None
        scored: Scored = (
            self.model(batch, sampling_prob=sampling_prob) if carry is None else self.model(batch, carry, sampling_prob)
        )
        torch.autograd.backward(scored.mean)
        return scored.map(Tensor.detach)


@dataclass(frozen=True)
class Shard(Record):
    """The rows of a batch that one process computes, and their carried state.

    >>> Shard(Batch({}, None, torch.arange(2))).carry is None
    True
    """

    batch: Batch
    carry: Carry | None = None


def shard_batch(batch: Batch, processes: int, carry: Carry | None = None) -> list[Shard]:
    """Split a batch: process k of n gets the rows k, k + n, k + 2n ..., trimmed to their own longest sequence.

    >>> batch = Batch({"source": Padded.of([[4, 5, 6], [7]])}, None, torch.arange(2))
    >>> [shard.batch.inputs["source"].values.tolist() for shard in shard_batch(batch, 2)]
    [[[4, 5, 6]], [[7]]]
    """
    indices = [torch.arange(first, batch.size, processes) for first in range(min(processes, batch.size))]
    return [Shard(_trim(batch.select(rows)), None if carry is None else carry.select(rows)) for rows in indices]


def gather_carry(shards: Sequence[Carry], processes: int) -> Carry:
    """Merge the carries of the shards of a batch, rows in their order: the inverse of `shard_batch`.

    >>> whole = Carry(((torch.arange(5.0)[:, None],),))
    >>> shards = [whole.select(torch.arange(first, 5, 2)) for first in range(2)]
    >>> gather_carry(shards, 2).layers[0][0].flatten().tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    tensors = [shard.tensors() for shard in shards]
    whole = {}
    for name, first in tensors[0].items():
        whole[name] = first.new_empty(sum(shard[name].size(0) for shard in tensors), *first.shape[1:])
        for n, shard in enumerate(tensors):
            whole[name][n::processes] = shard[name]
    carry = Carry.of(whole)
    assert carry is not None
    return carry


def _trim(batch: Batch) -> Batch:
    inputs = {name: _trim_padding(padded) for name, padded in batch.inputs.items()}
    target = None if batch.target is None else _trim_padding(batch.target)
    alignment = batch.alignment
    if alignment is not None and target is not None:
        alignment = alignment[:, : target.mask.size(1), : inputs["source"].mask.size(1)]
    return replace(batch, inputs=inputs, target=target, alignment=alignment)


def _trim_padding(padded: Padded) -> Padded:
    width = max(1, int(padded.mask.sum(1).max()))
    return replace(padded, values=padded.values[:, :width], mask=padded.mask[:, :width])


# -- weights and gradients in shared memory


def weight_offsets(model: nn.Module) -> tuple[list[tuple[Tensor, int]], int]:
    """Return each floating-point weight with its offset in shared memory, and the total number of elements.

    >>> weight_offsets(nn.Linear(2, 3))[1]
    9
    """
    offsets, size = [], 0
    for tensor in weights(model).values():
        if tensor.is_floating_point():
            offsets.append((tensor, size))
            size += tensor.numel()
    return offsets, size


def share_weights(model: nn.Module, memory: Tensor, fill: bool) -> None:
    """Move the weights of a model to shared memory; with `fill`, copy their values there first.

    >>> layer, memory = nn.Linear(1, 1, bias=False), torch.zeros(1)
    >>> share_weights(layer, memory, fill=True)
    >>> _ = nn.init.constant_(layer.weight, 5.0)
    >>> memory.item()
    5.0
    """
    state = model.state_dict(keep_vars=True)
    offsets = {tensor.data_ptr(): offset for tensor, offset in weight_offsets(model)[0]}
    for tensor in state.values():
        offset = offsets.get(tensor.data_ptr())
        if offset is not None:
            view = memory[offset : offset + tensor.numel()].view(tensor.shape)
            if fill:
                view.copy_(tensor.detach())
            tensor.data = view


def gradient_views(model: nn.Module, memory: Tensor) -> dict[str, Tensor]:
    """Return a view of shared memory for the gradient of every trainable parameter.

    >>> gradient_views(nn.Linear(2, 3), torch.zeros(9))["weight"].shape
    torch.Size([3, 2])
    """
    views, offset = {}, 0
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            views[name] = memory[offset : offset + parameter.numel()].view(parameter.shape)
            offset += parameter.numel()
    return views


def shared_tensor(path: Path, size: int, dtype: torch.dtype) -> Tensor:
    """Return a tensor backed by a memory-mapped file, shared by all processes that map it.

    >>> path = Path(tempfile.mkdtemp()) / "memory"
    >>> _ = shared_tensor(path, 3, torch.float32).fill_(2.0)
    >>> shared_tensor(path, 3, torch.float32).tolist()
    [2.0, 2.0, 2.0]
    """
    return torch.from_file(str(path), shared=True, size=size, dtype=dtype)


def worker_seed(seed: int, step: int, rank: int) -> int:
    """Return the seed of a worker's random numbers at a step.

    >>> worker_seed(1, 2, 1) != worker_seed(1, 3, 1)
    True
    """
    return (seed * 1_000_003 + step) * 64 + rank


def send(pipe: IO[bytes], content: bytes) -> None:
    """Write a message, prefixed with its length.

    >>> import io
    >>> pipe = io.BytesIO()
    >>> send(pipe, b"abc")
    >>> receive(io.BytesIO(pipe.getvalue()))
    b'abc'
    """
    pipe.write(len(content).to_bytes(8, "little") + content)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes:
    """Read a message; empty if the other process has exited.

    >>> import io
    >>> receive(io.BytesIO())
    b''
    """
    return pipe.read(int.from_bytes(pipe.read(8), "little"))


class DataParallel:
    """Computes a batch in several processes, this one and its workers, each with its shard.

    Workers (`python -m windlass.training.worker`) build the model from the folder of the run and exit with this
    process.

    >>> DataParallel(nn.Linear(1, 1).to("meta"), Path(), 2, 1)
    Traceback (most recent call last):
    windlass.core.errors.TrainingError: several processes need a model of one floating-point type on the CPU: ...
    """

    def __init__(self, model: nn.Module, folder: Path, processes: int, seed: int):
        dtypes = {tensor.dtype for tensor, _ in weight_offsets(model)[0]}
        if len(dtypes) != 1 or any(t.device.type != "cpu" for t in weights(model).values()):
            raise TrainingError(
                "several processes need a model of one floating-point type on the CPU: set train.processes: 1"
            )
        self.model, self.seed = model, seed
        (dtype,) = dtypes
        weight_count = weight_offsets(model)[1]
        gradient_count = sum(p.numel() for p in model.parameters() if p.requires_grad)
        shm = "/dev/shm" if os.path.isdir("/dev/shm") else None
        descriptor, name = tempfile.mkstemp(prefix="windlass-", dir=shm)
        os.close(descriptor)
        path = Path(name)
        try:
            memory = shared_tensor(path, weight_count + (processes - 1) * gradient_count, dtype)
            share_weights(model, memory[:weight_count], fill=True)
            self.worker_gradients = [
                gradient_views(model, part) for part in memory[weight_count:].split(gradient_count)
            ]
            config = {"folder": str(folder), "memory": name, "dtype": str(dtype).removeprefix("torch."), "seed": seed}
            self.workers = [self._start(config | {"rank": n, "processes": processes}) for n in range(1, processes)]
            for worker in self.workers:
                self._reply(worker)
        finally:
            path.unlink()  # the memory lives until the last process unmaps it

    @staticmethod
    def _start(config: dict[str, Any]) -> subprocess.Popen[bytes]:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        worker = subprocess.Popen(
            [sys.executable, "-m", "windlass.training.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is for this process, which closes the workers
        )
        assert worker.stdin is not None
        send(worker.stdin, json.dumps(config).encode())
        return worker

    @staticmethod
    def _reply(worker: subprocess.Popen[bytes]) -> bytes:
        assert worker.stdout is not None
        content = receive(worker.stdout)
        if not content:
            raise TrainingError(
                f"a worker process has died (exit code {worker.wait()}): "
                "resume with --set train.processes=1 if memory is short"
            )
        return content

    def __call__(self, batch: Batch, sampling_prob: float, step: int, carry: Carry | None = None) -> Scored:
        """Send every worker its shard, compute the first here, and sum gradients and losses."""
        shards = shard_batch(batch, len(self.workers) + 1, carry)
        busy = self.workers[: len(shards) - 1]
        try:
            for worker, shard in zip(busy, shards[1:], strict=True):
                assert worker.stdin is not None
                header = json.dumps({"sampling_prob": sampling_prob, "step": step}).encode()
                send(worker.stdin, len(header).to_bytes(8, "little") + header + serialise(shard))
        except BrokenPipeError:
            raise TrainingError("a worker process has died: resume with --set train.processes=1") from None
        first = SingleProcess(self.model)(shards[0].batch, sampling_prob, step, shards[0].carry)
        scored = [first, *(deserialise(self._reply(worker)) for worker in busy)]
        self._reduce_gradients([float(one.count) for one in scored])
        carries = [one.carry for one in scored if one.carry is not None]
        return Scored(
            torch.stack([one.loss_sum for one in scored]).sum(),
            torch.stack([one.count for one in scored]).sum(),
            {name: torch.stack([(one.terms or {})[name] for one in scored]).sum() for name in scored[0].terms or {}},
            gather_carry(carries, len(self.workers) + 1) if carries else None,
        )

    @torch.no_grad()
    def _reduce_gradients(self, counts: list[float]) -> None:
        """Average the gradients of all shards, weighted by their token counts."""
        total = max(1.0, sum(counts))
        trainable = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        for parameter in trainable.values():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [p.grad for p in trainable.values() if p.grad is not None]
        torch._foreach_mul_(gradients, counts[0] / total)
        for worker_gradients, count in zip(self.worker_gradients, counts[1:], strict=False):
            torch._foreach_add_(gradients, [worker_gradients[name] for name in trainable], alpha=count / total)

    def close(self) -> None:
        """End the workers."""
        for worker in self.workers:
            for pipe in (worker.stdin, worker.stdout):
                with suppress(BrokenPipeError):  # a worker that has died reads no more
                    assert pipe is not None
                    pipe.close()
            worker.wait()
