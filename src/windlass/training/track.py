"""TensorBoard events of a run (the extra `track`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from windlass.core.errors import RecipeError
from windlass.training.observe import FitResult, MetricsRow, Observer, RunPlan, Step


class TensorBoard(Observer):
    """An observer that writes scalars as TensorBoard events to a folder, and forwards every event.

    At every step: `train/loss` per token, `train/lr`, `train/grad_norm` and `train/tokens_per_second`; at every
    evaluation: `dev/loss` and the dev metrics. View them with `tensorboard --logdir FOLDER`.

    >>> scalars({"step": 5, "loss": 1.0, "dev_loss": 1.5, "dev": {"wer": 80.0}})
    {'dev/loss': 1.5, 'dev/wer': 80.0}
    """

    def __init__(self, inner: Observer, folder: Path):
        self.inner, self.folder = inner, folder
        self.open = _writer_class()
        self.writer: Any = None

    def started(self, plan: RunPlan) -> None:
        """Open the events; those after the step that a resumed run continues from are hidden."""
        purge = {"purge_step": plan.done + 1} if plan.done else {}
        self.writer = self.open(logdir=str(self.folder), **purge)
        self.inner.started(plan)

    def step(self, step: Step) -> None:
        """Write the scalars of a step."""
        for name in ("loss", "lr", "grad_norm", "tokens_per_second"):
            self.writer.add_scalar(f"train/{name}", getattr(step, name), step.step)
        self.inner.step(step)

    def evaluated(self, row: MetricsRow) -> None:
        """Write the scalars of an evaluation."""
        for name, value in scalars(row).items():
            self.writer.add_scalar(name, value, row["step"])
        self.writer.flush()
        self.inner.evaluated(row)

    def ended(self, result: FitResult) -> None:
        """Close the events."""
        self.writer.close()
        self.inner.ended(result)

    def failed(self) -> None:
        """Close the events."""
        if self.writer is not None:
            self.writer.close()
        self.inner.failed()

    def note(self, text: str) -> None:
        """Forward."""
        self.inner.note(text)


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
