"""Windlass from Python, and what holds of predictions wherever they are made."""

from __future__ import annotations

import json
import math

import pytest

import windlass
from task_models import CTC, task_model
from toy import SMALL, reversals
from windlass.core.errors import DataError, RecipeError
from windlass.decoding.options import Beam, Greedy, Sample
from windlass.inference.likelihood import tiny_lm
from windlass.inference.predict import predict

WORDS = ["abcd", "ab", "dcb", "", "aaaa", "dacb", "bb", "cab"]
SEARCHES = [Greedy(), Beam(size=3), Sample(temperature=2.0, seed=4), Beam(size=2, length_penalty=0.0, block_ngrams=2)]


@pytest.fixture(scope="module")
def model(tiny_model) -> windlass.Trained:
    return windlass.load(tiny_model)


def texts(predictions):
    return [[p.text, *(other.text for other in p.alternatives)] for p in predictions]


def test_fit_predict_explain(tmp_path):
    settings = SMALL | {"train.epochs": 2}
    model = windlass.fit(reversals(), task="text", settings=settings, quiet=True)
    prediction = model.predict("abc")[0]
    assert prediction.places.names == ("a", "b", "c", "</s>")
    assert len(prediction.answer.tokens) == len(prediction.text)
    assert model.explain("abc", tmp_path / "a.html").text == prediction.text
    assert (tmp_path / "a.html").is_file()
    assert model.dev is not None
    assert model.dev.examples == round(len(reversals()) * 0.1)
    assert sorted(model.evaluate(reversals()[:9]).metrics) == ["accuracy", "cer", "chrf"]


def test_without_out_a_run_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    windlass.fit(reversals()[:40], task="text", settings=SMALL | {"train.epochs": 1}, quiet=True)
    assert not list(tmp_path.iterdir())


def test_the_same_seed_gives_the_same_model():
    def trained(seed):
        settings = SMALL | {"train.epochs": 2, "seed": seed, "model.encoder.dropout": 0.3}
        return windlass.fit(reversals()[50:150], reversals()[:20], task="text", settings=settings, quiet=True)

    one, again, other = trained(1), trained(1), trained(2)
    assert one.predict(WORDS) == again.predict(WORDS)
    assert one.predict(WORDS) != other.predict(WORDS)


@pytest.mark.parametrize("options", SEARCHES, ids=["greedy", "beam", "sample", "blocked"])
def test_predictions_do_not_depend_on_neighbours_or_the_size_of_batches(model, options):
    whole = predict([model.bundle], WORDS, options)
    for size in (1, 8, 40):
        parts = predict([model.bundle], WORDS, options, batch_tokens=size)
        assert texts(parts) == texts(whole)
        assert all(math.isclose(a.score, b.score, abs_tol=1e-4) for a, b in zip(parts, whole, strict=True))
    alone = [predict([model.bundle], [word], options, first_key=n)[0] for n, word in enumerate(WORDS)]
    assert texts(alone) == texts(whole)


@pytest.mark.parametrize("options", SEARCHES[1:3], ids=["beam", "sample"])
def test_in_portions_is_as_at_once(model, options):
    whole = predict([model.bundle], WORDS, options, nbest=2)
    portions = [p for at in (0, 3, 6) for p in predict([model.bundle], WORDS[at : at + 3], options, 2, first_key=at)]
    assert texts(portions) == texts(whole)


def test_the_score_of_a_prediction_is_that_of_the_same_target_given(model):
    for found in model.predict([word for word in WORDS if word], Greedy()):
        source = "".join(found.places.names[:-1])
        forced = model.score([(source, found.text)])[0]
        assert math.isclose(forced.confidence, found.confidence, rel_tol=1e-4)
        assert math.isclose(math.prod(found.answer.probabilities), found.confidence, rel_tol=1e-6)


def test_a_cut_off_output_says_so_and_lacks_the_end(model):
    found = model.predict("abcd", Greedy(length_factor=0, length_plus=2))[0]
    assert not found.finished
    assert len(found.answer.tokens) == len(found.answer.probabilities) == 2
    whole = model.predict("abcd", Greedy())[0]
    assert whole.finished
    assert found.confidence >= whole.confidence  # of any output that begins so


def test_a_blank_text_gives_a_blank_prediction(model):
    blank = model.predict(["", "  "])
    assert [(p.text, p.answer.tokens, p.attention, p.confidence) for p in blank] == [("", (), None, None)] * 2
    assert model.predict([]) == []


@pytest.mark.parametrize("wrong", [3, None])
def test_predict_says_that_it_wants_texts(model, wrong):
    with pytest.raises(DataError, match="give a text, a list of texts, or a data frame"):
        model.predict(wrong)


def test_two_texts_are_told_how_to_be_one_pair():
    bundle, pair = task_model("entail")
    entail = windlass.Trained(bundle)
    assert entail.predict([pair])[0].text
    with pytest.raises(DataError, match=r"one pair is a list of one: predict\(\[\('a film', 'b film'\)\]\)$"):
        entail.predict(("a film", "b film"))
    with pytest.raises(DataError, match=r"as a list: \['c film'\]$"):
        entail.predict(["a film\tb film", "b film\tc film", "c film"])


def test_greedy_search_has_no_second_best(model):
    with pytest.raises(RecipeError, match="greedy search finds one output, not 2"):
        model.predict("abc", Greedy(), nbest=2)


def test_only_language_models_generate(model):
    for more in ({}, {"temperature": 0.5}):
        with pytest.raises(RecipeError, match="a model for transliterate, not a language model: use predict"):
            model.generate("abc", **more)
        with pytest.raises(RecipeError, match="not a language model"):
            model.stream("abc", **more)


@pytest.mark.parametrize(
    ("given", "said"),
    [({"temperature": -1.0}, "temperature: "), ({"top_k": -1}, "top_k: "), ({"length": 0}, "length: "),
     ({"seed": "x"}, "seed: ")],
)  # fmt: skip
def test_options_of_generation_have_their_names_in_python(given, said):
    with pytest.raises(RecipeError, match=f"^{said}input should be"):
        windlass.Trained(tiny_lm()).generate("ab", **given)


@pytest.mark.parametrize("wrong", [0, -1, "3", 1.5, None])
def test_an_nbest_list_has_a_whole_number_of_outputs(model, wrong):
    with pytest.raises(ValueError, match=r"^nbest is .*: give a whole number of at least 1$"):
        model.predict("abc", nbest=wrong)


@pytest.mark.parametrize("head", [{}, CTC])
@pytest.mark.parametrize("wrong", ["greedy", {"kind": "greedy"}, ["greedy"]])
def test_a_search_is_options_and_no_name(head, wrong):
    bundle, text = task_model("text", **head)
    with pytest.raises(TypeError, match=r"^search is .*greedy.*: give Beam\(size=4\), Greedy\(\) or Sample"):
        windlass.Trained(bundle).predict(text, wrong)
    with pytest.raises(TypeError, match=r"^search is .*greedy"):
        windlass.Trained(bundle).evaluate([(text, "ab")], wrong)


def test_an_ensemble_needs_one_vocabulary(model):
    settings = SMALL | {"train.epochs": 1}
    other = windlass.fit([("x", "y"), ("y", "x"), ("z", "z")], task="text", settings=settings, quiet=True)
    with pytest.raises(DataError, match="same target vocabulary"):
        predict([model.bundle, other.bundle], ["ab"])


def test_a_model_without_attention_explains_itself_by_gradients(tmp_path):
    parts = {"model.decoder.context": "summary", "train.epochs": 1}
    model = windlass.fit(reversals()[:60], task="text", settings=SMALL | parts, quiet=True)
    model.explain("abc", tmp_path / "a.html")
    assert "integrated gradients" in (tmp_path / "a.html").read_text()
    model.explain("abc", tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text())["attention"] is None


@pytest.mark.parametrize(("task", "targets"), [("regress", "12"), ("multilabel", ("x,y", "x")), ("classify", "xy")])
def test_a_head_is_drawn_with_attention_and_without(tmp_path, task, targets):
    pairs = [("a b", targets[0]), ("b c", targets[1])] * 4
    sizes = {"train.epochs": 1, "model.encoder.size": 8, "train.processes": 1}
    windlass.fit(pairs, pairs, task=task, settings=sizes, quiet=True).explain("a b", tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000
    model = windlass.fit(pairs, pairs, task=task, settings=sizes | {"model.head.pool": "max"}, quiet=True)
    prediction = model.explain("a b", tmp_path / "b.html")
    assert prediction.attention is None
    assert "Integrated gradients" in (tmp_path / "b.html").read_text()


def test_files_and_pairs_train_the_same_model(tmp_path):
    pairs, held = reversals()[30:90], reversals()[:30]
    for name, part in (("train", pairs), ("dev", held)):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in part))
    settings = SMALL | {"train.epochs": 1}
    files = windlass.fit(tmp_path / "train.tsv", tmp_path / "dev.tsv", task="text", settings=settings, quiet=True)
    memory = windlass.fit(pairs, held, task="text", settings=settings, quiet=True)
    assert files.predict(WORDS) == memory.predict(WORDS)
    assert files.evaluate(tmp_path / "dev.tsv").metrics == memory.evaluate(held).metrics


def test_a_base_is_a_model_or_its_folder_and_brings_its_recipe(model, tiny_model):
    short = {"settings": {"train.epochs": 1, "train.processes": 1}, "quiet": True}
    new = reversals()[:60]
    first, second = (windlass.fit(new, base=base, **short) for base in (model, str(tiny_model)))
    assert first.predict(WORDS) == second.predict(WORDS)
    for more in ({"task": "regress"}, {"recipe": "nofile.yaml"}):
        with pytest.raises(RecipeError, match=r"base= uses the recipe of the model: use settings= instead of task="):
            windlass.fit(new, base=model, **more, **short)


def test_arguments_of_another_type_are_told_in_a_sentence():
    for name, more in (("base", {"base": 3}), ("recipe", {"recipe": {"task": "lm"}})):
        with pytest.raises(TypeError, match=f"^{name} is of type (int|dict): give "):
            windlass.fit(reversals(), **more)
    with pytest.raises(TypeError, match="folder is of type dict: give the folder of a model"):
        windlass.load({"text": ["a"]})


def test_a_run_in_a_folder_can_be_loaded_and_resumed(tmp_path):
    def run(**more):
        settings = SMALL | {"train.epochs": more.pop("epochs")}
        return windlass.fit(reversals()[:90], task="text", out=tmp_path / "m", settings=settings, quiet=True, **more)

    first = run(epochs=1)
    assert windlass.load(tmp_path / "m").predict(WORDS) == first.predict(WORDS)
    second = run(epochs=2, resume=True)
    assert windlass.load(tmp_path / "m").predict(WORDS) == second.predict(WORDS)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([], "train has no rows: give at least one example"),
        ([("a", "b")], "give a dev file"),
        ([("a", "b"), (" ", "c")], "give a dev file"),
        ([(" ", "c")], "train: no usable row, 1 blank .*; first is row 1: the source is blank"),
    ],
)
def test_pairs_that_cannot_be_used_are_refused(pairs, said):
    with pytest.raises(DataError, match=said):
        windlass.fit(pairs, task="text", quiet=True)


def test_files_and_pairs_are_not_mixed(tmp_path):
    with pytest.raises(TypeError, match="both as files"):
        windlass.fit(reversals(), dev=tmp_path / "dev.tsv")
    with pytest.raises(TypeError, match="both as files"):
        windlass.fit(tmp_path / "train.tsv", dev=reversals())


def test_settings_of_files_are_refused_with_data_in_memory(model):
    given = {
        "train": "a.csv",
        "dev": "no.csv",
        "format": "csv",
        "header": False,
        "separator": ";",
        "encoding": "cp1252",
    }
    for name, value in given.items():
        for base in (None, model):
            with pytest.raises(RecipeError, match=rf"data\.{name} is of files and has no use with data in memory: "):
                windlass.fit(reversals(), settings={f"data.{name}": value}, base=base, quiet=True)
    with pytest.raises(RecipeError, match="give it as dev="):
        windlass.fit(reversals(), settings={"data": {"dev": "no.csv"}}, quiet=True)


def test_a_wrong_setting_names_the_right_one():
    with pytest.raises(RecipeError, match="did you mean 'epochs'"):
        windlass.fit(reversals(), settings={"train.epoch": 1})
