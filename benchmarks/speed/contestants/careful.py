"""A careful loop in plain PyTorch, as someone who knows it writes it; for the language model, `torch.nn.LSTM`.

`nn.GRU` or `nn.LSTM` encodes; keys are projected once; `nn.GRUCell` or `nn.LSTMCell` decodes, a step at a time; the
readout (where it is not fed back) and the output layer are one product over all steps and real tokens only. Fused Adam.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from contest import CLIP, LEARNING_RATE, SEED, Batch, Job, Watch, run
from shapes import BOS, EOS, FORCED, PAD, Shape
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

State = list[tuple[Tensor, ...]]  # h, or h and c, of every layer


class Translator(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.shape, size = shape, shape.decoder
        whole, one = (nn.GRU, nn.GRUCell) if shape.cell == "gru" else (nn.LSTM, nn.LSTMCell)
        self.source = nn.Embedding(shape.vocabulary, shape.embedding, padding_idx=PAD)
        self.target = nn.Embedding(shape.vocabulary, shape.embedding, padding_idx=PAD)
        self.encoder = whole(shape.embedding, shape.encoder, shape.layers, batch_first=True, bidirectional=True)
        self.key = nn.Linear(shape.memory, size, bias=False)
        if shape.attention == "additive":
            self.query = nn.Linear(size, size, bias=False)
            self.v = nn.Linear(size, 1, bias=False)
        first = shape.embedding + (size if shape.feeding else shape.memory)
        self.cells = nn.ModuleList(one(size if layer else first, size) for layer in range(shape.layers))
        self.join = nn.Linear(size + shape.memory, size, bias=False)
        self.output = nn.Linear(size, shape.vocabulary)

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor, Tensor, State]:
        """Values and keys (B, S, .), what is padding (B, S), and the first state of the decoder."""
        lengths = (source != PAD).sum(1)
        packed = pack_padded_sequence(self.source(source), lengths, batch_first=True, enforce_sorted=False)
        outputs, last = self.encoder(packed)
        values, _ = pad_packed_sequence(outputs, batch_first=True)
        parts = last if isinstance(last, tuple) else (last,)
        both = [part.unflatten(0, (-1, 2)).transpose(1, 2).flatten(2) for part in parts]  # (L, B, 2 H)
        state = [tuple(part[layer] for part in both) for layer in range(self.shape.layers)]
        return values, self.key(values), source == PAD, state

    def attend(self, query: Tensor, values: Tensor, keys: Tensor, padding: Tensor) -> Tensor:
        if self.shape.attention == "additive":
            scores = self.v(torch.tanh(self.query(query)[:, None] + keys)).squeeze(2)
        else:
            scores = torch.bmm(keys, query[:, :, None]).squeeze(2)
        weights = torch.softmax(scores.masked_fill(padding, -torch.inf), dim=1)
        return torch.bmm(weights[:, None], values).squeeze(1)

    def step(self, e: Tensor, state: State, fed: Tensor, memory: tuple[Tensor, Tensor, Tensor]) -> tuple[State, Tensor]:
        """One step: the new state, and what the readout sees besides it: the context, or, when fed, the readout."""
        context = fed if self.shape.feeding else self.attend(state[-1][0], *memory)
        x, new = torch.cat([e, context], dim=1), []
        for cell, old in zip(self.cells, state, strict=True):
            out = cell(x, old if len(old) == 2 else old[0])
            new.append(out if isinstance(out, tuple) else (out,))
            x = new[-1][0]
        if self.shape.feeding:
            context = torch.tanh(self.join(torch.cat([x, self.attend(x, *memory)], dim=1)))
        return new, context

    def readout(self, tops: Tensor, contexts: Tensor) -> Tensor:
        return contexts if self.shape.feeding else torch.tanh(self.join(torch.cat([tops, contexts], dim=-1)))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        *memory, state = self.encode(source)
        fed = state[-1][0].new_zeros(len(source), self.shape.decoder)
        embedded = self.target(F.pad(target[:, :-1], (1, 0), value=BOS))
        tops, contexts = [], []
        for e in embedded.unbind(1):
            state, fed = self.step(e, state, fed, tuple(memory))
            tops.append(state[-1][0])
            contexts.append(fed)
        real = target != PAD
        logits = self.output(self.readout(torch.stack(tops, 1)[real], torch.stack(contexts, 1)[real]))
        return F.cross_entropy(logits, target[real])

    @torch.inference_mode()
    def translate(self, sources: list[list[int]], beam: int) -> list[list[int]]:
        """The best FORCED tokens, by a beam (of 1: greedily); EOS is never chosen."""
        *memory, state = self.encode(torch.tensor(sources))
        B, K = len(sources), beam
        memory = tuple(part.repeat_interleave(K, 0) for part in memory)
        state = [tuple(part.repeat_interleave(K, 0) for part in layer) for layer in state]
        fed, tokens = state[-1][0].new_zeros(B * K, self.shape.decoder), torch.full((B * K,), BOS)
        total = torch.full((B, K), -torch.inf)
        total[:, 0] = 0
        outputs = torch.empty(B * K, 0, dtype=torch.long)
        for _ in range(FORCED):
            state, fed = self.step(self.target(tokens), state, fed, memory)
            logits = self.output(self.readout(state[-1][0], fed))
            logits[:, [PAD, EOS]] = -torch.inf
            if K == 1:
                tokens = logits.argmax(1)
            else:
                scores = total[:, :, None] + F.log_softmax(logits, dim=1).view(B, K, -1)
                total, best = scores.flatten(1).topk(K, dim=1)
                tokens = (best % logits.size(1)).flatten()
                rows = (torch.arange(B)[:, None] * K + best // logits.size(1)).flatten()
                state = [tuple(part[rows] for part in layer) for layer in state]
                fed, outputs = fed[rows], outputs[rows]
            outputs = torch.cat([outputs, tokens[:, None]], dim=1)
        return outputs[::K].tolist()


class LanguageModel(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.embedding)
        self.lstm = nn.LSTM(shape.embedding, shape.decoder, shape.layers, batch_first=True)
        self.output = nn.Linear(shape.decoder, shape.vocabulary)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        states, _ = self.lstm(self.embedding(source))
        return F.cross_entropy(self.output(states).flatten(0, 1), target.flatten())


def make(job: Job) -> Translator | LanguageModel:
    torch.set_num_threads(job.threads)
    torch.manual_seed(SEED)
    return Translator(job.shape) if job.shape.encoder else LanguageModel(job.shape)


def train(job: Job, batches: list[Batch], watch: Watch) -> None:
    model = make(job)
    optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=True)
    pairs = [(torch.from_numpy(batch.source), torch.from_numpy(batch.target)) for batch in batches]
    watch.begin(sum(p.numel() for p in model.parameters()))
    for source, target in pairs:
        optimiser.zero_grad()
        loss = model(source, target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimiser.step()
        watch.step(loss.item())


def decoder(job: Job) -> Callable[[list[list[int]], int], list[list[int]]]:
    model = make(job).eval()
    assert isinstance(model, Translator)
    return model.translate


if __name__ == "__main__":
    run(train, decoder)
