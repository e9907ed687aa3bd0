"""The simple baseline that is best on the validation data, and its metrics."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.baseline import AnyBaseline, best_baseline
from windlass.data.examples import Example, group
from windlass.data.sides import TARGETS, Sides
from windlass.data.store import View, some
from windlass.experiment.data import Data, sides_of
from windlass.recipe import Recipe
from windlass.tasks import TASKS, Task
from windlass.training.finetune import Note

SAMPLE_SIZE = 200_000
"""Examples of a corpus on disk that baselines are fitted on and settings are suggested from."""


def choose_baseline(
    recipe: Recipe, data: Data, note: Note = lambda text: None, sides: Sides | None = None
) -> AnyBaseline:
    """Return the baseline that does best on dev.

    >>> from windlass.experiment.data import as_data
    >>> choose_baseline(Recipe(), as_data([("a", "a"), ("b", "b"), ("c", "c")], [("d", "d")], Recipe())).name
    'copy'
    """
    task = _task_for(recipe.task, data.dev)
    dev = group(data.dev) if task.multi_reference else data.dev
    learned = (e for e in sample(data.train) if sides is None or sides.target.can_learn(e.target))
    pairs = [(e.source, e.target) for e in learned]
    sources, references = [e.source for e in dev], [e.targets for e in dev]
    lead, source = recipe.lead or task.lead, None if sides is None else sides.source
    return best_baseline(pairs, sources, references, task.output_metric, sides_of(recipe), lead, note, source)


def sample(train: Sequence[Example]) -> Sequence[Example]:
    """Return a sample of a corpus on disk, or a corpus in memory whole.

    >>> from windlass.experiment.data import as_data
    >>> len(sample(as_data([("a", "b")], [("c", "d")], Recipe()).train))
    1
    """
    return some(train, SAMPLE_SIZE) if isinstance(train, View) else train


def _task_for(name: str, examples: Sequence[Example]) -> Task:
    """The task, with its span metrics if the examples' tags mark spans."""
    task = TASKS[name]
    return task.with_spans(TARGETS[task.target].mark_spans(e.target for e in examples))


def baseline_metrics(baseline: AnyBaseline, task: str, examples: Sequence[Example]) -> dict[str, float]:
    """Return the metrics of a baseline.

    >>> from windlass.baseline import Baseline
    >>> from windlass.experiment.data import as_data
    >>> baseline_metrics(Baseline("copy"), "pronounce", as_data([("a", "a"), ("b", "b")], None, Recipe()).dev)
    {'wer': 0.0, 'per': 0.0}
    """
    scored = _task_for(task, examples)
    questions = group(examples) if scored.multi_reference else list(examples)
    return scored.score(baseline.predict([e.source for e in questions]), [e.targets for e in questions])
