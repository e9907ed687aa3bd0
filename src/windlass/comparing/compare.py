"""Train all candidates, one by one or in parallel; finished runs are not repeated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from windlass.comparing.arguments import from_python
from windlass.comparing.by_length import LengthScores, score_by_length
from windlass.comparing.candidates import Candidate, data_key, once
from windlass.comparing.progress import ComparisonProgress
from windlass.comparing.table import Comparison
from windlass.comparing.trial import FailedTrial, Job, RunKey, Trial, read_test, run_trial
from windlass.core.errors import DataError, WindlassError
from windlass.core.tensors import atomic_write
from windlass.data.column_groups import as_choice
from windlass.data.frames import Frame
from windlass.experiment.adapt import adapt
from windlass.experiment.arguments import Column, Rows
from windlass.experiment.data import Data, in_python, read_data
from windlass.experiment.notes import PythonNotes
from windlass.recipe import Recipe
from windlass.tasks import TASKS
from windlass.training.data_parallel import available_cores
from windlass.training.progress import RichProgress


def compare(
    recipes: Mapping[str, Recipe] | str | Path | Sequence[str | Path] | Rows = (),
    train: str | Path | Rows | None = None,
    dev: str | Path | Rows | None = None,
    test: str | Path | Sequence[str | Path] | Mapping[str, str | Path] | Rows | None = None,
    task: str | None = None,
    vary: Mapping[str, str | Iterable[Any]] | None = None,
    settings: Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] = 3,
    out: str | Path | None = None,
    jobs: int = 1,
    quiet: bool = False,
    device: str = "auto",
    by: Literal["length"] | None = None,
    source: Column = None,
    target: Column = None,
    second: Column = None,
) -> Comparison:
    """Train every recipe with every seed on the same data, and compare size, time and score.

    `recipes` are files, or recipes by name. Without them, what `fit` would train on the data, a `task` if it is named,
    with every combination of `vary` ("a+b": keys that change together). Training data may be the first argument too.
    `train` and `dev` are files or data in memory, and override those of the recipes. The best weights of a run are
    chosen on dev; `test` is optional and only scored: data in memory, a file, or one for each recipe. `source`,
    `target` and `second` choose columns. With `out`, runs are saved there and not repeated. With `jobs` above 1, runs
    are parallel processes, which needs data in files. `by="length"` also scores by the length of the source.

    >>> pairs = [("ab", "ba"), ("ba", "ab"), ("aa", "aa"), ("bb", "bb")] * 3
    >>> small = {"train.epochs": 1, "model.encoder.size": 8, "model.decoder.size": 8}
    >>> comparison = compare(
    ...     train=pairs, dev=pairs, task="text", vary={"model.encoder.cell": ["gru", "rnn"]}, settings=small, seeds=2,
    ...     quiet=True)
    >>> [(row.name, row.seeds) for row in comparison.rows]
    [('gru', (1, 2)), ('rnn', (1, 2))]
    """
    if by not in (None, "length"):
        raise WindlassError(f'by={by!r}: unknown; the only choice is by="length"')
    numbers = list(range(1, seeds + 1)) if isinstance(seeds, int) else list(seeds)
    if not numbers or len(set(numbers)) < len(numbers):
        raise WindlassError(f"seeds: {seeds}: give at least one, without duplicates")
    note: Callable[[str], None] = (lambda text: None) if quiet else PythonNotes(RichProgress()).note
    columns = {"source": as_choice(source), "target": as_choice(target), "second": as_choice(second)}
    chosen = {part: column for part, column in columns.items() if column is not None}
    try:
        named, in_memory = from_python(
            recipes, train, dev, test, task, {} if vary is None else vary, settings or {}, chosen, note
        )
        if jobs > 1 and (in_memory or any(isinstance(c.test, Frame) for c in named)):
            raise WindlassError("data in memory need jobs=1: write them to a file")
        with nullcontext(out) if out is not None else tempfile.TemporaryDirectory() as folder:
            found = run_all(named, numbers, Path(folder), jobs, quiet, device, in_memory, by, note)
    except WindlassError as error:
        raise type(error)(in_python(str(error))) from None
    for sentence in found.below_baseline():
        note(sentence)
    return found


def run_all(
    named: Sequence[Candidate],
    seeds: Sequence[int],
    out: Path,
    jobs: int = 1,
    quiet: bool = False,
    device: str = "auto",
    in_memory: Mapping[str, Data] | None = None,
    by: Literal["length"] | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """Train every candidate with every seed, from data in files or in memory, by key; save everything to one folder.

    >>> run_all([], [1], Path("runs")).rows
    []
    """
    if by == "length" and named and all(TASKS[c.recipe.task].language_model for c in named):
        raise DataError("no scores by length: a language model has no source")
    cache: dict[str, Data | WindlassError] = {data_key(c.recipe): DataError(c.error) for c in named if c.error}
    cache |= in_memory or {}
    named = _adapted(named, lambda recipe: _read(recipe, cache), note)
    runs = [  # the first seed of all candidates first, so that first results come early
        Job(candidate, seed, out / "runs" / candidate.folder / str(seed), device)
        for seed in seeds
        for candidate in named
    ]
    progress = ComparisonProgress([job.key for job in runs], jobs, quiet)
    trials: dict[RunKey, Trial | FailedTrial] = {}
    pending = []
    for job in runs:  # find errors before training
        data = _read(job.recipe, cache)
        if isinstance(data, WindlassError):
            trials[job.key] = FailedTrial(*job.key, str(data))
            progress.ended(job.key, trials[job.key])
            continue
        record = job.record(data)
        if record is not None and job.candidate.test is None:
            trials[job.key] = Trial(**record["trial"] | {"test": None})
            progress.ended(job.key, trials[job.key], cached=True)
        else:
            job.folder.parent.mkdir(parents=True, exist_ok=True)
            pending.append((job, data))
    progress.start()
    try:
        if jobs > 1:
            _run_parallel([job for job, _ in pending], trials, progress, jobs)
        else:
            for job, data in pending:
                trials[job.key] = _run_here(job, data, progress)
                progress.ended(job.key, trials[job.key])
    finally:
        progress.close()
    ordered = [trials[candidate.group, candidate.name, seed] for candidate in named for seed in seeds]
    finished = [trial for trial in ordered if isinstance(trial, Trial)]
    lengths = _by_length(finished, runs, cache, device, note) if by == "length" else []
    failed = tuple(trial for trial in ordered if isinstance(trial, FailedTrial))
    return Comparison(tuple(finished), failed, tuple(lengths))


def _adapted(
    named: Sequence[Candidate], read: Callable[[Recipe], Data | WindlassError], note: Callable[[str], None]
) -> list[Candidate]:
    """The candidates as a single run would train them: those of a task's default adapted to their data."""
    adapted, note = [], once(note)
    for candidate in named:
        recipe = candidate.recipe
        if candidate.adaptable and not isinstance(data := read(recipe), WindlassError):
            recipe = adapt(recipe, data.train, candidate.settings, note)
        adapted.append(replace(candidate, recipe=recipe, adaptable=False, settings=(), error=None))
    return adapted


def _by_length(
    trials: Sequence[Trial],
    runs: Sequence[Job],
    cache: dict[str, Data | WindlassError],
    device: str,
    note: Callable[[str], None],
) -> list[LengthScores]:
    """Score the runs of each group by the length of the source, on its test data or, without, on dev.

    Why a group cannot be scored so is noted: its runs have their other scores all the same.
    """
    jobs = {job.key: job for job in runs}
    found = []
    for group in dict.fromkeys(trial.group for trial in trials):
        folders: dict[str, list[Path]] = {}
        for trial in trials:
            if trial.group == group:
                folders.setdefault(trial.name, []).append(jobs[group, trial.name, trial.seed].folder)
        first = next(trial for trial in trials if trial.group == group)
        job = jobs[group, first.name, first.seed]
        data = _read(job.recipe, cache)
        assert not isinstance(data, WindlassError)
        test = job.candidate.test
        examples = data.dev if test is None else read_test(job.recipe, test)
        part = "dev" if test is None else "test"
        try:
            found.append(score_by_length(group, first.metric, part, examples, folders, device))
        except DataError as error:
            note(f"{group}: {error}" if group else str(error))
    return found


def _read(recipe: Recipe, cache: dict[str, Data | WindlassError]) -> Data | WindlassError:
    """Read each data set once; an error in one fails only its own candidates."""
    key = data_key(recipe)
    if key not in cache:
        try:
            cache[key] = read_data(recipe)
        except WindlassError as error:
            cache[key] = error
    return cache[key]


def _run_here(job: Job, data: Data, progress: ComparisonProgress) -> Trial | FailedTrial:
    """Run in this process. An error must not lose the other runs."""
    try:
        trial = run_trial(job, data, lambda fraction, left: progress.update(job.key, fraction, left))
    except WindlassError as error:
        return FailedTrial(*job.key, str(error))
    except Exception as error:
        log = job.folder.with_suffix(".error.txt")
        atomic_write(log, traceback.format_exc().encode())
        return FailedTrial(*job.key, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}; see {log}")
    if trial is None:
        raise KeyboardInterrupt
    return trial


def _run_parallel(
    pending: Sequence[Job], trials: dict[RunKey, Trial | FailedTrial], progress: ComparisonProgress, jobs: int
) -> None:
    """Run in subprocesses, `jobs` at a time; Ctrl-C ends them, and they save."""
    lock, stopping, running = threading.Lock(), threading.Event(), list[subprocess.Popen[str]]()
    threads = max(1, available_cores() // jobs)

    def update(job: Job, fraction: float, left: float) -> None:
        with lock:
            progress.update(job.key, fraction, left)

    def run_one(job: Job) -> None:
        with lock:
            if stopping.is_set():
                return
            process = _start(job, threads)
            running.append(process)
        trial = _result(job, process, update)
        with lock:
            running.remove(process)
            if trial is None or (stopping.is_set() and isinstance(trial, FailedTrial)):
                stopping.set()
                return
            trials[job.key] = trial
            progress.ended(job.key, trial)

    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(run_one, job) for job in pending]
        try:
            for future in futures:
                future.result()
        except KeyboardInterrupt:
            stopping.set()
            with lock:
                for process in running:
                    process.terminate()
    if stopping.is_set():
        raise KeyboardInterrupt


def _start(job: Job, threads: int) -> subprocess.Popen[str]:
    """Start a run in a subprocess, which ends when its stdin is closed."""
    recipe = job.candidate.recipe.model_dump(mode="json")
    config = {"candidate": vars(job.candidate) | {"recipe": recipe}, "seed": job.seed, "folder": str(job.folder)}
    path = os.pathsep.join(p for p in sys.path if p)
    with job.folder.with_suffix(".log").open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "windlass.comparing.trial"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for this process, which ends the others
        )
    assert process.stdin is not None
    process.stdin.write(json.dumps(config | {"threads": threads, "device": job.device}) + "\n")
    process.stdin.flush()
    return process


def _result(
    job: Job, process: subprocess.Popen[str], update: Callable[[Job, float, float], None]
) -> Trial | FailedTrial | None:
    """Follow a run in a subprocess to its end; None if it was stopped."""
    message: dict[str, Any] = {}
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            message = json.loads(line)
            if "fraction" in message:
                update(job, message["fraction"], message["left"])
    log = job.folder.with_suffix(".log")
    if "trial" in message:
        log.unlink()
        return Trial(**message["trial"])
    if "stopped" in message:
        return None
    died = f"its process has died (exit code {process.returncode}): see {log}"
    return FailedTrial(*job.key, message.get("error") or died)
