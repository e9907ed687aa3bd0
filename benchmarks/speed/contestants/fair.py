"""fairseq: its LSTM model, criterion, training step (`FairseqTask.train_step`), Adam and sequence generator.

Ours: the dictionary, the order of rows (by source length, as its collater puts them), and the loop over batches, which
follows `Trainer.train_step`. It has no greedy search: a beam of 1 stands for it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import contest
import mends  # noqa: F401
import numpy as np
import torch
from contest import CLIP, LEARNING_RATE, SEED, Job, Watch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.models.lstm import LSTMModel, base_architecture
from fairseq.optim.adam import FairseqAdam
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.fairseq_task import FairseqTask
from omegaconf import OmegaConf
from shapes import FORCED, PAD

THEIRS = np.array([1, 3, 0, 2])  # their ids of PAD, UNK, BOS, EOS
THEIR_EOS = 2


def theirs(ids: np.ndarray) -> np.ndarray:
    return np.where(ids < 4, THEIRS[ids.clip(max=3)], ids)


def make(job: Job) -> tuple[LSTMModel, Any]:
    torch.set_num_threads(job.threads)
    torch.manual_seed(SEED)
    shape = job.shape
    words = Dictionary()
    for number in range(4, shape.vocabulary):
        words.add_symbol(f"w{number}")
    args = SimpleNamespace(
        criterion="cross_entropy", dropout=0.0, decoder_attention="1", encoder_bidirectional=True,
        encoder_embed_dim=shape.embedding, encoder_hidden_size=shape.encoder, encoder_layers=shape.layers,
        decoder_embed_dim=shape.embedding, decoder_hidden_size=shape.decoder, decoder_layers=shape.layers,
        decoder_out_embed_dim=shape.decoder,
    )  # fmt: skip
    base_architecture(args)
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    return LSTMModel.build_model(args, task), task


def sample_of(source: np.ndarray, target: np.ndarray | None) -> dict[str, Any]:
    lengths = (source != PAD).sum(1)
    order = np.argsort(-lengths, kind="stable")
    sample: dict[str, Any] = {
        "net_input": {
            "src_tokens": torch.from_numpy(theirs(source[order])),
            "src_lengths": torch.from_numpy(lengths[order]),
        }
    }
    if target is not None:
        gold = theirs(target[order])
        before = np.concatenate([np.full_like(gold[:, :1], THEIR_EOS), gold[:, :-1]], axis=1)
        sample["net_input"]["prev_output_tokens"] = torch.from_numpy(before)
        sample |= {"target": torch.from_numpy(gold), "ntokens": int((target != PAD).sum())}
    return sample


def train(job: Job, batches: list[contest.Batch], watch: Watch) -> None:
    model, task = make(job)
    criterion = CrossEntropyCriterion(task, sentence_avg=False)
    betas = {"adam_betas": "(0.9, 0.999)", "adam_eps": 1e-8, "weight_decay": 0.0, "fp16_adam_stats": False}
    config = OmegaConf.create({"lr": [LEARNING_RATE], "tpu": False, "use_old_adam": False, **betas})
    optimiser = FairseqAdam(config, list(model.parameters()))
    held = [sample_of(batch.source, batch.target) for batch in batches]
    watch.begin(sum(p.numel() for p in model.parameters()))
    for number, sample in enumerate(held):
        optimiser.zero_grad()
        loss, size, _ = FairseqTask.train_step(task, sample, model, criterion, optimiser, number)
        optimiser.multiply_grads(1 / size)
        optimiser.clip_grad_norm(CLIP)
        optimiser.step()
        watch.step(loss.item() / size)


def decoder(job: Job) -> Callable[[list[list[int]], int], list[list[int]]]:
    model, task = make(job)
    model.eval()
    searches = {
        beam: SequenceGenerator([model], task.target_dictionary, beam, max_len_b=FORCED, min_len=FORCED)
        for beam in {beam for beam, _ in job.searches}
    }

    def translate(sources: list[list[int]], beam: int) -> list[list[int]]:
        found = searches[beam].generate([model], sample_of(np.array(sources), None))
        return [[i for i in best[0]["tokens"].tolist() if i != THEIR_EOS] for best in found]

    return translate


if __name__ == "__main__":
    contest.run(train, decoder)
