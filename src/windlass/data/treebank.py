"""Files of bracketed trees, one or more lines a tree, as treebanks have them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from windlass.core.errors import DataError, OtherTaskError
from windlass.data.examples import Example, Place
from windlass.data.files import lines, undecoded
from windlass.data.findings import Finding, Findings
from windlass.data.trees import Tree

if TYPE_CHECKING:
    from windlass.data.readers import DataOptions
    from windlass.data.sides import SideOptions

_SUFFIXES = (".mrg", ".ptb", ".tree", ".trees", ".brackets")
PENN = ".mrg"
"""Of files as the Penn Treebank has them, with function tags (NP-SBJ) and traces (-NONE-), which are left out."""


def is_treebank(path: str, format: str) -> bool:
    """Whether a file holds trees, by what was asked for or by its name.

    >>> is_treebank("wsj_0001.mrg", "auto"), is_treebank("a.tsv", "auto"), is_treebank("a.txt", "trees")
    (True, False, True)
    """
    return format == "trees" or (format == "auto" and _suffix(path) in _SUFFIXES)


def _suffix(path: str) -> str:
    suffixes = [s.lower() for s in Path(path).suffixes if s.lower() != ".gz"]
    return suffixes[-1] if suffixes else ""


def _texts(name: str, found: Findings, encoding: str | None = None) -> Iterator[tuple[int, str]]:
    """The text of every tree with the line where it begins.

    A bracket that is never closed costs the line it is on, not the rest of the file.
    """
    every = list(lines(name, found, encoding))
    ends = _ends([text.count("(") - text.count(")") for _, text in every])
    n = 0
    while n < len(every):
        begin, first = every[n]
        if not first.strip():
            n += 1
            continue
        end = ends[n]
        if end is None:
            what = "it closes what is not open" if first.count(")") > first.count("(") else "a bracket is never closed"
            found.add(Finding(name, begin, "not a tree", what, "skipped"))
            n += 1
            continue
        yield begin, " ".join(text.strip() for _, text in every[n : end + 1])
        n = end + 1


def _ends(steps: list[int]) -> list[int | None]:
    """For every line, the line on which all that was opened since is closed; None if more is closed, or nothing.

    `steps` are the brackets that each line opens, less those that it closes.

    >>> _ends([1, -1, 0, 2, -3])
    [1, None, 2, None, None]
    """
    depths = [0, *accumulate(steps)]
    ends: list[int | None] = [None] * len(steps)
    waiting: list[int] = []  # lines whose depth before them has not been reached again, the shallowest first
    for n, depth in enumerate(depths):
        while waiting and n > waiting[-1] and depths[waiting[-1]] >= depth:
            begin = waiting.pop()
            ends[begin] = n - 1 if depths[begin] == depth else None
        waiting.append(n)
    return ends


def examples(
    name: str, options: DataOptions, sides: SideOptions, found: Findings, notes: list[str]
) -> Iterator[Example]:
    """The trees of a file as examples: a sentence and its tree or, where the target is a text, a tree and its sentence.

    >>> import tempfile
    >>> from windlass.data.readers import DataOptions
    >>> from windlass.data.sides import SideOptions
    >>> path = Path(tempfile.mkdtemp()) / "a.mrg"
    >>> _ = path.write_text("( (S (NP-SBJ (PRP I)) (VP (VBP see) (NP (-NONE- *T*)))) )")
    >>> sides = SideOptions(source="words", target={"tokens": "tree"})
    >>> one = next(examples(str(path), DataOptions(), sides, Findings(), []))
    >>> one.source, one.target
    (('I', 'see'), '(S (NP (PRP I)) (VP (VBP see)))')
    """
    if not sides.target_side.written:
        raise OtherTaskError(f"{name}: trees are for a task that writes or reads them", "parse")
    if (options.source, options.target) not in ((None, None), (1, 2)) or options.alignment or options.header != "auto":
        raise DataError(f"{name}: a file of trees has no columns; leave these options out")
    cleaned = 0
    for line, text in _texts(name, found, options.encoding):
        try:
            if bad := undecoded(text):
                raise DataError(bad)
            whole = Tree.read(text)
            tree = _as_people_read(whole) if _suffix(name) == PENN else whole
            if tree is None:
                raise DataError("a tree without words")
            length = sum(map(len, tree.words)) + len(tree.words)
            if length > options.max_length:
                raise DataError(f"the sentence has {length} characters, more than max_length {options.max_length}")
        except DataError as error:
            found.add(Finding(name, line, "not a tree", str(error).removeprefix("not a tree: "), "skipped"))
            continue
        cleaned += tree != whole
        sentence = tree.words
        if sides.target_side.trees:
            yield Example(sentence, (str(tree),), None, Place(name, line))
        else:
            yield Example(str(tree), (" ".join(sentence),), None, Place(name, line))
    if cleaned:
        notes.append(f"{name}: function tags (NP-SBJ is NP) and traces (-NONE-) are left out, in {cleaned:,} trees")


def _as_people_read(tree: Tree) -> Tree | None:
    """Without traces, and without what is behind a label; None where nothing is left."""
    if tree.label == "-NONE-":
        return None
    parts = tuple(p for part in tree.parts if (p := part if isinstance(part, str) else _as_people_read(part)))
    label = tree.label if tree.label.startswith("-") else tree.label.split("-")[0].split("=")[0]
    return replace(tree, label=label, parts=parts) if parts else None
