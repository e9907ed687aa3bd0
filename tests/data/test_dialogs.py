"""Dialogs become examples turn by turn, and what is wrong with a file is told by its line."""

import json

import pytest

from windlass.core.errors import DataError, RecipeError
from windlass.data.dialogs import read_dialogs
from windlass.data.readers import DataOptions
from windlass.experiment.data import read_data
from windlass.recipe import compose, setting


def written(folder, *dialogs, name="talk.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps({"turns": turns}) + "\n" for turns in dialogs), encoding="utf-8")
    return path


TALK = [["U", "A table."], ["S", "For how many?"], ["U", "Two."], ["S", "Done."]]


def test_every_turn_after_the_first_answers_to_all_before_it(tmp_path):
    found = read_dialogs(written(tmp_path, TALK), DataOptions()).examples
    assert [e.target for e in found] == ["For how many?", "Two.", "Done."]
    assert [e.source for e in found][-1] == ("A table.", "For how many?", "Two.")


def test_history_and_speaker_choose(tmp_path):
    path = written(tmp_path, TALK)
    two = read_dialogs(path, DataOptions(history=2, speaker="S")).examples
    assert [(e.source, e.target) for e in two] == [
        (("A table.",), "For how many?"),
        (("For how many?", "Two."), "Done."),
    ]
    assert [e.source for e in read_dialogs(path, DataOptions(history=1)).examples] == [
        "A table.",
        "For how many?",
        "Two.",
    ]


def test_turns_may_be_plain_texts_columns_or_under_another_key(tmp_path):
    plain = read_dialogs(written(tmp_path, ["Hi.", "Hello!"]), DataOptions()).examples
    tabs = tmp_path / "talk.tsv"
    tabs.write_text("Hi.\tHello!\n", encoding="utf-8")
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"said": ["Hi.", "Hello!"]}) + "\n")
    for found in (
        plain,
        read_dialogs(tabs, DataOptions()).examples,
        read_dialogs(other, DataOptions(source="said")).examples,
    ):
        assert [(e.source, e.target) for e in found] == [(("Hi.",), "Hello!")]


def test_what_is_wrong_is_told_by_its_line_and_the_rest_is_read(tmp_path):
    path = tmp_path / "talk.jsonl"
    rows = ["", "{", '{"other": 1}', '{"turns": ["alone"]}', '{"turns": ["a", 3]}', '{"turns": ["a", " ", "b"]}']
    path.write_text("\n".join(rows) + "\n")
    found = read_dialogs(path, DataOptions())
    assert [(e.source, e.target) for e in found.examples] == [(("a",), "b")]
    kinds = [(f.line, f.kind) for f in found.findings]
    assert kinds == [
        (1, "blank"), (2, "wrong JSON"), (3, "no turns"), (4, "no reply"), (5, "not a turn"), (6, "blank turn"),
    ]  # fmt: skip


def test_a_speaker_that_is_not_there_and_a_file_without_dialogs_are_refused(tmp_path):
    with pytest.raises(DataError, match="'X' says nothing; there speak 'S', 'U'"):
        read_dialogs(written(tmp_path, TALK), DataOptions(speaker="X"))
    with pytest.raises(DataError, match="no dialog of two turns or more, 1 no reply"):
        read_dialogs(written(tmp_path, ["alone"]), DataOptions())
    tabs = tmp_path / "talk.tsv"
    tabs.write_text("Hi.\tHello!\n", encoding="utf-8")
    with pytest.raises(DataError, match="does not tell who speaks"):
        read_dialogs(tabs, DataOptions(speaker="S"))


def test_no_dialog_is_in_train_and_dev(tmp_path):
    path = written(tmp_path, *([f"a{n}", "b", "c", "d"] for n in range(20)))
    data = read_data(compose("reply", None, [{"data": {"train": [str(path)], "dev_fraction": 0.2}}]))
    lines = [{e.place.line for e in part} for part in (data.train, data.dev)]
    assert not lines[0] & lines[1]
    assert len(lines[1]) == 4
    assert len(data.dev) == 12


@pytest.mark.parametrize(
    ("task", "told", "why"),
    [
        ("translate", "data.history=2", r"data\.history is for dialogs"),
        ("translate", "lead=3", "lead: 3 is for summaries"),
        ("lm", "search.unknown=false", "never writes the unknown mark"),
        ("reply", "model.decoder.context=attention", "set context: hierarchical"),
        ("reply", "model.decoder={kind: transformer, copying: true}", r"set model\.decoder\.copying: false"),
        ("summarise", "model.decoder.context=hierarchical", "set encoder: hierarchical"),
    ],
)
def test_what_would_change_nothing_or_cannot_work_is_refused(task, told, why):
    with pytest.raises(RecipeError, match=why):
        compose(task, None, [setting(told)])
