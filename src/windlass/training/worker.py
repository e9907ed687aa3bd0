"""A member of a team that trains one model: `python -m windlass.training.worker`, started by `training/team.py`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from windlass.bundle import Bundle, load_definition
from windlass.core.memory import kept
from windlass.core.serialise import deserialise, serialise
from windlass.training.team import Alone, attach, gradients_in, layout, mapped, member_seed, receive, send


def main() -> None:
    """Build the run's model on the shared weights, then give the gradients of every part of a batch that comes.

    >>> callable(main)
    True
    """
    orders, answers = sys.stdin.buffer, sys.stdout.buffer
    told = json.loads(receive(orders))
    torch.set_num_threads(1)
    model = Bundle.new(*load_definition(Path(told["folder"]))[:2]).model
    dtype = getattr(torch, told["dtype"])
    model.to(dtype).train()
    numbers, member = layout(model)[1], told["member"]
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    memory = mapped(Path(told["memory"]), numbers + (told["members"] - 1) * trained, dtype)
    attach(model, memory[:numbers], fill=False)
    place = numbers + (member - 1) * trained
    mine = gradients_in(model, memory[place : place + trained])
    send(answers, b"ready")
    compute = Alone(model)
    with kept():
        while content := receive(orders):
            size = int.from_bytes(content[:8], "little")
            order, part = json.loads(content[8 : 8 + size]), deserialise(content[8 + size :])
            torch.manual_seed(member_seed(told["seed"], order["step"], member))
            scored = compute(part.batch, order["own"], order["step"], part.carry)
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    if name in mine and parameter.grad is not None:
                        mine[name].copy_(parameter.grad)
                    elif name in mine:
                        mine[name].zero_()
            send(answers, serialise(scored))


if __name__ == "__main__":
    main()
