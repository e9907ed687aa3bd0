"""Tasks: a source, a target, and the metrics people report. A task knows data, never models."""

from windlass.data.corpus import DIALOGS, RUNNING_TEXT
from windlass.tasks.base import Task

_CLASSIFICATION = ("accuracy", "macro_f1")
_REGRESSION = ("pearson", "spearman", "mse")
_CAPTIONS = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "cider", "chrf")
_SPANS = ("span_f1", "span_precision", "span_recall")

_ALL = (
    # Word and phone error rate, as in the SIGMORPHON shared tasks.
    Task("pronounce", "a spelling to phonemes separated by spaces (cat -> k a t)", ("wer", "per"), "wer"),
    Task(
        "transliterate",
        "a name from one script to another; a source may have several references, a row each",
        metrics=("accuracy", "cer"),
        metric="accuracy",
        multi_reference=True,
    ),
    Task("translate", "a sentence from one language to another", ("bleu", "bleu_lc", "chrf"), "bleu"),
    Task(
        "summarise",
        "a text to its summary or headline; unknown names are copied",
        metrics=("rouge_1", "rouge_2", "rouge_l"),
        metric="rouge_l",
        sources=("text", "document"),
        lead=8,
    ),
    # Perplexity of the references, BLEU, and the diversity of replies (distinct-n).
    Task(
        "reply",
        "the next turn of a dialog, from all turns before it or the last one",
        metrics=("bleu", "distinct_1", "distinct_2"),
        metric="perplexity",
        likelihood_metrics=("perplexity",),
        sources=("document", "text"),
        reader=DIALOGS,
    ),
    Task(
        "text",
        "any text to any text: two columns of your own",
        metrics=("accuracy", "cer", "chrf"),
        metric="cer",
        sources=("text", "numbers", "picture"),
    ),
    # Parsing as sequence-to-sequence (Vinyals et al. 2015), and the reverse.
    Task(
        "parse",
        "a sentence to its bracketed tree, always well-formed",
        metrics=("bracket_f1", "bracket_precision", "bracket_recall", "well_formed", "accuracy"),
        metric="bracket_f1",
        sources=("words", "text"),
        target="tree",
    ),
    Task("unparse", "a bracketed tree to its sentence", ("accuracy", "bleu", "chrf"), "bleu"),
    Task(
        "classify",
        "a text to a label (topic, sentiment, spam, question type)",
        metrics=_CLASSIFICATION,
        metric="accuracy",
        sources=("text", "words"),
        target="label",
    ),
    Task(
        "classify-document",
        "a document, read sentence by sentence, to a label (topic, opinion, kind of letter)",
        metrics=_CLASSIFICATION,
        metric="accuracy",
        sources=("document",),
        target="label",
    ),
    Task(
        "multilabel",
        "a text to any number of labels, separated by commas (topics, keywords)",
        metrics=("micro_f1", "label_macro_f1", "exact_match"),
        metric="micro_f1",
        sources=("text", "words", "document", "numbers", "picture"),
        target="labels",
    ),
    Task(
        "tag",
        "a sentence to a tag per word (parts of speech; named entities as BIO)",
        metrics=("tag_accuracy",),
        metric="tag_accuracy",
        span_metrics=_SPANS,
        sources=("words",),
        target="tags",
    ),
    Task(
        "tag-document",
        "a dialog or document to a tag per turn or sentence (dialog acts)",
        metrics=("tag_accuracy",),
        metric="tag_accuracy",
        span_metrics=_SPANS,
        sources=("document",),
        target="tags",
    ),
    Task(
        "entail",
        "a pair of texts to a label (does the second follow from the first?)",
        metrics=_CLASSIFICATION,
        metric="accuracy",
        sources=("pair",),
        target="label",
    ),
    Task(
        "regress",
        "a text to a number (a rating, a year, a price)",
        metrics=_REGRESSION,
        metric="pearson",
        sources=("text", "words", "document", "numbers", "picture"),
        target="number",
    ),
    Task(
        "similarity",
        "a pair of texts to a number (how similar are they?)",
        metrics=_REGRESSION,
        metric="pearson",
        sources=("pair",),
        target="number",
    ),
    Task(
        "classify-numbers",
        "a vector or a sequence of vectors to a label (sensor readings, measurements)",
        metrics=_CLASSIFICATION,
        metric="accuracy",
        sources=("numbers",),
        target="label",
    ),
    Task(
        "tag-numbers",
        "a sequence of vectors to a tag for each (phases of a movement, states of a machine)",
        metrics=("tag_accuracy", "tag_macro_f1"),
        metric="tag_accuracy",
        span_metrics=_SPANS,
        sources=("numbers",),
        target="tags",
    ),
    Task(
        "classify-picture",
        "a picture to a label",
        metrics=_CLASSIFICATION,
        metric="accuracy",
        sources=("picture",),
        target="label",
    ),
    Task(
        "answer",
        "a question about a picture to an answer, one of the most frequent",
        metrics=("accuracy",),
        metric="accuracy",
        sources=("question",),
        target="label",
    ),
    # Metrics as in the captioning papers: several references, the closest reference length.
    Task(
        "caption",
        "a picture to a sentence that describes it; a picture may have several captions, a row each",
        metrics=_CAPTIONS,
        metric="bleu_4",
        multi_reference=True,
        sources=("picture", "numbers"),
    ),
    Task(
        "classify-video",
        "a clip to a label (gestures, actions)",
        metrics=_CLASSIFICATION,
        metric="accuracy",
        sources=("video",),
        target="label",
    ),
    Task(
        "tag-video",
        "a clip to a tag a frame (phases of a movement)",
        metrics=("tag_accuracy", "tag_macro_f1"),
        metric="tag_accuracy",
        span_metrics=_SPANS,
        sources=("video", "numbers"),
        target="tags",
    ),
    Task(
        "caption-video",
        "a clip to a sentence that describes it; a clip may have several captions, a row each",
        metrics=_CAPTIONS,
        metric="bleu_4",
        multi_reference=True,
        sources=("video", "numbers"),
    ),
    Task(
        "classify-sound",
        "a recording to a label (a spoken word, a sound)",
        metrics=_CLASSIFICATION,
        metric="accuracy",
        sources=("sound",),
        target="label",
    ),
    Task(
        "transcribe",
        "speech to text",
        metrics=("word_error_rate", "cer", "accuracy"),
        metric="word_error_rate",
        sources=("sound",),
    ),
    Task(
        "lm",
        "a language model: the likelihood of texts, and their continuation",
        metrics=("nats", "perplexity", "bpc"),
        metric="nats",
        sources=("none",),
        reader=RUNNING_TEXT,
    ),
)
TASKS: dict[str, Task] = {task.name: task for task in _ALL}
"""Every task by its name."""

__all__ = ["TASKS", "Task"]
