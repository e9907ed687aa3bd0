"""TensorBoard events of a run (the extra `track`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from windlass.core.errors import RecipeError
from windlass.training.observe import FitResult, Forwarding, MetricsRow, Observer, RunPlan, Step


class TensorBoard(Forwarding):
    """An observer that writes scalars as TensorBoard events to a folder, and forwards every event.

    At every step: `train/loss` per token, `train/lr`, `train/grad_norm` and `train/tokens_per_second`; at every
    evaluation: `dev/loss` and the dev metrics; every `train.diagnostics` steps: `gradient/LAYER`, `update/LAYER` and
    `attention_entropy`. View them with `tensorboard --logdir FOLDER`.

    >>> scalars({"step": 5, "loss": 1.0, "dev_loss": 1.5, "dev": {"wer": 80.0}})
    {'dev/loss': 1.5, 'dev/wer': 80.0}
    """

    def __init__(self, inner: Observer, folder: Path):
        super().__init__(inner)
        self.folder = folder
        self.open = _writer_class()
        self.writer: Any = None

    def started(self, plan: RunPlan) -> None:
        """Open the events; those after the step that a resumed run continues from are hidden."""
        purge = {"purge_step": plan.done + 1} if plan.done else {}
        self.writer = self.open(logdir=str(self.folder), **purge)
        super().started(plan)

    def step(self, step: Step) -> None:
        """Write the scalars of a step."""
        for name in ("loss", "lr", "grad_norm", "tokens_per_second"):
            self.writer.add_scalar(f"train/{name}", getattr(step, name), step.step)
        super().step(step)

    def diagnosed(self, step: int, scalars: dict[str, float]) -> None:
        """Write the scalars of the diagnostics."""
        for name, value in scalars.items():
            self.writer.add_scalar(name, value, step)
        super().diagnosed(step, scalars)

    def evaluated(self, row: MetricsRow) -> None:
        """Write the scalars of an evaluation."""
        for name, value in scalars(row).items():
            self.writer.add_scalar(name, value, row["step"])
        self.writer.flush()
        super().evaluated(row)

    def ended(self, result: FitResult) -> None:
        """Close the events."""
        self.writer.close()
        super().ended(result)

    def failed(self) -> None:
        """Close the events."""
        if self.writer is not None:
            self.writer.close()
        super().failed()


def scalars(row: MetricsRow) -> dict[str, float]:
    """Return the dev loss and metrics of an evaluation by their names in TensorBoard.

    >>> scalars({"step": 5, "loss": 1.0, "dev": {"bpc": 2.0}})
    {'dev/bpc': 2.0}
    """
    dev, loss = row["dev"], row.get("dev_loss")
    assert isinstance(dev, dict)
    named = {f"dev/{name}": value for name, value in dev.items()}
    return named if loss is None or isinstance(loss, dict) else {"dev/loss": loss, **named}


def _writer_class() -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise RecipeError(
            "train.track: tensorboard needs the package tensorboardX: pip install 'windlass[track]'"
        ) from None
    return SummaryWriter
