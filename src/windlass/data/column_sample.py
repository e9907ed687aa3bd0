"""Columns as samples of cells, what they look like, and what is recognised in them."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from statistics import median

from windlass.data.column_groups import told_group
from windlass.data.examples import as_text
from windlass.data.sheets import MISSING, Column
from windlass.data.sides import SOURCES
from windlass.data.sniff import ID_NAMES, OTHER_NAMES, TARGET_NAMES, is_number, plain_name
from windlass.media.in_memory import is_picture

FEW = 10
"""Rows too few to tell labels from texts."""
ASIDE = ("nothing", "id", "date", "object", "other", "links")
"""What columns look like that are neither source nor target unless they are chosen."""
_SPLITS = frozenset("train dev test valid validation val".split())
_CODE = re.compile(r"[0-9a-fA-F-]{16,}|https?://\S+|\S+\.(?:jpe?g|png|wav|mp3|mp4)")
_LINKS = re.compile(r"(\d+-\d+)( \d+-\d+)*")
_SEVERAL = re.compile(r"[^,]+(,[^,]+)+")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?")
_WHOLE = re.compile(r"[-+]?\d+([.,]0+)?")  # pandas writes 1.0 where an integer is missing
_DATE = re.compile(
    r"(\d{4}([-/.])\d\d?\2\d\d?|\d\d?([-/.])\d\d?\3(\d{4}|\d\d))"  # 2021-09-08, 8/9/2021, 08.09.21
    r"([T ]\d\d?:\d\d(:\d\d([.,]\d+)?)?( ?[AaPp][Mm])?)?( ?(Z|UTC|[-+]\d\d:?(\d\d)?))?"
)


@dataclass(frozen=True)
class Recognised:
    """A task, the data options that the file needs (columns, or a format), and why.

    >>> Recognised("classify", {"source": "review", "target": "stars"}, "5 labels").data["source"]
    'review'
    """

    task: str
    data: Mapping[str, Column]
    reason: str
    alternatives: tuple[str, ...] = field(default=())  # other tasks that can read these columns
    rivals: tuple[Column, ...] = field(default=(), repr=False)  # columns that could be the target too


@dataclass(frozen=True)
class ColumnSample:
    """Some cells of a column, and what they look like.

    >>> ColumnSample(2, "label", ["yes", "no"] * 20).looks
    'label'
    """

    number: int  # from 1
    name: str | None
    cells: Sequence[object]
    folder: Path | None = None  # of the files that cells may name; None: they name none
    several: bool = False  # columns as one
    taken: bool = False  # as source or target, though its name or form may be that of an id or a date

    @property
    def column(self) -> Column:
        """How the column is chosen."""
        return self.name or self.number

    @cached_property
    def texts(self) -> list[str]:
        """The cells that hold anything, as text."""
        values = (cell for cell in self.cells if cell is not None and cell is not MISSING)
        return [text for text in (as_text(value).strip() for value in values) if text]

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each value occurs."""
        return Counter(self.texts)

    @cached_property
    def words(self) -> float:
        """The words of a usual cell."""
        return median(len(text.split()) for text in self.texts) if self.texts else 0

    @cached_property
    def lists(self) -> bool:
        """Whether cells are lists, as JSON and parquet have them."""
        return bool(self.cells) and sum(isinstance(cell, list | tuple) for cell in self.cells) > len(self.cells) / 2

    @cached_property
    def sets(self) -> bool:
        """Whether cells are lists of labels: of few different texts, which no list has twice."""
        cells = [cell for cell in self.cells if isinstance(cell, list | tuple) and cell]
        if self.several and self.lists:
            return all(isinstance(part, str) for cell in cells for part in cell)
        if not self.lists or len(cells) < FEW or not all(type(part) in (str, int) for cell in cells for part in cell):
            return False
        parts = {str(part).strip() for cell in cells for part in cell}
        short = all(len(part.split()) <= 4 for part in parts)
        once = sum(len(set(cell)) == len(cell) for cell in cells) >= 0.98 * len(cells)
        return short and once and len(parts) <= max(4, len(cells) / 8)

    @cached_property
    def of_texts(self) -> bool:
        """Whether lists hold texts of several words, and no single words or labels."""
        parts = [str(part) for cell in self.cells[:200] if isinstance(cell, list | tuple) for part in cell]
        return sum(len(part.split()) for part in parts) > 1.5 * len(parts)

    @cached_property
    def keys(self) -> list[str]:
        """The keys of cells that are objects, as JSON and parquet have them."""
        objects = [cell for cell in self.cells if isinstance(cell, Mapping)]
        if 2 * len(objects) <= len(self.texts):
            return []
        return list(dict.fromkeys(str(key) for cell in objects for key in cell))

    @cached_property
    def repeated(self) -> bool:
        """Whether most cells are that of the row before, as the number of a sentence is that has a word a row."""
        return 2 * sum(one == other for one, other in pairwise(self.cells)) > len(self.cells)

    @cached_property
    def blank(self) -> int:
        """How many cells hold nothing."""
        return len(self.cells) - len(self.texts)

    @cached_property
    def named_files(self) -> str | None:
        """The kind of source whose files the cells name, by their endings, there or not."""
        names = [Path(text) for text in islice(self.counts, 1000)]
        for kind, side in SOURCES.items():
            if names and sum(side.holds(name) for name in names) >= 0.95 * len(names):
                return kind
        return None

    @cached_property
    def files(self) -> str | None:
        """The kind of source whose files the cells name, if most of them are there; or that they hold, in memory."""
        if self.cells and all(map(is_picture, self.cells[:20])):
            return "picture"
        if self.folder is None or self.words > 3:
            return None
        paths = [os.path.join(self.folder, text) for text in islice(self.counts, 50)]
        if 2 * sum(map(os.path.exists, paths)) < len(paths):
            return None
        if self.named_files is None and all(map(os.path.isdir, paths)):
            return "video" if sum(map(SOURCES["video"].holds, map(Path, paths))) > len(paths) / 2 else None
        return self.named_files

    @cached_property
    def numbers(self) -> bool:
        """Whether cells hold several numbers each."""
        filled = [cell for cell in self.cells if cell is not None and cell is not MISSING][:1000]
        return bool(filled) and sum(map(is_numbers, filled)) >= 0.95 * len(filled)

    @cached_property
    def numeric(self) -> bool:
        """Whether nearly all cells hold one number each."""
        return bool(self.texts) and sum(map(is_number, self.texts)) >= 0.98 * len(self.texts)

    @property
    def called(self) -> str:
        """Its name, or its number."""
        if self.several:
            return f"columns {told_group(self.name or '')}"
        return f"column {self.column!r}" if self.name else f"column {self.number}"

    @property
    def holds(self) -> str:
        """The beginning of a sentence about what it holds."""
        return f"{self.called} {'hold' if self.several else 'holds'}"

    @cached_property
    def looks(self) -> str:
        """What it holds: nothing, object, list, file, id, date, other, links, number, label(s), unclear or text."""
        texts, name, many = self.texts, plain_name(self.name or ""), len(self.texts)
        if self.several and self.sets:
            return "list"
        if not texts or (many < len(self.cells) / 2 and not self.taken):
            return "nothing"
        if self.keys:
            return "object"
        if self.lists:
            return "list"
        if self.files:
            return "file"
        if not self.taken and (aside := self._aside(name)):
            return aside
        if many < FEW and name not in TARGET_NAMES:
            return "text"
        if len(self.counts) == 1:
            return "label" if name in TARGET_NAMES else "other"
        repeated = sum(count for count in self.counts.values() if count > 1) / many
        few = len(self.counts) <= max(2, many / 5)
        if self.numeric and not (few and len(self.counts) <= 20 and all(map(_WHOLE.fullmatch, self.counts))):
            return "number"
        parts = {part.strip() for text in texts for part in text.split(",")}
        if _mostly(_SEVERAL, texts, 0.1) and len(parts) <= max(4, many / 8) and len(parts) < len(self.counts):
            return "labels"
        if repeated >= 0.95 and few and self.words <= 4:
            return "label"
        return "unclear" if repeated > 0.6 and self.words <= 3 and many >= 20 else "text"

    @cached_property
    def dates(self) -> bool:
        """Whether cells are dates or times, and no texts that look like them."""
        return bool(self.texts) and 2 * sum(isinstance(cell, date) for cell in self.cells) > len(self.texts)

    def _aside(self, name: str) -> str | None:
        """What is neither source nor target by its name or its form."""
        if self.dates:
            return "date"
        if name in ID_NAMES or name.endswith("_id") or self._counts_up(name) or _mostly(_CODE, self.texts):
            return "id"
        if _mostly(_DATE, self.texts):
            return "date"
        if name in OTHER_NAMES or set(map(str.lower, self.counts)) <= _SPLITS:
            return "other"
        if any("-" in text for text in self.texts) and _mostly(_LINKS, self.texts):
            return "links"
        return None

    def _counts_up(self, name: str) -> bool:
        """Whether these are the numbers of rows, or ids in ascending order, some missing or repeated."""
        if not self.numeric or len(self.texts) < 5:
            return False
        numbers = [float(text.rstrip("%").replace(",", ".")) for text in self.texts if is_number(text)]
        steps = [later - earlier for earlier, later in pairwise(numbers)]
        if set(steps) == {1.0}:
            return True
        whole = len(numbers) >= FEW and all(map(_WHOLE.fullmatch, self.texts)) and name not in TARGET_NAMES
        return whole and min(steps) >= 0 and len(set(numbers)) > 0.95 * len(numbers)


def is_numbers(cell: object) -> bool:
    """Whether a cell holds several numbers: a list, the same as JSON, or numbers with points between spaces.

    >>> is_numbers([[1, 2.5], [3, 4]]), is_numbers("[1, 2]"), is_numbers("1.5 2"), is_numbers("1 2")
    (True, True, True, False)
    """
    if isinstance(cell, str):
        text = cell.strip()
        if not text.startswith("["):
            words = [] if _THOUSANDS.fullmatch(text) else text.replace(",", " ").split()
            return len(words) > 1 and "." in text and all(map(is_number, words))
        try:
            cell = json.loads(text)
        except (ValueError, RecursionError):
            return False
    if not isinstance(cell, list | tuple) or not cell:
        return False
    return all(type(part) in (int, float) or (not isinstance(part, str) and is_numbers(part)) for part in cell)


def _mostly(pattern: re.Pattern[str], texts: Sequence[str], share: float = 0.95) -> bool:
    return sum(pattern.fullmatch(text) is not None for text in texts) >= share * len(texts)
