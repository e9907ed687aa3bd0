"""FSDD (Jackson et al. 2018): English digits, six speakers, 50 recordings of each digit, 22 minutes in all.

    python benchmarks/sound.py --runs runs/sound                            train, and score on dev
    python benchmarks/sound.py --runs runs/sound --tasks strings --test     score on test, once, and write the results

`digits` names the digit of a recording. `strings` writes what is said in 3 to 7 recordings of one speaker, joined with
silences of 50 to 300 ms. Recordings 0 to 4 of each digit and speaker are the test set, 5 to 9 dev, the rest train; no
recording is in strings of two of them. `--speakers` leaves one after another out of train and dev; all
recordings of that speaker are the test set.
Published for single digits, official split: 97 to 99 % (small CNNs and RNNs).
"""

from __future__ import annotations

import argparse
import json
import random
import tarfile
import wave
from functools import partial
from pathlib import Path
from typing import Any

import torch
from common import data, once, report, spread

from windlass.baseline import load_baseline
from windlass.bundle import Bundle
from windlass.experiment.baselines import baseline_metrics
from windlass.experiment.data import read_data, read_examples
from windlass.experiment.run import run
from windlass.inference.evaluate import evaluate
from windlass.recipe import compose, setting
from windlass.training.observe import Silent

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SPEAKERS = ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")
TASKS = {"digits": "classify-sound", "strings": "transcribe"}
STRINGS = {"train": 5000, "dev": 200, "test": 300}


def recordings(runs: Path) -> Path:
    """The recordings, unpacked beside the runs."""
    folder = runs / "fsdd"
    if not folder.exists():
        with tarfile.open(data("sound/fsdd") / "recordings.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return folder / "recordings"


def part_of(number: int) -> str:
    return "test" if number < 5 else "dev" if number < 10 else "train"


def files_of(runs: Path, task: str, without: str | None) -> dict[str, Path]:
    """The lists of train, dev and test; `without` leaves a speaker out of the first two, and the third is his."""
    folder = recordings(runs)
    rows: dict[str, list[dict[str, str]]] = {"train": [], "dev": [], "test": []}
    if task == "digits":
        for path in sorted(folder.glob("*.wav")):
            digit, speaker, number = path.stem.split("_")
            row = {"sound": str(path.relative_to(runs)), "label": WORDS[int(digit)]}
            if without is None:
                rows[part_of(int(number))].append(row)
            elif speaker == without:
                rows["test"].append(row)
            elif part_of(int(number)) != "test":
                rows[part_of(int(number))].append(row)
    else:
        for part, count in STRINGS.items():
            speakers = [s for s in SPEAKERS if (s == without) == (part == "test")] if without else list(SPEAKERS)
            rows[part] = write_strings(runs, folder, part, speakers, count, without)
    lists = {part: runs / f"{task}-{without or 'all'}-{part}.jsonl" for part in rows}
    for part, path in lists.items():
        path.write_text("".join(json.dumps(row) + "\n" for row in rows[part]), encoding="utf-8")
    return lists


def write_strings(
    runs: Path, folder: Path, part: str, speakers: list[str], count: int, without: str | None
) -> list[dict[str, str]]:
    """Join recordings of one speaker, drawn with a fixed seed."""
    draw, rows = random.Random(f"{part} {without}"), []
    numbers = [n for n in range(50) if part_of(n) == part or (without and part == "test")]
    out = runs / f"strings-{without or 'all'}"
    out.mkdir(exist_ok=True)
    for n in range(count):
        speaker, said = speakers[n % len(speakers)], draw.choices(range(10), k=draw.randint(3, 7))
        path = out / f"{part}-{n}.wav"
        samples = b""
        for digit in said:
            with wave.open(str(folder / f"{digit}_{speaker}_{draw.choice(numbers)}.wav")) as reader:
                assert reader.getparams()[:3] == (1, 2, 8000)
                samples += reader.readframes(reader.getnframes()) + bytes(2 * draw.randint(400, 2400))
        if not path.exists():
            with wave.open(str(path), "wb") as writer:
                writer.setparams((1, 2, 8000, 0, "NONE", ""))
                writer.writeframes(samples)
        rows.append({"sound": str(path.relative_to(runs)), "text": " ".join(WORDS[digit] for digit in said)})
    return rows


def train(task: str, seed: int, out: Path, lists: dict[str, Path], settings: list[str]) -> dict[str, Any]:
    columns = {"source": "sound", "target": "label" if task == "digits" else "text"}
    files = {"train": [str(lists["train"])], "dev": str(lists["dev"])}
    over = [{"seed": seed, "data": {**files, **columns}}, {"train": {"processes": 1}}]
    recipe = compose(TASKS[task], None, [*over, *map(setting, settings)])
    outcome = run(recipe, read_data(recipe), out, Silent())
    assert outcome.dev is not None
    assert outcome.fit.reason != "interrupted"  # a row would be kept as that of a whole run
    trained = {"epochs": outcome.fit.epochs, "training_minutes": round(outcome.fit.seconds / 60, 2)}
    return {"seed": seed, "dev": outcome.dev.metrics, "baseline": outcome.baseline_metrics, **trained}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for the recordings and the models")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--speakers", nargs="*", choices=SPEAKERS, default=[], help="left out, one after another")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--name", default="", help="of these settings: a part of the names of folders and results")
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--test", action="store_true", help="score on test and write the results")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for task in options.tasks:
        content: dict[str, Any] = {"settings": options.settings}
        for without in options.speakers or [None]:
            lists = files_of(options.runs, task, without)
            rows = []
            for seed in options.seeds:
                out = options.runs / f"{task}{options.name}-{without or 'all'}-{seed}"
                rows.append(once(out, partial(train, task, seed, out, lists, options.settings)))
                if options.test:
                    rows[-1]["test"] = score(out, lists["test"])
            found = {"rows": rows, "dev": spread([row["dev"] for row in rows])}
            if options.test:
                found |= {"test": spread([row["test"] for row in rows]), "baseline": beside(out, lists["test"])}
            print(task, without, {part: found[part] for part in ("dev", "test") if part in found}, flush=True)
            content |= {without: found} if without else found
        if options.test:
            report(f"sound-{task}{options.name}{'-speakers' if options.speakers else ''}", content)


def score(out: Path, path: Path) -> dict[str, float]:
    bundle = Bundle.load(out)
    return evaluate([bundle], read_examples(bundle.recipe, path).examples).metrics


def beside(out: Path, path: Path) -> dict[str, Any]:
    """The baseline's figures on test."""
    bundle, cheap = Bundle.load(out), load_baseline(out)
    assert cheap is not None
    examples = read_examples(bundle.recipe, path).examples
    return {"name": cheap.name, "test": baseline_metrics(cheap, bundle.recipe.task, examples)}  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
