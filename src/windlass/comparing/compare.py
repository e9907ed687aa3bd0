"""Training all candidates, one after the other or side by side; what is done is not done again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from windlass.comparing.candidates import Candidate, candidates, of
from windlass.comparing.progress import Course, Key
from windlass.comparing.table import Comparison
from windlass.comparing.trial import Failed, Trial, attempt, known, mark
from windlass.core.errors import WindlassError
from windlass.core.tensors import atomic_write
from windlass.data.examples import Source
from windlass.experiment.data import Data, as_data, fingerprint, read_data
from windlass.recipe import Recipe, override
from windlass.training.processes import available_cores

Pairs = Sequence[tuple[Source, str]]


def compare(
    recipes: Mapping[str, Recipe] | Sequence[str | Path] = (),
    train: str | Path | Pairs | Sequence[str] | None = None,
    dev: str | Path | Pairs | Sequence[str] | None = None,
    test: str | Path | Sequence[str | Path] | Mapping[str, str | Path] | None = None,
    task: str | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
    settings: Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] = 3,
    out: str | Path | None = None,
    jobs: int = 1,
    quiet: bool = False,
    device: str = "cpu",
) -> Comparison:
    """Train every recipe with every seed on the same data, and put size, time and score side by side.

    `recipes` are files, or recipes by name; else `task` and what to `vary` ("a+b": keys that change together). `train`
    and `dev` are files or pairs, and go over the recipes' own. The best weights of a run are chosen on dev; `test` is
    only scored where it is given. With `out`, what is done is kept there and not done again. With `jobs`, runs go side
    by side in processes of their own, and so need files.

    >>> pairs = [("ab", "ba"), ("ba", "ab"), ("aa", "aa"), ("bb", "bb")] * 3
    >>> small = {"train.epochs": 1, "model.encoder.size": 8, "model.decoder.size": 8}
    >>> found = compare(
    ...     train=pairs, dev=pairs, task="text", vary={"model.encoder.cell": ["gru", "rnn"]}, settings=small, seeds=2,
    ...     quiet=True)
    >>> [(row.name, row.seeds) for row in found.rows]
    [('gru', (1, 2)), ('rnn', (1, 2))]
    """
    numbers = list(range(1, seeds + 1)) if isinstance(seeds, int) else list(seeds)
    if not numbers or len(set(numbers)) < len(numbers):
        raise WindlassError(f"seeds: {seeds}: give at least one, and none twice")
    in_files = train is None or isinstance(train, str | Path)
    if not in_files and (jobs > 1 or isinstance(recipes, Mapping)):
        raise WindlassError("pairs in memory go with recipe files or a task, and with jobs=1: write them to a file")
    named = _candidates(recipes, train if in_files else None, dev, test, task, vary or {}, settings or {})
    given = None
    if train is not None and not isinstance(train, str | Path):
        if isinstance(dev, str | Path):
            raise TypeError("give dev as pairs where train is given as pairs")
        given = as_data(train, dev, named[0].recipe)
    if out is not None:
        return _all(named, numbers, Path(out), given, jobs, quiet, device)
    with tempfile.TemporaryDirectory() as folder:
        return _all(named, numbers, Path(folder), given, jobs, quiet, device)


def _candidates(
    recipes: Mapping[str, Recipe] | Sequence[str | Path],
    train: str | Path | Pairs | Sequence[str] | None,
    dev: str | Path | Pairs | Sequence[str] | None,
    test: str | Path | Sequence[str | Path] | Mapping[str, str | Path] | None,
    task: str | None,
    vary: Mapping[str, Sequence[Any]],
    settings: Mapping[str, Any],
) -> list[Candidate]:
    if isinstance(recipes, Mapping):
        if vary or settings or task or train or dev:
            raise WindlassError("recipes by name are taken as they are: leave train, dev, task, vary and settings out")
        if not recipes:
            raise WindlassError("there is nothing to compare: name a recipe")
        tests = test if isinstance(test, Mapping) else {}
        if isinstance(test, str | Path):
            tests = dict.fromkeys(recipes, test)
        elif test is not None and not isinstance(test, Mapping):
            tests = dict(zip(recipes, test, strict=True))
        return of(recipes, tests)
    if isinstance(test, Mapping):
        raise WindlassError("test files by name go with recipes by name: give one file for all, or one for each recipe")
    files: dict[str, Any] = {"train": [str(train)]} if isinstance(train, str | Path) else {}
    if isinstance(dev, str | Path):
        files["dev"] = str(dev)
    over = [{"data": files}] if files else []
    over += [override(name, value) for name, value in settings.items()]
    tests_ = [test] if isinstance(test, str | Path) else list(test or ())
    return candidates(recipes, task, over, [(tuple(k.split("+")), tuple(v)) for k, v in vary.items()], tests_)


def run_all(
    named: Sequence[Candidate], seeds: Sequence[int], out: Path, jobs: int = 1, quiet: bool = False, device: str = "cpu"
) -> Comparison:
    """Train candidates whose data is in files, each with every seed; everything goes to one folder.

    >>> run_all([], [1], Path("runs")).rows
    []
    """
    return _all(named, seeds, out, None, jobs, quiet, device)


def _all(
    named: Sequence[Candidate],
    seeds: Sequence[int],
    out: Path,
    given: Data | None,
    jobs: int,
    quiet: bool,
    device: str,
) -> Comparison:
    runs = [(candidate, seed) for seed in seeds for candidate in named]  # a first answer comes early
    keys = [_key(*run) for run in runs]
    course = Course(keys, jobs, quiet)
    found: dict[Key, Trial | Failed] = {}
    data: dict[str, Data | WindlassError] = {}
    waiting = []
    for candidate, seed in runs:  # before anything long begins
        examples = given or _read(candidate.recipe, data)
        folder = out / "runs" / candidate.folder / str(seed)
        key = _key(candidate, seed)
        if isinstance(examples, WindlassError):
            found[key] = Failed(*key, str(examples))
            course.ended(key, found[key])
            continue
        recipe = candidate.recipe.model_copy(update={"seed": seed})
        before = known(folder, mark(recipe, fingerprint(examples)))
        if before is not None and candidate.test is None:
            found[key] = Trial(**before["trial"] | {"test": None})
            course.ended(key, found[key], anew=False)
        else:
            waiting.append((candidate, seed, folder, examples))
    course.begin()
    try:
        if jobs > 1:
            _side_by_side(waiting, found, course, jobs, device)
        else:
            for candidate, seed, folder, examples in waiting:
                key = _key(candidate, seed)
                found[key] = _one(candidate, seed, folder, examples, device, course)
                course.ended(key, found[key])
    finally:
        course.end()
    trials = [found[_key(c, seed)] for c in named for seed in seeds]
    return Comparison(
        tuple(one for one in trials if isinstance(one, Trial)), tuple(one for one in trials if isinstance(one, Failed))
    )


Waiting = tuple[Candidate, int, Path, Data]


def _key(candidate: Candidate, seed: int) -> Key:
    return candidate.group, candidate.name, seed


def _read(recipe: Recipe, known: dict[str, Data | WindlassError]) -> Data | WindlassError:
    """Read each data set once; what is wrong with one is the failure of its own candidates."""
    name = recipe.model_dump_json(include={"task", "data"}) + str(recipe.train.chunk is None)
    if name not in known:
        try:
            known[name] = read_data(recipe)
        except WindlassError as error:
            known[name] = error
    return known[name]


def _one(candidate: Candidate, seed: int, folder: Path, data: Data, device: str, course: Course) -> Trial | Failed:
    """A run in this process. Whatever goes wrong with it must not lose the others."""
    key = _key(candidate, seed)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        trial = attempt(candidate, seed, data, folder, device, lambda share, left: course.moved(key, share, left))
    except WindlassError as error:
        return Failed(*key, str(error))
    except Exception as error:
        log = folder.with_suffix(".error.txt")
        atomic_write(log, traceback.format_exc().encode())
        return Failed(*key, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}; see {log}")
    if trial is None:
        raise KeyboardInterrupt
    return trial


def _side_by_side(
    waiting: Sequence[Waiting], found: dict[Key, Trial | Failed], course: Course, jobs: int, device: str
) -> None:
    """Each run in a process of its own, `jobs` at a time; Ctrl-C reaches them too, and they save."""
    lock, stopping = threading.Lock(), threading.Event()
    threads = max(1, available_cores() // jobs)

    def one(run: Waiting) -> None:
        candidate, seed, folder, _ = run
        if stopping.is_set():
            return
        key = _key(candidate, seed)
        outcome = _elsewhere(candidate, seed, folder, threads, device, course, lock)
        if outcome is None:
            stopping.set()
            return
        with lock:
            found[key] = outcome
            course.ended(key, outcome)

    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(one, run) for run in waiting]
        try:
            for future in futures:
                future.result()
        except KeyboardInterrupt:
            stopping.set()
    if stopping.is_set():
        raise KeyboardInterrupt


def _elsewhere(
    candidate: Candidate, seed: int, folder: Path, threads: int, device: str, course: Course, lock: threading.Lock
) -> Trial | Failed | None:
    """A run in another process; None where it was stopped."""
    key = _key(candidate, seed)
    folder.parent.mkdir(parents=True, exist_ok=True)
    told = {
        "group": candidate.group,
        "name": candidate.name,
        "test": candidate.test,
        "recipe": candidate.recipe.model_dump(mode="json"),
        "seed": seed,
        "folder": str(folder),
        "threads": threads,
        "device": device,
    }
    log = folder.with_suffix(".log")
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "windlass.comparing.trial"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(told) + "\n")
        process.stdin.close()
        said: dict[str, Any] = {}
        for line in process.stdout:
            said = json.loads(line)
            if "share" in said:
                with lock:
                    course.moved(key, said["share"], said["left"])
        process.wait()
    if "trial" in said:
        log.unlink()
        return Trial(**said["trial"])
    if "stopped" in said or process.returncode in (-2, 130):
        return None
    return Failed(*key, said.get("error") or f"its process has died (exit code {process.returncode}): see {log}")
