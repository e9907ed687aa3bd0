"""The command that talks: chat."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from io import TextIOWrapper

from windlass.bundle import Bundle
from windlass.commands import flags
from windlass.commands.shared import app, load_bundles, say, search_for
from windlass.core.errors import WindlassError
from windlass.data.dialogs import said_before
from windlass.decoding.options import SearchOptions
from windlass.inference.predict import predict

MARK = "> "


def talk(
    bundles: list[Bundle], options: SearchOptions | None, heard: Iterator[str], note: Callable[[str], None]
) -> Iterator[str]:
    """Reply to every line that is heard, with all that was said before in mind, until there is no more, or /quit.

    >>> callable(talk)
    True
    """
    first = bundles[0]
    longest, history = first.recipe.data.max_length, first.recipe.data.history
    turns: list[str] = []
    for number, line in enumerate(heard):
        text = " ".join(line.split())
        if text == "/quit":
            return
        if text == "/reset":
            turns = []
            note("a new dialog begins")
            continue
        if text.startswith("/"):
            note(f"no command {text.split()[0]}: there are /reset and /quit")
            continue
        if not text:
            continue
        if len(text) > longest:
            note(f"{len(text):,} characters, of which the model reads the first {longest:,}")
        turns.append(text[:longest])
        (found,) = predict(bundles, [said_before(turns, history)], options, first_key=number)
        turns.append(found.text or "...")
        yield found.text


@app.command("chat")
def chat_command(
    folder: flags.Folder,
    also: flags.Also = None,
    beam: flags.BeamSize = None,
    search: flags.Kind = None,
    length_penalty: flags.LengthPenalty = None,
    temperature: flags.Temperature = None,
    top_k: flags.TopK = None,
    top_p: flags.TopP = None,
    seed: flags.SampleSeed = None,
    block_ngrams: flags.BlockNgrams = None,
    device: flags.Device = "cpu",
) -> None:
    """Talk with a model: a line from you, a line from it.

    It has the whole dialog in mind, as far as it was trained to. /reset begins a new one, /quit ends; so does the end
    of a file that is piped in. --search sample makes it less sure of itself, and better company.
    """
    bundles = load_bundles(folder, also, device)
    if not bundles[0].task.turns:
        raise WindlassError(f"{folder}: this model is for {bundles[0].task.name}, not for dialogs: train --task reply")
    options = search_for(
        bundles[0],
        search,
        size=beam,
        length_penalty=length_penalty,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        block_ngrams=block_ngrams,
    )
    asks = sys.stdin.isatty()
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # what is not UTF-8 is taken as unknown
    if asks:
        say("say something; /reset begins anew, /quit ends")

    def heard() -> Iterator[str]:
        while True:
            if asks:
                print(MARK, end="", file=sys.stderr, flush=True)
            line = sys.stdin.readline()
            if not line:
                return
            yield line

    for reply in talk(bundles, options, heard(), say):
        print(reply, flush=True)
