"""The command `generate`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from windlass.commands import flags
from windlass.commands.shared import app, load_bundles, never_seen, say
from windlass.core.errors import WindlassError, visible


@app.command("generate")
def generate_command(
    folder: flags.Folder,
    prompt: Annotated[str, typer.Option(metavar="TEXT", help="the beginning of the text")] = "",
    length: Annotated[int | None, typer.Option(metavar="N", min=1, help="maximum number of tokens")] = None,
    temperature: flags.Temperature = None,
    top_k: flags.TopK = None,
    top_p: flags.TopP = None,
    seed: flags.SampleSeed = None,
    stop: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="stop before this text; repeatable")] = None,
    block_ngrams: flags.BlockNgrams = None,
    search: Annotated[str | None, typer.Option(metavar="NAME", help="sample or greedy; default: the recipe's")] = None,
    also: flags.Also = None,
    device: flags.Device = "auto",
) -> None:
    """Generate text with a language model.

    Tokens are printed as they are generated; the same seed gives the same text.
    """
    from windlass.commands.search_flags import search_options
    from windlass.decoding.options import Sample
    from windlass.inference.generate import generate

    bundles = load_bundles(folder, also, device)
    if not bundles[0].task.language_model:
        raise WindlassError(f"{folder}: a model for {bundles[0].task.name}, not a language model: use predict")
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
    if unknown := bundles[0].sides.tokenizer.unknown(prompt):
        say(f"{never_seen(unknown)} in the prompt: read as unknown")
    pieces = generate(bundles, prompt, options, tuple(stop or ()))
    print(visible(prompt, sys.stdout), end="", flush=True)
    for piece in pieces:
        print(visible(piece, sys.stdout), end="", flush=True)
    print()
