"""Folders of pictures, clips, sounds or arrays; the folders in such a folder are the labels of what they hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from windlass.core.errors import DataError
from windlass.core.wording import counted
from windlass.data.examples import Example, Place
from windlass.data.findings import Finding, Findings
from windlass.data.sides import SOURCES, CellError, SideOptions, SourceSide

if TYPE_CHECKING:
    from windlass.data.readers import DataPath

SPLITS = frozenset("train training dev test valid validation val".split())
"""Names of folders that are parts of a corpus, and no labels."""


def is_folder(path: DataPath) -> bool:
    """Whether a path names a folder.

    >>> is_folder("."), is_folder("no-such-file.tsv")
    (True, False)
    """
    return isinstance(path, str | Path) and Path(path).is_dir()


def is_model(folder: Path) -> bool:
    """Whether Windlass wrote a folder: a model, a run or a comparison, whose pictures are no data.

    >>> is_model(Path("no-such-folder"))
    False
    """
    written = {"recipe.yaml", "codecs.json"}, {"comparison.json", "comparison.md"}
    return any(all((folder / name).is_file() for name in names) for names in written)


def models_in(folder: Path) -> list[Path]:
    """The folders of models in a folder, and in those in it.

    >>> models_in(Path("no-such-folder"))
    []
    """
    inside = sorted((path for path in folder.glob("*") if path.is_dir() and path.name[0] != "."), key=_natural)
    found = [[path] if is_model(path) else models_in(path) for path in inside]
    return [path for paths in found for path in paths]


def walk(folder: Path, side: type[SourceSide], others: list[Path] | None = None) -> Iterator[Path]:
    """The files in a folder, at any depth, that hold a value each, in natural order (2 before 10).

    Hidden files and folders of models are left out; other files are appended to `others`.

    >>> from windlass.media.samples import sample_clips
    >>> [path.name for path in walk(Path(sample_clips()[0]), SOURCES["picture"])]
    ['0.png', '1.png', '2.png']
    """
    try:
        entries = sorted((path for path in folder.iterdir() if not path.name.startswith(".")), key=_natural)
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror}): check its rights") from None
    for path in entries:
        if side.holds(path) and not is_model(path):
            yield path
        elif path.is_dir() and not is_model(path):
            yield from walk(path, side, others)
        elif others is not None and not path.is_dir():
            others.append(path)


def _natural(path: Path) -> tuple[list[str | int], str]:
    parts = re.split(r"([0-9]+)", path.name)
    return [int(part) if n % 2 else part.lower() for n, part in enumerate(parts)], path.name


def labels_of(folder: Path) -> list[Path]:
    """The folders in a folder, whose names are labels; those of models are none.

    >>> labels_of(Path("no-such-folder"))
    []
    """
    if not folder.is_dir():
        return []
    inside = (path for path in folder.iterdir() if path.is_dir() and path.name[0] != "." and not is_model(path))
    found = sorted(inside, key=_natural)
    if found and {path.name.lower() for path in found} <= SPLITS:
        first = found[-1] if found[-1].name.lower().startswith("train") else found[0]
        raise DataError(
            f"{folder}: its folders are parts ({', '.join(path.name for path in found)}), no labels: name them one by "
            f"one, as in {first} --dev {found[0] if first is not found[0] else found[-1]}"
        )
    return found


def examples(
    name: str, sides: SideOptions, found: Findings, notes: list[str], side: type[SourceSide] | None = None
) -> Iterator[Example]:
    """The files of a folder, each with the name of its folder as the label.

    >>> from windlass.media.samples import sample_clips
    >>> sides, notes = SideOptions(source="picture", target="label"), []
    >>> every = examples(str(Path(sample_clips()[0]).parent), sides, Findings(), notes)
    >>> sorted({example.target for example in every})
    ['blink', 'dawn', 'dusk']
    """
    folder, side, others = Path(name), side or sides.source_side, list[Path]()
    if not side.extensions:
        raise DataError(f"{name}: this is a folder; name a file in it")
    for inside in labels_of(folder):
        for path in walk(inside, side, others):
            place = Place(str(path), 0)
            try:
                source = side.locate(sides.source, sides.read_source(str(path)), Path())
                yield sides.match(Example(source, (sides.read_target(inside.name),), None, place))
            except CellError as error:
                found.add(Finding(str(path), 0, error.kind, str(error), "skipped"))
    if models := models_in(folder):
        notes.append(f"{name}: {counted(len(models), 'folder')} of models left out, such as {models[0].name}")
    loose = [path for path in folder.iterdir() if side.holds(path) and not path.is_dir()]
    if loose:
        what = f"{counted(len(loose), side.what)} beside the folders have no label and are left out"
        notes.append(f"{name}: {what}, such as {loose[0].name}")
    if others:
        notes.append(f"{name}: {counted(len(others), 'other file')} left out, such as {others[0]}")


def kind_of(folder: Path) -> tuple[str, Counter[str]]:
    """The kind of source that a folder of labels holds, and how many there are of each label.

    >>> from windlass.media.samples import sample_clips
    >>> kind_of(Path(sample_clips()[0]).parent)
    ('picture', Counter({'dusk': 4, 'dawn': 3, 'blink': 2}))
    """
    labels = labels_of(folder)
    counts = {
        kind: Counter({path.name: sum(1 for _ in walk(path, side)) for path in labels})
        for kind, side in SOURCES.items()
        if side.extensions
    }
    most = max(counts, key=lambda kind: counts[kind].total())
    if (
        most == "picture"
        and counts["video"]
        and not any(SOURCES["picture"].holds(file) for path in labels for file in path.iterdir())
    ):
        most = "video"  # the pictures are frames: they are in folders of their own
    if not counts[most].total():
        loose = next((side.what for side in SOURCES.values() for path in folder.iterdir() if side.holds(path)), None)
        what = f"{loose}s, but no folders named after labels" if loose else "no pictures, clips, recordings or arrays"
        raise DataError(
            f"{folder}: {what}: put the files of a label into a folder of its name, or give a table of files and "
            "labels or texts"
        )
    return most, +counts[most]
