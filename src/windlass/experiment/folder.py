"""The folder of a run: opened for a new run, checked for a resumed one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from windlass.baseline import AnyBaseline, save_baseline
from windlass.baseline.language import LanguageBaselines
from windlass.bundle import DIVERGED, Bundle, has_diverged, save_definition
from windlass.core.errors import TrainingError
from windlass.core.serialise import read_json
from windlass.core.tensors import atomic_write
from windlass.data.examples import Example
from windlass.experiment.data import PAIRS, Data, fingerprint, pairs_digest
from windlass.training.environment import environment


def check_folder(out: Path, resume: bool) -> None:
    """Refuse a folder that is not empty or, to resume, one without a run.

    >>> check_folder(Path(__file__), resume=False)
    Traceback (most recent call last):
    windlass.core.errors.TrainingError: ...: exists and is not empty: choose another --out; nothing was changed
    """
    begun = (out / "training" / "data.json").exists()
    if resume and not begun:
        raise TrainingError(f"{out}: no run to resume: drop --resume to start one")
    if not resume:
        if has_diverged(out):
            again = "delete it with --overwrite, and train with a lower learning rate (--lr)"
            raise TrainingError(f"{out}: training diverged there: {again}; nothing was changed")
        ways = [f"resume it with --resume --out {out}"] if begun else []
        ways += ["delete it first with --overwrite"] if (out / "recipe.yaml").is_file() else []
        check_new(out, ways)


def check_new(out: Path, ways: Sequence[str] = ()) -> None:
    """Refuse a folder that is not empty; `ways` are what can be done besides choosing another.

    >>> check_new(Path(__file__), ["look into it"])
    Traceback (most recent call last):
    windlass.core.errors.TrainingError: ...: exists and is not empty: look into it, or choose another --out; ...
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        how = ", or ".join(filter(None, [", ".join(ways), "choose another --out"]))
        raise TrainingError(f"{out}: exists and is not empty: {how}; nothing was changed")


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Hold the folder of a run, so that no second run writes into it. The hold ends with the process at the latest.

    >>> from tempfile import mkdtemp
    >>> out = Path(mkdtemp())
    >>> with alone(out), alone(out):
    ...     pass
    Traceback (most recent call last):
    windlass.core.errors.TrainingError: ...: another run is writing there: wait for its end, or choose another --out
    """
    if sys.platform == "win32":  # a folder cannot be locked there
        yield
        return
    import fcntl

    folder = os.open(out, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            told = "another run is writing there: wait for its end, or choose another --out"
            raise TrainingError(f"{out}: {told}") from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(folder)


def open_folder(
    out: Path, bundle: Bundle, data: Data, baseline: AnyBaseline | LanguageBaselines, resume: bool, device: str
) -> None:
    """Write the definition of a new run, or check that a resumed run still has the same data.

    >>> from tempfile import mkdtemp
    >>> from windlass.baseline import Baseline
    >>> from windlass.data.sides import Sides
    >>> from windlass.experiment.data import as_data
    >>> from windlass.recipe import Recipe
    >>> out, data = Path(mkdtemp()) / "model", as_data([("a", "b")], [("a", "b")], Recipe())
    >>> open_folder(out, Bundle.new(Recipe(), Sides.tiny()), data, Baseline("copy"), resume=False, device="cpu")
    >>> recorded(out / "training" / "data.json", "train", int, "")
    1
    """
    sha256 = fingerprint(data, bundle.recipe)
    about = out / "training" / "data.json"
    if resume:
        if recorded(about, "sha256", str, "restore it, or train with another --out") != sha256:
            raise TrainingError(f"{out}: the data changed since the run began: restore it or start a new run")
        save_definition(out, bundle.recipe, bundle.sides)
        (out / DIVERGED).unlink(missing_ok=True)
        if isinstance(baseline, LanguageBaselines):  # its n-grams may be of another order now
            baseline.save(out)
        return
    try:
        (out / "training").mkdir(parents=True)
    except FileExistsError:
        raise TrainingError(f"{out}: another run has just begun there: choose another --out") from None
    save_definition(out, bundle.recipe, bundle.sides)
    if isinstance(baseline, LanguageBaselines):
        baseline.save(out)
    else:
        save_baseline(out, baseline)
    content: dict[str, Any] = {
        "sha256": sha256,
        "train": len(data.train),
        "dev": len(data.dev),
        "findings": data.report.counts,
    }
    if bundle.task.language_model:
        content |= {
            f"{name}_characters": _characters(part) for name, part in (("train", data.train), ("dev", data.dev))
        }
    else:
        parts = (data.train, chain(data.train, data.dev))
        content[PAIRS] = [pairs_digest(part, bundle.recipe) for part in parts]
    atomic_write(about, json.dumps(content, indent=1).encode())
    atomic_write(out / "training" / "environment.json", json.dumps(environment(device), indent=1).encode())


def recorded(path: Path, key: str, kind: type, remedy: str) -> Any:
    """Return what a run noted in one of its files.

    >>> recorded(Path("nowhere.json"), "processes", int, "delete it")
    Traceback (most recent call last):
    windlass.core.errors.TrainingError: nowhere.json: missing or damaged: delete it
    """
    try:
        value = read_json(path.read_bytes())[key]
    except (OSError, ValueError, KeyError, TypeError):
        value = None
    if type(value) is not kind:
        raise TrainingError(f"{path}: missing or damaged: {remedy}")
    return value


def _characters(texts: Sequence[Example]) -> int:
    return sum(len(e.target) for e in texts)
