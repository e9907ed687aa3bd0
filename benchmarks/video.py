"""Clips: gestures named, phases of gestures tagged frame by frame, captions.

    python benchmarks/video.py --runs runs/video                          train, and score on dev
    python benchmarks/video.py --runs runs/video --tasks phases --test    score on test, once, and write the results

`gestures`: 663 clips to learn from, 100 to score, mp4 of 8 frames, five gestures; clips are decoded and seen by a
frozen CNN. There is no test set: `dev` is of the evaluation that dev chose, `last` of the end of training.
`phases` (Madeo et al. 2013): a phase for each frame of seven videos of three people, from the positions of hands,
wrists, head and spine, in windows of 100 frames. One video after another is the test set, the next one is dev.
`captions` (MSVD, Chen and Dolan 2011): 1,350 clips to learn from, 100 dev, 100 test, from stored features of ten
frames (VGG, 256 components). Published with another split and other features: BLEU-4 41.9 (Yao et al. 2015).
"""

from __future__ import annotations

import argparse
import csv
import json
import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import data, once, report, spread
from numpy.typing import NDArray

from windlass.baseline import load_baseline
from windlass.bundle import Bundle
from windlass.decoding.options import Beam
from windlass.experiment.baselines import baseline_metrics
from windlass.experiment.data import read_data, read_examples
from windlass.experiment.run import run
from windlass.explain.curves import read_rows
from windlass.inference.evaluate import evaluate
from windlass.recipe import compose, setting
from windlass.training.observe import Silent

TASKS = {"gestures": "classify-video", "phases": "tag-numbers", "captions": "caption-video"}
COLUMNS = {"gestures": ("video", "label"), "phases": ("positions", "phases"), "captions": ("clip", "captions")}
VIDEOS = ("a1", "a2", "a3", "b1", "b3", "c1", "c3")
WINDOW = 100


def unpacked(runs: Path, name: str, archive: str) -> Path:
    """The folder of an archive's contents, beside the runs."""
    folder = runs / name
    if not folder.exists():
        with tarfile.open(data(f"video/{name}") / archive) as tar:
            tar.extractall(folder, filter="data")
    return folder


def gestures(runs: Path) -> dict[str, list[Path]]:
    folder = unpacked(runs, "gesture5", "gesture5_mp4.tar")
    return {part: [folder / f"{part}.jsonl"] for part in ("train", "dev")}


def phases(runs: Path, held: str) -> dict[str, list[Path]]:
    """The lists of windows: one for each video."""
    folder = unpacked(runs, "gesture_phase", "gesture_phase.tar.gz")
    for video in VIDEOS:
        (path,) = folder.rglob(f"{video}_raw.csv")
        with path.open(encoding="latin-1", newline="") as file:
            rows = [*csv.reader(file)][1:]
        positions = motion(np.array([row[:18] for row in rows], dtype=np.float64)).round(3).tolist()
        names = ["Preparation" if row[-1].startswith("Prepara") else row[-1] for row in rows]
        lines = [
            {"positions": positions[at : at + WINDOW], "phases": " ".join(names[at : at + WINDOW])}
            for at in range(0, len(rows), WINDOW)
        ]
        write(runs / f"phases-{video}.jsonl", lines)
    dev = VIDEOS[(VIDEOS.index(held) + 1) % len(VIDEOS)]
    lists = {video: runs / f"phases-{video}.jsonl" for video in VIDEOS}
    return {"train": [lists[v] for v in VIDEOS if v not in (held, dev)], "dev": [lists[dev]], "test": [lists[held]]}


def motion(joints: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where hands and wrists are, seen from the spine, and how fast they move; mean 0 and deviation 1 in the video."""
    hands = (joints[:, [0, 1, 2, 3, 4, 5, 12, 13, 14, 15, 16, 17]].reshape(-1, 4, 3) - joints[:, None, 9:12]).copy()
    padded = np.pad(hands, ((2, 2), (0, 0), (0, 0)), mode="edge")
    velocity = padded[4:] - padded[:-4]
    speed = np.linalg.norm(velocity, axis=2)
    numbers = np.concatenate([hands.reshape(-1, 12), velocity.reshape(-1, 12), np.log(speed + 1e-3)], axis=1)
    return (numbers - numbers.mean(0)) / numbers.std(0)


def captions(runs: Path) -> dict[str, list[Path]]:
    """Features in files of their own, and the lists that name them."""
    folder, out = data("video/msvd"), runs / "msvd"
    out.mkdir(exist_ok=True)
    with np.load(folder / "msvd_vgg_pca256_10f_int8.npz") as held:
        features, ids = held["feat"] * held["scale"], [str(name).removesuffix(".avi") for name in held["ids"]]
    for name, frames in zip(ids, features, strict=True):
        if not (path := out / f"{name}.npy").exists():
            np.save(path, frames.astype(np.float32))
    rows: dict[str, list[dict[str, Any]]] = {"train": [], "dev": [], "test": []}
    for clip in json.loads((folder / "msvd_captions.json").read_text(encoding="utf-8")):
        name = clip["id"].removesuffix(".avi")
        rows[clip["split"]].append({"clip": f"msvd/{name}.npy", "captions": clip["captions"]})
    rows["dev"], rows["train"] = (
        rows["train"][::14][:100],
        [row for n, row in enumerate(rows["train"]) if n % 14 or n >= 1400],
    )
    return {part: [write(runs / f"captions-{part}.jsonl", lines)] for part, lines in rows.items()}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def parts(runs: Path, task: str, held: list[str]) -> Iterator[tuple[str, dict[str, list[Path]]]]:
    """What is trained for a task, by name: one for each video that is held out of `phases`."""
    if task == "phases":
        yield from ((video, phases(runs, video)) for video in held)
    else:
        yield "all", gestures(runs) if task == "gestures" else captions(runs)


def train(task: str, seed: int, out: Path, lists: dict[str, list[Path]], settings: list[str]) -> dict[str, Any]:
    source, target = COLUMNS[task]
    files = {"train": [*map(str, lists["train"])], "dev": str(lists["dev"][0]), "source": source, "target": target}
    over: list[dict[str, Any]] = [{"seed": seed, "data": files}, {"train": {"processes": 1}}]
    if task == "captions":
        over.append({"source": {"kind": "numbers"}})
    recipe = compose(TASKS[task], None, [*over, *map(setting, settings)])
    outcome = run(recipe, read_data(recipe), out, Silent())
    assert outcome.dev is not None
    assert outcome.fit.reason != "interrupted"  # a row would be kept as that of a whole run
    trained = {"epochs": outcome.fit.epochs, "training_minutes": round(outcome.fit.seconds / 60, 2)}
    end = read_rows(out)[-1]  # of the weights at the end, which dev did not choose
    last = {name: end[name] for name in outcome.dev.metrics}
    return {"seed": seed, "dev": outcome.dev.metrics, "last": last, "baseline": outcome.baseline_metrics, **trained}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for the data and the models")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--held", nargs="+", choices=VIDEOS, default=list(VIDEOS), help="videos held out of phases")
    parser.add_argument("--name", default="", help="of these settings: a part of the folders of the models")
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--test", action="store_true", help="score on test and write the results")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.runs.mkdir(parents=True, exist_ok=True)
    for task in options.tasks:
        rows = []
        for part, lists in parts(options.runs, task, options.held):
            for seed in options.seeds:
                out = options.runs / f"{task}{options.name}-{part}-{seed}"
                row = once(out, partial(train, task, seed, out, lists, options.settings))
                if options.test and "test" in lists:
                    row |= score(task, out, lists)
                rows.append({"part": part, **row})
        kinds = ("dev", "last", "baseline", "test", "baseline_test")
        found = {name: spread([row[name] for row in rows]) for name in kinds if name in rows[0]}
        print(task, found, flush=True)
        if options.test:
            report(f"video-{task}", {**found, "rows": rows, "settings": options.settings})


def score(task: str, out: Path, lists: dict[str, list[Path]]) -> dict[str, Any]:
    """The figures on test; captions are searched for with the beam that does best on dev."""
    bundle, cheap = Bundle.load(out), load_baseline(out)
    dev, test = (read_examples(bundle.recipe, lists[part][0]).examples for part in ("dev", "test"))
    row: dict[str, Any] = {}
    search = None
    if task == "captions":
        searches = [Beam(size=size, length_penalty=penalty) for size in (3, 5) for penalty in (0.6, 1.0, 1.4)]
        search = max(searches, key=lambda one: evaluate([bundle], dev, one).metrics["bleu_4"])
        row["search"] = search.model_dump()
    row["test"] = evaluate([bundle], test, search).metrics
    assert cheap is not None
    row["baseline_test"] = baseline_metrics(cheap, bundle.recipe.task, test)  # type: ignore[arg-type]
    print(task, out.name, row, flush=True)
    return row


if __name__ == "__main__":
    main()
