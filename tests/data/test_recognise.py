"""Files as people have them: what is recognised in each, and what is refused with a hint."""

from __future__ import annotations

import csv
import io
import json
import random
from pathlib import Path

import pytest

from windlass.core.errors import DataError
from windlass.data.readers import DataOptions, read
from windlass.data.recognise_file import recognise_file
from windlass.data.sides import SideOptions

ROWS = 240
NOUNS = "film book meal hotel phone game trip plot cast room screen price story scene staff".split()
VERBS = "was seemed felt looked became stayed".split()
GOOD, BAD = "lovely great fine superb warm".split(), "awful dull cold broken slow".split()
LETTERS = "abdefgiklmnoprstuvz"
SOUNDS = dict(zip(LETTERS, "abdɛfɡiklmnɔprstuvz", strict=True))


def _words(rng: random.Random, count: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(rng.choice(LETTERS) for _ in range(rng.randint(3, 9)))] = None
    return list(found)


def reviews() -> list[tuple[str, str]]:
    rng = random.Random(1)
    made = []
    for n in range(ROWS):
        words, label = (GOOD, "pos") if rng.random() < 0.6 else (BAD, "neg")
        first, second, verb = rng.choice(NOUNS), rng.choice(NOUNS), rng.choice(VERBS)
        text = f"the {first} of day {n} {verb} {rng.choice(words)}, and the {second} too"
        made.append((text, label))
    return made


def sounds() -> list[tuple[str, str]]:
    return [(word, "".join(SOUNDS[c] for c in word)) for word in _words(random.Random(2), ROWS)]


def spaced() -> list[tuple[str, str]]:
    return [(word, " ".join(word.upper())) for word in _words(random.Random(3), ROWS)]


def tagged() -> list[tuple[list[str], list[str]]]:
    rng = random.Random(4)
    kinds = {"DET": ["the", "a"], "NOUN": NOUNS, "VERB": VERBS, "ADJ": GOOD + BAD, "NUM": [str(n) for n in range(90)]}
    made = []
    for _ in range(ROWS):
        tags = [rng.choice(list(kinds)) for _ in range(rng.randint(3, 9))]
        made.append(([rng.choice(kinds[tag]) for tag in tags], tags))
    return made


def pairs() -> list[tuple[str, str, str]]:
    texts = [text for text, _ in reviews()]
    return [(text, f"it is {texts[-n]}", ("yes", "no", "maybe")[n % 3]) for n, text in enumerate(texts)]


def numbered() -> list[tuple[str, float]]:
    rng = random.Random(5)
    return [(text, round(rng.uniform(1, 5), 2)) for text, _ in reviews()]


def stars() -> list[tuple[str, int]]:
    rng = random.Random(6)
    return [(text, rng.randint(1, 5)) for text, _ in reviews()]


def topics() -> list[tuple[str, str]]:
    rng = random.Random(7)
    names = ["sport", "news", "art", "food"]
    return [(text, ",".join(rng.sample(names, rng.randint(1, 3)))) for text, _ in reviews()]


def prose() -> str:
    return "\n".join(
        f"{a.capitalize()}. Then {b}; so it went, day after day."
        for (a, _), (b, _) in zip(reviews(), reviews()[1:], strict=False)
    )


def table(rows, header=None, separator="\t", quoting=csv.QUOTE_MINIMAL) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator="\n", quoting=quoting)
    writer.writerows([*([header] if header else []), *rows])
    return out.getvalue()


def jsonl(rows, names) -> str:
    return "".join(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n" for row in rows)


def conll() -> str:
    return "\n".join("".join(f"{w}\t{t}\n" for w, t in zip(words, tags, strict=True)) for words, tags in tagged())


def conllu() -> str:
    rows = []
    for words, tags in tagged():
        rows.append(
            "# a sentence\n"
            + "".join(
                f"{n}\t{w}\t{w}\t{t}\t_\t_\t0\troot\t_\t_\n"
                for n, (w, t) in enumerate(zip(words, tags, strict=True), 1)
            )
        )
    return "\n".join(rows)


def flowers() -> list[tuple[object, ...]]:
    return [(n, n / 10, 3 + n % 4, "iris" if n % 3 == 0 else "rose") for n in range(ROWS)]


def trees() -> str:
    rng = random.Random(8)
    return "".join(
        f"(S (NP (DT the) (NN {rng.choice(NOUNS)})) (VP (VB {rng.choice(VERBS)}) (JJ {rng.choice(GOOD)})))\n"
        for _ in range(ROWS)
    )


def with_ids(rows):
    return [(n, *row) for n, row in enumerate(rows, 1)]


# name: file, content, task, data options that are recognised, first example as (source, target)
WORD, REVIEW, PAIR = sounds()[0], reviews()[0], pairs()[0]
FILES: dict[str, tuple[str, str | bytes, str, dict[str, object], tuple[object, object] | None]] = {
    "pronunciations, tab": ("a.tsv", table(sounds()), "pronounce", {"source": 1, "target": 2}, WORD),
    "pronunciations, header": (
        "a.tsv",
        table(sounds(), ["word", "ipa"]),
        "pronounce",
        {"source": "word", "target": "ipa"},
        WORD,
    ),
    "pronunciations, csv": (
        "a.csv",
        table(sounds(), ["word", "ipa"], ","),
        "pronounce",
        {"source": "word", "target": "ipa"},
        WORD,
    ),
    "pronunciations, semicolon": (
        "a.csv",
        table(sounds(), ["Headword", "IPA"], ";"),
        "pronounce",
        {"source": "Headword", "target": "IPA"},
        WORD,
    ),
    "comma in a header of semicolons": (
        "a.csv",
        "Headword;IPA, broad\n" + table(sounds(), None, ";"),
        "pronounce",
        {"source": "Headword", "target": "IPA, broad"},
        WORD,
    ),
    "pronunciations, pipes in txt": (
        "a.txt",
        table(sounds(), None, "|"),
        "pronounce",
        {"source": 1, "target": 2},
        WORD,
    ),
    "pronunciations, commas in txt": (
        "a.txt",
        table(sounds(), None, ","),
        "pronounce",
        {"source": 1, "target": 2},
        WORD,
    ),
    "pronunciations, no ending": ("words", table(sounds()), "pronounce", {"source": 1, "target": 2}, WORD),
    "pronunciations, UTF-16": (
        "a.csv",
        table(sounds(), ["word", "ipa"], ",").encode("utf-16"),
        "pronounce",
        {"source": "word", "target": "ipa"},
        WORD,
    ),
    "pronunciations, mark and CRLF": (
        "a.csv",
        ("\ufeff" + table(sounds(), ["word", "ipa"], ",").replace("\n", "\r\n")).encode(),
        "pronounce",
        {"source": "word", "target": "ipa"},
        WORD,
    ),
    "pronunciations, German header": (
        "a.csv",
        table(sounds(), ["Wort", "Aussprache"], ";"),
        "pronounce",
        {"source": "Wort", "target": "Aussprache"},
        WORD,
    ),
    "pronunciations, unknown header": (
        "a.tsv",
        table(sounds(), ["LEMMA", "KUVAUS"]),
        "pronounce",
        {"source": "LEMMA", "target": "KUVAUS"},
        WORD,
    ),
    "phonemes with spaces": ("a.tsv", table(spaced()), "pronounce", {"source": 1, "target": 2}, spaced()[0]),
    "phonemes with spaces, header": (
        "a.tsv",
        table(spaced(), ["entry", "transcription"]),
        "pronounce",
        {"source": "entry", "target": "transcription"},
        spaced()[0],
    ),
    "words with ids and counts": (
        "a.csv",
        table([(n, w, s, n % 7) for n, (w, s) in enumerate(sounds())], ["id", "word", "ipa", "freq"], ","),
        "pronounce",
        {"source": "word", "target": "ipa"},
        WORD,
    ),
    "words with ids, no header": ("a.tsv", table(with_ids(sounds())), "pronounce", {"source": 2, "target": 3}, WORD),
    "reviews, csv": (
        "a.csv",
        table(reviews(), ["review", "sentiment"], ","),
        "classify",
        {"source": "review", "target": "sentiment"},
        REVIEW,
    ),
    "reviews, all quoted": (
        "a.csv",
        table(reviews(), ["review", "sentiment"], ",", csv.QUOTE_ALL),
        "classify",
        {"source": "review", "target": "sentiment"},
        REVIEW,
    ),
    "reviews, label first": (
        "a.tsv",
        table([(b, a) for a, b in reviews()]),
        "classify",
        {"source": 2, "target": 1},
        REVIEW,
    ),
    "reviews, index as pandas writes it": (
        "a.csv",
        table([(n, *row) for n, row in enumerate(reviews())], ["", "text", "label"], ","),
        "classify",
        {"source": "text", "target": "label"},
        REVIEW,
    ),
    "reviews, Spanish header": (
        "a.csv",
        table(reviews(), ["opinión", "valoración"], ";"),
        "classify",
        {"source": "opinión", "target": "valoración"},
        REVIEW,
    ),
    "reviews, sorted": (
        "a.csv",
        table(sorted(reviews(), key=lambda r: r[1]), ["text", "label"], ","),
        "classify",
        {"source": "text", "target": "label"},
        None,
    ),
    "reviews, latin-1 letters": (
        "a.csv",
        table([(f"{a} café", b) for a, b in reviews()], ["text", "label"], ","),
        "classify",
        {"source": "text", "target": "label"},
        None,
    ),
    "reviews, jsonl": (
        "a.jsonl",
        jsonl(with_ids(reviews()), ["id", "text", "label"]),
        "classify",
        {"source": "text", "target": "label"},
        REVIEW,
    ),
    "reviews, an array of JSON": (
        "a.json",
        json.dumps([{"text": a, "label": b} for a, b in reviews()]),
        "classify",
        {"source": "text", "target": "label"},
        REVIEW,
    ),
    "reviews, fastText": (
        "a.txt",
        "".join(f"__label__{b} {a}\n" for a, b in reviews()),
        "classify",
        {"format": "labelled"},
        REVIEW,
    ),
    "questions as TREC has them": (
        "a.txt",
        "".join(f"{b.upper()}:x {a}\n" for a, b in reviews()),
        "classify",
        {"format": "labelled"},
        None,
    ),
    "stars": (
        "a.csv",
        table(stars(), ["review", "stars"], ","),
        "classify",
        {"source": "review", "target": "stars"},
        None,
    ),
    "ratings": (
        "a.csv",
        table(numbered(), ["review", "rating"], ","),
        "regress",
        {"source": "review", "target": "rating"},
        None,
    ),
    "topics, several": (
        "a.csv",
        table(topics(), ["text", "topics"], ","),
        "multilabel",
        {"source": "text", "target": "topics"},
        None,
    ),
    "topics, fastText": (
        "a.txt",
        "".join(f"{' '.join('__label__' + t for t in b.split(','))} {a}\n" for a, b in topics()),
        "multilabel",
        {"format": "labelled"},
        None,
    ),
    "topics, lists in jsonl": (
        "a.jsonl",
        jsonl([(a, b.split(",")) for a, b in topics()], ["text", "topics"]),
        "multilabel",
        {"source": "text", "target": "topics"},
        None,
    ),
    "topics, lists in jsonl, first and without a known name": (
        "a.jsonl",
        jsonl([(b.split(","), a) for a, b in topics()], ["zzz", "qqq"]),
        "multilabel",
        {"source": "qqq", "target": "zzz"},
        None,
    ),
    "reviews, JSON lines in a log": (
        "a.log",
        jsonl(reviews(), ["text", "label"]),
        "classify",
        {"source": "text", "target": "label"},
        REVIEW,
    ),
    "reviews, JSON lines in a txt": (
        "a.txt",
        jsonl(reviews(), ["text", "label"]),
        "classify",
        {"source": "text", "target": "label"},
        REVIEW,
    ),
    "tags beside words": (
        "a.tsv",
        table([(" ".join(w), " ".join(t)) for w, t in tagged()]),
        "tag",
        {"source": 1, "target": 2},
        None,
    ),
    "tags, lists in jsonl": (
        "a.jsonl",
        jsonl(tagged(), ["tokens", "tags"]),
        "tag",
        {"source": "tokens", "target": "tags"},
        None,
    ),
    "tags, CoNLL in txt": ("a.txt", conll(), "tag", {"format": "conll"}, None),
    "tags, CoNLL": ("a.conll", conll(), "tag", {}, None),
    "tags, CoNLL-U in txt": ("a.txt", conllu(), "tag", {"format": "conllu"}, None),
    "trees": ("a.txt", trees(), "parse", {"format": "trees"}, None),
    "pairs": (
        "a.tsv",
        table(with_ids(pairs()), ["pair_ID", "premise", "hypothesis", "label"]),
        "entail",
        {"source": "premise", "second": "hypothesis", "target": "label"},
        None,
    ),
    "pairs, numbers": (
        "a.csv",
        table([(a, b, n / 7) for n, (a, b, _) in enumerate(pairs())], ["sentence1", "sentence2", "score"], ","),
        "similarity",
        {"source": "sentence1", "second": "sentence2", "target": "score"},
        None,
    ),
    "translations": ("a.tsv", table([(a, a[::-1]) for a, _ in reviews()]), "text", {"source": 1, "target": 2}, None),
    "dialogs": ("a.jsonl", jsonl([([a, b, c],) for a, b, c in pairs()], ["turns"]), "reply", {"source": "turns"}, None),
    "dialogs, a turn a column": (
        "a.tsv",
        "".join("\t".join(f"{a} {i}" for i in range(2 + n % 5)) + "\n" for n, (a, _) in enumerate(reviews())),
        "reply",
        {},
        None,
    ),
    "numbers in columns": (
        "a.csv",
        table(flowers(), ["id", "petal length", "petals", "species"], ","),
        "classify-numbers",
        {"source": "petal length,petals", "target": "species"},
        ((0.0, 3.0), "iris"),
    ),
    "numbers in columns, no header, decimal commas": (
        "a.csv",
        table([(str(a).replace(".", ","), b, c) for _, a, b, c in flowers()], None, ";"),
        "classify-numbers",
        {"source": "1-2", "target": 3},
        ((0.0, 3.0), "iris"),
    ),
    "prose": ("a.txt", prose(), "lm", {}, None),
}

SIDES = {
    "text": SideOptions(),
    "classify": SideOptions(target="label"),
    "classify-numbers": SideOptions(source="numbers", target="label"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_as_people_have_them(tmp_path: Path, name: str) -> None:
    file, content, task, data, first = FILES[name]
    path = tmp_path / file
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = recognise_file(path, DataOptions())
    assert (found.task, dict(found.data)) == (task, data)
    assert found.reason
    if task in SIDES:
        examples = read(path, DataOptions(**data), SIDES[task]).examples  # type: ignore[arg-type]
        assert len(examples) == ROWS  # no header among them, and nothing lost
        if first is not None:
            assert (examples[0].source, examples[0].target) == first


REFUSED: dict[str, tuple[str, str, str]] = {
    "two texts and a label": ("a.tsv", table(pairs()), "--task entail; for one of them add --task classify"),
    "labels or texts?": (
        "a.tsv",
        table([(w, f"{n % 90} x") for n, (w, _) in enumerate(sounds())]),
        "are these labels or texts?",
    ),
    "two targets": (
        "a.csv",
        table([(*p, n / 7) for n, p in enumerate(pairs())], ["premise", "hypothesis", "label", "score"], ","),
        "several columns could be the target: 'label' (a label), 'score' (a number)",
    ),
    "three texts": (
        "a.tsv",
        table([(a, b, f"{a} {b}") for (a, _), (b, _) in zip(reviews(), reversed(reviews()), strict=True)]),
        "several columns hold text: 1, 2, 3",
    ),
    "numbers alone": (
        "a.csv",
        table([(a, 2 * float(str(a)) ** 2) for _, a, *_ in flowers()], ["height", "width"], ","),
        "several columns could be the target: 'height' (a number), 'width' (a number)",
    ),
    "one column with a header": (
        "a.csv",
        table([(a,) for a, _ in reviews()], ["text"], ",", csv.QUOTE_ALL),
        "a model needs a source and a target",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_where_two_readings_are_as_likely_the_hint_names_both(tmp_path: Path, name: str) -> None:
    file, content, said = REFUSED[name]
    (tmp_path / file).write_text(content)
    with pytest.raises(DataError) as caught:
        recognise_file(tmp_path / file, DataOptions())
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_chosen_columns_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        table([(*p, n / 7) for n, p in enumerate(pairs())], ["premise", "hypothesis", "label", "score"], ",")
    )
    found = recognise_file(path, DataOptions(target="label"))
    assert (found.task, found.data["target"]) == ("entail", "label")
    found = recognise_file(path, DataOptions(source="hypothesis", target="score"))
    assert (found.task, dict(found.data)) == ("regress", {"source": "hypothesis", "target": "score"})


def test_several_columns_are_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("name\tx\ty\tkind\na\t1.5\t2\tgood\nb\t\t4\tbad\n")
    numbers = SideOptions(source="numbers", target="label")
    found = read(path, DataOptions(source="x,y", target="kind"), numbers)
    assert [(e.source, e.target) for e in found.examples] == [((1.5, 2.0), "good")]
    assert [(finding.line, finding.what) for finding in found.findings] == [(3, "the source is blank")]
    texts = read(path, DataOptions(source="name,kind", target="y"), SideOptions()).examples
    assert [(e.source, e.target) for e in texts] == [("a good", "2"), ("b bad", "4")]
    with pytest.raises(DataError, match="no column is called 'x,z'"):
        read(path, DataOptions(source="x,z", target="kind"), numbers)


@pytest.mark.parametrize("first", [["Great", "pos"], ["the plot of day 3 was fine", "neg"]])
def test_a_first_row_like_those_below_is_no_header(tmp_path: Path, first: list[str]) -> None:
    path = tmp_path / "a.csv"
    path.write_text(table([first, *reviews()], None, ","))
    assert len(read(path, DataOptions(), SideOptions(target="label")).examples) == ROWS + 1


@pytest.mark.parametrize("names", ["tarawe,pron", "lemma,phon", "orth,transcription", "Headword,Gloss", "tarawe,IPA"])
def test_names_that_linguists_use_make_a_header(tmp_path: Path, names: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{names}\n" + "".join(f"{'abcdef'[n % 6]}o{n % 7},{n % 7}a{'abcdef'[n % 6]}\n" for n in range(30)))
    assert len(read(path).examples) == 30


def test_a_tag_that_is_also_a_name_of_columns_is_no_header(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(
        "we\tPRON\n" + "".join(f"we{n}\t{('NOUN', 'VERB', 'ADJ')[n % 3]}\n" for n in range(25)) + "x\tADP\n"
    )
    assert len(read(path).examples) == 27


@pytest.mark.parametrize("name", ["PRON", "Pron", "IPA"])
@pytest.mark.parametrize("sound", ["kæs{}", "kas{}", "k a s {}"])
def test_a_name_that_is_also_a_tag_makes_a_header_where_no_cell_may_be_a_tag(
    tmp_path: Path, name: str, sound: str
) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(f"Lekseem\t{name}\n" + "".join(f"kas{c}\t{sound.format(c)}\n" for c in "aeiou"))
    result = read(path)
    assert (len(result.examples), any(f"{name} is the name of a column" in note for note in result.notes)) == (5, True)


@pytest.mark.parametrize("tags", ["NOUN", "NOUN-sg", "Noun"])
def test_a_tag_in_a_small_table_is_no_header(tmp_path: Path, tags: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("we\tPRON\n" + "".join(f"{c}at\t{tags}\n" for c in "bcfhmr"))
    assert len(read(path).examples) == 7


def test_short_first_rows_of_a_sorted_file_are_no_header(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(table([("Go", "Geh"), ("Hi", "Hallo"), *((a, a[::-1]) for a, _ in reviews())]))
    assert read(path).examples[0].source == "Go"


@pytest.mark.parametrize(("encoding", "letters"), [("cp1252", "café crème"), ("cp1251", "привет мир")])
def test_another_encoding_is_named_with_the_line(tmp_path: Path, encoding: str, letters: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(table([(f"{letters} {n} {a}", b) for n, (a, b) in enumerate(reviews())]).encode(encoding))
    with pytest.raises(DataError, match=rf"a\.tsv:1: invalid UTF-8.*--encoding {encoding}"):
        read(path)
    assert read(path, DataOptions(encoding=encoding)).examples[0].source.startswith(letters)


def test_header_and_separator_can_be_set(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(table(reviews(), ["review", "sentiment"], ";"))
    assert len(read(path, DataOptions(header=False)).examples) == ROWS + 1
    assert "most rows" not in str(read(path, DataOptions(separator="semicolon")).usable())
    with pytest.raises(DataError, match=r"no usable line|most rows are unusable"):
        read(path, DataOptions(separator="pipe")).usable()


@pytest.mark.parametrize(
    ("target", "task"), [("ɖadiɛ{}", "text"), ("kəpənək{}", "text"), ("ˈdɑɡ{}", "pronounce"), ("ʃaː{}", "pronounce")]
)
def test_letters_of_ipa_that_orthographies_have_make_no_transcription(tmp_path, target, task):
    path = tmp_path / "words.tsv"
    names = ["".join("abdegklmno"[int(digit)] for digit in str(n)) for n in range(100, 160)]
    path.write_text("".join(f"{name}\t{target.format(name[::-1])}\n" for name in names), encoding="utf-8")
    assert recognise_file(path, DataOptions()).task == task
