"""Data-parallel training makes the same steps as one process, also after a resume."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

from toy import SMALL, reversals
from windlass.bundle import Bundle, save_definition
from windlass.core.errors import TrainingError
from windlass.core.records import Batch, Padded, Record
from windlass.core.serialise import deserialise, serialise
from windlass.core.weights import weights
from windlass.data.loader import Loader
from windlass.experiment.data import as_data
from windlass.experiment.loaders import fit_sides, training_loader
from windlass.experiment.run import run
from windlass.nn.fast.precision import precision
from windlass.recipe import Recipe, compose
from windlass.training.data_parallel import DataParallel, SingleProcess, available_cores, gradient_workers, shard_batch
from windlass.training.estimate import _speedup, choose_processes
from windlass.training.observe import Silent


def small(**over: object) -> Recipe:
    def nested(name: str, value: object) -> dict[str, object]:
        for part in reversed(name.split(".")):
            value = {part: value}
        return value  # type: ignore[return-value]

    settings = SMALL | {"train.epochs": 2} | {name.replace("__", "."): value for name, value in over.items()}
    return compose("text", None, [nested(name, value) for name, value in settings.items()])


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bundle, Loader, DataParallel]]:
    """A model, its batches, and two processes; starting a worker takes seconds, so the tests share it."""
    recipe, folder = small(), tmp_path_factory.mktemp("run")
    data = as_data(reversals()[:120], reversals()[120:140], recipe)
    torch.manual_seed(3)
    bundle = Bundle.new(recipe, fit_sides(recipe, data.train))
    save_definition(folder, recipe, bundle.sides)
    encoded = [bundle.sides.encode_example(e) for e in data.train]
    with gradient_workers(bundle.model, folder, 2, seed=1) as parallel:
        assert isinstance(parallel, DataParallel)
        yield bundle, bundle.sides.loader(encoded, 150, 1, shuffle=True), parallel


def test_a_serialised_record_round_trips():
    batch = Batch(
        {"source": Padded.of([[4, 5], [6]])}, Padded.of([[7], [8]]), torch.tensor([3, 1]), torch.rand(2, 1, 2)
    )
    there = deserialise(serialise(batch))
    found: list[tuple[torch.Tensor, torch.Tensor]] = []
    for one, other in ((batch, there), (batch.inputs["source"], there.inputs["source"]), (batch.target, there.target)):
        assert isinstance(one, Record)
        for name in one.__dataclass_fields__:
            if isinstance(getattr(one, name), torch.Tensor):
                found.append((getattr(one, name), getattr(other, name)))
    assert len(found) == 6
    assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in found)


def test_every_row_is_in_one_shard_and_padding_is_trimmed():
    rows = [[4] * n for n in (5, 1, 3, 2, 4)]
    batch = Batch({"source": Padded.of(rows)}, Padded.of(rows), torch.arange(5), torch.zeros(5, 5, 5))
    shards = [shard.batch for shard in shard_batch(batch, 2)]
    assert sorted(key for shard in shards for key in shard.keys.tolist()) == [0, 1, 2, 3, 4]
    assert [shard.inputs["source"].values.size(1) for shard in shards] == [5, 2]
    assert [tuple(shard.alignment.shape) for shard in shards if shard.alignment is not None] == [(3, 5, 5), (2, 2, 2)]
    assert len(shard_batch(batch.select(torch.tensor([0])), 2)) == 1  # one row makes one shard


def test_shards_sum_to_the_gradients_of_the_whole_batch(setup):
    bundle, loader, parallel = setup
    batch = next(loader.epoch(0))
    single = SingleProcess(bundle.model)(batch, 0.0, 0)
    expected = {name: p.grad.clone() for name, p in bundle.model.named_parameters()}
    found = parallel(batch, 0.0, 0)
    assert torch.get_num_threads() == 1
    assert int(found.count) == int(single.count)
    assert float(found.loss_sum) == pytest.approx(float(single.loss_sum), rel=1e-5)
    assert float(found.terms["nll"]) == pytest.approx(float(single.terms["nll"]), rel=1e-5)
    for name, p in bundle.model.named_parameters():
        assert torch.allclose(p.grad, expected[name], atol=1e-6), name


def test_workers_have_the_precision_of_the_run(setup):
    bundle, loader, parallel = setup
    batch = next(loader.epoch(0))
    with precision("bfloat16"):
        SingleProcess(bundle.model)(batch, 0.0, 0)
        expected = {name: p.grad.clone() for name, p in bundle.model.named_parameters()}
        parallel(batch, 0.0, 0)
    mixed = {name: p.grad.clone() for name, p in bundle.model.named_parameters()}
    parallel(batch, 0.0, 0)
    for name, gradient in expected.items():
        assert torch.allclose(mixed[name], gradient, rtol=0.05, atol=0.02 * float(gradient.abs().max())), name
    worker = parallel.worker_gradients[0]["head.output.weight"].clone()
    with precision("bfloat16"):
        parallel(batch, 0.0, 0)
    assert not torch.equal(parallel.worker_gradients[0]["head.output.weight"], worker)


def test_a_worker_sees_weight_updates(setup):
    bundle, loader, parallel = setup
    batch = next(loader.epoch(0))
    before = float(parallel(batch, 0.0, 0).loss_sum)
    with torch.no_grad():
        for p in bundle.model.parameters():
            p.sub_(0.5 * p.grad)
    after = float(parallel(batch, 0.0, 1).loss_sum)
    assert after < before
    assert after == pytest.approx(float(SingleProcess(bundle.model)(batch, 0.0, 1).loss_sum), rel=1e-5)


def test_the_shared_memory_file_is_unlinked(setup):
    assert not [name for name in os.listdir("/dev/shm") if name.startswith("windlass-")]


def test_a_dead_worker_is_a_clear_error(setup):
    _, loader, parallel = setup
    parallel.workers[0].kill()
    parallel.workers[0].wait()
    with pytest.raises(TrainingError, match=r"has died.*train\.processes=1"):
        parallel(next(loader.epoch(0)), 0.0, 0)


def test_a_resumed_run_of_two_processes_equals_an_uninterrupted_one(tmp_path):
    recipe = small(train__processes=2, model__decoder__dropout=0.2, train__evaluate_steps=4)
    data = as_data(reversals()[:120], reversals()[120:140], recipe)
    whole = run(recipe, data, tmp_path / "whole", Silent())

    class Stopping(Silent):
        def step(self, step):
            if step.step == 5:
                raise KeyboardInterrupt

    stopped = run(recipe, data, tmp_path / "stopped", Stopping())
    assert stopped.fit.reason == "interrupted"
    resumed = run(recipe, data, tmp_path / "stopped", Silent(), resume=True)
    ours, theirs = weights(whole.bundle.model), weights(resumed.bundle.model)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert resumed.fit.steps == whole.fit.steps
    assert all(torch.isfinite(tensor).all() for tensor in ours.values())


# -- running text

TEXT = "to be or not to be, that is the question: " * 8


def language(dropout: float, **train: object) -> Recipe:
    decoder = {"embedding": {"kind": "learned", "size": 8}, "size": 12, "dropout": dropout}
    usual = {"chunk": 8, "batch_tokens": 40, "epochs": 2, "threads": 1, "schedule": "constant"}
    return compose("lm", None, [{"model": {"decoder": decoder}, "train": usual | train, "ngrams": 2, "samples": None}])


def test_every_row_of_running_text_is_carried_over(tmp_path):
    recipe = language(dropout=0.0)
    data = as_data([TEXT], [TEXT[:60]], recipe)
    bundle = Bundle.new(recipe, fit_sides(recipe, data.train))
    save_definition(tmp_path, recipe, bundle.sides)
    first, second = list(training_loader(bundle, data.train).epoch(0))[:2]
    assert first.size == 5
    with gradient_workers(bundle.model, tmp_path, 2, seed=1) as parallel:
        left = SingleProcess(bundle.model)(first, 0.0, 0).carry
        whole = SingleProcess(bundle.model)(second, 0.0, 1, left)
        expected = {name: p.grad.clone() for name, p in bundle.model.named_parameters()}
        theirs = parallel(first, 0.0, 0).carry
        found = parallel(second, 0.0, 1, theirs)
        for name, p in bundle.model.named_parameters():
            assert torch.allclose(p.grad, expected[name], atol=1e-6), name
    assert float(found.loss_sum) == pytest.approx(float(whole.loss_sum), rel=1e-5)
    for ours, others in ((left, theirs), (whole.carry, found.carry)):
        for a, b in zip(ours.tensors().values(), others.tensors().values(), strict=True):
            assert torch.allclose(a, b, atol=1e-6)


def test_a_resumed_run_of_two_processes_on_running_text_equals_an_uninterrupted_one(tmp_path):
    recipe = language(dropout=0.2, processes=2)
    data = as_data([TEXT], [TEXT[:60]], recipe)

    class Stopping(Silent):
        def step(self, step):
            if step.step == 5:  # in the middle of an epoch
                raise KeyboardInterrupt

    whole = run(recipe, data, tmp_path / "whole", Silent())
    assert run(recipe, data, tmp_path / "stopped", Stopping()).fit.reason == "interrupted"
    resumed = run(recipe, data, tmp_path / "stopped", Silent(), resume=True)
    ours, theirs = weights(whole.bundle.model), weights(resumed.bundle.model)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_ctrl_c_while_a_worker_starts_ends_it_in_silence(setup, tmp_path, monkeypatch, capfd):
    bundle, _, _ = setup
    save_definition(tmp_path, small(), bundle.sides)
    started, threads = [], torch.get_num_threads()

    def interrupted(worker):
        started.append(worker)
        raise KeyboardInterrupt

    monkeypatch.setattr(DataParallel, "_reply", staticmethod(interrupted))
    with pytest.raises(KeyboardInterrupt), gradient_workers(bundle.model, tmp_path, 2, seed=1):
        pass
    assert started[0].poll() is not None
    assert torch.get_num_threads() == threads
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("message", [b"", b"\x05\0\0\0\0\0\0\0half"])
def test_a_worker_whose_run_has_ended_says_nothing(message):
    call = [sys.executable, "-m", "windlass.training.worker"]
    ended = subprocess.run(call, input=message, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_worker_that_nobody_listens_to_says_nothing(setup, tmp_path):
    bundle, _, _ = setup
    save_definition(tmp_path, small(), bundle.sides)
    memory = tmp_path / "memory"
    memory.touch()
    config = {"folder": str(tmp_path), "memory": str(memory), "dtype": "float32", "seed": 1, "rank": 1, "processes": 2}
    content = json.dumps(config).encode()
    call = [sys.executable, "-m", "windlass.training.worker"]
    worker = subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert worker.stdout is not None
    worker.stdout.close()
    worker.stdout = None
    _, said = worker.communicate(len(content).to_bytes(8, "little") + content)
    assert (worker.returncode, said) == (0, b"")


def test_a_trial_of_several_processes_is_told_before_it_begins(setup, monkeypatch, tmp_path):
    bundle, loader, _ = setup
    told: list[str] = []
    monkeypatch.setattr("windlass.training.estimate.available_cores", lambda: 2)
    monkeypatch.setattr("windlass.training.estimate._speedup", lambda *given: told.append("the trial") or 2.0)
    recipe = small(train__processes="auto", train__threads=None)
    assert choose_processes(replace(bundle, recipe=recipe), loader, tmp_path, "cpu", 1000.0, told.append) == 2
    assert told[0].startswith("trying 2 processes")
    assert told[1] == "the trial"


def test_a_batch_that_stalls_does_not_decide_the_trial(setup, monkeypatch, tmp_path):
    bundle, loader, _ = setup
    clock, seconds = [0.0], iter([1.0, 1.0, 48.0, 1.0] + [1.0, 1.0] * 20)  # the warm-up, a stall, and the rest

    def compute(*batch: object) -> None:
        clock[0] += next(seconds)

    monkeypatch.setattr("windlass.training.estimate.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr("windlass.training.estimate.SingleProcess", lambda model: compute)
    monkeypatch.setattr("windlass.training.estimate.gradient_workers", lambda *given: nullcontext(compute))
    threads = torch.get_num_threads()
    try:
        assert _speedup(bundle.model, loader, tmp_path, 2, seed=1) == 1.0
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize(("limit", "cores"), [("1", 1), ("8", 4), ("", 4), ("0", 4), ("2,1", 4)])
def test_the_users_limit_of_threads_limits_processes_too(monkeypatch, limit, cores):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", limit)
    assert available_cores() == cores
