"""JoeyNMT: its model (`build_model`), batch, loss, training step (`TrainManager._train_step`), optimiser and search.

Ours: the list of tokens that stands for the vocabulary, and the loop over batches, which follows `TrainManager`'s.
Its model S asks with the current state and feeds the last readout into the next step: as much work as the context.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import contest
import numpy as np
import torch
from contest import CLIP, LEARNING_RATE, SEED, Job, Watch
from joeynmt.batch import Batch
from joeynmt.builders import build_gradient_clipper, build_optimizer
from joeynmt.model import Model, build_model
from joeynmt.search import search
from joeynmt.training import TrainManager
from joeynmt.vocabulary import Vocabulary
from shapes import BOS, EOS, FORCED, PAD, UNK

THEIR_UNK, THEIR_PAD = 0, 1  # the other way round


def theirs(ids: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.select([ids == PAD, ids == UNK], [THEIR_PAD, THEIR_UNK], ids))


def batch_of(source: np.ndarray, target: np.ndarray | None) -> Batch:
    if target is not None:
        target = theirs(np.concatenate([np.full_like(target[:, :1], BOS), target], axis=1))
    lengths = torch.from_numpy((source != PAD).sum(1))
    rows = torch.arange(len(source))
    device = torch.device("cpu")
    return Batch(theirs(source), lengths, None, target, None, rows, device, THEIR_PAD, EOS, target is not None)


def make(job: Job) -> Model:
    torch.set_num_threads(job.threads)
    torch.manual_seed(SEED)
    shape = job.shape
    marks = SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None, lang_tags=[],
        unk_id=THEIR_UNK, pad_id=THEIR_PAD, bos_id=BOS, eos_id=EOS, sep_id=None,
    )  # fmt: skip
    vocabulary = Vocabulary([f"w{i}" for i in range(4, shape.vocabulary)], marks)
    side = {
        "type": "recurrent",
        "rnn_type": shape.cell,
        "num_layers": shape.layers,
        "embeddings": {"embedding_dim": shape.embedding},
        "dropout": 0.0,
    }
    attention = "bahdanau" if shape.attention == "additive" else "luong"
    config = {
        "encoder": {**side, "hidden_size": shape.encoder, "bidirectional": True},
        "decoder": {
            **side, "hidden_size": shape.decoder, "attention": attention, "input_feeding": True, "init_hidden": "last",
        },
    }  # fmt: skip
    model = build_model(config, vocabulary, vocabulary)
    model.loss_function = ("crossentropy", 0.0)
    return model


def train(job: Job, batches: list[contest.Batch], watch: Watch) -> None:
    model = make(job)
    config = {"optimizer": "adam", "learning_rate": LEARNING_RATE, "clip_grad_norm": CLIP, "clip_grad_val": None}
    optimiser, clip = build_optimizer(config, model.parameters()), build_gradient_clipper(config)
    manager = SimpleNamespace(
        model=model, autocast={"device_type": "cpu", "enabled": False}, n_gpu=0, scaler=None,
        args=SimpleNamespace(normalization="tokens", batch_multiplier=1),
    )  # fmt: skip
    held = [batch_of(batch.source, batch.target) for batch in batches]
    model.zero_grad()
    watch.begin(sum(p.numel() for p in model.parameters()))
    for batch in held:
        loss, _ = TrainManager._train_step(manager, batch)
        clip(parameters=model.parameters())
        optimiser.step()
        model.zero_grad()
        watch.step(loss)


def decoder(job: Job) -> Callable[[list[list[int]], int], list[list[int]]]:
    model = make(job).eval()

    def translate(sources: list[list[int]], beam: int) -> list[list[int]]:
        outputs, _, _ = search(
            model, batch_of(np.array(sources), None), FORCED, beam_size=beam, beam_alpha=-1, min_output_length=FORCED
        )
        return [[int(i) for i in row if i != EOS] for row in outputs]

    return translate


if __name__ == "__main__":
    contest.run(train, decoder)
