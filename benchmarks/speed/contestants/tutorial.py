"""The loop that tutorials teach: everything a step at a time, the output layer and the loss too.

`nn.GRU` is called with one token at a time; the attention projects query and keys at every step; logits are kept in a
list; the loss runs over padded places and ignores them. Made for model S only, as tutorials are.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from contest import CLIP, LEARNING_RATE, SEED, Batch, Job, Watch, run
from shapes import BOS, EOS, FORCED, PAD, Shape
from torch import Tensor, nn


class Encoder(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.embedding)
        self.gru = nn.GRU(shape.embedding, shape.encoder, batch_first=True, bidirectional=True)

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor]:
        outputs, hidden = self.gru(self.embedding(source))
        return outputs, torch.cat([hidden[0], hidden[1]], dim=1)[None]


class Attention(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.query = nn.Linear(shape.decoder, shape.decoder, bias=False)
        self.key = nn.Linear(shape.memory, shape.decoder, bias=False)
        self.v = nn.Linear(shape.decoder, 1, bias=False)

    def forward(self, hidden: Tensor, outputs: Tensor, padding: Tensor) -> Tensor:
        scores = self.v(torch.tanh(self.query(hidden.transpose(0, 1)) + self.key(outputs))).squeeze(2)
        weights = torch.softmax(scores.masked_fill(padding, -1e9), dim=1)
        return torch.bmm(weights[:, None], outputs)


class Decoder(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.embedding)
        self.attention = Attention(shape)
        self.gru = nn.GRU(shape.embedding + shape.memory, shape.decoder, batch_first=True)
        self.join = nn.Linear(shape.decoder + shape.memory, shape.decoder, bias=False)
        self.out = nn.Linear(shape.decoder, shape.vocabulary)

    def forward(self, token: Tensor, hidden: Tensor, outputs: Tensor, padding: Tensor) -> tuple[Tensor, Tensor]:
        context = self.attention(hidden, outputs, padding)
        output, hidden = self.gru(torch.cat([self.embedding(token), context], dim=2), hidden)
        return self.out(torch.tanh(self.join(torch.cat([output, context], dim=2)))), hidden


def make(job: Job) -> tuple[Encoder, Decoder]:
    torch.set_num_threads(job.threads)
    torch.manual_seed(SEED)
    return Encoder(job.shape), Decoder(job.shape)


def train(job: Job, batches: list[Batch], watch: Watch) -> None:
    encoder, decoder = make(job)
    parameters = [*encoder.parameters(), *decoder.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=LEARNING_RATE)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    watch.begin(sum(p.numel() for p in parameters))
    for batch in batches:
        source, target = torch.from_numpy(batch.source), torch.from_numpy(batch.target)
        optimiser.zero_grad()
        outputs, hidden = encoder(source)
        token, logits = torch.full((len(source), 1), BOS), []
        for t in range(target.size(1)):
            step, hidden = decoder(token, hidden, outputs, source == PAD)
            logits.append(step)
            token = target[:, t : t + 1]
        loss = criterion(torch.cat(logits, dim=1).flatten(0, 1), target.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, CLIP)
        optimiser.step()
        watch.step(loss.item())


def decoder(job: Job) -> Callable[[list[list[int]], int], list[list[int]]]:
    encode, decode = make(job)

    @torch.no_grad()
    def translate(sources: list[list[int]], beam: int) -> list[list[int]]:
        if beam > 1:
            raise NotImplementedError("tutorials decode greedily")
        source = torch.tensor(sources)
        outputs, hidden = encode(source)
        token, found = torch.full((len(source), 1), BOS), []
        for _ in range(FORCED):
            logits, hidden = decode(token, hidden, outputs, source == PAD)
            logits[:, :, [PAD, EOS]] = -torch.inf
            token = logits.argmax(2)
            found.append(token)
        return torch.cat(found, dim=1).tolist()

    return translate


if __name__ == "__main__":
    run(train, decoder)
