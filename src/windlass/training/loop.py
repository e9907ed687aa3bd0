"""The loop: steps, evaluations, checkpoints, and an end.

Everything a run does next depends only on its weights, its optimiser, its average, the random number
generators, what running text carries on, and a `State`. A checkpoint holds exactly these, so a run that goes
on from one makes the same steps bit by bit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from windlass.core.errors import TrainingError
from windlass.core.memory import kept
from windlass.core.records import Batch, Carry
from windlass.core.weights import clone_tensors, set_weights, temporary_weights, weights
from windlass.recipe.train import TrainOptions
from windlass.training.average import build_average
from windlass.training.checkpoint import Checkpoint, checkpoints, load_newest, save, set_aside
from windlass.training.interrupt import Stop, stop_on_signals
from windlass.training.lazy import clip
from windlass.training.observe import Fitted, Observer, Plan, Reason, Row, Step
from windlass.training.optimiser import build_optimiser, optimiser_tensors, restore_optimiser, set_rate
from windlass.training.randomness import random_state, restore_random, seed_all, untouched_randomness
from windlass.training.resume import changes
from windlass.training.rows import give_whole
from windlass.training.schedule import after_evaluation, learning_rate, own_chance
from windlass.training.state import State, Tally, append_row, write_rows
from windlass.training.team import Alone, Gradients, Team


class Batches(Protocol):
    """Where batches come from; the plan of an epoch depends on its number only.

    >>> from windlass.data.loader import Loader
    >>> source: Batches = Loader([], batch_tokens=8, seed=1, shuffle=True)
    """

    def batches(self, number: int) -> int:
        """How many batches an epoch has."""

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from `start` on."""


def fit(
    model: nn.Module,
    loader: Batches,
    evaluate: Callable[[nn.Module], dict[str, float]],
    metric: str,
    higher_is_better: bool,
    options: TrainOptions,
    folder: Path,
    observer: Observer,
    save_best: Callable[[nn.Module, dict[str, float]], None],
    seed: int,
    device: str = "cpu",
    resume: bool = False,
    gradients: Gradients | None = None,
) -> Fitted:
    """Train a model and leave its best weights in it.

    `evaluate` gets the model with the weights to judge (averaged where averaging is on), in eval mode and
    without gradients. `save_best` gets the same each time the dev metric is the best so far, and once more
    after a resume. `folder` gets the checkpoints and metrics.jsonl. With `resume` the run goes on from the
    newest good checkpoint there, or begins where there is none; without it, a folder with checkpoints is
    refused. With `minutes` it stops in time for a last evaluation that takes as long as the one before.
    `gradients` computes them where this process does not do it alone (see `team.py`).

    >>> from tempfile import mkdtemp
    >>> from windlass.core.records import Scored
    >>> from windlass.data.loader import Encoded, Loader
    >>> from windlass.training.observe import Silent
    >>> class Unigram(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.logits = nn.Parameter(torch.zeros(8))
    ...     def forward(self, batch, carry=None, own=0.0):
    ...         tokens = batch.target.values[batch.target.mask]
    ...         return Scored(-self.logits.log_softmax(0)[tokens].sum(), torch.tensor(len(tokens)))
    >>> loader = Loader([Encoded([5], [6])], batch_tokens=8, seed=1, shuffle=True)
    >>> fitted = fit(
    ...     Unigram(), loader, lambda m: {"score": m.logits[6].item()}, "score", True, TrainOptions(epochs=2),
    ...     Path(mkdtemp()), Silent(), lambda m, scores: None, seed=1)
    >>> fitted.steps, fitted.reason
    (2, 'epochs')
    """
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    newest = load_newest(folder, observer.note) if resume else None
    if not resume and checkpoints(folder):
        raise TrainingError(f"{folder}: holds the checkpoints of a run; resume it or choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    model.to(device).train()
    with stop_on_signals() as stop, kept():
        run = _Run(
            model,
            loader,
            evaluate,
            metric,
            higher_is_better,
            options,
            folder,
            observer,
            save_best,
            seed,
            device,
            stop,
            gradients or Alone(model),
        )
        if newest is None:
            run.begin()
        else:
            run.take_up(newest)
        try:
            return run.go()
        except BaseException:
            observer.failed()
            raise
        finally:
            give_whole(model)


@dataclass
class _Run:
    model: nn.Module
    loader: Batches
    evaluate: Callable[[nn.Module], dict[str, float]]
    metric: str
    higher_is_better: bool
    options: TrainOptions
    folder: Path
    observer: Observer
    save_best: Callable[[nn.Module, dict[str, float]], None]
    seed: int
    device: str
    stop: Stop
    gradients: Gradients

    def __post_init__(self) -> None:
        model, loader, options, folder = self.model, self.loader, self.options, self.folder
        first = loader.batches(0)
        if not first:
            raise TrainingError("there is no training data: the loader has no batches")
        self.total = first * options.epochs
        self.trained = [p for p in model.parameters() if p.requires_grad]
        self.optimiser = build_optimiser(options.optimiser, model)
        self.average = build_average(options.average, model)
        self.state = State()
        self.best: dict[str, Tensor] = {}  # the weights of the best evaluation
        self.coming: Iterator[Batch] | None = None  # the rest of this epoch
        self.carry: Carry | None = None  # where running text stands
        self.batches = first  # in this epoch
        self.log = folder / "metrics.jsonl"
        self.clock = self.saved_at = time.monotonic()

    # -- beginning, and going on

    def begin(self) -> None:
        seed_all(self.seed)
        write_rows(self.log, [])
        if self.options.schedule.warmup >= self.total:
            self.observer.note(
                f"schedule.warmup: {self.options.schedule.warmup} steps, but the run has about {self.total}: "
                f"the learning rate never stays at its height; lower the warm-up"
            )

    def take_up(self, checkpoint: Checkpoint) -> None:
        self.state = State.of(checkpoint.data["state"])
        changed = changes(checkpoint.path, checkpoint.data["facts"], self._facts())
        if changed:
            self.observer.note(f"this will not be exactly the run that began: {'; '.join(changed)}")
        set_weights(self.model, checkpoint.under("model"))
        restore_optimiser(self.optimiser, self.model, checkpoint.under("optimiser"))
        self.average.restore(checkpoint.under("average"))
        self.best = {n: t.to(self.device) for n, t in checkpoint.under("best").items()}
        self.carry = Carry.of({n: t.to(self.device) for n, t in checkpoint.under("carry").items()})
        self.batches = self.loader.batches(self.state.epoch)
        restore_random(checkpoint.under("random"))
        set_aside(checkpoint.damaged)
        for part in self.folder.glob("checkpoint-*.part"):  # a kill during a write left it
            part.unlink()
        write_rows(self.log, self.state.rows)
        if self.state.best is not None:
            self._save_best_again(self.state.best)
        self.observer.note(f"going on from {checkpoint.path.name}: epoch {self.epochs_done():.2f}")

    def _facts(self) -> dict[str, Any]:
        """What a run that goes on should have in common with the one that began."""
        return {
            "options": self.options.model_dump(mode="json"),
            "seed": self.seed,
            "metric": self.metric,
            "batches": self.loader.batches(self.state.epoch),
            "threads": torch.get_num_threads(),
            "processes": 1 + len(self.gradients.members) if isinstance(self.gradients, Team) else 1,
            "torch": torch.__version__,
        }

    def checkpoint(self) -> Path:
        parts: dict[str, dict[str, Tensor]] = {
            "model": weights(self.model),
            "optimiser": optimiser_tensors(self.optimiser, self.model),
            "average": self.average.tensors(),
            "best": self.best,
            "carry": self.carry.tensors() if self.carry else {},
            "random": random_state(),
        }
        tensors = {f"{part}/{name}": tensor for part, named in parts.items() for name, tensor in named.items()}
        self._tick()
        path = save(self.folder, self.state.step, tensors, {"state": self.state.data(), "facts": self._facts()})
        self.saved_at = time.monotonic()
        return path

    # -- the loop

    def go(self) -> Fitted:
        state, options = self.state, self.options
        self.clock = self.saved_at = time.monotonic()
        plan = Plan(self.total, state.step, options.epochs, options.minutes, state.seconds, self.metric)
        self._tell(lambda: self.observer.started(plan))
        while True:
            reason = self._reason()
            due = reason is not None or self._evaluation_step()
            if due and reason != "interrupted" and state.evaluated != state.step:
                self._evaluate()
                continue
            if reason is not None:
                break
            self._step()
            if time.monotonic() - self.saved_at >= 60 * options.checkpoint_minutes:
                self.checkpoint()
        if reason == "interrupted":
            self.checkpoint()
        if self.best:
            set_weights(self.model, self.best)
        self.model.eval()
        self._tick()
        newest = next(iter(checkpoints(self.folder)), None)
        fitted = Fitted(state.best, state.best_step, state.step, self.epochs_done(), state.seconds, reason, newest)
        self.observer.ended(fitted)
        return fitted

    def _reason(self) -> Reason | None:
        """Why the run is over, if it is."""
        state, options = self.state, self.options
        if self.stop.asked:
            return "interrupted"
        if state.epoch >= options.epochs:
            return "epochs"
        if options.patience and state.bad >= options.patience:
            return "patience"
        self._tick()
        if options.minutes is not None and state.seconds + state.evaluation_seconds >= 60 * options.minutes:
            return "minutes"
        return None

    def _evaluation_step(self) -> bool:
        if self.options.evaluate_steps is None:
            return self.state.batch == 0
        return self.state.step % self.options.evaluate_steps == 0

    def _step(self) -> None:
        state, options, began = self.state, self.options, time.monotonic()
        if self.coming is None:
            self.batches = self.loader.batches(state.epoch)
            self.coming = self.loader.epoch(state.epoch, state.batch)
        batch = next(self.coming).to(self.device)
        own = own_chance(options.sampling, state.step, self.epochs_done())
        state.rate = learning_rate(
            options.schedule, options.optimiser.lr, state.step + 1, state.epoch, self.total, state.plateau
        )
        scored = self.gradients(batch, own, state.step, self.carry)
        # An infinite limit scales by 1, so that one line both measures and clips.
        norm = clip(self.trained, options.clip or math.inf)
        sums = {"loss": scored.loss_sum, **(scored.terms or {})}
        values = torch.stack([t.detach().double() for t in (norm, scored.count, *sums.values())]).tolist()
        length, tokens = values[0], int(values[1])
        loss = values[2] / max(1, tokens)
        wrong = state.watch(loss, length)
        if wrong is not None:
            raise self._refuse(wrong)  # before the weights are touched
        set_rate(self.optimiser, state.rate)
        self.optimiser.step()
        # A fused optimiser writes without counting it, and what evaluation lays out anew goes by that count.
        torch.autograd.graph.increment_version(self.trained)
        self.average.stepped(self.model)
        self.carry = scored.carry
        state.step += 1
        state.batch += 1
        if state.batch == self.batches:
            state.epoch, state.batch, self.coming, self.carry = state.epoch + 1, 0, None, None
        state.tally.add(dict(zip(sums, values[2:], strict=True)), tokens, length, time.monotonic() - began)
        self._tick()
        step = Step(
            step=state.step,
            epoch=self.epochs_done(),
            loss=loss,
            rate=state.rate,
            norm=length,
            tokens=tokens,
            speed=state.tally.speed,
            seconds=state.seconds,
        )
        self._tell(lambda: self.observer.step(step))

    def _refuse(self, wrong: str) -> TrainingError:
        newest = next(iter(checkpoints(self.folder)), None)
        advice = "" if self.options.clip is not None else ", set train.clip: 1"
        return TrainingError(
            f"{wrong} at step {self.state.step + 1} (epoch {self.state.epoch + 1}, "
            f"learning rate {self.state.rate:.3g}); "
            f"lower train.optimiser.lr{advice} or lengthen train.schedule.warmup; "
            f"last good checkpoint: {newest or 'none'}"
        )

    # -- evaluation

    def _evaluate(self) -> None:
        """Evaluate, keep the best weights, write a row and a checkpoint; broken off, leave all as it was."""
        state, began = self.state, time.monotonic()
        try:
            with temporary_weights(self.model, self.average.now(self.model)), untouched_randomness(), torch.no_grad():
                self.model.eval()
                scores = self._scores()
                if scores is None:
                    return
                better = self._better(scores)
                if better:
                    self.best = clone_tensors(weights(self.model))
                    self.save_best(self.model, scores)
        finally:
            self.model.train()
        self.average.evaluated(self.model)
        state.bad = 0 if better else state.bad + 1
        if better:
            state.best, state.best_step = scores, state.step
        state.plateau = after_evaluation(self.options.schedule, state.plateau, better)
        state.evaluated, state.evaluation_seconds = state.step, time.monotonic() - began
        row = self._row(scores)
        state.rows.append(row)
        state.tally = Tally()
        append_row(self.log, row)
        self.checkpoint()
        self._tell(lambda: self.observer.evaluated(row))

    def _scores(self) -> dict[str, float] | None:
        """The dev scores; None where Ctrl-C broke the evaluation off."""
        try:
            with self.stop.at_once():
                return {name: float(value) for name, value in self.evaluate(self.model).items()}
        except KeyboardInterrupt:
            self.stop.asked = True
            return None

    def _better(self, scores: dict[str, float]) -> bool:
        if self.metric not in scores:
            raise TrainingError(f"the evaluation gives no {self.metric}; it gives {', '.join(sorted(scores))}")
        if self.state.best is None:
            return True
        new, old = scores[self.metric], self.state.best[self.metric]
        return (new > old if self.higher_is_better else new < old) or (math.isnan(old) and not math.isnan(new))

    def _row(self, scores: dict[str, float]) -> Row:
        self._tick()
        tally = self.state.tally
        return {
            "epoch": self.epochs_done(),
            "step": self.state.step,
            **tally.means(),
            "dev": scores,
            "lr": self.state.rate,
            "grad_norm": tally.norms / max(1, tally.steps),
            "tokens_per_second": tally.speed,
            "seconds": self.state.seconds,
            "evaluation_seconds": self.state.evaluation_seconds,
        }

    def _save_best_again(self, scores: dict[str, float]) -> None:
        """A kill may have left what was saved in pieces, or later than the checkpoint."""
        with temporary_weights(self.model, self.best), untouched_randomness(), torch.no_grad():
            self.model.eval()
            self.save_best(self.model, scores)
        self.model.train()

    # -- small things

    def epochs_done(self) -> float:
        return self.state.epoch + self.state.batch / self.batches

    def _tick(self) -> None:
        now = time.monotonic()
        self.state.seconds += now - self.clock
        self.clock = now

    def _tell(self, tell: Callable[[], None]) -> None:
        """Tell the observer something; its KeyboardInterrupt is a wish to stop, a second one quits."""
        try:
            tell()
        except KeyboardInterrupt:
            if self.stop.asked:
                raise
            self.stop.asked = True
