"""OpenNMT-py: its model (`build_model`), loss, training step (`Trainer._gradient_accumulation`), optimiser, translator.

Ours: the list of tokens that stands for the vocabulary, and the loop over batches, which follows `Trainer.train`'s.
Its model S asks with the current state and feeds the last readout into the next step: as much work as the context.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import contest
import mends  # noqa: F401
import numpy as np
import onmt
import pyonmttok
import torch
from contest import CLIP, LEARNING_RATE, SEED, Job, Watch
from onmt.constants import DefaultTokens, ModelTask
from onmt.model_builder import build_model
from onmt.opts import train_opts
from onmt.trainer import build_trainer
from onmt.translate import GNMTGlobalScorer, Translator
from onmt.utils.optimizers import Optimizer
from onmt.utils.parse import ArgumentParser
from shapes import BOS, EOS, FORCED, PAD


def options(job: Job) -> Any:
    shape = job.shape
    parser = ArgumentParser()
    train_opts(parser)
    words = {
        "encoder_type": "brnn", "decoder_type": "rnn", "rnn_type": shape.cell.upper(), "layers": shape.layers,
        "word_vec_size": shape.embedding, "hidden_size": shape.decoder, "dropout": 0.0, "input_feed": 1,
        "global_attention": "mlp" if shape.attention == "additive" else "general",
        "optim": "adam", "learning_rate": LEARNING_RATE, "max_grad_norm": CLIP, "normalization": "tokens",
        "data": "{}", "src_vocab": "none", "save_model": "none",
    }  # fmt: skip
    found = parser.parse_args([part for name, value in words.items() for part in (f"--{name}", str(value))])
    found.data = {}
    ArgumentParser.update_model_opts(found)
    return found


def vocabularies(job: Job) -> dict[str, Any]:
    marks = [DefaultTokens.PAD, DefaultTokens.UNK, DefaultTokens.BOS, DefaultTokens.EOS]  # 0 to 3, as ours
    words = pyonmttok.build_vocab_from_tokens([f"w{i}" for i in range(4, job.shape.vocabulary)], special_tokens=marks)
    assert len(words) == job.shape.vocabulary
    return {"src": words, "tgt": words, "data_task": ModelTask.SEQ2SEQ, "decoder_start_token": DefaultTokens.BOS}


def make(job: Job) -> tuple[Any, Any, dict[str, Any]]:
    torch.set_num_threads(job.threads)
    torch.manual_seed(SEED)
    opt, vocabs = options(job), vocabularies(job)
    return build_model(opt, opt, vocabs, None, -1), opt, vocabs


def batch_of(source: np.ndarray, target: np.ndarray | None) -> dict[str, Any]:
    lengths = torch.from_numpy((source != PAD).sum(1))
    batch = {"src": torch.from_numpy(source)[:, :, None], "srclen": lengths, "ind_in_bucket": list(range(len(source)))}
    if target is not None:
        target = np.concatenate([np.full_like(target[:, :1], BOS), target], axis=1)
        batch["tgt"] = torch.from_numpy(target)[:, :, None]
    return batch


def train(job: Job, batches: list[contest.Batch], watch: Watch) -> None:
    model, opt, vocabs = make(job)
    trainer = build_trainer(opt, -1, model, vocabs, Optimizer.from_opt(model, opt))
    model.train()
    held = [(batch_of(batch.source, batch.target), batch.tokens) for batch in batches]
    total = onmt.utils.Statistics()
    watch.begin(sum(p.numel() for p in model.parameters()))
    for batch, tokens in held:
        stats = onmt.utils.Statistics()
        trainer._gradient_accumulation([batch], tokens, total, stats)
        watch.step(stats.loss / tokens)


def decoder(job: Job) -> Callable[[list[list[int]], int], list[list[int]]]:
    model, _, vocabs = make(job)
    model.eval()
    searches = {
        beam: Translator(
            model, vocabs, beam_size=beam, random_sampling_topk=1 if beam == 1 else 0,  # which is greedy search
            min_length=FORCED, max_length=FORCED, max_length_ratio=0,
            global_scorer=GNMTGlobalScorer(0, 0, "none", "none"),
        )
        for beam in {beam for beam, _ in job.searches}
    }  # fmt: skip

    def translate(sources: list[list[int]], beam: int) -> list[list[int]]:
        found = searches[beam].translate_batch(batch_of(np.array(sources), None), attn_debug=False)
        return [[i for i in best[0].tolist() if i != EOS] for best in found["predictions"]]

    return translate


if __name__ == "__main__":
    contest.run(train, decoder)
