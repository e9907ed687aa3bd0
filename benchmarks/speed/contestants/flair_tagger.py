"""flair's own BiLSTM-CRF: trained vectors of words and of letters, both without anything to download."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import flair
import torch
from flair.data import Corpus, Dictionary, Sentence
from flair.datasets import FlairDatapointDataset
from flair.embeddings import CharacterEmbeddings, OneHotEmbeddings, StackedEmbeddings
from flair.models import SequenceTagger


def sentence(words: list[str], tags: list[str]) -> Sentence:
    made = Sentence(words)
    for token, tag in zip(made, tags, strict=True):
        token.add_label("upos", tag)
    return made


def alphabet(rows: list[Any]) -> str:
    """The letters of the data, as a file; flair's own list would have to be downloaded."""
    known = Dictionary()
    for letter in sorted({letter for words, _ in rows for word in words for letter in word}):
        known.add_item(letter)
    path = Path(tempfile.mkdtemp()) / "letters"
    known.save(path)
    return str(path)


def main() -> None:
    job = json.loads(sys.argv[1])
    flair.device = torch.device("cpu")
    torch.set_num_threads(job["threads"])
    rows = json.loads(Path(job["data"]).read_text())
    corpus = Corpus(train=FlairDatapointDataset([sentence(*row) for row in rows]), sample_missing_splits=False)
    known = corpus.make_label_dictionary("upos", add_unk=False)
    words = OneHotEmbeddings.from_corpus(corpus, field="text", min_freq=2, embedding_length=128)
    letters = CharacterEmbeddings(alphabet(rows), char_embedding_dim=25, hidden_size_char=25)
    tagger = SequenceTagger(
        StackedEmbeddings([words, letters]), known, "upos", hidden_size=192, use_crf=True, reproject_embeddings=False
    )
    parts = [rows[n : n + job["batch"]] for n in range(0, len(rows), job["batch"])]
    optimiser = torch.optim.Adam(tagger.parameters())
    tagger.train()

    def step(part: list[Any]) -> None:
        optimiser.zero_grad()
        loss, _ = tagger.forward_loss([sentence(*row) for row in part])
        loss.backward()
        optimiser.step()

    found = {"train": _rate(step, parts, job["seconds"])}
    tagger.eval()

    def tag(part: list[Any]) -> None:
        tagger.predict([Sentence(words) for words, _ in part], mini_batch_size=job["batch"])

    found["predict"] = _rate(tag, parts, job["seconds"])
    print("OUTCOME " + json.dumps(found))


def _rate(work: Any, parts: list[list[Any]], seconds: float) -> float:
    """Words a second, after one batch that warms up; of one thread, its own time on the processor."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    work(parts[0])
    words, began, n = 0, clock(), 1
    while (spent := clock() - began) < seconds:
        part = parts[n % len(parts)]
        work(part)
        words, n = words + sum(len(row[0]) for row in part), n + 1
    return words / spent


if __name__ == "__main__":
    main()
