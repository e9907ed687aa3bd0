"""What is fuzzed. A case works, or raises a WindlassError; anything else is a defect."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any

import yaml
from mutate import bytes_mutated, hostile, plausible, tensors_mutated, value_mutated

import windlass
from windlass.baseline import fit, load_baseline
from windlass.baseline.language import LanguageBaselines
from windlass.bundle import Bundle
from windlass.commands.inputs import input_options, read_inputs
from windlass.core.errors import DataError, RecipeError
from windlass.core.tensors import read_tensors, write_tensors
from windlass.data import conll
from windlass.data.corpus import examine
from windlass.data.findings import Findings
from windlass.data.readers import DataOptions
from windlass.data.recognise_file import known_columns, recognise_file
from windlass.data.tokens import TextOptions
from windlass.experiment.data import Data, as_data, sides_of
from windlass.experiment.loaders import fit_sides, training_loader
from windlass.inference.likelihood import score_texts
from windlass.inference.predict import predict
from windlass.media.samples import sample_pictures
from windlass.recipe import Recipe, default, merge, parse, setting
from windlass.tasks import TASKS

BUNDLES = Path(__file__).parents[1] / "fixtures" / "bundles"
MADE = {
    "made-bpe": ("text", {"source": {"tokens": {"kind": "bpe", "size": 30}}}),
    "made-unigram": ("text", {"target": {"tokens": {"kind": "unigram", "size": 30}}}),
    **{f"made-{task}": (task, {}) for task in ("regress", "similarity", "multilabel", "reply", "tag-document")},
}
"""Bundles of kinds that are not stored: a task, and what differs from its recipe."""
MADE_UP = ("numbers", "picture", "video", "sound", "question")
"""Sources that are no text: their values are made by the sides themselves."""
NAMES = sorted([*(path.name for path in BUNDLES.iterdir()), *MADE])


class WrongError(AssertionError):
    """A case that worked and should not have."""


@dataclass
class Scratch:
    """A folder with a saved copy of every stored bundle, and what each of them answers."""

    folder: Path
    answers: dict[str, Any] = field(default_factory=dict)

    def bundle(self, name: str) -> Path:
        """The folder of a bundle, as it was saved."""
        folder = self.folder / name
        if name not in self.answers:
            (_made(*MADE[name]) if name in MADE else windlass.load(BUNDLES / name)).save(folder)
            shutil.copytree(folder, self.folder / "kept" / name)
            self.answers[name] = use(folder)
        return folder

    def restore(self, name: str) -> None:
        """Undo every change to a bundle."""
        for path in (self.folder / "kept" / name).iterdir():
            (self.folder / name / path.name).write_bytes(path.read_bytes())


def _made(task: str, over: dict[str, Any]) -> windlass.Trained:
    """A model that was never trained, with a baseline."""
    recipe = parse(merge(tiny_recipe(task), over))
    data = _data(recipe)
    pairs = [(example.source, example.target) for example in data.train]
    return windlass.Trained(
        Bundle.new(recipe, fit_sides(recipe, data.train)), baseline=fit(pairs, sides_of(recipe))[-1]
    )


def use(folder: Path) -> Any:
    """Load a bundle with its baseline and ask both; return what they answer."""
    bundle = Bundle.load(folder)
    if bundle.task.language_model:
        scored = score_texts(bundle, ["a cat", "so it is"])
        baselines = LanguageBaselines.load(folder)
        beside: Any = baselines and baselines.logprobs([[1, 2, 3]])
        answers = [one.score for one in scored]
    else:
        pair = bundle.sides.source.texts > 1
        sources: list[Any] = [("a cat sat", "b"), ("", "x")] if pair else ["a cat sat. so", "Zq \u200d", ""]
        found = predict([bundle], sources)
        baseline = load_baseline(folder)
        beside = baseline and baseline.predict(sources[:2])
        answers = [one.score for one in found if one.text]
        beside = beside, [one.text for one in found]
    if not all(map(math.isfinite, answers)):
        raise WrongError(f"scores that are not finite: {answers}")
    return [round(answer, 3) for answer in answers], beside, bundle.scores


def damaged(chance: Random, scratch: Scratch) -> None:
    """A bundle with damaged bytes: it is refused, or answers as before."""
    name = chance.choice(NAMES)
    folder = scratch.bundle(name)
    file = chance.choice(sorted(folder.iterdir()))
    content = file.read_bytes()
    try:
        if chance.random() < 0.02:
            file.unlink()
        else:
            file.write_bytes(bytes_mutated(chance, content))
        if not file.exists() and file.name.startswith("baseline"):
            return
        if use(folder) != scratch.answers[name]:
            raise WrongError(f"{name}/{file.name} is damaged and believed")
    finally:
        scratch.restore(name)


def crafted(chance: Random, scratch: Scratch) -> None:
    """A bundle that somebody changed, with valid checksums."""
    name = chance.choice(NAMES)
    folder = scratch.bundle(name)
    try:
        for _ in range(chance.choice((1, 1, 2))):
            _craft(chance, folder)
        use(folder)
    finally:
        scratch.restore(name)


def _craft(chance: Random, folder: Path) -> None:
    file = chance.choice(sorted(folder.iterdir()))
    if file.suffix == ".safetensors":
        tensors, note = read_tensors(file)
        if chance.random() < 0.3:
            note = value_mutated(chance, note)
        else:
            tensors = tensors_mutated(chance, tensors)
        write_tensors(file, tensors, note)
        return
    if file.name == "recipe.yaml":
        content = value_mutated(chance, yaml.safe_load(file.read_text(encoding="utf-8")))
        data = yaml.safe_dump(content, allow_unicode=True).encode("utf-8", "surrogatepass")
    else:
        data = json.dumps(value_mutated(chance, json.loads(file.read_bytes()))).encode()
    file.write_bytes(data)
    if file.name != "bundle.json":
        about = json.loads((folder / "bundle.json").read_bytes())
        if isinstance(about, dict) and isinstance(about.get("sha256"), dict):
            about["sha256"][file.name] = hashlib.sha256(data).hexdigest()
            (folder / "bundle.json").write_text(json.dumps(about))


# ---------------------------------------------------------------- recipes

PAIRS: dict[str, list[tuple[Any, str]]] = {
    "text": [("a cat", "k a t"), ("the dog", "d o g"), ("so", "s oo")],
    "label": [("a cat", "x"), ("the dog", "y"), ("so", "x")],
    "labels": [("a cat", "x,y"), ("the dog", "y"), ("so", "")],
    "number": [("a cat", "1"), ("the dog", "2.5"), ("so", "0")],
    "tags": [("a cat", "D N"), ("the dog", "D N"), ("so", "X")],
    "tree": [("a cat", "(S (D a) (N cat))"), ("the dog", "(S (D the) (N dog))"), ("so", "(S (X so))")],
}


@cache
def tiny_recipe(task: str) -> dict[str, Any]:
    """The default recipe of a task with its sizes cut down."""

    def cut(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: cut(part) for key, part in value.items()}
        return 8 if type(value) is int and value > 8 else value

    content = default(task)
    content["model"] = cut(content["model"])
    for source in (content["source"], content["source"].get("picture", {})):
        if "cnn" in source:
            source["cnn"] = "small"
    return content


def recipes(chance: Random, scratch: Scratch) -> None:
    """A recipe with some values changed: parsed, and if it is one, built and run."""
    task = chance.choice(sorted(TASKS))
    content: Any = tiny_recipe(task)
    if chance.random() < 0.6:
        for _ in range(chance.choice((2, 5, 10))):
            changed = plausible(chance, content, kind_names())
            with suppress(RecipeError):  # go on from recipes that are some
                parse(changed)
                content = changed
        _run(parse(content), chance.random() < 0.3)
        return
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        if isinstance(content, dict) and chance.random() < 0.5:
            part = chance.choice(("model", "model", "train", "search", "source", "target", "loss", "data"))
            if isinstance(content.get(part), dict):
                content = content | {part: value_mutated(chance, content[part])}
                continue
        content = value_mutated(chance, content)
    match chance.randrange(4):
        case 0:
            text = yaml.safe_dump(content, allow_unicode=True).encode("utf-8", "surrogatepass")
            recipe = Recipe.from_yaml(bytes_mutated(chance, text).decode("utf-8", "replace"), "mine.yaml")
        case 1 if isinstance(content, dict):
            key = chance.choice(
                ("train.epochs", "seed", "model.encoder.size", "search", "", "a..b", "task", "x" * 3000)
            )
            value = yaml.safe_dump(hostile(chance), allow_unicode=True).removesuffix("\n...\n")
            recipe = parse(content | setting(f"{key}={value}"))
        case _:
            if not isinstance(content, dict):
                return
            recipe = parse(content)
    _run(recipe)


@cache
def kind_names() -> list[str]:
    """Words that recipes hold, most of them kinds."""
    found: dict[str, None] = {}

    def walk(schema: Any) -> None:
        for value in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
            walk(value)
        if isinstance(schema, dict):
            words = [schema.get("const"), *schema.get("enum", ())]
            found.update(dict.fromkeys(word for word in words if isinstance(word, str)))

    walk(Recipe.model_json_schema())
    return list(found)


def _data(recipe: Recipe) -> Data:
    """A few examples that suit a recipe."""
    if TASKS[recipe.task].language_model:
        return as_data(["a cat sat so", "the dog ran"], ["so it is"], recipe)
    sides = sides_of(recipe)
    pairs = PAIRS["tree" if sides.target_side.trees else recipe.target.kind]
    if recipe.source.kind in MADE_UP:
        values = sides.source_side.tiny()[1]
        if recipe.source.kind == "question":
            values = [(picture, "what is it ?") for picture in sample_pictures()]
        targets = [target for _, target in pairs]
        if sides.target_side.per_place:
            targets = [" ".join("X" for _ in sides.source_side.split(recipe.source, value)) for value in values]
        pairs = list(zip(values, cycle(targets)))
    elif sides.source_side.texts > 1:
        pairs = [((source, "so"), target) for source, target in pairs]
    elif recipe.source.kind == "document" and sides.target_side.per_place:
        pairs = [(("a cat", "the dog"), "D N"), (("so",), "X")]
    elif isinstance(recipe.source, TextOptions) and recipe.source.tokens.kind == "tree":
        pairs = [(tree, text) for text, tree in PAIRS["tree"]]
    return as_data(pairs, pairs[:1], recipe)


def _run(recipe: Recipe, predicted: bool = True) -> None:
    """Build a model, and compute a loss and perhaps some predictions."""
    task, data = TASKS[recipe.task], _data(recipe)
    bundle = Bundle.new(recipe, fit_sides(recipe, data.train))
    loader = training_loader(bundle, data.train)
    bundle.model(next(iter(loader.epoch(0))))
    bundle.model.eval()
    search = recipe.search
    if predicted and not task.language_model and (search is None or search.length_plus * search.length_factor < 200):
        predict([bundle], [example.source for example in data.train])


# ---------------------------------------------------------------- data files

TEXT = 'the cat sat\tt k s\nSo it is.\ts i i\n"Ünlü" dog\td o\n'
CONLL = "In O\nUlm B-LOC\n\nOh O\nno O\n\n-DOCSTART- O\n\nAnn B-PER\nran O\n"
CONLLU = (
    "# one\n1-2\tdon't\t_\n1\tdo\tdo\tAUX\tVB\t_\t2\taux\t_\t_\n2\tn't\tnot\tPART\tRB\t_\t0\troot\t_\t_\n\n"
    "1\tOh\toh\tINTJ\n"
)
TREE = "( (S (NP-SBJ (PRP I)) (VP (VBP see)\n   (NP (-NONE- *T*)))) )\n(S (NP (DT the) (NN cat)))\n"
ROWS = [{"id": n, "text": f"w{n} is fun", "label": "yn"[n % 2], "links": "0-0 1-2"} for n in range(30)]
SEEDS: dict[str, bytes] = {
    "pairs.tsv": TEXT.encode() * 4,
    "pairs.txt": TEXT.encode(),
    "dialog.tsv": b"hi\thello\thow are you\nwho\tme\noh\tno\tyes\tso\n" * 3,
    "rows.csv": ("id,text,label\n" + "".join(f'{n},"w{n}, so","{"yn"[n % 2]}"\n' for n in range(30))).encode(),
    "rows.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS).encode(),
    "rows.json": json.dumps(ROWS).encode(),
    "turns.jsonl": b'{"turns": ["hi", "oh", "no"]}\n{"turns": [{"speaker": "A", "text": "so"}, {"text": "it"}]}\n' * 4,
    "scores.tsv": "".join(f"one {n}\tother {n}\t{n / 7}\n" for n in range(30)).encode(),
    "labelled.txt": b"__label__a __label__b what fun\n__label__a so\n" * 12,
    "plain.txt": b"It was a day.\n\nAnd then it was night.\n" * 3,
    "tagged.conll": CONLL.encode() * 2,
    "tagged.conllu": CONLLU.encode() * 2,
    "tagged": CONLL.encode() * 2,
    "trees.mrg": TREE.encode() * 2,
    "trees.txt": TREE.encode() * 2,
}


@cache
def seeds() -> dict[str, bytes]:
    """A valid file of every format."""
    import pyarrow
    import pyarrow.parquet

    stream = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), stream)
    packed = {f"{name}.gz": gzip.compress(SEEDS[name], mtime=0) for name in ("pairs.tsv", "tagged.conllu", "trees.mrg")}
    wide = {"wide.csv": (b"a b," * 3000 + b"\n") * 3, "utf16.tsv": TEXT.encode("utf-16")}
    return SEEDS | packed | wide | {"rows.parquet": stream.getvalue()}


@cache
def _reader(task: str) -> tuple[Any, Any]:
    return sides_of(parse(default(task))), TASKS[task].reader


def _options(chance: Random) -> DataOptions:
    columns = (None, None, None, None, 1, 2, 3, 50, "text", "label", "no such", "\x1b[2J", "x" * 3000)
    choices: dict[str, tuple[Any, ...]] = {
        "format": ("auto",) * 12 + tuple("tsv csv jsonl parquet parallel labelled conll conllu trees".split()),
        "source": columns,
        "target": columns,
        "second": columns,
        "alignment": (None,) * 8 + columns,
        "header": ("auto", "auto", "auto", True, False),
        "separator": ("auto", "auto", "auto", "comma", "tab", ";", "é", " "),
        "encoding": (None,) * 8
        + ("utf-8", "utf-16", "cp1252", "utf-7", "shift_jis", "rot13", "hex", "idna", "punycode"),
        "max_length": (1000, 1000, 1000, 5, 10**9),
        "strict": (False, False, False, True),
    }
    try:
        return DataOptions.model_validate({name: chance.choice(values) for name, values in choices.items()})
    except ValueError:
        return DataOptions()


def files(chance: Random, scratch: Scratch) -> None:
    """A data file of any format with damage, recognised, read, examined and predicted for."""
    name = chance.choice(sorted(seeds()))
    content = seeds()[name]
    if name.endswith(".gz") and chance.random() < 0.7:  # damage the text rather than the packing
        content = gzip.compress(bytes_mutated(chance, gzip.decompress(content)), mtime=0)
    elif chance.random() < 0.97:
        content = bytes_mutated(chance, content)
    path = scratch.folder / name
    path.write_bytes(content)
    options = _options(chance) if chance.random() < 0.5 else DataOptions()
    task = chance.choice(sorted(TASKS))
    sides, reader = _reader(task)
    actions = chance.sample(
        (
            lambda: recognise_file(path, options),
            lambda: known_columns(path, options, sides, TASKS[task].target),
            lambda: _read(reader.read(path, options, sides)),
            lambda: _examined(examine([path], options, None, sides, reader)),
            lambda: _asked(path, chance, scratch),
        ),
        3,
    )
    errors = [error for action in actions if (error := refusable(action)) is not None]
    if len(errors) == len(actions):
        raise errors[0]  # nothing could be done with it


def refusable(action: Callable[[], Any]) -> DataError | None:
    """Do something that a DataError may refuse, in one line; return the error."""
    try:
        action()
    except DataError as error:
        check_line(str(error))
        return error
    return None


def check_line(line: str) -> None:
    """A message is one line of readable length, without control characters or what other libraries add."""
    if (
        "\n" in line
        or "\x1b" in line
        or len(line) > 3000
        or "pydantic" in line
        or "Traceback" in line
        or not line.strip()
    ):
        raise WrongError(f"not one clear line: {line[:200]!r} ({len(line)} characters)")


def _read(result: Any) -> None:
    for finding in result.findings:
        check_line(str(finding))
    for note in result.notes:
        check_line(note)


def _examined(report: Any) -> None:
    for line in report.render().splitlines():
        if "\x1b" in line:
            raise WrongError(f"control characters in the report: {line[:200]!r}")


def _asked(path: Path, chance: Random, scratch: Scratch) -> None:
    """The file as input of a model."""
    name = chance.choice(("tag", "tag", "classify", "entail", "classify-document"))
    bundle = _loaded(name)
    form = conll.form(str(path), "auto", sides_of(bundle.recipe)) if name == "tag" else None
    if form is not None:
        blocks = list(islice(conll.blocks(str(path), form, DataOptions(), Findings()), 20))
        for block, answer in zip(blocks, predict([bundle], [block.words for block in blocks]), strict=True):
            block.written(answer.answer.tokens)
        return
    items = read_inputs(str(path), bundle.sides.source, input_options(bundle, {}), (), check_line)
    predict([bundle], [item.value for item in islice(items, 5)])


@cache
def _loaded(name: str) -> Bundle:
    return Bundle.load(BUNDLES / name)


KINDS: dict[str, Callable[[Random, Scratch], None]] = {
    "damaged": damaged,
    "crafted": crafted,
    "recipes": recipes,
    "files": files,
}
