"""Draws the pictures of docs/gallery.md, and their pages, from three small models; trains the models that are missing.

    WINDLASS_DATA=data python docs/make_gallery.py --runs runs/gallery

names       place names from Latin to Devanagari letters, the model of `windlass demo`
questions   TREC: what a question asks for; classify, 6 epochs
tolstoy     War and Peace by characters: an LSTM of 256 units, 5 epochs, about 20 minutes on one idle core

Pages (.html) are written to the folder of the runs, pictures to docs/images.
"""

from __future__ import annotations

import argparse
import gzip
import os
from collections.abc import Callable
from pathlib import Path

from PIL import Image

import windlass
from windlass.api import Trained
from windlass.decoding.options import Beam
from windlass.demo.run import run_demo
from windlass.explain.coloured import draw_rows
from windlass.explain.units import excerpt, units
from windlass.training.progress import RichProgress

IMAGES = Path(__file__).parent / "images"
LABELS = ("description", "entity", "abbreviation", "person", "place", "number")
NAME, OTHER = "Kanpur", "Kanpor"
QUESTION = "What is the capital of the country that borders Chad ?"
SENTENCE = '"Well, Prince," he said (as he always did), "so Genoa and Lucca are now just family estates."'


def data(name: str) -> Path:
    """A file of the development data."""
    return Path(os.environ["WINDLASS_DATA"]) / name


def train_names(folder: Path) -> None:
    """The demo."""
    run_demo("devanagari", 10, folder.parent / "demo", 1, RichProgress())
    (folder.parent / "demo" / "devanagari" / "model").rename(folder)


def train_questions(folder: Path) -> None:
    """TREC, with labels in words."""
    lines = gzip.decompress(data("classification/trec6/TREC.train.all.gz").read_bytes()).decode("latin-1").splitlines()
    pairs = [(line[2:], LABELS[int(line[0])]) for line in lines]
    settings = {"train.epochs": 6, "train.processes": 1, "model.head.wide": None, "source.ngrams": 0}
    windlass.fit(pairs, task="classify", out=folder, settings=settings)


def train_tolstoy(folder: Path) -> None:
    """The first eight tenths of the text; the ninth is dev, and what units are looked for in."""
    train, dev, _ = tolstoy(folder)
    sizes = {"size": 256, "embedding.size": 64, "dropout": 0.1}
    settings = {f"model.decoder.{name}": value for name, value in sizes.items()}
    settings |= {"train.chunk": 128, "train.batch_tokens": 2048, "train.epochs": 5, "train.processes": 1}
    windlass.fit(train, dev, task="lm", out=folder, settings=settings)


def tolstoy(folder: Path) -> list[Path]:
    """The text as three files: train, dev and test."""
    text = gzip.decompress(data("lm/warpeace/warpeace.txt.gz").read_bytes()).decode().replace("\r\n", "\n")
    bounds = [0, round(0.8 * len(text)), round(0.9 * len(text)), len(text)]
    files = [folder.parent / f"tolstoy.{part}.txt" for part in ("train", "dev", "test")]
    for file, begin, end in zip(files, bounds, bounds[1:], strict=False):
        file.write_text(text[begin:end], encoding="utf-8")
    return files


def trained(runs: Path, name: str, train: Callable[[Path], None]) -> Trained:
    """A model of the gallery."""
    if not (runs / name / "weights.safetensors").exists():
        runs.mkdir(parents=True, exist_ok=True)
        train(runs / name)
    return windlass.load(runs / name)


def main() -> None:
    """Train what is missing, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder for models and pages")
    runs = parser.parse_args().runs
    names, questions = trained(runs, "names", train_names), trained(runs, "questions", train_questions)
    lm = trained(runs, "tolstoy", train_tolstoy)
    dev = tolstoy(runs / "tolstoy")[1].read_text(encoding="utf-8")[:120_000]
    found, traced = units(lm.bundle, [dev], best=2)
    quote = next(one for one in found if one.event == "inside quotes")
    drawn = [one for one in found if one.nameable]
    for folder, suffix in ((IMAGES, "png"), (runs / "pages", "html")):

        def out(name: str, folder: Path = folder, suffix: str = suffix) -> Path:
            return folder / f"gallery-{name}.{suffix}"

        names.explain(NAME, out("attention"))
        names.beam(NAME, out("beam"), Beam(size=3))
        names.what_if(NAME, out("what-if"), instead=OTHER)
        names.saliency(NAME, out("saliency"))
        questions.explain(QUESTION, out("pooling"))
        questions.saliency(QUESTION, out("question"))
        lm.gates(SENTENCE, out("gates"), units=[quote.unit])
        draw_rows(excerpt([quote, *(one for one in drawn if one.event != quote.event)][:3], traced, 600), out("units"))
    for picture in IMAGES.glob("gallery-*.png"):
        Image.open(picture).convert("RGB").quantize(128).save(picture, optimize=True)
    for one in found:
        print(f"{one.event:32} {one.unit:5} {one.correlation:6.2f} {one.held_out:6.2f}")


if __name__ == "__main__":
    main()
