"""Cost against growth: time a token and memory as vocabulary, length, batch and corpus grow; a table and a picture.

    python benchmarks/speed/growth.py                              about 25 minutes on one free core
    python benchmarks/speed/growth.py --axes vocabulary batch --only windlass

Model S with one thing made larger at a time, on ids drawn by chance; beside it the careful loop and the limit. For the
corpus: files of generated lines, read, surveyed, cut into words, encoded and planned into batches, as training does
before its first step, with the corpus held in memory and on disk. `slope` is the exponent of growth between the last
two points: 1 is linear (of time and memory in all).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `common`, which all benchmarks share

from common import RESULTS, report
from contest import Job, peak_memory
from environments import CONTESTANTS, PEERS
from picture import draw_growth
from process import run_one

AXES = {
    "vocabulary": [1000, 4000, 16_000, 64_000],
    "length": [10, 25, 50, 100, 200, 400],
    "batch": [8, 32, 128, 512],
    "corpus": [10_000, 100_000, 1_000_000, 10_000_000],
}
BASE = {"vocabulary": 8000, "length": 15, "batch": 64}
STORES = ("memory", "disk")  # where a corpus is held
ENOUGH = 0.6  # of the machine's memory: a corpus that would need more is not tried


def trained(
    axis: str, size: int, steps: int, folder: Path, names: list[str], before: list[dict[str, Any]], most: float
) -> list[dict[str, Any]]:
    """Seconds a token and memory of every contestant at one point, unless memory, growing on as it did between the last
    two points, would be more than `most` MB."""
    at = {**BASE, axis: size}
    chance = random.Random(1)
    rows = [[chance.randrange(4, at["vocabulary"]) for _ in range(at["length"] - 1)] + [3] for _ in range(at["batch"])]
    file = folder / "batches.json"
    file.write_text(json.dumps({"train": [{"source": rows, "target": rows}] * (steps + 1)}))
    job = Job("S", "train", 1, str(file), warmup=1, steps=steps, vocabulary=at["vocabulary"])
    found = []
    for contestant in (c for c in CONTESTANTS if c.name in names):
        row: dict[str, Any] = {"axis": axis, "size": size, "contestant": contestant.name}
        if why := too_large(before, row, most):
            found.append(row | {"failed": why})
            continue
        outcome = run_one(contestant, job, PEERS)
        if "failed" in outcome:
            row["failed"] = outcome["failed"]
        else:
            row |= {"seconds_a_unit": 1 / outcome["tokens_per_second"], "units": at["batch"] * at["length"]}
            row |= {"peak_mb": outcome["peak_mb"], "base_mb": outcome["resident_mb"]}
        found.append(row)
    return found


def too_large(before: list[dict[str, Any]], row: dict[str, Any], most: float) -> str:
    """Why a point is not tried: memory, growing on as it did between the last two, would be more than `most` MB."""
    mine = [r for r in before if r["contestant"] == row["contestant"] and "failed" not in r][-2:]
    if len(mine) < 2:
        return ""
    (size, one), (last, two) = ((r["size"], max(1, r["peak_mb"] - r["base_mb"])) for r in mine)
    need = two * (row["size"] / last) ** (math.log(two / one) / math.log(last / size))
    return f"would need {need / 1024:.0f} GB" if need > most else ""


def corpus(lines: int, folder: Path, store: str) -> dict[str, Any]:
    """Seconds a line and memory of making a corpus ready, in a process of its own."""
    command = [sys.executable, __file__, "--make-ready", str(lines), str(folder), store]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]}
    return {"units": lines, **json.loads(done.stdout.splitlines()[-1])}


def make_ready(lines: int, folder: Path, store: str) -> dict[str, float]:
    """Write a corpus, then do with it what training does before its first step: read, survey, cut, encode, plan."""
    from windlass.bundle import Bundle
    from windlass.experiment.data import read_data
    from windlass.experiment.loaders import fit_sides, training_loader
    from windlass.recipe import compose, setting

    chance, file, dev = random.Random(1), folder / "corpus.tsv", folder / "dev.tsv"
    words = [f"w{i}" for i in range(8000)]
    with file.open("w", encoding="utf-8") as out:  # the lines differ, as those of a corpus do
        for _ in range(lines):
            out.write(f"{' '.join(chance.choices(words, k=8))}\t{' '.join(chance.choices(words, k=8))}\n")
    dev.write_text("w1 w2\tw3 w4\n")
    tokens = ["source.tokens=words", "target.tokens=words", f"data.store={store}", "train.batch_tokens=1024"]
    size = ["model.encoder.size=8", "model.decoder={kind: recurrent, size: 8}"]  # the model is not what is measured
    files = {"data": {"train": [str(file)], "dev": str(dev), "header": False}}
    recipe = compose("translate", None, [files, *(setting(text) for text in tokens + size)])
    base, began = peak_memory(), time.process_time()
    data = read_data(recipe)
    bundle = Bundle.new(recipe, fit_sides(recipe, data.train))
    loader = training_loader(bundle, data.train)
    for batch, _ in zip(loader.epoch(0), range(100), strict=False):
        assert batch.size
    seconds = time.process_time() - began
    file.unlink()
    return {"seconds_a_unit": seconds / lines, "peak_mb": round(peak_memory()), "base_mb": round(base)}


def grown(axis: str, sizes: list[int], steps: int, folder: Path, names: list[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20
    for size in sizes:
        if axis != "corpus":
            found = trained(axis, size, steps, folder, names, rows, ENOUGH * memory)
        else:
            found = []
            for store in STORES:
                row = {"axis": axis, "size": size, "contestant": f"windlass, {store}"}
                why = too_large(rows, row, ENOUGH * memory)
                found.append(row | ({"failed": why} if why else corpus(size, folder, store)))
        for row in found:
            print(row, flush=True)
        rows += found
    return rows


def slopes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The exponents of growth, of the time of all units and of the memory above that of the program and the weights."""
    found = []
    for axis, name in sorted({(row["axis"], row["contestant"]) for row in rows}):
        mine = [r for r in rows if (r["axis"], r["contestant"]) == (axis, name) and "failed" not in r]
        if len(mine) < 2:
            continue
        one, two = mine[-2:]
        further = math.log(two["size"] / one["size"])
        times = [row["seconds_a_unit"] * row["units"] for row in (one, two)]
        spaces = [max(1, row["peak_mb"] - row["base_mb"]) for row in (one, two)]
        exponents = {what: math.log(b / a) / further for what, (a, b) in {"time": times, "memory": spaces}.items()}
        found.append({"axis": axis, "contestant": name, **{w: round(e, 2) for w, e in exponents.items()}})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--axes", nargs="+", default=list(AXES), choices=list(AXES))
    parser.add_argument("--sizes", nargs="+", type=int, help="instead of an axis's own")
    parser.add_argument("--only", nargs="+", default=["windlass", "careful loop", "limit"])
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--name", default="growth", help="of the result in benchmarks/results")
    parser.add_argument("--make-ready", nargs=3, help=argparse.SUPPRESS)  # how this script calls itself
    options = parser.parse_args()
    if options.make_ready:
        print(json.dumps(make_ready(int(options.make_ready[0]), Path(options.make_ready[1]), options.make_ready[2])))
        return
    rows = []
    with TemporaryDirectory() as folder:
        for axis in options.axes:
            rows += grown(axis, options.sizes or AXES[axis], options.steps, Path(folder), options.only)
    for row in rows:
        cost = f"{1e6 * row['seconds_a_unit']:10.1f} us  {row['peak_mb']:8,.0f} MB" if "units" in row else row["failed"]
        print(f"{row['axis']:10} {row['size']:>12,} {row['contestant']:14} {cost}")
    for slope in slopes(rows):
        print(f"{slope['axis']:10} {slope['contestant']:14} time ~ n^{slope['time']}, memory ~ n^{slope['memory']}")
    report(options.name, {"rows": rows, "slopes": slopes(rows), "base": BASE})
    draw_growth(rows, RESULTS / f"{options.name}.png")


if __name__ == "__main__":
    main()
