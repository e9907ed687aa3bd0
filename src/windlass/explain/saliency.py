"""Which places of an input an output rests on, by gradients at the embeddings: for models with attention and without.

gradient x input        a_s = x_s . df/dx_s
integrated gradients    a_s = x_s . (mean over k of df/dx_s at alpha_k x),  alpha_k = (k - 1/2) / K

f is the log probability of the output: of a label, of a tag at its place, of a token given those before it, of a whole
text by CTC; of one of several labels, its logit; of a number, itself. The baseline is an embedding of zeros. Integrated
gradients are complete: their sum over all places is f(x) - f(0), up to the error of the sum over K points (Sundararajan
et al. 2017).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, cast

import torch
from torch import Tensor, nn

from windlass.bundle import Bundle
from windlass.core.errors import WindlassError
from windlass.core.records import Batch, Memory, Padded, Places, Prediction
from windlass.core.tensors import atomic_write
from windlass.data.examples import Value
from windlass.data.running import chunk_of
from windlass.encoders.base import Encoder, TokenEncoder
from windlass.encoders.document import HierarchicalEncoder, length_buckets
from windlass.encoders.text import PrefixEncoder
from windlass.explain.attention import explain_cut
from windlass.explain.coloured import Row, draw_rows
from windlass.explain.media import Shown, draw_media
from windlass.explain.render import Heat, check_suffix, sheet
from windlass.heads.base import Head, gold
from windlass.heads.ctc import CtcHead
from windlass.heads.pooled import PooledHead
from windlass.heads.running import force_chunk
from windlass.heads.tags import TagsHead
from windlass.heads.text import TextHead
from windlass.inference.likelihood import score_texts
from windlass.model import Model
from windlass.nn.embedding import Embedding

Method = Literal["gradient", "integrated"]
NAMES: dict[Method, str] = {"integrated": "integrated gradients", "gradient": "gradient x input"}
"""What a reader calls the methods."""
POINTS = 32
"""Points on the way from the baseline to the input."""


@dataclass(frozen=True)
class Saliency:
    """What each place of an input adds to each output.

    >>> from windlass.core.records import Answer
    >>> Saliency(Prediction("x", Answer()), ("a",), ("x",), ((0.5,),), (0.5,), "integrated").gap
    0.0
    """

    prediction: Prediction
    places: tuple[str, ...]  # of the input: columns
    outputs: tuple[str, ...]  # rows
    values: tuple[tuple[float, ...], ...]
    differences: tuple[float, ...]  # f(x) - f(0) of every row
    method: Method

    @property
    def gap(self) -> float:
        """The largest difference between the sum of a row and what it should be."""
        rows = zip(self.values, self.differences, strict=True)
        return max(abs(sum(row) - difference) for row, difference in rows)

    @property
    def most(self) -> float:
        """The largest absolute value."""
        return max((abs(value) for row in self.values for value in row), default=0.0) or 1.0


class _Scaled:
    """Multiplies embedded inputs by alpha, a factor for each row, and keeps what came in and what went out.

    A document encoder embeds sentences, of all rows, in buckets; other encoders embed whole rows.
    """

    def __init__(self, alphas: Tensor, encoder: nn.Module, batch: Batch):
        self.alphas, self.calls = alphas, list[tuple[Tensor, Tensor]]()
        self.first_only = isinstance(encoder, PrefixEncoder)  # then the decoder embeds its own output
        self.buckets: list[list[int]] | None = None
        self.sentences = 1  # of a document
        if isinstance(encoder, HierarchicalEncoder):
            mask = batch.inputs["source"].mask
            self.lengths = mask.flatten(0, -2).sum(-1).tolist()
            self.sentences = len(self.lengths) // batch.size
            self.buckets = length_buckets(self.lengths, encoder.max_words_at_once)
            words = sum(len(bucket) * self.lengths[bucket[0]] for bucket in self.buckets)
            if len(self.buckets) > 1 and words > encoder.max_words_at_once:
                raise WindlassError("this document is too long for its saliency: cut it, or take fewer points")

    def __call__(self, x: Tensor) -> Tensor:
        if self.first_only and self.calls:
            return x
        alphas = self.alphas
        if self.buckets is not None:
            alphas = alphas[[row // self.sentences for row in self.buckets[len(self.calls)]]]
        scaled = (x * alphas.view(-1, *[1] * (x.dim() - 1))).detach().requires_grad_()
        self.calls.append((x.detach(), scaled))
        return scaled

    def attributed(self, objective: Tensor) -> Tensor:
        """x . mean df/dx at every place (S,), over all rows but the last two, which are the ends of the way."""
        count = len(self.alphas) - 2
        found = torch.autograd.grad(objective, [leaf for _, leaf in self.calls], retain_graph=True, allow_unused=True)
        each = [x.new_zeros(x.shape[:-1]) if df is None else (x * df).sum(-1)
                for (x, _), df in zip(self.calls, found, strict=True)]  # fmt: skip
        if self.buckets is None:
            return torch.cat([part[:count].mean(0) for part in each])
        rows = {row: values for bucket, part in zip(self.buckets, each, strict=True)
                for row, values in zip(bucket, part, strict=True)}  # fmt: skip
        means = []
        for sentence in range(self.sentences):
            if length := self.lengths[sentence]:
                copies = [rows[n * self.sentences + sentence][:length] for n in range(count)]
                means.append(torch.stack(copies).mean(0))
        return torch.cat(means)


@contextmanager
def _scaling(model: Model, scaled: _Scaled) -> Iterator[None]:
    """Inside, whatever a model embeds of its input passes through `scaled`."""
    encoder = model.encoder
    readers = [module for module in encoder.modules() if isinstance(module, TokenEncoder)]
    for reader in readers:
        reader.__dict__["embed"] = _embed(reader, scaled)  # hides the method of the class
    tables: list[Embedding] = [] if readers else encoder.embeddings()
    if not readers and not tables and isinstance(model.head, TextHead) and model.head.embedding is not None:
        tables = [model.head.embedding]  # the decoder reads the input
    hooks = [table.register_forward_hook(lambda module, inputs, x: scaled(x)) for table in tables]
    try:
        yield
    finally:
        for reader in readers:
            del reader.__dict__["embed"]
        for hook in hooks:
            hook.remove()


def _embed(reader: TokenEncoder, scaled: _Scaled) -> Callable[[Batch], Padded]:
    def embed(batch: Batch) -> Padded:
        embedded = type(reader).embed(reader, batch)
        return replace(embedded, values=scaled(embedded.values))

    return embed


def _objectives(head: Head, memory: Memory, batch: Batch) -> Tensor:
    """f of every output: (B, rows)."""
    if isinstance(head, TextHead):
        return head.reference_logprobs(memory, batch)[0]
    if isinstance(head, TagsHead):
        scores = torch.log_softmax(head.output(memory.states), -1)  # at the place alone, also before a CRF
        return scores.gather(2, gold(batch).values[..., None]).squeeze(2)
    if isinstance(head, CtcHead):  # of the whole output, over all alignments
        return -head.losses(memory, batch)[:, None]
    if not isinstance(head, PooledHead):
        raise WindlassError("there is no saliency for this kind of model yet: use its attention")
    target = gold(batch).values
    predicted: Tensor = head(memory, batch)[0]
    if predicted.dim() == 1:  # a number
        return predicted[:, None]
    if target.is_floating_point():  # a set of labels, in the order of their probability
        chosen = target[0].nonzero()[:, 0] if bool(target[0].any()) else predicted[-1].argmax().view(1)
        return predicted[:, chosen[predicted[-1, chosen].argsort(descending=True, stable=True)]]
    return predicted.gather(1, target[:, :1])


def saliency(
    bundle: Bundle, text: Value, target: str | None = None, method: Method = "integrated", points: int = POINTS
) -> Saliency:
    """Attribute an output, or a given target, to the places of the input.

    >>> from windlass.data import Sides
    >>> from windlass.recipe import Recipe
    >>> found = saliency(Bundle.new(Recipe(model={"decoder": {"context": "summary"}}), Sides.tiny()), "ab", target="ba")
    >>> found.places, found.outputs, found.gap < 0.01
    (('a', 'b', '</s>'), ('b', 'a', '</s>'), True)
    """
    if bundle.task.language_model:
        return _of_language_model(bundle, str(text), method, points)
    sides, model = bundle.sides, bundle.model.eval()
    prediction = explain_cut(bundle, text, target)
    value, answer = sides.read(text), prediction.answer
    wanted = target if target is not None else " ".join(answer.tokens) if answer.per_place else prediction.text
    batch = sides.collate([sides.encode(value, wanted)], [0]).to(bundle.device)

    def run(repeated: Batch) -> Tensor:
        return _objectives(model.head, model.encode(repeated), repeated)

    attributed = _attribute(model, batch, run, method, points)
    names = _names(sides.source.places(value), model.encoder)
    outputs = answer.tokens or (prediction.text,)
    if isinstance(model.head, TextHead):
        outputs = (*answer.tokens, "</s>")
    elif answer.written:
        outputs = (prediction.text,)
    return _made(prediction, names, outputs, *attributed, method)


def _of_language_model(bundle: Bundle, text: str, method: Method, points: int) -> Saliency:
    """Every token's log probability, attributed to the tokens before it."""
    prediction = score_texts(bundle, [text])[0]
    ids = bundle.sides.tokenizer.encode(text)
    if not ids:
        raise WindlassError("nothing to explain in a blank text")
    values = torch.tensor([ids])
    batch = chunk_of(values, torch.ones_like(values) > 0, 0, len(ids)).to(bundle.device)
    head = cast("TextHead", bundle.model.head.eval())
    attributed = _attribute(bundle.model, batch, lambda repeated: force_chunk(head, repeated, None)[0], method, points)
    tokens = tuple(bundle.sides.tokenizer.pieces(text))
    return _made(prediction, ("<s>", *tokens[:-1]), tokens, *attributed, method)


def _made(
    prediction: Prediction, places: tuple[str, ...], outputs: tuple[str, ...], values: Tensor, differences: Tensor,
    method: Method,
) -> Saliency:  # fmt: skip
    rows = tuple(tuple(row[: len(places)]) for row in values[: len(outputs)].tolist())
    return Saliency(prediction, places, outputs, rows, tuple(differences[: len(outputs)].tolist()), method)


def _attribute(
    model: Model, batch: Batch, run: Callable[[Batch], Tensor], method: Method, points: int
) -> tuple[Tensor, Tensor]:
    """Attributions (rows, S) and f(x) - f(0) (rows,)."""
    way = (torch.arange(points) + 0.5) / points if method == "integrated" else torch.ones(1)
    alphas = torch.cat([way, torch.tensor([0.0, 1.0])]).to(batch.keys.device)
    repeated = batch.repeat(len(alphas))
    scaled = _Scaled(alphas, model.encoder, repeated)
    with _scaling(model, scaled), torch.enable_grad():
        objective = run(repeated)
        values = [scaled.attributed(column.sum()) for column in objective[:-2].unbind(1)]
    return torch.stack(values), (objective[-1] - objective[-2]).detach()


def _names(read: Places, encoder: Encoder) -> tuple[str, ...]:
    """The places that attributions are of: the words of a document, both texts of a pair, of a picture the question."""
    if "question" in read.parts:
        return read.parts["question"].names
    second = read.parts.get("second")
    return (*read.grouped(encoder.joined).lowest.names, *(() if second is None else second.names))


def attends(prediction: Prediction) -> bool:
    """Whether a prediction has weights of its own to draw: attention, or the probabilities of tags.

    >>> from windlass.core.records import Answer
    >>> attends(Prediction("x", Answer()))
    False
    """
    return bool(prediction.answer.per_place or prediction.attention is not None or prediction.word_attention)


def draw_saliency(found: Saliency, path: Path, over: Shown | None = None) -> Path:
    """Draw it: coloured text for one output, a heatmap for several; over a picture, clip, sound or numbers, its size.

    >>> from windlass.core.records import Answer
    >>> found = Saliency(Prediction("x", Answer()), ("a",), ("x",), ((0.5,),), (0.5,), "integrated")
    >>> draw_saliency(found, Path("x.gif"))
    Traceback (most recent call last):
    windlass.core.errors.WindlassError: x.gif: cannot write '.gif': name it .png, .svg, .html or .json
    """
    if check_suffix(path).suffix.lower() == ".json":
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {**asdict(found), "gap": found.gap, "prediction": asdict(found.prediction)}
        atomic_write(path, json.dumps(content, ensure_ascii=False, indent=1).encode())
        return path
    name = NAMES[found.method]
    answer = found.prediction.answer
    if over is not None and not answer.per_place and len(found.places) == len(found.prediction.places.names):
        shares = tuple(tuple(abs(v) / (sum(map(abs, row)) or 1.0) for v in row) for row in found.values)
        whole = answer.written and len(shares) == 1 and found.outputs == (found.prediction.text,)  # by CTC
        attending = replace(found.prediction, attention=shares)
        return draw_media([attending], [over], path, value=f"share of {name}", whole=whole)
    if len(found.outputs) == 1 and len(found.places) > 1:
        note = f"{name[0].upper()}{name[1:]}; the strongest colour is {found.most:.3g}."
        scaled = [value / found.most for value in found.values[0]]
        kind = found.prediction.places.lowest.kind
        what = kind if kind in ("words", "tokens") else "places"
        legend = f"Blue: the {what[:-1]} speaks for it; red: against it."
        title = f"{found.outputs[0]}: the {what} add {sum(found.values[0]):+.2f} to its score"
        row = Row(title, found.places, scaled, value=name, one=found.most)
        return draw_rows([row], path, found.prediction.text, note, legend)
    return sheet([saliency_heat(found)], path)


def saliency_heat(found: Saliency) -> Heat:
    """A heatmap: columns are the places of the input, rows the outputs.

    >>> from windlass.core.records import Answer
    >>> found = Saliency(Prediction("x", Answer()), ("a",), ("x",), ((0.5,),), (0.5,), "gradient")
    >>> saliency_heat(found).value
    'gradient x input'
    """
    axes, name = ("input", "output"), NAMES[found.method]
    return Heat(found.values, found.places, found.outputs, found.prediction.text, name, axes, None, True, found.most)
