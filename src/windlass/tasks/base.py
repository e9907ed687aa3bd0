"""A task: its data and its metrics, nothing of models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from windlass.core.fitting import Gives, Needs, Term
from windlass.data.corpus import EXAMPLES, CorpusReader
from windlass.metrics import score


@dataclass(frozen=True)
class Task:
    """One combination of a source and a target, with the metrics people report for it.

    >>> task = Task("spell", "sounds to letters", metrics=("wer",), metric="wer")
    >>> task.score(["cat", "dog"], [["cat"], ["dock", "dog"]])
    {'wer': 0.0}
    """

    name: str
    about: str
    metrics: tuple[str, ...]  # of outputs against references
    metric: str  # selects the best weights on dev
    multi_reference: bool = False  # rows with the same source are references of one example
    sources: tuple[str, ...] = ("text",)  # kinds of source, the default first
    target: str = "text"  # kind of target
    span_metrics: tuple[str, ...] = ()  # added if tags mark spans; the first then selects
    likelihood_metrics: tuple[str, ...] = ()  # of the references, by forced decoding
    reader: CorpusReader = EXAMPLES  # reads examples, dialogs or running text
    lead: int | None = None  # words of the lead baseline, which copies the beginning of the source

    @property
    def language_model(self) -> bool:
        """Whether the task has no source: texts are scored and continued."""
        return self.sources == ("none",)

    @property
    def turns(self) -> bool:
        """Whether examples are turns of dialogs."""
        return self.reader.dialogs

    @property
    def reported_metrics(self) -> tuple[str, ...]:
        """All metrics, those of likelihood first."""
        return (*self.likelihood_metrics, *self.metrics)

    @property
    def output_metric(self) -> str:
        """The metric that compares outputs, such as those of baselines: `metric`, unless that is a likelihood."""
        return self.metrics[0] if self.metric in self.likelihood_metrics else self.metric

    def declare(self) -> Iterator[Term]:
        """Declare the kinds of source and target it takes, and what options of other parts need of a task."""
        kinds = " or ".join(self.sources)
        yield Needs(
            tuple(f"source: {kind}" for kind in self.sources),
            f"source: <source>, but task {self.name} reads {kinds}: set source: {kinds}",
        )
        wanted = "target.tokens: tree" if self.target == "tree" else f"target: {self.target}"  # a tree is a text
        yield Needs(f"target: {self.target}", f"task {self.name} gives {self.target}: set {wanted}")
        yield Gives(f"task target: {self.target}")
        yield Gives("task turns", self.turns)
        yield Gives("task lead", self.lead)

    def with_spans(self, spans: bool) -> Task:
        """Return the task with its span metrics, if `spans`."""
        if not (spans and self.span_metrics):
            return self
        return replace(self, metrics=(*self.span_metrics, *self.metrics), metric=self.span_metrics[0], span_metrics=())

    def score(self, predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
        """Return the metrics of outputs against their references."""
        return score(self.metrics, predictions, references)
