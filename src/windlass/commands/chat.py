"""The command `chat`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING

from windlass.commands import flags
from windlass.commands.shared import app, load_bundles, say, searches_from_flags
from windlass.core.errors import WindlassError, visible

if TYPE_CHECKING:
    from windlass.bundle import Bundle
    from windlass.decoding.options import SearchOptions

PROMPT = "> "


def _replies(
    bundles: list[Bundle], options: Sequence[SearchOptions] | None, lines: Iterator[str], note: Callable[[str], None]
) -> Iterator[str]:
    """Reply to every line, given the dialog so far, until the input ends or /quit."""
    from windlass.data.dialogs import said_before
    from windlass.inference.predict import predict

    data = bundles[0].recipe.data
    turns: list[str] = []
    for number, line in enumerate(lines):
        text = " ".join(line.split())
        if text == "/quit":
            return
        if text == "/reset":
            turns = []
            note("new dialog")
            continue
        if text.startswith("/"):
            note(f"unknown command {text.split()[0]}: use /reset or /quit")
            continue
        if not text:
            continue
        if len(text) > data.max_length:
            note(f"{len(text):,} characters, truncated to {data.max_length:,}")
        turns.append(text[: data.max_length])
        (prediction,) = predict(bundles, [said_before(turns, data.history)], options, first_key=number)
        turns.append(prediction.text or "...")
        yield prediction.text


@app.command("chat")
def chat_command(
    folder: flags.Folder,
    also: flags.Also = None,
    beam: flags.BeamSize = None,
    search: flags.Search = None,
    length_penalty: flags.LengthPenalty = None,
    temperature: flags.Temperature = None,
    top_k: flags.TopK = None,
    top_p: flags.TopP = None,
    seed: flags.SampleSeed = None,
    block_ngrams: flags.BlockNgrams = None,
    device: flags.Device = "auto",
) -> None:
    """Chat with a dialog model, a line each.

    The model sees the dialog so far, up to the history it was trained with. /reset starts a new dialog, /quit or the
    end of the input ends. --search sample gives more varied replies.
    """
    bundles = load_bundles(folder, also, device)
    if not bundles[0].task.turns:
        raise WindlassError(
            f"{folder}: a model for {bundles[0].task.name}, not for dialogs: train one with --task reply"
        )
    options = searches_from_flags(
        [folder, *(also or [])],
        bundles,
        search,
        size=beam,
        length_penalty=length_penalty,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        block_ngrams=block_ngrams,
    )
    interactive = sys.stdin.isatty()
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")  # invalid UTF-8 is read as unknown
    if interactive:
        say("say something; /reset starts a new dialog, /quit ends")

    def lines() -> Iterator[str]:
        while True:
            if interactive:
                print(PROMPT, end="", file=sys.stderr, flush=True)
            line = sys.stdin.readline()
            if not line:
                return
            yield line

    for reply in _replies(bundles, options, lines(), say):
        print(visible(reply, sys.stdout), flush=True)
