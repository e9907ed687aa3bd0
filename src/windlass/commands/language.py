"""What commands do with a language model: generate, and its own ways to evaluate and score."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from windlass.baseline.language import LanguageBaselines, language_figures
from windlass.bundle import Bundle
from windlass.commands import flags
from windlass.commands.searching import search_options
from windlass.commands.shared import app, load_bundles, say
from windlass.core.errors import WindlassError
from windlass.core.marks import UNK
from windlass.data.examples import Example
from windlass.decoding.options import Sample
from windlass.inference.evaluate import evaluate
from windlass.inference.language import generate, score_texts
from windlass.metrics.likelihood import format_metric


@app.command("generate")
def generate_command(
    folder: flags.Folder,
    prompt: Annotated[str, typer.Option(metavar="TEXT", help="what the text begins with")] = "",
    length: Annotated[int | None, typer.Option(metavar="N", min=1, help="how many tokens at most")] = None,
    temperature: flags.Temperature = None,
    top_k: flags.TopK = None,
    top_p: flags.TopP = None,
    seed: flags.SampleSeed = None,
    stop: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="end before this; again for more")] = None,
    block_ngrams: flags.BlockNgrams = None,
    search: Annotated[
        str | None, typer.Option(metavar="NAME", help="sample or greedy; else as the recipe says")
    ] = None,
    also: flags.Also = None,
    device: flags.Device = "cpu",
) -> None:
    """Let a language model write.

    What it writes appears as it is made; the same seed gives the same text.
    """
    bundles = load_bundles(folder, also, device)
    if not bundles[0].task.language_model:
        raise WindlassError(f"{folder}: this model is for {bundles[0].task.name}, not a language model: use predict")
    options = search_options(
        bundles[0].recipe.search or Sample(),
        kind=search,
        length_plus=length,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        block_ngrams=block_ngrams,
    )
    if new := bundles[0].sides.tokenizer.unknown(prompt):
        say(f"the model has never seen {', '.join(map(repr, new[:5]))} of the prompt: taken as unknown")
    pieces = generate(bundles, prompt, options, tuple(stop or ()))
    print(prompt, end="", flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print()


def tell_evaluation(folder: Path, bundles: list[Bundle], examples: Sequence[Example], rows: int, json_: bool) -> None:
    """Evaluate a language model and print its figures beside those of the baselines.

    >>> callable(tell_evaluation)
    True
    """
    started = perf_counter()
    found = evaluate(bundles, examples, rows=rows)
    first, texts = bundles[0], [e.target for e in examples]
    both = LanguageBaselines.load(folder)
    cheap = {} if both is None else language_figures(both, first, texts)
    ids = [n for text in texts for n in first.sides.tokenizer.encode(text)]
    content: dict[str, Any] = {
        "metrics": _rounded(found.metrics),
        "baselines": {name: _rounded(metrics) for name, metrics in cheap.items()},
        "texts": found.examples,
        "tokens": len(ids),
        "unknown": ids.count(UNK),
        "seconds": round(perf_counter() - started, 2),
        "rows": rows,
    }
    if json_:
        print(json.dumps(content, ensure_ascii=False))
        return
    print(f"{'':16}" + "".join(f"{name:>12}" for name in found.metrics))
    for name, metrics in {"model": found.metrics, **cheap}.items():
        print(f"{name:16}" + "".join(f"{format_metric(key, value):>12}" for key, value in metrics.items()))
    print(f"{len(ids):,} tokens, {ids.count(UNK):,} of them never seen; {content['seconds']} s")


def _rounded(metrics: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in metrics.items()}


def tell_scores(bundle: Bundle, examples: Sequence[Example], json_: bool) -> None:
    """Print how likely texts are: a line a text, or, as JSON, with every token and its probability.

    >>> callable(tell_scores)
    True
    """
    for example, found in zip(examples, score_texts(bundle, [e.target for e in examples]), strict=True):
        if json_:
            content = {
                "text": found.text,
                "logprob": found.score,
                "tokens": found.answer.tokens,
                "probabilities": found.answer.probabilities,
                "unknown": found.unknown,
            }
            print(json.dumps(content, ensure_ascii=False))
        else:
            many = len(found.answer.probabilities)
            begin = " ".join(found.text[:60].split())
            print(f"{found.score:.4f}\t{many} tokens\t{example.place}\t{begin}")
    sys.stdout.flush()
