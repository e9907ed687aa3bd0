"""JoeyNMT's own command line, which asks torch for an option that torch has dropped since: `verbose` of the plateau."""

from __future__ import annotations

import runpy
from typing import Any

from torch.optim import lr_scheduler


class Plateau(lr_scheduler.ReduceLROnPlateau):
    def __init__(self, *args: Any, verbose: bool = False, **options: Any):
        super().__init__(*args, **options)


lr_scheduler.ReduceLROnPlateau = Plateau
runpy.run_module("joeynmt", run_name="__main__")
