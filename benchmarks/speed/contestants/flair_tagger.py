"""flair's own BiLSTM-CRF: trained vectors of words and of letters, both without anything to download."""

from __future__ import annotations

import flair
import torch
from flair.data import Corpus, Dictionary, Sentence
from flair.datasets import FlairDatapointDataset
from flair.embeddings import CharacterEmbeddings, OneHotEmbeddings, StackedEmbeddings
from flair.models import SequenceTagger
from flair.training_utils import store_embeddings
from tag_contest import Row, TagJob, run


class FlairTagger:
    """Sentences are made once before training, as flair's trainer has them."""

    def __init__(self, job: TagJob, batches: list[list[Row]]):
        flair.device = torch.device("cpu")
        torch.set_num_threads(job.threads)
        torch.manual_seed(1)
        self.batches = [[_sentence(*row) for row in batch] for batch in batches]
        every = [sentence for batch in self.batches for sentence in batch]
        corpus = Corpus(train=FlairDatapointDataset(every), sample_missing_splits=False)
        words = OneHotEmbeddings.from_corpus(corpus, field="text", min_freq=2, embedding_length=128)
        letters = CharacterEmbeddings(_alphabet(batches), char_embedding_dim=25, hidden_size_char=25)
        self.model = SequenceTagger(
            StackedEmbeddings([words, letters]),
            corpus.make_label_dictionary("upos", add_unk=False),
            "upos",
            hidden_size=192,
            use_crf=True,
            reproject_embeddings=False,
        )
        self.parameters = sum(p.numel() for p in self.model.parameters())
        self.optimiser = torch.optim.Adam(self.model.parameters())
        self.size = job.batch

    def step(self, batch: int) -> float:
        self.model.train()
        self.optimiser.zero_grad()
        loss, words = self.model.forward_loss(self.batches[batch])
        (loss / words).backward()
        self.optimiser.step()
        store_embeddings(self.batches[batch], "none")
        return float(loss.detach()) / words

    def tag(self, words: list[list[str]]) -> list[list[str]]:
        self.model.eval()
        sentences = [Sentence(row) for row in words]
        self.model.predict(sentences, mini_batch_size=self.size)
        return [[token.get_label("upos").value for token in sentence] for sentence in sentences]


def _sentence(words: list[str], tags: list[str]) -> Sentence:
    made = Sentence(words)
    for token, tag in zip(made, tags, strict=True):
        token.add_label("upos", tag)
    return made


def _alphabet(batches: list[list[Row]]) -> Dictionary:
    """The letters of the data; flair's own list would have to be downloaded."""
    known = Dictionary()
    for letter in sorted({letter for batch in batches for words, _ in batch for word in words for letter in word}):
        known.add_item(letter)
    return known


if __name__ == "__main__":
    run(FlairTagger)
