"""One run of a comparison: a candidate with a seed. Parallel runs are `python -m windlass.comparing.trial`."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from windlass.bundle import Bundle
from windlass.comparing.candidates import Candidate
from windlass.core.errors import WindlassError
from windlass.core.tensors import atomic_write
from windlass.data.examples import Example
from windlass.data.frames import Frame
from windlass.data.running import joined_ids
from windlass.experiment.data import Data, as_examples, fingerprint, read_data, read_examples
from windlass.experiment.run import run
from windlass.inference.evaluate import evaluate
from windlass.inference.predict import predict
from windlass.recipe import Recipe
from windlass.training.observe import RunPlan, Silent, Step

TIMED = 200
"""Dev inputs on which the prediction speed is measured."""

ReportProgress = Callable[[float, float], None]
"""Receives the fraction of a run that is done, and the seconds left."""
RunKey = tuple[str, str, int]
"""Group, name and seed."""


@dataclass(frozen=True)
class Job:
    """A run to do: a candidate with a seed, in a folder.

    >>> job = Job(Candidate("gru", Recipe()), 7, Path("runs/gru/7"))
    >>> job.key, job.recipe.seed
    (('', 'gru', 7), 7)
    """

    candidate: Candidate
    seed: int
    folder: Path
    device: str = "cpu"

    @property
    def key(self) -> RunKey:
        """Group, name and seed."""
        return self.candidate.group, self.candidate.name, self.seed

    @property
    def recipe(self) -> Recipe:
        """The recipe with the seed."""
        return self.candidate.recipe.model_copy(update={"seed": self.seed})

    def digest(self, data: Data) -> str:
        """Return a digest of recipe and data, which a finished run must match to be reused."""
        files = self.recipe.data.model_copy(update={"train": (), "dev": None})
        content = self.recipe.model_copy(update={"data": files}).to_yaml()
        return hashlib.sha256(f"{content}{fingerprint(data, self.recipe)}".encode()).hexdigest()

    def record(self, data: Data) -> dict[str, Any] | None:
        """Return the record of a finished run, a file beside its folder; None if there is none."""
        try:
            content = json.loads(self.folder.with_suffix(".json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if content.get("mark") != self.digest(data):
            raise WindlassError(
                f"{self.folder}: has a run of the same name with another recipe or other data: choose another --out"
            )
        return dict(content)


@dataclass(frozen=True)
class Trial:
    """The result of a run.

    >>> trial = Trial("", "gru", 1, "text", "cer", 900, 0.1, 2.0, 50, 5.0, 90.0, {"cer": 9.5}, None, "copy", {})
    >>> Trial(**asdict(trial)) == trial
    True
    """

    group: str
    name: str
    seed: int
    task: str
    metric: str  # by which the best weights are chosen
    parameters: int
    megabytes: float  # of the bundle
    seconds: float  # of training, including evaluation
    steps: int
    epochs: float
    rate: float | None  # predictions per second, batched; for a language model, tokens scored per second
    dev: dict[str, float]
    test: dict[str, float] | None
    baseline: str
    baseline_dev: dict[str, float]


@dataclass(frozen=True)
class FailedTrial:
    """A run that failed, and its error.

    >>> FailedTrial("", "gru", 1, "no training data").error
    'no training data'
    """

    group: str
    name: str
    seed: int
    error: str


class _ProgressObserver(Silent):
    """Reports progress."""

    def __init__(self, report: ReportProgress):
        self.report, self.plan = report, RunPlan(1, 0, 1, None, 0.0, "")

    def started(self, plan: RunPlan) -> None:
        self.plan = plan

    def step(self, step: Step) -> None:
        self.report(self.plan.fraction_done(step), self.plan.seconds_left(step))


def run_trial(job: Job, data: Data, report: ReportProgress, parallel: bool = False) -> Trial | None:
    """Do a run, or the rest of it, and save its record; None if Ctrl-C stopped it.

    A run in `parallel` with others uses one process, unless its recipe sets another number.

    >>> from tempfile import mkdtemp
    >>> from windlass.experiment.data import as_data
    >>> from windlass.recipe import compose
    >>> small = {"train": {"epochs": 2}, "model": {"encoder": {"size": 8}, "decoder": {"size": 8}}}
    >>> recipe = compose("text", None, [small])
    >>> data = as_data([("ab", "ba"), ("ba", "ab")], [("aa", "aa")], recipe)
    >>> job = Job(Candidate("small", recipe), 1, Path(mkdtemp()) / "1")
    >>> run_trial(job, data, lambda fraction, left: None).epochs
    2.0
    """
    candidate, digest, record = job.candidate, job.digest(data), job.record(data)
    if record is None:
        trained = _train(job, data, report, parallel)
        if trained is None:
            return None
        record = {"mark": digest, "test_file": None, "trial": asdict(trained)}
        _save_record(job.folder, record)
    trial = Trial(**record["trial"])
    if candidate.test is None or record["test_file"] == (test_digest := _digest(candidate.test)):
        return replace(trial, test=trial.test if candidate.test else None)
    examples = read_test(job.recipe, candidate.test)
    trial = replace(trial, test=evaluate([Bundle.load(job.folder, job.device)], examples).metrics)
    _save_record(job.folder, {"mark": digest, "test_file": test_digest, "trial": asdict(trial)})
    return trial


def _save_record(folder: Path, record: dict[str, Any]) -> None:
    atomic_write(folder.with_suffix(".json"), json.dumps(record, indent=1, ensure_ascii=False).encode())


def read_test(recipe: Recipe, test: str | Frame) -> Sequence[Example]:
    """The examples to test on, from a file or from memory.

    >>> len(read_test(Recipe(), Frame(None, [("ab", "ba")])))
    1
    """
    return (as_examples(test, "test", recipe) if isinstance(test, Frame) else read_examples(recipe, test)).examples


def _digest(test: str | Frame) -> str:
    if isinstance(test, Frame):
        return hashlib.sha256(repr(test).encode()).hexdigest()
    try:
        return hashlib.sha256(b"".join(Path(part).read_bytes() for part in test.split(","))).hexdigest()
    except OSError as error:
        raise WindlassError(f"{test}: cannot read the test file: {error.strerror}") from None


def _train(job: Job, data: Data, report: ReportProgress, parallel: bool) -> Trial | None:
    recipe, folder = job.recipe, job.folder
    if parallel and recipe.train.processes == "auto":
        recipe = recipe.model_copy(update={"train": recipe.train.model_copy(update={"processes": 1})})
    threads, begun = torch.get_num_threads(), (folder / "training").is_dir()
    try:
        outcome = run(recipe, data, folder, _ProgressObserver(report), begun, device=job.device)
    finally:
        torch.set_num_threads(threads)
    if outcome.dev is None or outcome.fit.reason == "interrupted":
        return None
    bundle = outcome.bundle
    return Trial(
        *job.key,
        recipe.task,
        recipe.choose_by or bundle.task.metric,
        sum(p.numel() for p in bundle.model.parameters()),
        sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) / (1 << 20),
        outcome.fit.seconds,
        outcome.fit.steps,
        outcome.fit.epochs,
        _throughput(bundle, data),
        outcome.dev.metrics,
        None,
        outcome.baseline.name,
        outcome.baseline_metrics,
    )


def _throughput(bundle: Bundle, data: Data) -> float | None:
    """Predictions per second, after a warm-up."""
    if bundle.task.language_model:
        texts = data.dev[:1]
        ids = joined_ids([bundle.sides.target.encode(e.target) for e in texts])
        began = time.perf_counter()
        evaluate([bundle], texts)
        return len(ids) / (time.perf_counter() - began)
    sources = [e.source for e in data.dev[:TIMED]]
    predict([bundle], sources[:1])
    began = time.perf_counter()
    predict([bundle], sources)
    return len(sources) / (time.perf_counter() - began)


def _end_with_comparison() -> None:
    """Stop this process, as Ctrl-C does, when the comparison has gone, which holds the other end of stdin."""
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)


def _main() -> None:
    """Do the run described by a line of JSON on stdin; write progress and result as lines of JSON."""
    config = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_comparison, daemon=True).start()
    torch.set_num_threads(config["threads"])
    last_report = 0.0

    def send(message: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):  # the comparison has gone: save before the end
            print(json.dumps(message), flush=True)

    def report(fraction: float, left: float) -> None:
        nonlocal last_report
        if time.monotonic() - last_report >= 1:
            last_report = time.monotonic()
            send({"fraction": fraction, "left": left})

    recipe = Recipe.model_validate(config["candidate"]["recipe"])
    candidate = Candidate(**config["candidate"] | {"recipe": recipe})
    job = Job(candidate, config["seed"], Path(config["folder"]), config["device"])
    try:
        trial = run_trial(job, read_data(recipe), report, parallel=True)
    except WindlassError as error:
        send({"error": str(error)})
        return
    send({"stopped": True} if trial is None else {"trial": asdict(trial)})


if __name__ == "__main__":
    _main()
