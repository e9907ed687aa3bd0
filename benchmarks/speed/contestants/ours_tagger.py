"""Windlass's own tagger: a recipe as a user would write it."""

from __future__ import annotations

from typing import Any

import torch
from tag_contest import Row, TagJob, run

from windlass.bundle import Bundle
from windlass.data.examples import Example, Place
from windlass.experiment.loaders import fit_sides
from windlass.inference.predict import predict
from windlass.recipe import compose
from windlass.training.data_parallel import SingleProcess

OVER: dict[str, Any] = {
    "source": {"lowercase": False},  # as flair's words
    "model": {
        "encoder": {
            "embedding": {"size": 128, "dropout": 0.5},
            "spelling": {"kind": "recurrent", "embedding": 25, "size": 25, "dropout": 0.5},
            "size": 192,
        },
        "head": {"output": "crf"},
    },
}


class OurTagger:
    """Examples are encoded once before training, as the training loop has them."""

    def __init__(self, job: TagJob, batches: list[list[Row]]):
        torch.set_num_threads(job.threads)
        torch.manual_seed(1)
        here = Place("rows", 1)
        examples = [[Example(tuple(words), (" ".join(tags),), None, here) for words, tags in rows] for rows in batches]
        recipe = compose("tag", None, [OVER])
        self.bundle = Bundle.new(recipe, fit_sides(recipe, [e for part in examples for e in part]))
        self.batches = [[self.bundle.sides.encode_example(e) for e in part] for part in examples]
        self.parameters = sum(p.numel() for p in self.bundle.model.parameters())
        self.optimiser = torch.optim.Adam(self.bundle.model.parameters())

    def step(self, batch: int) -> float:
        self.bundle.model.train()
        encoded = self.batches[batch]
        scored = SingleProcess(self.bundle.model)(self.bundle.sides.collate(encoded, range(len(encoded))), 0.0, 0)
        self.optimiser.step()
        return float(scored.mean)

    def tag(self, words: list[list[str]]) -> list[list[str]]:
        self.bundle.model.eval()
        return [found.text.split() for found in predict([self.bundle], [tuple(row) for row in words])]


if __name__ == "__main__":
    run(OurTagger)
