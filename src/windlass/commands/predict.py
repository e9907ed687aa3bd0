"""The command `predict`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windlass.commands import flags
from windlass.commands.shared import (
    MAX_NOTES,
    app,
    columns,
    data_options,
    load_bundles,
    never_seen,
    say,
    searches_from_flags,
)
from windlass.core.errors import WindlassError, visible
from windlass.core.program import program
from windlass.core.wording import counted

if TYPE_CHECKING:
    from windlass.bundle import Bundle
    from windlass.commands.inputs import Input
    from windlass.core.records import Prediction
    from windlass.data import conll


_COMMENT = re.compile(r"# *(sent_id|text|newdoc|newpar|global\.columns)\b")  # of CoNLL-U


@app.command("predict")
def predict_command(
    folder: flags.Folder,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="a text file with one input per line, or a table; pictures, clips, sounds, arrays, or a folder of "
            "them; -: stdin",
            show_default="-",
        ),
    ] = None,
    nbest: Annotated[int, typer.Option(metavar="N", min=1, help="outputs per input, separated by tabs")] = 1,
    json_: Annotated[bool, typer.Option("--json", help="a JSON object per line, with scores and attention")] = False,
    also: flags.Also = None,
    beam: flags.BeamSize = None,
    search: flags.Search = None,
    length_penalty: flags.LengthPenalty = None,
    temperature: flags.Temperature = None,
    top_k: flags.TopK = None,
    top_p: flags.TopP = None,
    seed: flags.SampleSeed = None,
    block_ngrams: flags.BlockNgrams = None,
    source: flags.Source = None,
    second: flags.Second = None,
    format: flags.Format = None,
    header: flags.Header = None,
    separator: flags.Separator = None,
    encoding: flags.Encoding = None,
    device: flags.Device = "auto",
) -> None:
    """Predict an output for every line of input.

    One line out per line or row in, in order and at once; a blank line for a blank input. Of a table (csv, tsv, jsonl,
    parquet) the column that the model was trained on is read, or --source. A pair is two texts separated by a tab. A
    document is a line too: a text, or a JSON list of its sentences. A tagger also takes a CoNLL or CoNLL-U file and
    writes it with its own tags (--json: an object per sentence); it splits plain text into words and writes word/TAG.

    A model of pictures, clips or sounds takes the files themselves, a folder of them, or their names, one per line. An
    input that cannot be read is named on stderr and has a blank line; the exit code is then 1. A sentence of a CoNLL
    file that cannot be read is written as it is.
    """
    from windlass.commands.inputs import FILES, PORTION, input_options, portions, read_files
    from windlass.data import conll
    from windlass.data.files import STDIN, stdin_lines
    from windlass.data.sides import SideOptions
    from windlass.inference.predict import predict

    bundles = load_bundles(folder, also, device)
    if bundles[0].task.language_model:
        raise WindlassError(
            f"a language model has no input to predict from: use {program()} generate {folder} or {program()} score "
            f"{folder} FILE"
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
    if nbest > 1 and any(own.single for own in options or ()):
        raise WindlassError("greedy search finds one output: use --beam or --search sample with --nbest")
    if any(own.width(nbest) > own.width(1) for own in options or ()):
        raise WindlassError(f"--nbest {nbest} needs a beam at least as wide: add --beam {nbest}")
    over = columns(source, None, None, format, second, header, separator, encoding)
    files = files or [STDIN]
    given = input_options(bundles[0], over)
    other, tags = bundles[0].recipe.data.encoding, bundles[0].task.target == "tags"
    stdin = stdin_lines(given.encoding, other, say) if STDIN in files else iter(())
    shapes = [conll.form(file, format or "auto", SideOptions()) for file in files]
    if files == [STDIN] and not over and tags and bundles[0].sides.source.word_by_word:
        first = list(islice(stdin, 1))
        stdin = chain(first, stdin)
        shapes = [_recognise_columns(bundles[0], text) for _, text in first] or [None]
    if any(shapes):
        if not tags or not all(shapes):
            raise WindlassError(f"{files[0]}: CoNLL files are for a model that tags; give this one lines of text")
        tagged = partial(predict, bundles, options=options, nbest=nbest)
        failed = sum(
            _tag_columns(bundles[0], tagged, file, shape, over, stdin, json_)
            for file, shape in zip(files, shapes, strict=True)
            if shape
        )
        if failed:
            say(f"{counted(failed, 'sentence')} cannot be read")
            raise typer.Exit(1)
        return
    flags_given = {"source": source, "second": second, "format": format, "header": header, "separator": separator}
    asked = [name for name, value in flags_given.items() if value is not None]
    done = unknown = cut = unread = failed = 0
    side = bundles[0].sides.source
    items = read_files(files, side, given, asked, say, not tags, other, stdin)  # offsets refer to the line as it is
    for part in portions(items, live=STDIN in files, size=FILES if side.extensions else PORTION):
        values = [item.value for item in part]
        for item, prediction in zip(part, predict(bundles, values, options, nbest, first_key=done), strict=True):
            done += 1
            if item.error or prediction.error:
                failed += 1
                prediction = replace(prediction, error=item.error or prediction.error)
                say(str(prediction.error))
            unread += prediction.places.unread > 0
            cut += not prediction.finished
            unknown += bool(prediction.unknown)
            if prediction.unknown and unknown <= MAX_NOTES and not json_:
                say(f"line {item.line}: {never_seen(prediction.unknown)}")
            print(visible(_line(item, prediction, json_), sys.stdout))
        sys.stdout.flush()
    if unknown > MAX_NOTES and not json_:
        say(f"and {unknown - MAX_NOTES} more lines with symbols that the model has never seen")
    if cut and not json_:
        say(f"{cut} of {done} outputs were cut off at the length limit")
    if unread and not json_:
        say(f"{unread} of {done} documents are longer than the model reads: see `unread` in --json")
    if failed:
        say(f"{failed} of {done} inputs cannot be read")
        raise typer.Exit(1)


def _recognise_columns(bundle: Bundle, first: str) -> conll.Form | None:
    """Whether a first line is of a CoNLL or CoNLL-U file: a comment, or a word with a tag that the model knows."""
    from windlass.data.sides.tags import TagsTarget

    cells = first.split("\t") if "\t" in first else first.split()
    side, column = bundle.sides.target, bundle.recipe.data.target
    known = side.symbols if isinstance(side, TagsTarget) else ()
    place = column - 1 if isinstance(column, int) else 1
    form: conll.Form | None = None
    if _COMMENT.match(first) or (len(cells) == 10 and cells[0].isdigit()):
        form = "conllu"
    elif first.startswith("-DOCSTART-") or (0 < place < len(cells) and cells[place] in known):
        form = "conll"
    if form is not None:
        say(f"stdin: read as {form}, a word per line with its columns, as its first line looks so; else: --format tsv")
    elif "\t" in first.strip() and bundle.recipe.data.source is None:
        say("stdin: read as lines of text; if it has a word per line with its columns: --format conll")
    return form


def _tag_columns(
    bundle: Bundle,
    predict: Callable[[list[tuple[str, ...]]], list[Prediction]],
    file: str,
    shape: conll.Form,
    over: dict[str, Any],
    stdin: Iterator[tuple[int, str]],
    as_json: bool,
) -> int:
    """Write a CoNLL file with the model's tags in their column; return how many sentences cannot be read."""
    from windlass.commands.inputs import portions
    from windlass.data import conll
    from windlass.data.files import STDIN, repaired
    from windlass.data.findings import Findings
    from windlass.data.readers import in_its_encoding

    options, live, failed = data_options({"encoding": None} | over, bundle.recipe), file == STDIN, 0
    if not live:
        options = in_its_encoding(file, options, bundle.recipe.data.encoding, say)
    blocks = conll.blocks(file, shape, options, Findings(), stdin if live else None)
    for portion in portions(blocks, live):
        predictions = predict([() if block.unreadable else block.words for block in portion])
        for block, prediction in zip(portion, predictions, strict=True):
            if block.unreadable:
                failed += 1
                what = "it has no tags" if as_json else "the sentence is written as it is"
                say(f"{'stdin' if live else file}:{block.unreadable}; {what}")
            if as_json:
                if block.rows:  # not of comments alone
                    found = replace(prediction, error=block.unreadable)
                    print(_as_json(block.line, " ".join(block.words), found))
                continue
            tagged = block.lines if block.unreadable else block.written(prediction.answer.tokens)
            print(visible(repaired("\n".join(tagged)) + "\n", sys.stdout))
        sys.stdout.flush()
    return failed


def _as_json(line: int, text: object, prediction: Prediction) -> str:
    return json.dumps({"line": line, "input": text, **asdict(prediction)}, ensure_ascii=False)


def _line(item: Input, prediction: Prediction, as_json: bool) -> str:
    if as_json:
        return _as_json(item.line, item.text, prediction)
    if prediction.answer.per_place and prediction.places.offsets:  # word/TAG
        words = ["_".join(word.split()) for word in prediction.places.names]
        return " ".join(f"{word}/{tag}" for word, tag in zip(words, prediction.answer.tokens, strict=True))
    texts = [p.text for p in (prediction, *prediction.alternatives)]
    return "\t".join(" ".join(text.split("\n")) for text in texts)
