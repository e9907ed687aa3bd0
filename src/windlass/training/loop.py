"""The training loop: steps, evaluations, checkpoints.

What a run does next depends only on its weights, optimiser, weight average, random number generators, the carry of
running text, and a `RunState`. A checkpoint holds exactly these, so a resumed run makes bit-identical steps.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from windlass.core.errors import DivergedError, NotFiniteError, TrainingError
from windlass.core.records import Batch, Carry
from windlass.core.tensors import atomic_write
from windlass.core.weights import clone_tensors, set_weights, temporary_weights, weights
from windlass.core.wording import counted
from windlass.nn.fast.onednn import prepare_training
from windlass.nn.fast.precision import precision
from windlass.recipe.train import TrainOptions
from windlass.training.average import build_average
from windlass.training.checkpoint import Checkpoint, changes, checkpoints, load_newest, save
from windlass.training.data_parallel import ComputeGradients, DataParallel, SingleProcess
from windlass.training.diagnostics import Diagnostics, drop_after, write
from windlass.training.interrupt import stop_on_signals
from windlass.training.lazy import clip_gradients, make_dense
from windlass.training.observe import FitResult, MetricsRow, Observer, RunPlan, Step, StopReason
from windlass.training.optimiser import build_optimiser, optimiser_tensors, restore_optimiser, set_rate
from windlass.training.rng import fork_rng, restore_rng, rng_state, seed_all
from windlass.training.state import RunState, Tally


class BatchLoader(Protocol):
    """A source of batches; the batches of an epoch depend only on its number.

    >>> from windlass.data import Sides
    >>> loader: BatchLoader = Sides.tiny().loader([], batch_tokens=8)
    """

    def batches(self, number: int) -> int:
        """The number of batches in an epoch."""

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from number `start`."""


@dataclass
class Trainer:
    """Trains a model.

    `evaluate` is called with the model in eval mode, without gradients, with averaged weights if averaging is on.
    `save_best` is called the same way whenever the dev metric improves, and again after a resume. Checkpoints and
    metrics.jsonl are written to `folder`. A time limit (`options.minutes`) leaves time for a final evaluation as long
    as the last one. `compute_gradients` defaults to this process alone. `dev_loss` returns the dev loss under teacher
    forcing, which breaks ties of the metric.

    >>> from tempfile import mkdtemp
    >>> from windlass.bundle import Bundle
    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> sides = Sides.tiny()
    >>> trainer = Trainer(
    ...     Bundle.new(Recipe(), sides).model, sides.loader([sides.encode("a", "b")], 8), lambda model: {"score": 1.0},
    ...     "score", True, TrainOptions(epochs=2), Path(mkdtemp()), Observer(), lambda model, scores: None, seed=1)
    >>> result = trainer.fit()
    >>> result.steps, result.reason
    (2, 'epochs')
    """

    model: nn.Module
    loader: BatchLoader
    evaluate: Callable[[nn.Module], dict[str, float]]
    metric: str
    higher_is_better: bool
    options: TrainOptions
    folder: Path
    observer: Observer
    save_best: Callable[[nn.Module, dict[str, float]], None]
    seed: int
    device: str = "cpu"
    compute_gradients: ComputeGradients | None = None
    unit: str = "tokens"  # what the loss counts
    dev_loss: Callable[[nn.Module], float] | None = None

    def fit(self, resume: bool = False) -> FitResult:
        """Train and leave the best weights in the model.

        With `resume`, the run continues from the newest valid checkpoint, or starts if there is none; without it, a
        folder with checkpoints is an error.
        """
        if self.options.threads is not None:
            torch.set_num_threads(self.options.threads)
        newest = load_newest(self.folder, self.observer.note) if resume else None
        if not resume and checkpoints(self.folder):
            raise TrainingError(f"{self.folder}: already has checkpoints of a run; resume it or choose another folder")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.model.to(self.device).train()
        prepare_training()
        with stop_on_signals() as self.stop:
            self._prepare()
            if newest is None:
                self._start()
            else:
                self._resume(newest)
            try:
                return self._train()
            except BaseException:
                self.observer.failed()
                raise
            finally:
                make_dense(self.model)

    def _prepare(self) -> None:
        self.batches = self.loader.batches(0)  # in this epoch
        if not self.batches:
            raise TrainingError("there is no training data: the loader has no batches")
        self.total_steps = self.batches * self.options.epochs
        self.trainable = [p for p in self.model.parameters() if p.requires_grad]
        self.optimiser = build_optimiser(self.options.optimiser, self.model)
        self.average = build_average(self.options.average, self.model)
        self.gradients = self.compute_gradients or SingleProcess(self.model)
        self.state = RunState()
        self.best: dict[str, Tensor] = {}  # the weights of the best evaluation
        self.remaining: Iterator[Batch] | None = None  # the rest of this epoch
        self.carry: Carry | None = None  # the state of running text after the last batch
        self.log, self.measured = self.folder / "metrics.jsonl", self.folder / "diagnostics.jsonl"
        self.diagnostics = Diagnostics(self.model)
        self.clock = self.saved_at = time.monotonic()

    # -- start and resume

    def _start(self) -> None:
        seed_all(self.seed)
        atomic_write(self.log, b"")
        drop_after(self.measured, 0)
        warmup = self.options.schedule.warmup
        if warmup > 1 and warmup >= self.total_steps:  # one step has the full rate
            self.observer.note(
                f"train.schedule.warmup: {warmup} steps, but the run has about {self.total_steps}: "
                f"training ends during the warm-up; shorten it"
            )

    def _resume(self, checkpoint: Checkpoint) -> None:
        self.state = RunState.from_dict(checkpoint.data["state"])
        changed = changes(checkpoint.path, checkpoint.data["facts"], self._facts())
        if changed:
            self.observer.note(f"the resumed run will differ from an uninterrupted one: {'; '.join(changed)}")
        set_weights(self.model, checkpoint.under("model"))
        restore_optimiser(self.optimiser, self.model, checkpoint.under("optimiser"))
        self.average.restore(checkpoint.under("average"))
        self.best = {n: t.to(self.device) for n, t in checkpoint.under("best").items()}
        self.carry = Carry.of({n: t.to(self.device) for n, t in checkpoint.under("carry").items()})
        self.batches = self.loader.batches(self.state.epoch)
        restore_rng(checkpoint.under("random"))
        for path in checkpoint.damaged:
            path.replace(path.with_name(path.name + ".damaged"))  # so that it is not found again
        for part in self.folder.glob("checkpoint-*.part"):  # left by a kill during a write
            part.unlink()
        # after a resume the log must hold nothing later than the checkpoint
        atomic_write(self.log, "".join(json.dumps(row) + "\n" for row in self.state.rows).encode())
        drop_after(self.measured, self.state.step)
        if self.state.best is not None:  # repeat the last save: a kill may have left it incomplete, or too new
            with temporary_weights(self.model, self.best), fork_rng(), torch.no_grad():
                self.model.eval()
                self.save_best(self.model, self.state.best)
            self.model.train()
        self.observer.note(f"resuming from {checkpoint.path.name}: epoch {self._epochs_done():.2f}")

    def _facts(self) -> dict[str, Any]:
        """What a resumed run should have in common with the original one."""
        return {
            "options": self.options.model_dump(mode="json", exclude={"auto", "track", "diagnostics"}),
            "seed": self.seed,
            "metric": self.metric,
            "batches": self.loader.batches(self.state.epoch),
            "threads": torch.get_num_threads(),
            "processes": 1 + len(self.gradients.workers) if isinstance(self.gradients, DataParallel) else 1,
            "torch": torch.__version__,
        }

    def _checkpoint(self) -> None:
        parts: dict[str, dict[str, Tensor]] = {
            "model": weights(self.model),
            "optimiser": optimiser_tensors(self.optimiser, self.model),
            "average": self.average.tensors(),
            "best": self.best,
            "carry": self.carry.tensors() if self.carry else {},
            "random": rng_state(),
        }
        tensors = {f"{part}/{name}": tensor for part, named in parts.items() for name, tensor in named.items()}
        self._tick()
        save(self.folder, self.state.step, tensors, {"state": asdict(self.state), "facts": self._facts()})
        self.saved_at = time.monotonic()

    # -- the loop

    def _train(self) -> FitResult:
        state, options = self.state, self.options
        self.clock = self.saved_at = time.monotonic()
        plan = RunPlan(
            self.total_steps, state.step, options.epochs, options.minutes, state.seconds, self.metric, self.unit
        )
        self._notify(lambda: self.observer.started(plan))
        while True:
            reason = self._stop_reason()
            every = options.evaluate_steps
            due = reason is not None or (state.batch == 0 if every is None else state.step % every == 0)
            if due and reason != "interrupted" and state.evaluated != state.step:
                if reason == "minutes":
                    self.observer.note(f"time limit reached after {counted(state.step, 'step')}: evaluating")
                self._evaluate()
                continue
            if reason is not None:
                break
            self._step()
            if time.monotonic() - self.saved_at >= 60 * options.checkpoint_minutes:
                self._checkpoint()
        if reason == "interrupted":
            self._checkpoint()
        if self.best:
            set_weights(self.model, self.best)
        self.model.eval()
        self._tick()
        newest = next(iter(checkpoints(self.folder)), None)
        result = FitResult(state.best, state.best_step, state.step, self._epochs_done(), state.seconds, reason, newest)
        self.observer.ended(result)
        return result

    def _stop_reason(self) -> StopReason | None:
        """Why the run ends now; None if it continues."""
        state, options = self.state, self.options
        if self.stop.requested:
            return "interrupted"
        if state.epoch >= options.epochs:
            return "epochs"
        if options.patience and state.bad >= options.patience:
            return "patience"
        self._tick()
        if options.minutes is not None and state.seconds + state.evaluation_seconds >= 60 * options.minutes:
            return "minutes"
        return None

    def _step(self) -> None:
        state, options, began = self.state, self.options, time.monotonic()
        if self.remaining is None:
            self.batches = self.loader.batches(state.epoch)
            self.remaining = self.loader.epoch(state.epoch, state.batch)
        batch = next(self.remaining).to(self.device)
        sampling_prob = options.sampling.probability(state.step, self._epochs_done())
        lr = options.optimiser.lr
        state.rate = options.schedule.rate(lr, state.step + 1, state.epoch, self.total_steps, state.plateau)
        with precision(options.precision):
            scored = self.gradients(batch, sampling_prob, state.step, self.carry)
        diagnosed = options.diagnostics is not None and (state.step + 1) % options.diagnostics == 0
        if diagnosed:
            self.diagnostics.before()
        norm = clip_gradients(self.trainable, options.clip or math.inf)
        sums = {"loss": scored.loss_sum, **(scored.terms or {})}
        values = torch.stack([t.detach().double() for t in (norm, scored.count, *sums.values())]).tolist()
        grad_norm, tokens = values[0], int(values[1])
        loss = values[2] / max(1, tokens)
        problem = state.check_divergence(loss, grad_norm)
        if problem is not None:
            raise self._divergence_error(problem)  # before the weights change
        set_rate(self.optimiser, state.rate)
        self.optimiser.step()
        # Fused optimisers do not bump the version counter, which tells evaluation that packed weights are stale.
        torch.autograd.graph.increment_version(self.trainable)
        self.average.stepped(self.model)
        self.carry = scored.carry
        state.step += 1
        state.batch += 1
        if state.batch == self.batches:
            state.epoch, state.batch, self.remaining, self.carry = state.epoch + 1, 0, None, None
        state.tally.add(dict(zip(sums, values[2:], strict=True)), tokens, grad_norm, time.monotonic() - began)
        self._tick()
        epoch, speed = self._epochs_done(), state.tally.tokens_per_second
        step = Step(state.step, epoch, loss, state.rate, grad_norm, tokens, speed, state.seconds)
        if diagnosed:
            self._diagnose(batch)
        self._notify(lambda: self.observer.step(step))

    def _diagnose(self, batch: Batch) -> None:
        diagnosis = self.diagnostics.after(self.state.step, batch)
        write(self.measured, diagnosis)
        self._notify(lambda: self.observer.diagnosed(diagnosis.step, diagnosis.scalars()))
        warm = self.state.epoch > 0 and self.state.step > self.options.schedule.warmup
        for finding in self.diagnostics.findings(diagnosis, warm):
            self.observer.note(finding)

    def _divergence_error(self, problem: str) -> DivergedError:
        newest = next(iter(checkpoints(self.folder)), None)
        advice = "" if self.options.clip is not None else ", set train.clip: 1"
        return DivergedError(
            f"{problem} at step {self.state.step + 1} (epoch {self.state.epoch + 1}, "
            f"learning rate {self.state.rate:.3g}); "
            f"lower train.optimiser.lr (--lr){advice} or lengthen train.schedule.warmup; "
            f"last checkpoint: {newest or 'none'}"
        )

    # -- evaluation

    def _evaluate(self) -> None:
        """Evaluate, keep the best weights, write metrics and a checkpoint; change nothing if interrupted."""
        state, began = self.state, time.monotonic()
        try:
            with temporary_weights(self.model, self.average.now(self.model)), fork_rng(), torch.no_grad():
                self.model.eval()
                if not all(bool(weight.isfinite().all()) for weight in self.trainable):
                    raise self._divergence_error("the weights are not finite numbers")
                evaluation = self._scores()
                if evaluation is None:
                    return
                scores, loss = evaluation
                better = self._better(scores, loss)
                if better:
                    self.best = clone_tensors(weights(self.model))
                    self.save_best(self.model, scores)
        finally:
            self.model.train()
        self.average.evaluated(self.model)
        state.bad = 0 if better else state.bad + 1
        if better:
            state.best, state.best_step, state.best_loss = scores, state.step, loss
        state.plateau = self.options.schedule.evaluated(state.plateau, better)
        state.evaluated, state.evaluation_seconds = state.step, time.monotonic() - began
        row = self._row(scores, loss)
        state.rows.append(row)
        state.tally = Tally()
        with self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._checkpoint()
        self._notify(lambda: self.observer.evaluated(row))

    def _scores(self) -> tuple[dict[str, float], float | None] | None:
        """The dev scores and the dev loss; None if Ctrl-C interrupted the evaluation."""
        try:
            with self.stop.immediately():
                scores = {name: float(value) for name, value in self.evaluate(self.model).items()}
                return scores, None if self.dev_loss is None else self.dev_loss(self.model)
        except NotFiniteError:
            raise self._divergence_error("the model's scores are not finite numbers") from None
        except KeyboardInterrupt:
            self.stop.requested = True
            return None

    def _better(self, scores: dict[str, float], loss: float | None) -> bool:
        """Whether these are the best weights so far: by the metric, then by dev loss.

        What an evaluation in the warm-up found is chance, so a later one with a lower dev loss is better.
        """
        if self.metric not in scores:
            raise TrainingError(f"the evaluation has no metric {self.metric}, only {', '.join(sorted(scores))}")
        state = self.state
        if state.best is None:
            return True
        new, old = scores[self.metric], state.best[self.metric]
        lower = loss is not None and state.best_loss is not None and loss < state.best_loss
        if math.isnan(new) or math.isnan(old):
            return math.isnan(old) and (lower or not math.isnan(new))
        if lower and (new == old or state.best_step <= self.options.schedule.warmup):
            return True
        return new > old if self.higher_is_better else new < old

    def _row(self, scores: dict[str, float], loss: float | None) -> MetricsRow:
        self._tick()
        tally = self.state.tally
        return {
            "epoch": self._epochs_done(),
            "step": self.state.step,
            "best_step": self.state.best_step,
            **tally.means(),
            **({} if loss is None else {"dev_loss": loss}),
            "dev": scores,
            "lr": self.state.rate,
            "grad_norm": tally.norms / max(1, tally.steps),
            "tokens_per_second": tally.tokens_per_second,
            "seconds": self.state.seconds,
            "evaluation_seconds": self.state.evaluation_seconds,
        }

    # -- clock, observer

    def _epochs_done(self) -> float:
        return self.state.epoch + self.state.batch / self.batches

    def _tick(self) -> None:
        now = time.monotonic()
        self.state.seconds += now - self.clock
        self.clock = now

    def _notify(self, event: Callable[[], None]) -> None:
        """Call the observer; its KeyboardInterrupt requests a stop, a second one quits."""
        try:
            event()
        except KeyboardInterrupt:
            if self.stop.requested:
                raise
            self.stop.requested = True
