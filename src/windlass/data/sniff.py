"""What separates the columns of a table, and whether its first row is a header: told by all rows of a sample."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

SAMPLE = 20_000
"""Rows that a table is judged by: enough to meet every label of a sorted file of usual size."""

SEPARATORS = {"tab": "\t", "semicolon": ";", "pipe": "|", "comma": ","}
"""Separators by name, the one that is rarest in text first."""

SOURCE_NAMES = """
source src input text sentence word words tokens token form spelling orthography orth grapheme graphemes headword lemma
lexeme entry
latin roman native english review comment tweet message post body content document article abstract utterance query
question name premise description wort satz mot phrase texte palabra texto
sentence1 sentence_1 sentence_a text1 text_1 text_a question1 question_1 s1 first
""".split()
SECOND_NAMES = """
hypothesis second sentence2 sentence_2 sentence_b text2 text_2 text_b question2 question_2 s2 passage paraphrase
""".split()
PHONEME_NAMES = """
pronunciation pron ipa afi xsampa x-sampa sampa arpabet phonemes phoneme phones phon phonetic phonetics transcription
aussprache prononciation pronunciación transcripción lautschrift
""".split()
TARGET_NAMES = [
    *PHONEME_NAMES,
    *"""
target tgt trg output label gold_label gold class category sentiment polarity intent topic genre language lang gender
spam emotion stance judgment judgement entailment entailment_judgment labels categories topics tags tag pos upos xpos
ner pos_tags ner_tags transliteration translation summary headline reply response answer score relatedness
relatedness_score similarity rating stars grade caption captions transcript y german french spanish devanagari klasse
kategorie etiqueta
""".split(),
]
ID_NAMES = "id idx index uid uuid guid key nr no num row line file url date".split()
FILE_NAMES = """
image img picture photo foto bild clip video audio sound recording wav path filename file_name filepath file_path
image_path img_path photo_path picture_path clip_path video_path audio_path sound_path wav_path image_file audio_file
""".split()
OTHER_NAMES = "split set fold freq frequency count weight length author user notes".split()
_UNCLEAR_NAMES = (
    "gloss glosses meaning definition sense example examples dialect variant root stem morphemes comments".split()
)
_KNOWN = frozenset((*SOURCE_NAMES, *SECOND_NAMES, *TARGET_NAMES, *ID_NAMES, *FILE_NAMES, *OTHER_NAMES, *_UNCLEAR_NAMES))
_NEVER_DATA = frozenset((*PHONEME_NAMES, "headword", "orthography"))  # one of them makes a header
_NAME = re.compile(r"[^\W\d][\w .,()/#-]{0,39}")
_ENDING = re.compile(r"\.[a-z][a-z0-9]{2,4}$", re.IGNORECASE)  # of the name of a file
_NUMBER = re.compile(r"[-+]?\d+([.,]\d+)?([eE][-+]?\d+)?%?")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")  # or three decimals


def plain_name(name: str) -> str:
    """A column's name as the lists of names have it.

    >>> plain_name(" Gold Label"), plain_name("IPA (broad)")
    ('gold_label', 'ipa')
    """
    return "_".join(re.split("[,(]", name.lower())[0].split())


def is_number(cell: str) -> bool:
    """Whether a cell is a number.

    >>> is_number("4.5"), is_number("4 apples")
    (True, False)
    """
    return _NUMBER.fullmatch(cell.strip()) is not None


def two_readings(cell: str) -> str | None:
    """The two numbers that a cell may be, if its comma may mark thousands or decimals.

    >>> two_readings("1,234"), two_readings("0,234")
    ('1234 or 1.234', None)
    """
    return f"{cell.replace(',', '')} or {cell.replace(',', '.')}" if _THOUSANDS.fullmatch(cell) else None


def split_rows(lines: Sequence[str], separator: str, quoted: bool | None = None) -> Iterator[list[str]]:
    """Split lines into cells, with the quotes of csv; if it is not said, unless a tab separates them.

    >>> list(split_rows(['a,"b,c"'], ","))
    [['a', 'b,c']]
    >>> list(split_rows(['a\\t"b"'], "\\t")), list(split_rows(['a\\t"b"'], "\\t", quoted=True))
    ([['a', '"b"']], [['a', 'b']])
    """
    if not (separator != "\t" if quoted is None else quoted):
        yield from (line.split("\t") for line in lines)
        return
    with suppress(csv.Error):  # what is malformed is told when it is read
        yield from csv.reader((line + "\n" for line in lines), delimiter=separator)


def find_separator(lines: Sequence[str], usual: str) -> tuple[str, float]:
    """Return what separates the columns, and the share of rows that agree on their number.

    The separator that gives the most rows the same number of columns wins; of equals, the one that is rarest in text. A
    mark with a space behind it is taken for punctuation, unless nothing else separates the columns of a csv.

    >>> find_separator(["Headword;IPA, broad", "cat;kæt", "dog;dɒɡ"], usual=",")
    (';', 1.0)
    >>> find_separator(["Well, yes.", "Oh, no."], usual="\\t")
    ('\\t', 0.0)
    """
    filled = [line for line in islice(lines, SAMPLE) if line.strip()]
    shares: dict[str, float] = {}
    spaced_usual = 0.0
    for separator in sorted(SEPARATORS.values(), key=lambda mark: mark != usual and len(filled) < 10):
        quoted = separator != "\t" or usual == ","
        widths = Counter(len(cells) for cells in split_rows(filled, separator, quoted) if cells)
        agreed = max((count for width, count in widths.items() if width > 1), default=0)
        marks, spaced = (sum(line.count(mark) for line in filled) for mark in (separator, separator + " "))
        if separator == "\t" or 2 * spaced < marks:
            shares[separator] = agreed / max(1, widths.total())
        elif separator == usual:
            spaced_usual = agreed / max(1, widths.total())
    best = max(shares.values(), default=0.0)
    if not best:
        return usual, spaced_usual
    return next((separator, share) for separator, share in shares.items() if share >= best - 0.02)


def quotes_hold(lines: Sequence[str]) -> bool:
    """Whether the quotes in lines with tabs are those of csv: all are closed, and none holds a tab and a line break.

    >>> quotes_hold(['"so, so"\\tb', "c\\td"]), quotes_hold(['"Yes," he said\\tb']), quotes_hold(['"a\\tb', 'c"\\td'])
    (True, False, False)
    """
    try:
        for row in csv.reader((line + "\n" for line in lines), delimiter="\t", strict=True):
            if any("\t" in cell and "\n" in cell for cell in row):
                return False
    except csv.Error as error:
        return "unexpected end" in str(error) and len(lines) >= SAMPLE
    return True


def in_quotes(rows: Sequence[Sequence[str]]) -> tuple[int, bool]:
    """How many rows have a cell that begins and ends with a quote, and whether all cells but numbers do.

    >>> in_quotes([['"a"', '"b, c"'], ['"d"', "4"]]), in_quotes([["a", '"b"'], ["d", 'e "f"']])
    ((2, True), (1, False))
    """
    cells = [cell.strip() for row in rows for cell in row]
    every = all(map(_quoted, (cell for cell in cells if cell and not is_number(cell))))
    count = sum(any(len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in map(str.strip, row)) for row in rows)
    return count, every and count > 0


def _quoted(cell: str) -> bool:
    return len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in cell[1:-1].replace('""', "")


def is_header(first: Sequence[str], rows: Sequence[Sequence[str]]) -> str | None:
    """Return why a first row is a header, or None if it looks like those below.

    >>> is_header(["word", "ipa"], [["cat", "kæt"]])
    'these are names of columns'
    >>> is_header(["Satz", "Klang"], [["so viel Zeit muss sein", "1"], ["das ist gut", "0"]] * 9)
    'column 1 holds several words below'
    >>> is_header(["cat", "kæt"], [["dog", "dɒɡ"]])
    """
    cells = [" ".join(cell.split()) for cell in first]
    named = [cell for cell in cells if cell]
    if not named or len(set(named)) < len(named) or not all(map(_NAME.fullmatch, named)):
        return None
    known = [plain_name(cell) in _KNOWN or plain_name(cell).endswith("_id") for cell in named]
    if all(known) or (sum(known) >= 2 and 2 * sum(known) > len(known)):
        return "these are names of columns" if len(named) > 1 else "this is a name of a column"
    columns = [[row[place].strip() for row in rows if place < len(row)] for place in range(len(cells))]
    if any(cell in below and len(set(below)) < len(below) / 2 for cell, below in zip(cells, columns, strict=True)):
        return None  # one of the labels
    for cell, below in zip(cells, columns, strict=True) if all(len(cell.split()) < 3 for cell in named) else ():
        texts = len(below) >= 20 and len(set(below)) > len(below) / 2  # PRON is a tag too
        if plain_name(cell) in _NEVER_DATA and cell not in below and (texts or _apart(cell, below)):
            return f"{cell} is the name of a column"
    for place, (cell, below) in enumerate(zip(cells, columns, strict=True), 1):
        below = [text for text in below if text]
        if cell and len(below) >= 5 and (why := _unlike(cell, below)):
            return f"column {place} holds {why} below"
    return None


def _apart(name: str, below: Sequence[str]) -> bool:
    """Whether no cell below may be a tag, as PRON is one: ASCII, with a capital if the name has one."""
    filled = [text for text in below if text]
    capital = name != name.lower()
    return len(filled) >= 5 and not any(text.isascii() and (not capital or text != text.lower()) for text in filled)


def _unlike(cell: str, below: Sequence[str]) -> str | None:
    """How a cell differs from those below it: from nearly all of them, and from each of the first ten."""

    def differ(alike: Callable[[str], bool]) -> bool:
        return alike(cell) and sum(map(alike, below)) <= len(below) / 50 and not any(map(alike, below[:10]))

    if differ(lambda text: not is_number(text)):
        return "numbers"
    if differ(lambda text: _ENDING.search(text) is None):
        return "names of files"
    counts, letters = Counter(below), set("".join(below))
    if len(below) >= 20 and cell not in counts and len(counts) <= len(below) / 10 and min(counts.values()) > 1:
        return f"{len(counts)} labels"
    if len(cell) < 25 and differ(lambda text: len(text.split()) < 2) and len(cell) > 2:
        return "several words"
    if len(below) >= 20 and (
        differ(str.isascii) or sum(c.isalpha() and c not in letters for c in cell) > len(cell) / 2
    ):
        return "other letters"
    return None
