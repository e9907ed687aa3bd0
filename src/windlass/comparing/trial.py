"""One run of a comparison: a candidate with a seed; for runs side by side, `python -m windlass.comparing.trial`."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from windlass.bundle import Bundle
from windlass.comparing.candidates import Candidate
from windlass.core.errors import WindlassError
from windlass.core.tensors import write_bytes
from windlass.data.running import joined_ids
from windlass.experiment.data import Data, fingerprint, read_data, read_examples
from windlass.experiment.run import run
from windlass.inference.evaluate import evaluate
from windlass.inference.predict import predict
from windlass.recipe import Recipe
from windlass.training.observe import Plan, Silent, Step
from windlass.training.progress import seconds_left, share_done

TIMED = 200
"""Inputs of dev on which the rate of predictions is taken."""

Told = Callable[[float, float], None]
"""Hears how much of a run is done, 0 to 1, and how many seconds are left of it."""


@dataclass(frozen=True)
class Trial:
    """What a run came to.

    >>> one = Trial("", "gru", 1, "text", "cer", 900, 0.1, 2.0, 50, 5.0, 90.0, {"cer": 9.5}, None, "copy", {})
    >>> Trial(**asdict(one)) == one
    True
    """

    group: str
    name: str
    seed: int
    task: str
    metric: str  # what is chosen by
    parameters: int
    megabytes: float  # of the bundle
    seconds: float  # of training, evaluations among them
    steps: int
    epochs: float
    rate: float | None  # predictions a second, in batches; of a language model, tokens scored a second
    dev: dict[str, float]
    test: dict[str, float] | None
    baseline: str
    baseline_dev: dict[str, float]


@dataclass(frozen=True)
class Failed:
    """A run that came to nothing, and why.

    >>> Failed("", "gru", 1, "no training data").error
    'no training data'
    """

    group: str
    name: str
    seed: int
    error: str


class _Watch(Silent):
    """Passes on how far a run is; one whose parent has gone stops as by Ctrl-C."""

    def __init__(self, told: Told):
        self.told, self.parent, self.plan = told, os.getppid(), Plan(1, 0, 1, None, 0.0, "")

    def started(self, plan: Plan) -> None:
        self.plan = plan

    def step(self, step: Step) -> None:
        self.told(share_done(self.plan, step), seconds_left(self.plan, step))
        if os.getppid() != self.parent:
            raise KeyboardInterrupt


def mark(recipe: Recipe, data: str) -> str:
    """What a run that is there must have in common with the one that is asked for.

    >>> mark(Recipe(), "a") == mark(Recipe(), "a"), mark(Recipe(), "a") == mark(Recipe(), "b")
    (True, False)
    """
    content = recipe.model_copy(update={"data": recipe.data.model_copy(update={"train": (), "dev": None})})
    return hashlib.sha256(f"{content.to_yaml()}{data}".encode()).hexdigest()


def known(folder: Path, wanted: str) -> dict[str, Any] | None:
    """The record of a run that has been done, beside its folder; None where there is none.

    >>> known(Path("/nowhere/1"), "") is None
    True
    """
    try:
        content = json.loads(folder.with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if content.get("mark") != wanted:
        raise WindlassError(
            f"{folder}: holds a run of the same name with another recipe or other data: choose another --out"
        )
    return dict(content)


def attempt(
    candidate: Candidate, seed: int, data: Data, folder: Path, device: str, told: Told, alone: bool = True
) -> Trial | None:
    """Do a run, or what is left of it; None where Ctrl-C stopped it. What it comes to is kept beside its folder.

    A run that is not `alone` on the machine has one process, unless its recipe says otherwise.

    >>> callable(attempt)
    True
    """
    recipe = candidate.recipe.model_copy(update={"seed": seed})
    wanted = mark(recipe, fingerprint(data, recipe))
    record = known(folder, wanted)
    if record is None:
        trained = _train(candidate, recipe, data, folder, device, told, alone)
        if trained is None:
            return None
        record = {"mark": wanted, "test_file": None, "trial": asdict(trained)}
        _keep(folder, record)
    trial = Trial(**record["trial"])
    if candidate.test is None or record["test_file"] == (tested := _content_of(candidate.test)):
        return replace(trial, test=trial.test if candidate.test else None)
    examples = read_examples(recipe, candidate.test).examples
    trial = replace(trial, test=evaluate([Bundle.load(folder, device)], examples).metrics)
    _keep(folder, {"mark": wanted, "test_file": tested, "trial": asdict(trial)})
    return trial


def _keep(folder: Path, record: dict[str, Any]) -> None:
    write_bytes(folder.with_suffix(".json"), json.dumps(record, indent=1, ensure_ascii=False).encode())


def _content_of(path: str) -> str:
    try:
        return hashlib.sha256(b"".join(Path(part).read_bytes() for part in path.split(","))).hexdigest()
    except OSError as error:
        raise WindlassError(f"{path}: cannot read the test file: {error.strerror}") from None


def _train(
    candidate: Candidate, recipe: Recipe, data: Data, folder: Path, device: str, told: Told, alone: bool
) -> Trial | None:
    if not alone and recipe.train.processes == "auto":
        recipe = recipe.model_copy(update={"train": recipe.train.model_copy(update={"processes": 1})})
    threads = torch.get_num_threads()
    try:
        outcome = run(recipe, data, folder, _Watch(told), (folder / "training").is_dir(), device=device)
    finally:
        torch.set_num_threads(threads)
    if outcome.dev is None or outcome.fitted.reason == "interrupted":
        return None
    bundle = outcome.bundle
    return Trial(
        candidate.group,
        candidate.name,
        recipe.seed,
        recipe.task,
        recipe.choose_by or bundle.task.metric,
        sum(p.numel() for p in bundle.model.parameters()),
        sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) / (1 << 20),
        outcome.fitted.seconds,
        outcome.fitted.steps,
        outcome.fitted.epochs,
        _rate(bundle, data),
        outcome.dev.metrics,
        None,
        outcome.baseline.name,
        outcome.baseline_metrics,
    )


def _rate(bundle: Bundle, data: Data) -> float | None:
    """Predictions a second, after one that warms up."""
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


def main() -> None:
    """Do the run that a line of JSON on stdin tells of; write how it goes, and what it came to, as lines of JSON.

    >>> callable(main)
    True
    """
    told = json.loads(sys.stdin.readline())
    torch.set_num_threads(told["threads"])
    said = 0.0

    def say(content: dict[str, Any]) -> None:
        print(json.dumps(content), flush=True)

    def heard(share: float, left: float) -> None:
        nonlocal said
        if time.monotonic() - said >= 1:
            said = time.monotonic()
            say({"share": share, "left": left})

    recipe = Recipe.model_validate(told["recipe"])
    candidate = Candidate(told["name"], recipe, told["group"], told["test"])
    try:
        trial = attempt(
            candidate, told["seed"], read_data(recipe), Path(told["folder"]), told["device"], heard, alone=False
        )
    except WindlassError as error:
        say({"error": str(error)})
        return
    say({"stopped": True} if trial is None else {"trial": asdict(trial)})


if __name__ == "__main__":
    main()
