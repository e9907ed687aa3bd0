"""A worker of data-parallel training: `python -m windlass.training.worker`, started by `DataParallel`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from windlass.bundle import Bundle, load_definition
from windlass.core.serialise import deserialise, serialise
from windlass.nn.fast.onednn import prepare_training
from windlass.training.data_parallel import (
    SingleProcess,
    gradient_views,
    receive,
    send,
    share_weights,
    shared_tensor,
    weight_offsets,
    worker_seed,
)


def _main() -> None:
    """Build the model of the run on the shared weights, then compute the gradients of every shard that arrives."""
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    config = json.loads(receive(requests))
    torch.set_num_threads(1)
    model = Bundle.new(*load_definition(Path(config["folder"]))[:2]).model
    dtype = getattr(torch, config["dtype"])
    model.to(dtype).train()
    weight_count, rank = weight_offsets(model)[1], config["rank"]
    gradient_count = sum(p.numel() for p in model.parameters() if p.requires_grad)
    memory = shared_tensor(Path(config["memory"]), weight_count + (config["processes"] - 1) * gradient_count, dtype)
    share_weights(model, memory[:weight_count], fill=False)
    offset = weight_count + (rank - 1) * gradient_count
    gradients = gradient_views(model, memory[offset : offset + gradient_count])
    send(replies, b"ready")
    compute_gradients = SingleProcess(model)
    prepare_training()
    while content := receive(requests):
        size = int.from_bytes(content[:8], "little")
        header, shard = json.loads(content[8 : 8 + size]), deserialise(content[8 + size :])
        torch.manual_seed(worker_seed(config["seed"], header["step"], rank))
        scored = compute_gradients(shard.batch, header["sampling_prob"], header["step"], shard.carry)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name in gradients and parameter.grad is not None:
                    gradients[name].copy_(parameter.grad)
                elif name in gradients:
                    gradients[name].zero_()
        send(replies, serialise(scored))


if __name__ == "__main__":
    _main()
