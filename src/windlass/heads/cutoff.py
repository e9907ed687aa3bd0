"""The cutoff of a decision: a number of the recipe or, with `auto`, chosen on the validation data after training."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

Auto = Literal["auto"]


class Cutoff(nn.Module):
    """A number that decides how much a prediction contains, by the name of its option; if auto, saved with the weights.

    >>> Cutoff("threshold", "auto", start=0.5, choices=(0.5, 0.4)).value
    0.5
    """

    number: Tensor

    def __init__(self, option: str, value: float | Auto, start: float, choices: tuple[float, ...]):
        super().__init__()
        self.option = option
        self.start = start if value == "auto" else value
        self.choices = choices if value == "auto" else ()
        self.register_buffer("number", torch.tensor(self.start), persistent=value == "auto")

    @property
    def value(self) -> float:
        """The cutoff."""
        return max(float(self.number), 1e-6)  # whatever a file holds, it has a logarithm

    @value.setter
    def value(self, value: float) -> None:
        self.number.fill_(value)
