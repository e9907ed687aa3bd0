"""Cost against growth: time a token and memory as vocabulary, length, batch and corpus grow; a table and a picture.

    python benchmarks/speed/growth.py                              about 25 minutes on one free core
    python benchmarks/speed/growth.py --axes vocabulary batch --only windlass

Model S with one thing made larger at a time, on ids drawn by chance; beside it the careful loop and the limit. For the
corpus: files of generated lines, read, cut into words, encoded and planned into batches, as training does before its
first step. `slope` is the exponent of growth between the last two points: 1 is linear (of time and memory in all).
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
ENOUGH = 0.6  # of the machine's memory: a corpus that would need more is not tried


def trained(axis: str, size: int, steps: int, folder: Path, names: list[str]) -> list[dict[str, Any]]:
    """Seconds a token and memory of every contestant at one point."""
    at = {**BASE, axis: size}
    chance = random.Random(1)
    rows = [[chance.randrange(4, at["vocabulary"]) for _ in range(at["length"] - 1)] + [3] for _ in range(at["batch"])]
    file = folder / "batches.json"
    file.write_text(json.dumps({"train": [{"source": rows, "target": rows}] * (steps + 1)}))
    job = Job("S", "train", 1, str(file), warmup=1, steps=steps, vocabulary=at["vocabulary"])
    found = []
    for contestant in (c for c in CONTESTANTS if c.name in names):
        outcome = run_one(contestant, job, PEERS)
        row: dict[str, Any] = {"axis": axis, "size": size, "contestant": contestant.name}
        if "failed" in outcome:
            row["failed"] = outcome["failed"]
        else:
            row |= {"seconds_a_unit": 1 / outcome["tokens_per_second"], "units": at["batch"] * at["length"]}
            row |= {"peak_mb": outcome["peak_mb"], "base_mb": outcome["resident_mb"]}
        found.append(row)
    return found


def corpus(lines: int, folder: Path) -> dict[str, Any]:
    """Seconds a line and memory of making a corpus ready, in a process of its own."""
    command = [sys.executable, __file__, "--make-ready", str(lines), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    row: dict[str, Any] = {"axis": "corpus", "size": lines, "contestant": "windlass"}
    if done.returncode:
        return {**row, "failed": (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]}
    return {**row, "units": lines, **json.loads(done.stdout.splitlines()[-1])}


def make_ready(lines: int, folder: Path) -> dict[str, float]:
    """Write a corpus, then do with it what training does before its first step."""
    from windlass.data.codecs import TextCodec, TextOptions
    from windlass.data.loader import Encoded, Loader
    from windlass.data.readers import read

    chance, file = random.Random(1), folder / "corpus.tsv"
    words = [f"w{i}" for i in range(8000)]
    block = "".join(
        f"{' '.join(chance.choices(words, k=12))}\t{' '.join(chance.choices(words, k=12))}\n" for _ in range(10_000)
    )
    with file.open("w", encoding="utf-8") as out:
        for _ in range(lines // 10_000):
            out.write(block)
    base, began = peak_memory(), time.perf_counter()
    examples = read(str(file)).examples
    options = TextOptions(tokens="words")
    source = TextCodec.fit(options, (e.source for e in examples))
    target = TextCodec.fit(options, (e.target for e in examples))
    encoded = [Encoded(source.encode(e.source), target.encode(e.target)) for e in examples]
    next(Loader(encoded, batch_tokens=1024, seed=1, shuffle=True).epoch(0))
    seconds = time.perf_counter() - began
    file.unlink()
    return {"seconds_a_unit": seconds / lines, "peak_mb": round(peak_memory()), "base_mb": round(base)}


def grown(axis: str, sizes: list[int], steps: int, folder: Path, names: list[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20
    for size in sizes:
        if axis != "corpus":
            found = trained(axis, size, steps, folder, names)
        elif rows and rows[-1].get("peak_mb", memory) * size / rows[-1]["size"] > ENOUGH * memory:
            need = rows[-1].get("peak_mb", memory) * size / rows[-1]["size"] / 1024
            found = [{"axis": axis, "size": size, "contestant": "windlass", "failed": f"would need {need:.0f} GB"}]
        else:
            found = [corpus(size, folder)]
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
    parser.add_argument("--make-ready", nargs=2, help=argparse.SUPPRESS)  # how this script calls itself
    options = parser.parse_args()
    if options.make_ready:
        print(json.dumps(make_ready(int(options.make_ready[0]), Path(options.make_ready[1]))))
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
