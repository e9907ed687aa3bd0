"""The training and dev data of an experiment, from files or from memory."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from windlass.bundle import Bundle
from windlass.core.errors import DataError, OtherTaskError, RecipeError
from windlass.core.wording import counted
from windlass.data.column_groups import columns_of
from windlass.data.column_sample import ColumnSample
from windlass.data.doctor import Report
from windlass.data.examples import Example, Place, Value, expand, frozen
from windlass.data.findings import Finding
from windlass.data.frames import Columns, Frame, as_frame, pick_columns, read_columns
from windlass.data.readers import DataOptions, ReadResult
from windlass.data.recognise import columns_for
from windlass.data.sides import CellError, SideOptions
from windlass.data.sides.base import Track
from windlass.data.sniff import SAMPLE
from windlass.data.store import Keep, View, joined_views, keeping
from windlass.recipe import Recipe
from windlass.tasks import TASKS

LARGE_DEV = 1 / 3
"""A larger share of the examples is a dev set that is told."""


@dataclass(frozen=True)
class Data:
    """Training and dev examples, and the report on their quality.

    >>> from windlass.data.doctor import survey
    >>> Data((), (), survey([])).train
    ()
    """

    train: Sequence[Example]
    dev: Sequence[Example]
    report: Report


def read_data(recipe: Recipe) -> Data:
    """Read the files of a recipe; without a dev file, hold out a part of the training data.

    >>> read_data(Recipe())
    Traceback (most recent call last):
    windlass.core.errors.DataError: no training data: name a file, as in windlass train pairs.tsv
    """
    files = recipe.data
    if not files.train:
        raise DataError("no training data: name a file, as in windlass train pairs.tsv")
    reader, keep = TASKS[recipe.task].reader, keeping(files.train, files.store)
    train = [read_examples(recipe, path, keep=keep) for path in files.train]
    dev = [read_examples(recipe, files.dev)] if files.dev else []
    report = reader.survey(train, dev, sides_of(recipe))
    examples = joined_views([result.examples for result in train])
    if dev:
        return Data(_expanded(examples), dev[0].examples, report)
    held_out_by = sides_of(recipe).source_side.held_out_by
    train_part, held = reader.split(examples, files.dev_fraction, recipe.train.chunk is not None, held_out_by)
    return Data(_expanded(train_part), held if isinstance(held, View) else tuple(held), report)


def _expanded(examples: Sequence[Example]) -> Sequence[Example]:
    return examples.expanded() if isinstance(examples, View) else tuple(expand(examples))


def read_examples(
    recipe: Recipe, path: str | Path, options: DataOptions | None = None, keep: Keep = tuple
) -> ReadResult:
    """Read a file with the recipe's data options, or with `options`; `keep` stores the examples.

    >>> read_examples(Recipe(), "no-such-file.tsv")
    Traceback (most recent call last):
    windlass.core.errors.DataError: no-such-file.tsv: no such file; ...
    """
    reader, whole = TASKS[recipe.task].reader, recipe.train.chunk is not None
    return reader.read(path, options or recipe.data, sides_of(recipe), whole, keep).usable()


def read_for_model(recipe: Recipe, path: str | Path, options: DataOptions) -> ReadResult:
    """Read a file as `read_examples` does, for a model that is there: its task cannot be chosen.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.mrg"
    >>> _ = path.write_text("(S (NP I) (VP see))")
    >>> from windlass.recipe import compose
    >>> recipe = compose("classify", None)
    >>> read_for_model(recipe, path, recipe.data)
    Traceback (most recent call last):
    windlass.core.errors.DataError: ...: trees are for a task that writes or reads them, and this model predicts labels:
    give it a table
    """
    with _told_of_model(recipe, "give it a table"):
        return read_examples(recipe, path, options)


def read_to_finetune(recipe: Recipe) -> Data:
    """Read the files of a recipe as `read_data` does, for a model that is there: its task cannot be chosen.

    >>> read_to_finetune(Recipe())
    Traceback (most recent call last):
    windlass.core.errors.DataError: no training data: ...
    """
    with _told_of_model(recipe, "give it a table, or train a new model"):
        return read_data(recipe)


@contextmanager
def _told_of_model(recipe: Recipe, mend: str) -> Iterator[None]:
    """Say of data for another task what this model predicts."""
    try:
        yield
    except OtherTaskError as error:
        target = TASKS[recipe.task].target
        kind = {"tree": "trees", "label": "labels", "number": "numbers"}.get(target, target)
        raise DataError(f"{error.what}, and this model predicts {kind}: {mend}") from None


def sides_of(recipe: Recipe) -> SideOptions:
    """Return the options of a recipe's two sides.

    >>> sides_of(Recipe()).source.kind
    'text'
    """
    return SideOptions(source=recipe.source, target=recipe.target)


def choose_columns(recipe: Recipe, frame: Frame) -> Recipe:
    """Write into the recipe which of a table's columns are the source and the target, by what they hold and in order.

    >>> choose_columns(Recipe(), as_frame({"id": [1], "text": ["a"], "label": ["b"]})).data.target
    'label'
    """
    wanted = _columns(recipe)
    if frame.names is None:
        _check_names(frame, wanted)
        if len(frame.integers) <= len(wanted):
            return recipe
    names = frame.names or frame.integers
    if frame.rows and "source" in wanted and not all(wanted.values()):
        cells = zip(*frame.rows[:SAMPLE], strict=True)
        named = zip(names, cells, strict=True)
        samples = [ColumnSample(n, *column, Path()) for n, column in enumerate(named, 1)]
        own = {part: column for part, column in wanted.items() if column is not None}
        try:
            found, _ = columns_for(
                TASKS[recipe.task].target, len(wanted) - 1, samples, recipe.source.kind, own, "train"
            )
        except DataError as error:
            raise DataError(in_python(str(error))) from None
        wanted |= {part: frame.choice(column) for part, column in found.items() if part not in own}
    if frame.names is None and not all(wanted.values()):
        return recipe
    columns = pick_columns(frame, wanted, "train")
    return recipe.model_copy(update={"data": recipe.data.model_copy(update=columns)})


def describe_columns(recipe: Recipe, frame: Frame) -> str | None:
    """Say which columns of a table a recipe reads, if they have names; those that are integers, if they were chosen.

    >>> frame = as_frame({"id": [1], "text": ["a"], "label": ["b"]})
    >>> describe_columns(choose_columns(Recipe(), frame), frame)
    "the source is 'text', the target 'label'"
    """
    columns = _columns(recipe)
    if frame.names is None:
        told = [f"{part} {_integers(column, frame)}" for part, column in columns.items() if column is not None]
        return f"columns by name: {', '.join(told)}" if frame.integers and told else None
    *sources, target = map(repr, columns.values())
    return (
        f"the source is {' and '.join(sources)}, the target {target}" if sources else f"the texts are column {target}"
    )


def _integers(column: int | str, frame: Frame) -> str:
    return ",".join(frame.integers[int(number) - 1] for number in columns_of(column, None))


def in_python(message: str) -> str:
    """A message that names options of the command line, for Python.

    >>> in_python("add --task classify, or choose with --source")
    'add task="classify", or choose with source='
    >>> in_python("add --task classify or --task text")
    'add task="classify" or "text"'
    >>> in_python("resume it with --resume --out m, delete it first with --overwrite, or choose another --out")
    'resume it with resume=True, delete it first, or choose another out='
    >>> in_python("--vary seed: given twice: put all its values into one, as in --vary seed=A,B,C")
    'vary seed: given twice: put all its values into one, as in vary={"seed": "A,B,C"}'
    >>> in_python("--top-k has no use in greedy search")
    'top_k has no use in greedy search'
    """
    message = re.sub(r"--(temperature|top-[kp]|seed|length)\b", lambda match: match[1].replace("-", "_"), message)
    message = re.sub(r"--resume( --out .*?(?=,|$))?", "resume=True", message.replace(" with --overwrite", ""))
    message = re.sub(
        r"--vary ([\w.+]+)=(\S+?)(?=:?(?:\s|$))",
        r'vary={"\1": "\2"}',
        message.replace("--vary KEY=VALUE,VALUE", "vary="),
    )
    message = re.sub(r"--(task|source|target|second) ([\w-]+)( or (?:--\1 )?(\w[\w-]*))?", _keyword, message)
    return re.sub(r"--(task|source|target|second|out)\b", r"\1=", message).replace("--vary", "vary")


def _keyword(match: re.Match[str]) -> str:
    return f'{match[1]}="{match[2]}"' + (f' or "{match[4]}"' if match[4] else "")


def _columns(recipe: Recipe) -> dict[str, int | str | None]:
    return TASKS[recipe.task].reader.in_memory.columns(recipe.data, sides_of(recipe))


def with_columns(recipe: Recipe, columns: Mapping[str, int | str | None], data: Frame | None = None) -> Recipe:
    """Write the columns that a user names into the recipe; `data` is the table, unless it is a file.

    >>> with_columns(Recipe(), {"source": "text", "second": None}).data.source
    'text'
    >>> with_columns(Recipe(), {"second": "b"})
    Traceback (most recent call last):
    windlass.core.errors.RecipeError: second names the other text of a pair, but task text reads one text: leave it out
    """
    chosen = {part: column for part, column in columns.items() if column is not None}
    if "second" in chosen and sides_of(recipe).source_side.texts < 2:
        what = f"task {recipe.task} reads one text"
        raise RecipeError(f"second names the other text of a pair, but {what}: leave it out")
    if "source" in chosen and TASKS[recipe.task].language_model:
        raise RecipeError("a language model has no source: name the column of its texts as target")
    if data is not None:
        _check_names(data, chosen)
    return recipe.model_copy(update={"data": recipe.data.model_copy(update=chosen)}) if chosen else recipe


def _check_names(frame: Frame, columns: Columns) -> None:
    each = [one for column in columns.values() if column is not None for one in columns_of(column, None)]
    names = [one for one in each if isinstance(one, str)]
    if frame.names is None and names:
        raise DataError(f"no column is called {names[0]!r}, as the rows have no names: give a data frame, or dicts")


def describe_skipped(findings: Sequence[Finding]) -> str | None:
    """Say how many rows were skipped and why.

    >>> describe_skipped(as_examples([("a", "b"), ("c", "")], "train", Recipe()).findings)
    'skipped 1 blank; first is train:2: the target is blank'
    """
    skipped = [finding for finding in findings if finding.action == "skipped"]
    if not skipped:
        return None
    first = min(skipped, key=lambda finding: finding.line)
    counts = Counter(finding.kind for finding in skipped).most_common()
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in counts)
    return f"skipped {kinds}; first is {Place(first.file, first.line)}: {first.what}"


def as_examples(data: Any, name: str, recipe: Recipe) -> ReadResult:
    """Make examples of data in memory: data frames, pairs, or texts; `name` is what messages call it.

    >>> as_examples(zip(["a", "c"], ["b", None]), "dev", Recipe()).findings
    (Finding(file='dev', line=2, kind='blank', what='the target is blank', action='skipped'),)
    """
    return TASKS[recipe.task].reader.in_memory.from_memory(data, name, sides_of(recipe), recipe.data).usable()


def as_pairs(data: Any, name: str, recipe: Recipe) -> list[tuple[Value, Value]]:
    """Read sources and targets as they are, to score: a blank target can be scored, a missing one cannot.

    >>> as_pairs([("a", ""), ("b", None)], "pairs", Recipe())
    Traceback (most recent call last):
    windlass.core.errors.DataError: pairs row 2: the target is missing: leave the row out
    """
    sides = sides_of(recipe)
    pairs: list[tuple[Value, Value]] = []
    for n, row in enumerate(read_columns(as_frame(data, name), _columns(recipe), name), 1):
        if missing := [part for part, cell in row.items() if cell is None]:
            raise DataError(f"{name} row {n}: the {missing[0]} is missing: leave the row out")
        cell = (row["source"], row["second"]) if "second" in row else row.get("source")
        try:
            pairs.append((sides.read_source(frozen(cell)), sides.read_target(frozen(row["target"]))))
        except CellError as error:
            raise DataError(f"{name} row {n}: {error}") from None
    return pairs


def as_data(train: Any, dev: Any, recipe: Recipe) -> Data:
    """Make data of what a user has in memory; without `dev`, hold out a part of the training data.

    >>> data = as_data([("a", "b"), ("c", "d")], [("e", "f")], Recipe())
    >>> data.train[1].source, len(data.dev)
    ('c', 1)
    """
    reader, frame = TASKS[recipe.task].reader.in_memory, as_frame(train, "train")
    if not frame.rows:
        raise DataError("train has no rows: give at least one example")
    recipe = choose_columns(recipe, frame)
    first, sides = as_examples(frame, "train", recipe), sides_of(recipe)
    if dev is not None:
        second = as_examples(dev, "dev", recipe)
        return Data(_expanded(first.examples), second.examples, reader.survey([first], [second], sides))
    whole, by = recipe.train.chunk is not None, sides.source_side.held_out_by
    train_part, held = reader.split(first.examples, recipe.data.dev_fraction, whole, by)
    return Data(_expanded(train_part), tuple(held), reader.survey([first], (), sides))


def prepare_sources(
    bundles: Sequence[Bundle],
    examples: Sequence[Example],
    note: Callable[[str], None],
    warn: Callable[[str], None] | None = None,
    track: Track = lambda numbers, count, what: numbers,
) -> tuple[list[Bundle], Sequence[Example]]:
    """Compute the features of examples to evaluate on, and leave out those that cannot be read.

    Both are noted; with `warn`, the latter there.

    >>> from windlass.data import Sides
    >>> one = Example("ab", ("ba",), None, Place("pairs.tsv", 1))
    >>> prepare_sources([Bundle.new(Recipe(), Sides.tiny())], [one], print)[1] == [one]
    True
    """
    prepared, failed = [], dict[Value, str]()
    for bundle in bundles:
        source, why = bundle.sides.source.prepare((e.source for e in examples), note, track, new=False)
        prepared.append(replace(bundle, sides=replace(bundle.sides, source=source)))
        failed |= why
    return prepared, without(prepared[0].sides.respell(examples), failed, warn or note)


def without(examples: Sequence[Example], failed: Mapping[Value, str], note: Callable[[str], None]) -> Sequence[Example]:
    """Leave out the examples whose source cannot be read, and note it.

    >>> one = Example("gone.jpg", ("cat",), None, Place("photos.csv", 1))
    >>> without([one], {"gone.jpg": "gone.jpg: no such file"}, print)
    left out 1 input that cannot be read; first is gone.jpg: no such file
    []
    """
    if not failed:
        return examples
    note(f"left out {counted(len(failed), 'input')} that cannot be read; first is {next(iter(failed.values()))}")
    return [e for e in examples if e.source not in failed]


def describe_split(data: Data, recipe: Recipe) -> str | None:
    """Say if much more was held out than is usual, as equal sources stay together.

    >>> data = as_data([("a", "x"), ("b", "y")], None, Recipe())
    >>> describe_split(data, Recipe())
    '1 of 2 examples are held out, as few sources differ and equal ones stay together: give dev data'
    """
    count = len(data.train) + len(data.dev)
    if len(data.dev) <= count * max(LARGE_DEV, recipe.data.dev_fraction or 0) or TASKS[recipe.task].language_model:
        return None
    why = "as few sources differ and equal ones stay together"
    return f"{len(data.dev):,} of {count:,} examples are held out, {why}: give dev data"


def fingerprint(data: Data, recipe: Recipe) -> str:
    """Return a hash of the examples, so that a run is not resumed on other data.

    >>> fingerprint(as_data([("a", "b")], [("c", "d")], Recipe()), Recipe())[:8]
    'f83c3a1c'
    """
    sides, sha = sides_of(recipe), hashlib.sha256()
    for part in (data.train, data.dev):
        for e in part:
            targets = map(sides.target_side.digest, e.targets)
            alignment = json.dumps(e.alignment).encode()
            sha.update(b"[%s]" % b", ".join([sides.source_side.digest(e.source), *targets, alignment]))
        sha.update(b"|")
    return sha.hexdigest()


PAIRS = "pairs_sha256"
"""In training/data.json: the digests of the pairs of the training data, without and with those that were held out."""


def pairs_digest(examples: Iterable[Example], recipe: Recipe) -> str:
    """Return a hash of sources with their targets, whatever their order.

    >>> pairs = [("a", "b"), ("c", "d")]
    >>> one, other = (as_examples(part, "data", Recipe()).examples for part in (pairs, pairs[::-1]))
    >>> pairs_digest(one, Recipe()) == pairs_digest(other, Recipe())
    True
    """
    sides, total = sides_of(recipe), 0
    for e in examples:
        source = sides.source_side.digest(e.source)
        for target in e.targets:
            pair = hashlib.sha256(source + b"\t" + sides.target_side.digest(target))
            total += int.from_bytes(pair.digest(), "big")
    return f"{total % 2**256:064x}"


def trained_on(folder: Path, examples: Sequence[Example], recipe: Recipe) -> bool:
    """Whether these are the very examples that the model in a folder was trained on, as far as its run tells.

    >>> trained_on(Path("/nowhere"), (), Recipe())
    False
    """
    try:
        known = json.loads((folder / "training" / "data.json").read_text(encoding="utf-8"))[PAIRS]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return isinstance(known, list) and pairs_digest(examples, recipe) in known
