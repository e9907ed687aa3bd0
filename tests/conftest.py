"""One tiny model, trained once, for all tests that need one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)  # tests run side by side, and are tiny


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pairs.tsv, dev.tsv and test.tsv: words and their reversals."""
    folder = tmp_path_factory.mktemp("data")
    chance = random.Random(1)
    words: dict[str, None] = {}
    while len(words) < 240:
        words["".join(chance.choices("abcd", k=chance.randint(2, 4)))] = None
    rows = [f"{word}\t{word[::-1]}\n" for word in words]
    for name, part in (("pairs", rows[:200]), ("dev", rows[200:220]), ("test", rows[220:])):
        (folder / f"{name}.tsv").write_text("".join(part), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def tiny_model(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model that was trained for a few seconds. Tests must not change it."""
    from command import TINY, windlass

    out = tmp_path_factory.mktemp("models") / "tiny"
    files = ("--train", tiny_data / "pairs.tsv", "--dev", tiny_data / "dev.tsv")
    ran = windlass("train", "--task", "transliterate", *files, "--out", out, *TINY, "--set", "train.epochs=16")
    assert ran.code == 0, ran.err
    return out
