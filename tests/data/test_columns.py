"""Which columns are source and target: those that are chosen stay, and ids, dates and objects are never guessed."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from windlass.core.errors import DataError
from windlass.data.column_facts import survey_columns
from windlass.data.column_sample import ColumnSample
from windlass.data.readers import DataOptions, read
from windlass.data.recognise import columns_for, recognise
from windlass.data.recognise_file import recognise_file
from windlass.data.sides import SideOptions
from windlass.experiment.recognise import compose_for, recompose_for
from windlass.recipe import compose

WORDS = [f"{a}{b}{c}o" for a in "bdfglmn" for b in "aeiou" for c in "rst"]
PHONES = [" ".join(word.replace("o", "ɔ")) for word in WORDS]
GLOSSES = [f"{word[::-1]} thing" for word in WORDS]
GENDERS = ["m.", "f.", "n."] * 35
DATES = [f"{1 + n % 28:02d}/0{1 + n % 9}/2021" for n in range(105)]


def column(number: int, name: str | None, cells: list[object]) -> ColumnSample:
    return ColumnSample(number, name, cells)


def words(*more: ColumnSample) -> list[ColumnSample]:
    return [column(1, "nr", list(range(1, 106))), column(2, "palabra", [*WORDS]), column(3, "AFI", [*PHONES]), *more]


def written(path: Path, names: str, *columns: list[str]) -> Path:
    rows = zip(*columns, strict=True)
    path.write_text("".join(";".join(row) + "\n" for row in [names.split(), *rows]))
    return path


@pytest.mark.parametrize(
    "dates",
    [
        DATES,
        [f"2020-0{1 + n % 9}-11" for n in range(105)],
        [f"2020-0{1 + n % 9}-11 08:{n % 60:02d}:00" for n in range(105)],
        [f"2020-0{1 + n % 9}-11T08:{n % 60:02d}:00.25Z" for n in range(105)],
        [f"{1 + n % 28}.{1 + n % 9}.{10 + n % 20}" for n in range(105)],
    ],
)
def test_a_date_is_neither_text_nor_label(dates):
    assert column(4, "fecha", dates).looks == "date"
    assert dict(recognise(words(column(4, "fecha", dates))).data) == {"source": "palabra", "target": "AFI"}
    labels = column(2, "Categoría", [*GENDERS])
    found = recognise([column(1, "Lema", [*WORDS]), labels, column(3, "Fecha", dates)])
    assert (found.task, found.data["target"]) == ("classify", "Categoría")


def test_dates_are_read_where_there_is_nothing_else_or_they_are_chosen():
    spoken = column(1, None, [f"the {n}th of May" for n in range(105)])
    assert dict(recognise([spoken, column(2, None, DATES)]).data) == {"source": 1, "target": 2}
    months = column(4, "fecha", [f"2020-0{1 + n % 9}-01" for n in range(105)])
    assert recognise(words(months), chosen={"source": "palabra", "target": "fecha"}).task == "classify"


def test_a_column_that_is_chosen_is_judged_by_what_it_holds():
    authors = column(2, "author", ["Poe", "Austen", "Woolf"] * 35)
    texts = column(1, "text", [*GLOSSES])
    assert recognise([texts, authors], chosen={"target": "author"}).task == "classify"


def test_whole_numbers_are_labels_however_they_are_written():
    texts = column(1, "message", [*GLOSSES])
    for labels in (["0", "1", "2"], ["0.0", "1.0", "2.0"], [0.0, 1.0, None], [0, 1, 2]):
        found = recognise([texts, column(2, "category", labels * 35)])
        assert found.task == "classify"
        assert "regress" in found.alternatives
    assert recognise([texts, column(2, "score", ["0.0", "0.5", "1.0"] * 35)]).task == "regress"


@pytest.mark.parametrize(("chosen", "kind"), [({"target": "AFI"}, "text"), ({"source": "palabra"}, "text")])
def test_what_belongs_to_a_chosen_column_is_the_same_with_a_task_and_without(chosen, kind):
    table = words(column(4, "fecha", DATES))
    assert columns_for(kind, 1, table, chosen=chosen)[0] == recognise(table, chosen=chosen).data


def test_tags_are_a_column_of_few_values_whatever_else_has_the_name_of_a_target():
    sounds, kinds = column(2, "IPA", [*PHONES]), ["noun", "verb", "name"] * 35
    for name in ("PoS", "Wortart"):
        table = [column(1, "Headword", [*WORDS]), sounds, column(3, name, kinds)]
        assert columns_for("tags", 1, table)[0] == {"source": "Headword", "target": name}
        assert columns_for("tags", 1, table, chosen={"source": "Headword"})[0]["target"] == name
    sentences = column(1, "sentence", [f"{a} {b}" for a, b in zip(WORDS, reversed(WORDS), strict=True)])
    pairs = [f"{a} {b}" for a, b in zip(kinds, reversed(kinds), strict=True)]
    table = [sentences, column(2, "topic", kinds), column(3, "pos", pairs), column(4, "upos", pairs)]
    found = columns_for("tags", 1, table)  # the topic is not as many tags as words
    assert found == ({"source": "sentence", "target": "pos"}, ("upos",))


def test_other_columns_that_fit_a_task_that_is_named_are_told(tmp_path):
    kinds = (["noun", "verb", "name"] * 35)[: len(WORDS)]
    path = written(tmp_path / "a.csv", "word ipa pos class", WORDS, PHONES, kinds, kinds)
    notes: list[str] = []
    compose_for("tag", None, [{"data": {"train": [str(path)]}}], notes.append)
    assert "columns: source 'word', target 'pos'; else: " in notes[0]
    assert notes[0].endswith("; 'class' could be the target too: choose with --target")


def test_transcriptions_without_spaces_are_for_pronounce_by_their_name_or_letters_that_words_lack():
    sounds = [f"{word}ː" for word in WORDS]
    for name in ("IPA", "pron", "transcription", "Lautung"):
        found = recognise([column(1, "Headword", [*WORDS]), column(2, name, sounds)])
        assert (found.task, found.alternatives) == ("pronounce", ("text", "transliterate")), name
    both = [column(1, None, sounds), column(2, None, [f"{word}ɛ" for word in WORDS])]  # an alphabet with such letters
    assert recognise(both, chosen={"source": 1, "target": 2}).task == "text"
    assert recognise([column(1, "word", [*GLOSSES]), column(2, "ipa", sounds)]).task == "text"


def test_glosses_as_many_as_words_may_be_tags_and_are_told_beside_a_translation():
    sentences = [f"{a} {b} {c}" for a, b, c in zip(WORDS, WORDS[1:], WORDS[2:], strict=False)]
    meanings = [f"{text.upper()} thing" for text in sentences]
    table = [
        column(1, "sentence", [*sentences]),
        column(2, "gloss", [text.upper() for text in sentences]),
        column(3, "translation", [*meanings]),
    ]
    found = recognise(table)
    assert (found.task, found.data["target"], found.rivals) == ("text", "translation", ("gloss",))
    assert "tag" not in found.alternatives
    found = recognise(table, chosen={"target": "gloss"})
    assert (found.task, found.alternatives[-1], found.rivals) == ("text", "tag", ())
    table[1] = column(2, "gloss", [*meanings[:1], *sentences[1:]])  # one is longer
    assert "tag" not in recognise(table, chosen={"target": "gloss"}).alternatives
    assert recognise(table).rivals == ()
    table[1] = column(2, "gloss", [" ".join(text.split()[::-1]) for text in sentences])  # in another order
    assert "tag" not in recognise(table, chosen={"target": "gloss"}).alternatives


def test_what_is_not_clear_for_a_known_task_is_refused():
    table = [column(1, "Lema", [*WORDS]), column(2, "Glosa", [*GLOSSES]), column(3, "kind", [*GENDERS])]
    with pytest.raises(DataError, match=r"several columns hold text: 'Lema', 'Glosa'; choose with --source$"):
        columns_for("label", 1, table, chosen={"target": "kind"})
    table = [table[0], table[2], column(4, "level", [1, 2, 3] * 35)]
    with pytest.raises(DataError, match=r"the target: 'kind' \(a label\), 'level' \(a label\); choose with --target$"):
        columns_for("label", 1, table, chosen={"source": "Lema"})


def test_only_what_is_missing_is_asked_for():
    table = [column(1, "Lema", [*WORDS]), column(2, "Glosa", [*GLOSSES]), column(3, "kind", [*GENDERS])]
    with pytest.raises(DataError, match=r"several columns hold text: 'Lema', 'Glosa'; choose with --source$"):
        recognise(table, chosen={"target": "kind"})
    texts = [*table[:2], column(3, "Eintrag", [f"{a} {b}" for a, b in zip(WORDS, GLOSSES, strict=True)])]
    with pytest.raises(DataError, match=r"several columns hold text: 'Glosa', 'Eintrag'; choose with --target$"):
        recognise(texts, chosen={"source": "Lema"})


def test_a_column_of_objects_is_refused_by_its_keys_and_never_guessed(tmp_path):
    rows = [{"user": {"id": n % 5, "locale": "en"}, "utterance": text, "intent": kind}
            for n, (text, kind) in enumerate(zip(GLOSSES, GENDERS, strict=True))]  # fmt: skip
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert dict(recognise_file(path, DataOptions()).data) == {"source": "utterance", "target": "intent"}
    for task in (None, "classify"):
        with pytest.raises(DataError, match="column 'user' holds objects with the keys id, locale, neither text nor"):
            compose_for(task, None, [{"data": {"train": [str(path)], "target": "user"}}], print)
    notes: list[str] = []
    compose_for(None, None, [{"data": {"train": [str(path)]}}], notes.append)
    assert notes[1].endswith("columns: source 'utterance', target 'intent'; else: --source, --target")


def test_phonemes_are_for_pronounce_and_texts_that_never_repeat_are_no_labels():
    assert (recognise(words()).task, recognise(words()).alternatives) == ("pronounce", ("text",))
    arpabet = [f"{word[0].upper()} AH{n} T R" for n, word in enumerate(WORDS)]
    assert recognise([column(1, "word", [*WORDS]), column(2, "arpabet", arpabet)]).task == "pronounce"
    joined = [column(1, "word", [*WORDS]), column(2, "ipa", [text.replace(" ", "") for text in PHONES])]
    found = recognise(joined)
    assert (found.task, found.alternatives) == ("pronounce", ("text", "transliterate"))  # character by character
    assert recognise([column(1, None, [*WORDS]), column(2, None, [*GLOSSES])]).alternatives == ()


def test_a_table_without_rows_is_told(tmp_path):
    (tmp_path / "a.csv").write_text("word,ipa\n")
    with pytest.raises(DataError, match=r"a\.csv: the table has no rows"):
        recognise_file(tmp_path / "a.csv", DataOptions())


def test_cells_beyond_the_header_are_found(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("word;ipa\ncasa;k a s a;extra\nperro;p e r o\ngato;g a t o;\n")
    found = read(path, DataOptions(), SideOptions())
    assert len(found.examples) == 3
    assert [str(f) for f in found.findings] == [
        f"{path}:2: 3 cells, where the header has 2; the last are not read -> kept"
    ]


def test_the_columns_of_a_table_that_is_not_clear_are_described(tmp_path):
    path = written(tmp_path / "a.csv", "Lema Glosa Wert Fecha", WORDS, GLOSSES, ["", *GENDERS[1:]], DATES)
    told = survey_columns(path, DataOptions(), DataError(f"{path}: which?"))
    assert told is not None
    report, columns, _ = told
    assert [(c.column, c.holds, c.blank, c.usable) for c in columns] == [
        ("Lema", "texts", 0, True),
        ("Glosa", "texts", 0, True),
        ("Wert", "labels", 1, True),
        ("Fecha", "dates", 0, False),
    ]
    assert "'Wert': labels, 3 different, 1 blank, such as 'f.'" in report.render()
    assert "as they are understood" not in report.render()
    assert "nothing wrong" not in report.render()
    assert report.refused


def test_numbers_of_rows_are_not_offered_and_phonemes_are_offered_first(tmp_path):
    numbers = [str(n - (n > 40)) for n in range(1, len(WORDS) + 1)]  # one row was copied, with its number
    kinds, notes = (["noun", "verb", "name"] * 35)[: len(WORDS)], (["check", "loan word", ""] * 35)[: len(WORDS)]
    path = written(tmp_path / "a.csv", "Nr. Wort Wortart Laute Bemerkung", numbers, WORDS, kinds, PHONES, notes)
    with pytest.raises(DataError) as caught:
        recognise_file(path, DataOptions())
    assert "the target: 'Laute' (text), 'Wortart' (a label), 'Bemerkung' (a label); choose" in str(caught.value)
    told = survey_columns(path, DataOptions(), caught.value)
    assert told is not None
    assert (told.columns[0].holds, told.pair) == ("ids", ("Wort", "Laute"))
    found = recognise_file(path, DataOptions(source="Wort"))  # which leaves one column of phonemes
    assert (found.task, found.data["target"], found.rivals) == ("pronounce", "Laute", ("Wortart", "Bemerkung"))


@pytest.mark.parametrize(
    ("name", "numbers", "looks"),
    [
        ("n", [100 + 7 * n + n % 3 for n in range(40)], "id"),  # with gaps
        ("score", [100 + 7 * n + n % 3 for n in range(40)], "number"),  # sorted by its target
        ("n", [n * 37 % 101 for n in range(40)], "number"),
        ("n", [n + 0.5 * (n % 3) for n in range(40)], "number"),
    ],
)
def test_whole_numbers_that_ascend_are_ids(name, numbers, looks):
    assert ColumnSample(1, name, [str(n) for n in numbers]).looks == looks


def test_a_model_that_is_trained_further_reads_its_own_columns(tmp_path):
    model = compose("pronounce", None, [{"data": {"source": "form", "target": "sound", "max_length": 70}}])
    ids = [str(n) for n in range(1, 106)]
    path = written(tmp_path / "a.csv", "id gloss form sound", ids, GLOSSES, WORDS, PHONES)
    notes: list[str] = []
    new = recompose_for(model, [{"data": {"train": [str(path)]}}], notes.append)
    assert (new.data.source, new.data.target, new.data.max_length) == ("form", "sound", 70)
    assert notes == [
        f"{path}: columns of the model: source 'form', target 'sound'; else: --header no, --source, --target"
    ]
    over = {"train": [str(path)], "source": "gloss"}
    assert recompose_for(model, [{"data": over}], print).data.source == "gloss"


def test_columns_that_a_model_reads_and_a_file_lacks_are_recognised_and_told(tmp_path):
    model = compose("pronounce", None, [{"data": {"source": "form", "target": "sound"}}])
    ids = [str(n) for n in range(1, 106)]
    path = written(tmp_path / "a.csv", "id palabra AFI fecha", ids, WORDS, PHONES, DATES)
    notes: list[str] = []
    new = recompose_for(model, [{"data": {"train": [str(path)]}}], notes.append)
    assert (new.data.source, new.data.target) == ("palabra", "AFI")
    assert notes[0] == f"{path}: no columns 'form', 'sound', which the model reads"
    in_order = compose("pronounce", None, [{"data": {"source": 1, "target": 2}}])
    assert recompose_for(in_order, [{"data": {"train": [str(path)]}}], print).data.source == "palabra"


def test_a_target_that_is_chosen_may_be_blank_throughout():
    columns = [column(1, "word", [*WORDS]), column(2, "ipa", [" "] * len(WORDS))]
    assert recognise(columns, chosen={"source": "word", "target": "ipa"}).task == "text"


def test_sentences_are_offered_the_tasks_that_write_such_texts():
    long = [f"word {n} of a rather long sentence with more of them, {n} in all" for n in range(40)]
    short = [f"the {n} short words" for n in range(40)]
    found = {
        name: recognise([column(1, None, source), column(2, None, target)]).alternatives
        for name, source, target in (
            ("alike", long, [f"{text} too" for text in long[::-1]]),
            ("shorter", long, short),
            ("words", [f"word{n}" for n in range(40)], long),
        )
    }
    assert found == {"alike": ("translate",), "shorter": ("summarise",), "words": ()}


SENTENCES = [["a", "cat", "runs"], ["the", "dog"], ["it", "sleeps", "here", "now"]] * 4


@pytest.mark.parametrize("tag", [int, str, lambda n: "BIO"[n % 3]], ids=["integers", "digits", "letters"])
@pytest.mark.parametrize("first", [True, False])
def test_lists_as_long_as_the_lists_of_words_are_tags(tag, first):
    tags = [[tag(n % 3) for n in range(len(words))] for words in SENTENCES]
    own = [column(1, "tokens", SENTENCES), column(2, "ner_tags", tags)]
    found = recognise(own if first else own[::-1])
    assert (found.task, found.data) == ("tag", {"source": "tokens", "target": "ner_tags"})
    assert found.reason == "column 'ner_tags' has a tag for every word of column 'tokens', 3 different"
    assert (
        recognise([column(1, None, SENTENCES), column(2, None, tags)], "data", {"source": 1, "target": 2}).task == "tag"
    )


def test_integers_for_every_word_are_tags_whatever_their_name():
    tags = [[len(word) for word in words] for words in SENTENCES]
    assert recognise([column(1, "one", tags), column(2, "two", SENTENCES)]).data == {"source": "two", "target": "one"}


def test_tags_for_every_sentence_of_a_document():
    turns = [["how are you", "well thank you"], ["is it so", "so it is", "I see"]] * 3
    found = recognise([column(1, "text", turns), column(2, "tags", [[0] * len(own) for own in turns])])
    assert (found.task, found.reason[:36]) == ("tag-document", "column 'tags' has a tag for every se")


def test_lists_of_integers_are_sets_of_labels_or_not_clear():
    texts = [f"{n} a text of some words" for n in range(40)]
    sets = [[n % 3, 3 + n % 2] for n in range(40)]
    assert recognise([column(1, "text", texts), column(2, "topics", sets)]).task == "multilabel"
    with pytest.raises(DataError, match="lists of numbers, but not one for every word of column 'text': if these are"):
        recognise([column(1, "text", texts), column(2, "topics", [[n, n + 1, 7] for n in range(40)])])


def test_lists_are_never_the_source_of_a_text():
    texts = [f"{n} a text of some words" for n in range(12)]
    with pytest.raises(DataError, match=r"column 'tokens' holds lists, .*: join each list to one text, or name --task"):
        recognise([column(1, "tokens", SENTENCES), column(2, "summary", texts)])


ONE_HOT = [(f"really {n} stars of many", n % 2, int(n % 3 == 0)) for n in range(30)]


@pytest.mark.parametrize("flag", [int, float, bool, str])
@pytest.mark.parametrize("target", ["pos,neg", "2-3"])
def test_columns_of_0_and_1_are_labels_by_their_names(tmp_path, flag, target):
    own = [column(n, name, [flag(row[n - 1]) if n > 1 else row[0] for row in ONE_HOT])
           for n, name in enumerate(("review", "pos", "neg"), 1)]  # fmt: skip
    found = recognise(own, "data", {"target": target})
    assert (found.task, found.reason) == ("multilabel", "columns 'pos' and 'neg' hold 0 or 1, a label each")
    assert found.data["source"] == "review"
    path = written(tmp_path / "a.csv", "review pos neg", *([str(one) for one in c.cells] for c in own))
    sides = SideOptions(target={"kind": "labels"})
    examples = read(path, DataOptions(source="review", target=target), sides).examples
    assert [e.target for e in examples[:4]] == ["neg", "pos", "", "pos,neg"]


def test_several_columns_of_other_numbers_are_no_target():
    own = [column(1, "text", [row[0] for row in ONE_HOT]), column(2, "a", [0.5] * 30), column(3, "b", [1] * 30)]
    with pytest.raises(DataError, match=r"^data: several columns of numbers are no target, but 'a' and 'b' hold more"):
        recognise(own, "data", {"source": "text", "target": "a,b"})


def test_columns_of_the_target_are_never_read_as_the_source():
    sizes = [column(n, name, [f"{k}.{n}" for k in range(30)]) for n, name in ((1, "height"), (2, "width"))]
    flags = [column(n, name, [k % 2 for k in range(30)]) for n, name in ((3, "new"), (4, "red"))]
    with pytest.raises(
        DataError, match="columns 'height' and 'width' hold numbers, and columns 'new' and 'red' hold l"
    ):
        recognise([*sizes, *flags], "data", {"target": "new,red"})


def test_dates_that_are_no_texts_are_no_target_unless_chosen():
    days = [date(2020, 1, 1 + n % 28) for n in range(30)]
    own = [column(1, "text", [row[0] for row in ONE_HOT]), column(2, "target", [*days])]
    with pytest.raises(DataError, match="only column 'text' holds text"):
        recognise(own)
    assert recognise([*own, column(3, "label", ["a", "b"] * 15)]).data["target"] == "label"
    assert recognise(own, "data", {"target": "target"}).task == "text"
    assert SideOptions().read_target(days[1]) == "2020-01-02"


def test_two_columns_of_one_name_are_told_at_once():
    labels = ["a", "b"] * 15
    own = [column(1, "text", [row[0] for row in ONE_HOT]), column(2, "mood", labels), column(3, "mood", labels)]
    with pytest.raises(DataError, match=r"^data: 2 columns are called 'mood': rename all but one$"):
        recognise(own)
    with pytest.raises(DataError, match="2 columns are called 'mood'"):
        columns_for("label", 1, own)
    assert (
        recognise([*own, column(4, "label", labels)], "data", {"source": "text", "target": "label"}).task == "classify"
    )


def test_a_word_a_row_is_told_that_a_row_is_a_sentence():
    own = [column(1, "sentence", [f"Sentence {n // 5}" for n in range(100)]),
           column(2, "word", [f"w{n * 7 % 53}" for n in range(100)]),
           column(3, "pos", ["ABCD"[n % 4] for n in range(100)])]  # fmt: skip
    with pytest.raises(
        DataError, match="a row is a sentence: group the words, and their tags, of each 'sentence' into"
    ):
        recognise(own)
