"""Windlass with a process a core, each with its rows of every batch (`training.data_parallel`), instead of threads.

The others' memory is counted (the largest of them), their CPU time is not, as it is only known when they end.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import contest
import ours
import torch
from contest import SEED, Job, Watch

from windlass.bundle import Bundle, save_definition
from windlass.data.sides import Sides
from windlass.data.sides.text import TextSource, TextTarget
from windlass.data.tokenizer import Tokenizer
from windlass.data.tokens import TextOptions
from windlass.recipe import Recipe
from windlass.training.data_parallel import gradient_workers


def train(job: Job, batches: list[contest.Batch], watch: Watch) -> None:
    words = TextOptions(tokens="words")
    tokenizer = Tokenizer(words, tuple(f"w{i}" for i in range(4, job.shape.vocabulary)))
    recipe = Recipe(task="translate", model=ours.options(job), source=words, target=words)
    torch.manual_seed(SEED)
    sides = Sides(TextSource(tokenizer), TextTarget(tokenizer))
    bundle = Bundle.new(recipe, sides)
    with TemporaryDirectory() as folder, suppress(ours.EnoughError):
        save_definition(Path(folder), recipe, sides)  # from which the others build the model
        with gradient_workers(bundle.model, Path(folder), job.threads, SEED) as compute:
            ours.fit_model(bundle.model, batches, watch, threads=1, compute=compute)


if __name__ == "__main__":
    contest.run(train)
