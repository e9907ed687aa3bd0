"""What a task is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from windlass.core.fitting import Gives, Needs, Term
from windlass.data.corpus import EXAMPLES, CorpusReader
from windlass.metrics import higher_is_better, score


@dataclass(frozen=True)
class Task:
    """A cell of the table of what goes in and what comes out.

    >>> task = Task("spell", "sounds to letters", metrics=("wer",), metric="wer")
    >>> task.measure(["cat", "dog"], [["cat"], ["dock", "dog"]])
    {'wer': 0.0}
    """

    name: str
    about: str
    metrics: tuple[str, ...]  # what is reported
    metric: str  # what is chosen by, on dev
    several_answers: bool = False  # rows of the same source are right answers to one question
    sources: tuple[str, ...] = ("text",)  # the kinds of source it reads, the usual one first
    target: str = "text"  # the kind of target it gives
    span_metrics: tuple[str, ...] = ()  # reported, and the first of them chosen by, where tags mark spans
    forced: tuple[str, ...] = ()  # reported too: how likely the right answers are, by forced decoding
    reader: CorpusReader = EXAMPLES  # how its data is read: as examples, dialogs, or running text
    lead: int | None = None  # what comes out is about what the source begins with: words of that baseline

    @property
    def language_model(self) -> bool:
        """Whether texts are scored and continued, as nothing goes in.

        >>> Task("lm", "", ("nats",), "nats", sources=("none",)).language_model
        True
        """
        return self.sources == ("none",)

    @property
    def turns(self) -> bool:
        """Whether examples are the turns of dialogs."""
        return self.reader.dialogs

    @property
    def higher_is_better(self) -> bool:
        """Which way is up for the metric that is chosen by."""
        return higher_is_better(self.metric)

    @property
    def figures(self) -> tuple[str, ...]:
        """All that is reported.

        >>> Task("reply", "", ("bleu",), "perplexity", forced=("perplexity",)).figures
        ('perplexity', 'bleu')
        """
        return (*self.forced, *self.metrics)

    @property
    def compared(self) -> str:
        """What outputs, also those of baselines, are compared by: the metric that is chosen by, if it is of outputs.

        >>> Task("reply", "", ("bleu",), "perplexity", forced=("perplexity",)).compared
        'bleu'
        """
        return self.metrics[0] if self.metric in self.forced else self.metric

    def declare(self) -> Iterator[Term]:
        """The kinds of source and target that it takes, and what options of other parts ask a task for.

        >>> [term.mend for term in Task("tag", "", (), "", sources=("words",)).declare() if isinstance(term, Needs)]
        ['source: <source>, but task tag reads words: set source: words', 'task tag gives text: set target: text']
        """
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

    def marking(self, spans: bool) -> Task:
        """The task with the figures of tags that mark spans, if they do.

        >>> Task("tag", "", ("tag_accuracy",), "tag_accuracy", span_metrics=("span_f1",)).marking(True).metric
        'span_f1'
        """
        if not (spans and self.span_metrics):
            return self
        return replace(self, metrics=(*self.span_metrics, *self.metrics), metric=self.span_metrics[0], span_metrics=())

    def measure(self, predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
        """The figures of this task, in percent."""
        return score(self.metrics, predictions, references)
