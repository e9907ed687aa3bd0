"""yoyodyne: its model (`SoftAttentionGRUModel`), batch, loss, training step, optimiser and decoding.

Ours: the loop over batches with clipping, which its trainer (Lightning) would make. Its model is a little other than S:
one table embeds both sides, the output layer sees the state without a readout (3 MFLOP a token less), and the attention
puts query and keys through one layer together at every step and place (about 45 MFLOP a token more).
"""

from __future__ import annotations

from collections.abc import Callable

import contest
import torch
from contest import CLIP, LEARNING_RATE, SEED, Job, Watch
from lightning.pytorch import Trainer
from shapes import EOS, FORCED
from torch import nn
from yoyodyne.data import Batch, PaddedTensor
from yoyodyne.models import SoftAttentionGRUModel
from yoyodyne.models.modules import GRUEncoder
from yoyodyne.optimizers import Adam


def make(job: Job) -> SoftAttentionGRUModel:
    torch.set_num_threads(job.threads)
    torch.manual_seed(SEED)
    shape = job.shape
    encoder = GRUEncoder(
        embedding_size=shape.embedding, hidden_size=shape.encoder, layers=1, bidirectional=True, dropout=0.0
    )
    return SoftAttentionGRUModel(
        source_encoder=encoder,
        embedding_size=shape.embedding,
        decoder_hidden_size=shape.decoder,
        decoder_layers=1,
        decoder_dropout=0.0,
        label_smoothing=0.0,
        max_target_length=FORCED,
        target_vocab_size=shape.vocabulary,
        vocab_size=shape.vocabulary,
    )


def padded(ids: contest.np.ndarray) -> PaddedTensor:
    return PaddedTensor.from_tensor(torch.from_numpy(ids))


def train(job: Job, batches: list[contest.Batch], watch: Watch) -> None:
    model = make(job).train()
    optimiser = Adam(model.parameters(), lr=LEARNING_RATE)
    held = [Batch(padded(b.source), None, padded(b.target)) for b in batches]
    watch.begin(sum(p.numel() for p in model.parameters()))
    for number, batch in enumerate(held):
        optimiser.zero_grad()
        loss = model.training_step(batch, number)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimiser.step()
        watch.step(loss.item())


def decoder(job: Job) -> Callable[[list[list[int]], int], list[list[int]]]:
    model = make(job).eval()
    model.trainer = trainer = Trainer(
        accelerator="cpu", logger=False, enable_checkpointing=False
    )  # it asks for its stage
    model.classifier.bias.data[EOS] = -1e4  # so that no output ends before its limit

    @torch.inference_mode()
    def translate(sources: list[list[int]], beam: int) -> list[list[int]]:
        assert not trainer.validating
        if beam > 1 and len(sources) > 1:
            raise NotImplementedError("its beam search takes seconds a sentence, so that it is timed at batch 1 only")
        model.beam_width = beam
        found = model(Batch(PaddedTensor.from_tensor(torch.tensor(sources))))
        return found.argmax(1).tolist() if beam == 1 else found[0][:, 0, 1:].tolist()  # without START

    return translate


if __name__ == "__main__":
    contest.run(train, decoder)
