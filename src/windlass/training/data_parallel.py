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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor, nn

from windlass.bundle import Bundle, load_definition
from windlass.core.errors import TrainingError
from windlass.core.records import Batch, Carry, Padded, Record, Scored
from windlass.core.serialise import deserialise, serialise
from windlass.core.weights import weights
from windlass.nn.fast.onednn import prepare_training
from windlass.nn.fast.precision import mixed, precision


@dataclass(frozen=True)
class SingleProcess:
    """Computes the gradients of a batch's mean loss into `.grad` of the parameters, all in this process.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> model = Bundle.new(Recipe(), Sides.tiny()).model
    >>> batch = Batch({"source": Padded.of([[4]])}, Padded.of([[5, 3]]), torch.arange(1))
    >>> SingleProcess(model)(batch, 0.0, 1).loss_sum.requires_grad, model.head.output.weight.grad is None
    (False, False)
    """

    model: nn.Module

    def __call__(self, batch: Batch, sampling_prob: float, step: int, carry: Carry | None = None) -> Scored:
        """Forward and backward of step number `step`; return the sums, detached.

        `carry` is the state after the batch before, detached: truncated backpropagation through time.
        """
        for parameter in self.model.parameters():
            parameter.grad = None
        scored: Scored = self.model(batch, carry, sampling_prob)
        torch.autograd.backward(scored.mean)
        return scored.map(Tensor.detach)


@dataclass(frozen=True)
class _Shard(Record):
    """The rows of a batch that one process computes, and their carried state."""

    batch: Batch
    carry: Carry | None = None


def shard_batch(batch: Batch, processes: int, carry: Carry | None = None) -> list[_Shard]:
    """Split a batch: process k of n gets the rows k, k + n, k + 2n ..., trimmed to their own longest sequence.

    >>> batch = Batch({"source": Padded.of([[4, 5, 6], [7]])}, None, torch.arange(2))
    >>> [shard.batch.inputs["source"].values.tolist() for shard in shard_batch(batch, 2)]
    [[[4, 5, 6]], [[7]]]
    """
    indices = [torch.arange(first, batch.size, processes) for first in range(min(processes, batch.size))]
    return [_Shard(_trim(batch.select(rows)), None if carry is None else carry.select(rows)) for rows in indices]


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


def _map_memory(model: nn.Module, path: str, dtype: torch.dtype, processes: int, fill: bool) -> list[dict[str, Tensor]]:
    """Move the floating-point weights of a model to a memory-mapped file, shared by all processes that map it.

    With `fill`, their values are copied there first. Return views of the gradients of every worker, by parameter.
    """
    floating = [t for t in weights(model).values() if t.is_floating_point()]
    trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
    sizes = [t.numel() for t in floating] + [p.numel() for p in trainable.values()] * (processes - 1)
    parts = iter(torch.from_file(path, shared=True, size=sum(sizes), dtype=dtype).split(sizes))
    shared = {tensor.data_ptr(): next(parts) for tensor in floating}
    for tensor in model.state_dict(keep_vars=True).values():
        if tensor.data_ptr() in shared:
            view = shared[tensor.data_ptr()].view(tensor.shape)
            if fill:
                view.copy_(tensor.detach())
            tensor.data = view
    return [{name: next(parts).view(p.shape) for name, p in trainable.items()} for _ in range(1, processes)]


def _send(pipe: IO[bytes] | None, content: bytes) -> None:
    """Write a message, prefixed with its length."""
    assert pipe is not None
    pipe.write(len(content).to_bytes(8, "little") + content)
    pipe.flush()


def _receive(pipe: IO[bytes] | None) -> bytes:
    """Read a message; empty if the other process has exited, perhaps in the middle of one."""
    assert pipe is not None
    size = int.from_bytes(pipe.read(8), "little")
    content = pipe.read(size)
    return content if len(content) == size else b""


class DataParallel:
    """Computes a batch in several processes, this one and its workers, each with its shard.

    Workers (`python -m windlass.training.worker`) build the model from the folder of the run and exit with this
    process.

    >>> DataParallel(nn.Linear(1, 1).to("meta"), Path(), 2, 1)
    Traceback (most recent call last):
    windlass.core.errors.TrainingError: several processes need a model of one floating-point type on the CPU: ...
    """

    def __init__(self, model: nn.Module, folder: Path, processes: int, seed: int):
        dtypes = {t.dtype for t in weights(model).values() if t.is_floating_point()}
        if len(dtypes) != 1 or any(t.device.type != "cpu" for t in weights(model).values()):
            raise TrainingError(
                "several processes need a model of one floating-point type on the CPU: set train.processes: 1"
            )
        self.model = model
        self.workers: list[subprocess.Popen[bytes]] = []
        (dtype,) = dtypes
        shm = "/dev/shm" if os.path.isdir("/dev/shm") else None
        descriptor, path = tempfile.mkstemp(prefix="windlass-", dir=shm)
        os.close(descriptor)
        try:
            self.worker_gradients = _map_memory(model, path, dtype, processes, fill=True)
            config = {"folder": str(folder), "memory": path, "dtype": str(dtype).removeprefix("torch."), "seed": seed}
            for rank in range(1, processes):
                self.workers.append(self._start(config | {"rank": rank, "processes": processes}))
            for worker in self.workers:
                self._reply(worker)
        except BaseException:
            for worker in self.workers:
                worker.kill()  # it may still be importing, for seconds
            self.close()
            raise
        finally:
            os.unlink(path)  # the memory lives until the last process unmaps it

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
        _send(worker.stdin, json.dumps(config).encode())
        return worker

    @staticmethod
    def _reply(worker: subprocess.Popen[bytes]) -> bytes:
        content = _receive(worker.stdout)
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
                header = json.dumps({"sampling_prob": sampling_prob, "step": step, "mixed": mixed()}).encode()
                _send(worker.stdin, len(header).to_bytes(8, "little") + header + serialise(shard))
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

    @staticmethod
    def work() -> None:
        """In a worker: build the model on the shared weights, then compute the gradients of every shard received."""
        requests, replies = sys.stdin.buffer, sys.stdout.buffer
        if not (content := _receive(requests)):
            return
        config = json.loads(content)
        torch.set_num_threads(1)
        dtype, rank = getattr(torch, config["dtype"]), config["rank"]
        model = Bundle.new(*load_definition(Path(config["folder"]))).model.to(dtype).train()
        gradients = _map_memory(model, config["memory"], dtype, config["processes"], fill=False)[rank - 1]
        _send(replies, b"ready")
        compute_gradients = SingleProcess(model)
        prepare_training()
        while content := _receive(requests):
            size = int.from_bytes(content[:8], "little")
            header, shard = json.loads(content[8 : 8 + size]), deserialise(content[8 + size :])
            torch.manual_seed((config["seed"] * 1_000_003 + header["step"]) * 64 + rank)
            with precision("bfloat16" if header["mixed"] else "float32"):
                scored = compute_gradients(shard.batch, header["sampling_prob"], header["step"], shard.carry)
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    if name in gradients and parameter.grad is not None:
                        gradients[name].copy_(parameter.grad)
                    elif name in gradients:
                        gradients[name].zero_()
            _send(replies, serialise(scored))


ComputeGradients = SingleProcess | DataParallel
"""Computes the gradients of a batch."""


def available_cores() -> int:
    """Return the number of cores that this process may use: no more than OMP_NUM_THREADS, if it is set.

    >>> available_cores() >= 1
    True
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(limit)) if limit.isdecimal() and int(limit) else cores


@contextmanager
def gradient_workers(model: nn.Module, folder: Path, processes: int, seed: int) -> Iterator[ComputeGradients]:
    """Start the workers of a run, one thread each, and end them after the block; none for one process.

    >>> with gradient_workers(nn.Linear(1, 1), Path(), 1, 1) as compute_gradients:
    ...     isinstance(compute_gradients, SingleProcess)
    True
    """
    if processes == 1:
        yield SingleProcess(model)
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        data_parallel = DataParallel(model, folder, processes, seed)
        try:
            yield data_parallel
        finally:
            data_parallel.close()
    finally:
        torch.set_num_threads(threads)
