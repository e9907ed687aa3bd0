"""Tables and folders of pictures, clips, sounds and numbers: what is recognised, and what is refused with a hint."""

from __future__ import annotations

import json
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command import refused, windlass
from windlass.core.errors import DataError
from windlass.data.frames import as_frame
from windlass.data.readers import DataOptions, read
from windlass.data.recognise_file import known_columns, recognise_file
from windlass.data.sides import SideOptions
from windlass.experiment.data import as_examples
from windlass.experiment.recognise import compose_for, recognise_frame
from windlass.recipe import compose

CAPTIONS = [f"a {colour} square number {n} on the wall" for n, colour in enumerate(["red", "blue"] * 12)]
ANIMALS = ["cat", "dog"] * 12


def pictures(folder: Path, count: int = 24) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(count):
        Image.new("RGB", (8, 8), (n, 0, 0)).save(folder / f"{n}.png")
    return [f"{folder.name}/{n}.png" for n in range(count)]


def sounds(folder: Path, count: int = 24) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(count):
        with wave.open(str(folder / f"{n}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(np.full(800, n, "<i2").tobytes())
    return [f"{folder.name}/{n}.wav" for n in range(count)]


def clips(folder: Path, count: int = 24) -> list[str]:
    for n in range(count):
        pictures(folder / f"clip{n}", 2)
    return [f"{folder.name}/clip{n}" for n in range(count)]


def arrays(folder: Path, count: int = 24) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(count):
        np.save(folder / f"{n}.npy", np.full((3, 2), n))
    return [f"{folder.name}/{n}.npy" for n in range(count)]


MADE = {"picture": pictures, "sound": sounds, "clip": clips, "array": arrays}
TASKS = {
    ("picture", "label"): "classify-picture",
    ("picture", "text"): "caption",
    ("clip", "label"): "classify-video",
    ("clip", "text"): "caption-video",
    ("sound", "label"): "classify-sound",
    ("sound", "text"): "transcribe",
    ("array", "label"): "classify-numbers",
}


def written(path: Path, rows: list[tuple[object, ...]], names: list[str]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    else:
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in [names, *rows]))
    return path


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
@pytest.mark.parametrize(("what", "said"), list(TASKS), ids="-".join)
def test_a_column_of_files_is_recognised_by_their_kind_and_that_of_the_target(tmp_path, what, said, ending):
    files, targets = MADE[what](tmp_path / "files"), ANIMALS if said == "label" else CAPTIONS
    rows = [(n, file, target, "x") for n, (file, target) in enumerate(zip(files, targets, strict=True))]
    path = written(tmp_path / f"data{ending}", rows, ["nr", "file", "said", "split"])
    found = recognise_file(path, DataOptions())
    assert found.task == TASKS[what, said]
    assert dict(found.data) == {"source": "file", "target": "said"}
    assert "column 'file' names" in found.reason
    recipe = compose_for(None, None, [{"data": {"train": [str(path)]}}], lambda text: None)
    result = read(path, recipe.data, SideOptions(source=recipe.source, target=recipe.target))
    assert len(result.examples) == 24
    assert result.examples[3].source == str(tmp_path / files[3])
    kind = recipe.source.kind
    sides = SideOptions(source=recipe.source, target=recipe.target)
    assert known_columns(path, DataOptions(), sides, sides.target.kind)[0] == dict(found.data), kind


def test_one_line_says_why_and_how_to_say_otherwise(tmp_path):
    rows = list(zip(pictures(tmp_path / "p"), ANIMALS, strict=True))
    path, notes = written(tmp_path / "data.csv", rows, ["photo", "animal"]), []
    compose_for(None, None, [{"data": {"train": [str(path)]}}], notes.append)
    assert notes[0] == (
        f"{path}: task classify-picture, as column 'photo' names pictures, and column 'animal' holds 2 labels "
        "(cat 12, dog 12); else: --task caption"
    )


def test_a_table_without_a_header_and_a_header_of_unknown_names(tmp_path):
    rows = list(zip(pictures(tmp_path / "p"), ANIMALS, strict=True))
    path = tmp_path / "data.csv"
    path.write_text("".join(f"{a},{b}\n" for a, b in rows))
    assert dict(recognise_file(path, DataOptions()).data) == {"source": 1, "target": 2}
    path.write_text("zzz,qqq\n" + "".join(f"{a},{b}\n" for a, b in rows))
    assert dict(recognise_file(path, DataOptions()).data) == {"source": "zzz", "target": "qqq"}


def test_a_list_of_captions_is_several_right_answers(tmp_path):
    rows = [(file, [text, f"{text} again"]) for file, text in zip(pictures(tmp_path / "p"), CAPTIONS, strict=True)]
    path = written(tmp_path / "data.jsonl", rows, ["image", "captions"])
    found = recognise_file(path, DataOptions())
    assert (found.task, "several texts each" in found.reason) == ("caption", True)
    result = read(path, DataOptions(**found.data), SideOptions(source="picture"))
    assert result.examples[0].targets == (CAPTIONS[0], f"{CAPTIONS[0]} again")


def test_names_of_files_that_are_not_there_are_no_source(tmp_path):
    rows = [(f"gone/{n}.jpg", animal) for n, animal in enumerate(ANIMALS)]
    with pytest.raises(DataError, match=r"column 'photo' names pictures, but most are not there, such as .*gone/0.jpg"):
        recognise_file(written(tmp_path / "data.csv", rows, ["photo", "animal"]), DataOptions())
    rows = [(f"gone/{n}.jpg", text, animal) for n, (text, animal) in enumerate(zip(CAPTIONS, ANIMALS, strict=True))]
    found = recognise_file(written(tmp_path / "data.csv", rows, ["photo", "review", "animal"]), DataOptions())
    assert (found.task, found.data["source"]) == ("classify", "review")


def test_two_columns_of_files_or_of_answers_are_not_guessed(tmp_path):
    files, others = pictures(tmp_path / "p"), sounds(tmp_path / "s")
    path = written(tmp_path / "a.csv", list(zip(files, others, ANIMALS, strict=True)), ["a", "b", "label"])
    with pytest.raises(DataError, match="several columns could be the source: 'a', 'b'; choose with --source"):
        recognise_file(path, DataOptions())
    assert recognise_file(path, DataOptions(source="b")).task == "classify-sound"
    path = written(tmp_path / "b.csv", list(zip(files, ANIMALS, CAPTIONS, strict=True)), ["a", "b", "c"])
    with pytest.raises(DataError, match=r"the target: .b. \(a label\), .c. \(text\)"):
        recognise_file(path, DataOptions())
    assert recognise_file(path, DataOptions(target="c")).task == "caption"


def test_numbers_for_pictures_are_refused_with_a_hint(tmp_path):
    rows = [(file, n / 7) for n, file in enumerate(pictures(tmp_path / "p"))]
    path = written(tmp_path / "a.csv", rows, ["photo", "price"])
    with pytest.raises(DataError, match=r"holds numbers: .* write a recipe with task: regress and source: picture"):
        recognise_file(path, DataOptions())


SERIES = [[[n, 0.5], [1, n], [2, 2]] for n in range(24)]


@pytest.mark.parametrize(
    ("ending", "cells"),
    [(".jsonl", SERIES), (".jsonl", [one[0] for one in SERIES]), (".csv", [f'"{one}"' for one in SERIES]),
     (".csv", [f"{n}.5 {n} 2" for n in range(24)])],
)  # fmt: skip
def test_numbers_are_recognised_as_lists_json_and_words(tmp_path, ending, cells):
    path = written(tmp_path / f"a{ending}", list(zip(cells, ANIMALS, strict=True)), ["series", "state"])
    found = recognise_file(path, DataOptions())
    assert (found.task, dict(found.data)) == ("classify-numbers", {"source": "series", "target": "state"})
    assert len(read(path, DataOptions(**found.data), SideOptions(source="numbers", target="label")).examples) == 24


@pytest.mark.parametrize("as_list", [True, False])
def test_a_tag_for_each_step_of_numbers(tmp_path, as_list):
    tags = [("a", "b", "ab"[n % 2]) for n in range(24)]
    rows = [(one, list(own) if as_list else " ".join(own)) for one, own in zip(SERIES, tags, strict=True)]
    found = recognise_file(written(tmp_path / "a.jsonl", rows, ["series", "phases"]), DataOptions())
    assert found.task == "tag-numbers"


def test_ids_of_tags_and_numbers_beside_texts_are_no_source(tmp_path):
    rows = [(text.split(), [0] * len(text.split())) for text in CAPTIONS]
    found = recognise_file(written(tmp_path / "a.jsonl", rows, ["tokens", "ner_tags"]), DataOptions())
    assert found.data["source"] == "tokens"
    rows = [(text, [0.5, n], animal) for n, (text, animal) in enumerate(zip(CAPTIONS, ANIMALS, strict=True))]
    assert recognise_file(written(tmp_path / "b.jsonl", rows, ["text", "vector", "label"]), DataOptions()).task == (
        "classify"
    )


@pytest.mark.parametrize("what", ["picture", "sound", "array"])
def test_a_folder_whose_folders_are_labels(tmp_path, what):
    for label in ("cat", "dog"):
        MADE[what](tmp_path / "data" / label, 4)
    (tmp_path / "data" / "notes.txt").write_text("mine")
    (tmp_path / "data" / "cat" / ".hidden.png").write_text("mine")
    found = recognise_file(tmp_path / "data", DataOptions())
    assert found.task == TASKS[what, "label"]
    assert found.reason.startswith("its folders are 2 labels of ")
    recipe = compose_for(found.task, None, [{"data": {"train": [str(tmp_path / "data")]}}], print)
    result = read(tmp_path / "data", recipe.data, SideOptions(source=recipe.source, target=recipe.target))
    assert [(Path(e.source).parent.name, e.target) for e in result.examples] == [("cat", "cat")] * 4 + [
        ("dog", "dog")
    ] * 4
    assert str(result.examples[0].place) == result.examples[0].source
    assert not result.findings


def test_a_folder_of_folders_of_frames_is_one_of_clips(tmp_path):
    for label in ("nod", "wave"):
        clips(tmp_path / label, 3)
    found = recognise_file(tmp_path, DataOptions())
    assert (found.task, found.alternatives) == ("classify-video", ("classify-picture",))
    assert len(read(tmp_path, DataOptions(), SideOptions(source="video", target="label")).examples) == 6
    assert len(read(tmp_path, DataOptions(), SideOptions(source="picture", target="label")).examples) == 12


def test_folders_that_cannot_be_used_say_why(tmp_path):
    pictures(tmp_path / "flat")
    with pytest.raises(DataError, match="pictures, but no folders named after labels: put the files of a label into"):
        recognise_file(tmp_path / "flat", DataOptions())
    pictures(tmp_path / "one" / "cat")
    with pytest.raises(DataError, match=r"one folder of pictures \(cat 24\), and there is nothing to tell apart"):
        recognise_file(tmp_path / "one", DataOptions())
    for part in ("train", "test"):
        pictures(tmp_path / "parts" / part / "cat")
    with pytest.raises(DataError, match=r"its folders are parts \(test, train\), no labels: .*train --dev .*test"):
        recognise_file(tmp_path / "parts", DataOptions())
    (tmp_path / "empty" / "cat").mkdir(parents=True)
    with pytest.raises(DataError, match="no pictures, clips, recordings or arrays"):
        recognise_file(tmp_path / "empty", DataOptions())
    with pytest.raises(DataError, match="this is a folder; name a file in it"):
        read(tmp_path / "one", DataOptions(), SideOptions())
    with pytest.raises(DataError, match="no such files in folders named after labels"):
        read(tmp_path / "one", DataOptions(), SideOptions(source="sound", target="label"))


def test_pairs_in_memory_are_recognised_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = list(zip(pictures(tmp_path / "p"), CAPTIONS, strict=True))
    assert recognise_frame(as_frame(rows), {}, [], lambda text: None) == "caption"
    frame = as_frame({"photo": [row[0] for row in rows], "animal": ANIMALS})
    assert recognise_frame(frame, {}, [], lambda text: None) == "classify-picture"


def test_questions_about_pictures(tmp_path):
    rows = [(f"what is number {n}", ["chair", "table"][n % 2], file) for n, file in enumerate(pictures(tmp_path / "p"))]
    path = written(tmp_path / "a.csv", rows, ["question", "answer", "image"])
    found = recognise_file(path, DataOptions())
    columns = {"source": "image", "second": "question", "target": "answer"}
    assert (found.task, dict(found.data)) == ("answer", columns)
    recipe = compose_for("answer", None, [{"data": {"train": [str(path)]}}], print)
    assert (recipe.data.source, recipe.data.second, recipe.data.target) == ("image", "question", "answer")
    first = read(path, recipe.data, SideOptions(source=recipe.source, target=recipe.target)).examples[0]
    assert (first.source, first.target) == ((str(tmp_path / "p/0.png"), "what is number 0"), "chair")


def test_pictures_in_memory():
    rows = [(Image.new("RGB", (8, 8), (n, 0, 0)), animal) for n, animal in enumerate(ANIMALS)]
    assert recognise_frame(as_frame(rows), {}, [], lambda text: None) == "classify-picture"
    first, *_ = as_examples(rows, "train", compose("classify-picture", None)).examples
    assert (Image.open(first.source).size, first.target) == ((8, 8), "cat")


def model(folder: Path, *names: str) -> None:
    """A folder with a picture, as Windlass writes one of a model or of a comparison."""
    pictures(folder / "training", 1)
    for name in names:
        (folder / name).write_text("{}")


def test_folders_of_models_are_no_labels_and_are_told(tmp_path):
    for label in ("cat", "dog"):
        pictures(tmp_path / label, 3)
    model(tmp_path / "m300", "recipe.yaml", "codecs.json")
    model(tmp_path / "cells", "comparison.json", "comparison.md")
    model(tmp_path / "cat" / "m301", "recipe.yaml", "codecs.json")
    assert "its folders are 2 labels of pictures (cat 3, dog 3)" in recognise_file(tmp_path, DataOptions()).reason
    found = read(tmp_path, DataOptions(), SideOptions(source="picture", target="label"))
    assert sorted({example.target for example in found.examples}) == ["cat", "dog"]
    assert any("3 folders of models left out, such as m301" in note for note in found.notes)
    with pytest.raises(DataError, match="m300: this is a model or a comparison, no data"):
        recognise_file(tmp_path / "m300", DataOptions())


def test_labels_of_one_picture_each_are_refused_and_doctor_says_what_train_says(tmp_path):
    for label in "abc":
        pictures(tmp_path / label, 1)
    said = "its 3 folders hold one picture each: put several of every label into its folder"
    with pytest.raises(DataError, match=said):
        recognise_file(tmp_path, DataOptions())
    assert said in refused("doctor", tmp_path)
    report = windlass("doctor", tmp_path, "--task", "classify-picture")
    assert "each of the 3 labels has one example: there is nothing to learn" in report.out


@pytest.mark.parametrize("name", ["a.txt", "a.sfm"])
def test_a_toolbox_file_is_refused_with_its_markers(tmp_path, name):
    path = tmp_path / name
    path.write_text("\n".join(f"\\tx ka noru {n}\n\\ge the cat {n}\n\\ft a cat\n" for n in range(20)))
    told = refused("train", path)
    assert refused("doctor", path) == told
    assert r"lines begin with backslash markers (\tx, \ge, \ft): this is a Toolbox (SFM) file" in told
    assert "make a table of its fields, or add --task lm" in told


def test_text_with_some_latex_is_running_text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\\section{One}\nIt was a day.\n\\item So it was.\nIt ended.\n" * 5)
    assert recognise_file(path, DataOptions()).task != "classify"


def test_two_texts_of_as_many_lines_may_be_a_translation(tmp_path):
    for name, count in (("a.taw", 20), ("a.en", 20), ("b.en", 21)):
        (tmp_path / name).write_text("".join(f"the {n} cats saw it .\n" for n in range(count)))
    taw, en, other = (str(tmp_path / name) for name in ("a.taw", "a.en", "b.en"))
    notes: list[str] = []
    assert compose_for(None, None, [{"data": {"train": [taw, en]}}], notes.append).task == "lm"
    assert f"{taw} and {en} have 20 lines each: for a translation give {taw},{en}; read as running text" in notes
    for files in ([taw, other], [en, other], [taw]):
        notes.clear()
        compose_for(None, None, [{"data": {"train": files}}], notes.append)
        assert not any("translation" in note for note in notes)


@pytest.mark.parametrize(
    "rows",
    [
        ['"It was late.\tx', "He left.\tx", 'And so on."\tx'],
        ['"It was late.\tx', "He left.\tx", 'And so on.\tx"'],
        ['"Yes," he said\tx', '"No," she said\tx'],
        ['"An opening quote alone\tx'],
    ],
)
def test_a_csv_with_tabs_whose_quotes_are_no_csv_keeps_every_line(tmp_path, rows):
    path = tmp_path / "lines.csv"
    plain = [f"a line {n}\tx" for n in range(12)]
    path.write_text("\n".join([*plain, *rows, *plain]) + "\n")
    result = read(path)
    assert len(result.examples) == len(rows) + 24


def test_a_csv_with_tabs_that_a_spreadsheet_wrote_has_quotes_and_line_breaks(tmp_path):
    path = tmp_path / "sheet.csv"
    path.write_text("".join(f'"word, {n}"\t"two\nlines {n}"\n' for n in range(12)))
    assert [example.source for example in read(path).examples[:2]] == ["word, 0", "word, 1"]


def test_an_entry_without_a_definition_is_no_title(tmp_path):
    path = tmp_path / "words.tsv"
    path.write_text("aardvark\t\nabacus\tcounter\n" + "".join(f"word{n}\tseveral words {n}\n" for n in range(40)))
    assert [example.source for example in read(path).examples[:2]] == ["abacus", "word0"]


def test_a_definition_beside_the_name_of_a_column_makes_no_header(tmp_path):
    path = tmp_path / "words.tsv"
    entries = "".join(f"tunip{chr(97 + n % 26)}{n}\tway in which {n} things are said\n" for n in range(40))
    path.write_text("pronunciation\tway in which a word is said\n" + entries)
    assert len(read(path).examples) == 41
