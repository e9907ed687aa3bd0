"""The default recipe of a task follows the data, and never what the user chose."""

from __future__ import annotations

import pytest

import windlass
from command import windlass as command
from windlass.experiment.adapt import adapt, adapt_target
from windlass.experiment.auto import SMALL
from windlass.experiment.data import as_data
from windlass.recipe import compose, default, override, parse, setting, small_parts
from windlass.tasks import TASKS

PAIRS = [("a red house", "ein rotes Haus"), ("a blue boat", "ein blaues Boot")]
WITH_PARTS = [task for task in TASKS if small_parts(task)[1]]


def adapted(count, *settings):
    """The recipe `translate`, adapted to this many pairs, and the notes."""
    said: list[str] = []
    own = [setting(text) for text in settings]
    recipe = compose("translate", None, own)
    train = as_data(PAIRS * (count // 2), PAIRS, recipe).train
    return adapt(recipe, train, own, said.append), said


def test_few_pairs_have_a_recurrent_encoder_and_are_told_so():
    recipe, said = adapted(300)
    assert (recipe.model.encoder.kind, recipe.model.decoder.kind) == ("recurrent", "transformer")
    assert said == ["a GRU encoder, as there are 300 examples; else: --set model.encoder.kind=attention"]


def test_the_doctor_says_of_whole_targets_what_training_says(tmp_path):
    path = tmp_path / "words.csv"
    sounds = [(f"{a}{b}o", f"{a}ɛ{b}ɔ") for a in "bdfgl" for b in "mnrst"]
    path.write_text("word,ipa\n" + "".join(",".join(row) + "\n" for row in sounds))
    said: list[str] = []
    recipe = compose("pronounce", None)
    adapt_target(recipe, as_data(sounds, sounds, recipe).train, [], said.append)
    done = command("doctor", path, "--task", "pronounce")
    assert said[0].startswith("target: characters, as 100% are one word that never repeats")
    assert said[0] in done.err.splitlines()
    assert "target: " not in command("doctor", path, "--task", "text").err
    assert command("doctor", path, "--json").err == ""


@pytest.mark.parametrize("between", [" / ", ", ", " ~ ", "; "])
def test_several_pronunciations_in_a_cell_are_written_in_characters(between):
    said: list[str] = []
    recipe = compose("pronounce", None)
    sounds = [(f"{a}{b}o{c}", f"{a}ɛ{b}ɔ{c}") for a in "bdfgl" for b in "mnrst" for c in "ptk"]
    cells = [(w, f"{ipa}{between}{ipa[:-1]}ʔ{ipa[-1]}" if n % 3 == 0 else ipa) for n, (w, ipa) in enumerate(sounds)]
    recipe = adapt_target(recipe, as_data(cells, cells, recipe).train, [], said.append)
    assert recipe.target.tokens.kind == "characters"
    assert said[0].startswith("target: characters, as 100% of their words never repeat; else: ")


def test_python_tells_several_answers_in_a_cell(capsys):
    sounds = [(f"{a}{b}o", f"{a}ɛ{b}ɔ / {a}ɛ{b}o") for a in "bdfgl" for b in "mnrst"]
    windlass.fit(sounds, sounds[:5], task="pronounce", settings={"train.epochs": 1})
    told = " ".join(capsys.readouterr().err.split())
    assert "'/' divides 100% of the targets into parts that are alike" in told
    assert "target: characters, as 100% of their words never repeat" in told
    assert "dev has symbols that train lacks" not in told


@pytest.mark.parametrize(
    "target",
    [
        lambda n: " / ".join(" ".join(f"{n:b}".translate({48: "a", 49: "tʃ"})[k:]) for k in (0, 1)),  # spaced phonemes
        lambda n: f"word{n} is written in a sentence",
        lambda n: f"label{n % 5}",
        lambda n: f"name{n} / name{n % 20}",
    ],
)
def test_targets_with_words_that_repeat_are_written_in_words(target):
    said: list[str] = []
    recipe = compose("pronounce", None)
    pairs = [(f"w{n}", target(n)) for n in range(40, 100)]
    assert adapt_target(recipe, as_data(pairs, pairs, recipe).train, [], said.append) is recipe
    assert said == []


def test_many_pairs_have_the_recipe_as_it_is():
    assert adapted(SMALL) == (compose("translate", None), [])


@pytest.mark.parametrize(
    "chosen",
    [
        "model.encoder.kind=attention",  # as the note says
        "model.encoder.dropout=0.1",
        "model.encoder.embedding.size=128",
        "model.decoder=recurrent",
        "train.auto=[]",
    ],
)
def test_a_part_that_the_user_chose_stays(chosen):
    assert adapted(300, chosen) == (compose("translate", None, [setting(chosen)]), [])


def test_what_the_user_chose_elsewhere_stays_beside_the_part():
    recipe, said = adapted(300, "model.decoder.dropout=0.1")
    assert (recipe.model.encoder.kind, recipe.model.decoder.dropout, len(said)) == ("recurrent", 0.1, 1)


@pytest.mark.parametrize("task", TASKS)
def test_tasks_with_parts_for_few_examples_name_them_in_auto(task):
    assert ("parts" in default(task)["train"]["auto"]) == (task in WITH_PARTS)


@pytest.mark.parametrize("task", WITH_PARTS)
def test_every_part_for_few_examples_changes_the_recipe_and_says_what(task):
    what, parts = small_parts(task)
    assert what
    content = compose(task, None, [override(part, value) for part, value in parts.items()])
    assert parse(content.model_dump(mode="json")) == content != compose(task, None)


def test_python_adapts_too_and_names_the_setting(capsys):
    settings = {"train.epochs": 1, "train.batch_tokens": 400, "source.tokens.size": 80, "target.tokens.size": 80}
    model = windlass.fit(PAIRS * 20, PAIRS, task="translate", settings=settings)
    assert model.bundle.recipe.model.encoder.kind == "recurrent"
    assert 'else: settings={"model.encoder.kind": "attention"}' in " ".join(capsys.readouterr().err.split())


def test_a_recipe_file_is_trained_as_it_is(tmp_path):
    (tmp_path / "mine.yaml").write_text("task: translate\ntrain: {epochs: 1}\n")
    settings = {"source.tokens.size": 80, "target.tokens.size": 80}
    model = windlass.fit(PAIRS * 20, PAIRS, recipe=tmp_path / "mine.yaml", settings=settings, quiet=True)
    assert model.bundle.recipe.model.encoder.kind == "attention"
