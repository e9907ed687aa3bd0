"""Data frames and other things in memory from training to explanation, and a model on one screen."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import windlass
from windlass.bundle import Bundle
from windlass.core.errors import DataError, RecipeError, TrainingError
from windlass.inference.info import describe

SMALL = {"train.epochs": 4, "model.encoder.size": 8, "train.processes": 1, "train.threads": 1}
ENTAIL = {"task": "entail", "settings": {"train.epochs": 1, "train.processes": 1, "train.threads": 1}}
TEXTS = [f"{mood} {thing}" for mood in ("good", "great", "bad", "awful") for thing in ("film", "book", "song", "play")]
LABELS = [int(text.startswith("g")) for text in TEXTS]
FRAME = pd.DataFrame({"id": range(16), "review": TEXTS, "stars": LABELS})


def fit(data, dev=None, **more):
    more = {"task": "classify", "settings": SMALL, "quiet": True} | more
    return windlass.fit(data, data if dev is None else dev, **more)


@pytest.fixture(scope="module")
def model() -> windlass.Trained:
    return fit(FRAME, settings=SMALL | {"train.epochs": 30, "train.optimiser.lr": 0.02})


def test_a_data_frame_from_training_to_explanation(model, tmp_path):
    assert (model.bundle.recipe.data.source, model.bundle.recipe.data.target) == ("review", "stars")
    texts = [prediction.text for prediction in model.predict(FRAME)]
    assert texts == list(map(str, LABELS))
    unlabelled = FRAME[["review"]].rename(columns={"review": "text"})
    for data in (FRAME["review"], TEXTS, np.array(TEXTS), pl.DataFrame(FRAME.to_dict("list")), iter(TEXTS)):
        assert [prediction.text for prediction in model.predict(data)] == texts
    assert [prediction.text for prediction in model.predict(unlabelled, source="text")] == texts
    assert model.evaluate(FRAME).metrics["accuracy"] == 100.0
    assert model.evaluate(zip(TEXTS, LABELS, strict=True)).metrics["accuracy"] == 100.0
    model.explain(FRAME["review"][0], tmp_path / "look.html")
    assert (tmp_path / "look.html").is_file()
    scored = model.score(FRAME)
    assert all(p.confidence > 0.5 for p in scored)
    model.save(tmp_path / "model")
    assert windlass.load(tmp_path / "model").predict(FRAME) == model.predict(FRAME)


def test_all_ways_to_hold_the_same_data_train_the_same_model():
    pairs = list(zip(TEXTS, LABELS, strict=True))
    first = fit(pairs).predict(TEXTS)
    assert fit(pl.DataFrame(FRAME.to_dict("list")).drop("id")).predict(TEXTS) == first
    columns = FRAME[["stars", "review"]].to_dict("list")
    assert fit(columns, source="review", target="stars").predict(TEXTS) == first
    assert fit([(text, np.int64(label)) for text, label in pairs]).predict(TEXTS) == first


def test_columns_are_found_by_what_they_hold():
    more = {"label": LABELS * 2, "when": range(32), "some": [f"{text} {n}" for n, text in enumerate(TEXTS * 2)]}
    recipe = fit(pd.DataFrame(more), settings=SMALL | {"train.epochs": 1}).bundle.recipe
    assert (recipe.data.source, recipe.data.target) == ("some", "label")
    with pytest.raises(DataError, match="train has no rows"):
        windlass.fit(pd.DataFrame({"text": [], "label": []}), task="classify", quiet=True)


def test_another_column_that_could_be_the_target_is_named(capsys):
    rows = {"subject_text": [f"{text} {n}" for n, text in enumerate(TEXTS * 2)], "category": LABELS * 2}
    frame = pd.DataFrame(rows | {"priority": (["low", "high", "urgent"] * 11)[:32]})
    small = SMALL | {"train.epochs": 1}
    assert windlass.fit(frame, settings=small).bundle.recipe.data.target == "category"
    said = "'priority' could be the target too: choose with target="
    assert said in "".join(capsys.readouterr())
    windlass.fit(frame, target="category", settings=small)
    assert said not in "".join(capsys.readouterr())
    assert windlass.fit(frame, settings=small | {"data.target": "priority"}).bundle.recipe.data.target == "priority"
    assert said not in "".join(capsys.readouterr())


def test_labels_come_back_as_text():
    names = dict(fit(list(zip(TEXTS, np.array(LABELS) > 0, strict=True))).predict("good film")[0].answer.by_label())
    assert set(names) == {"True", "False"}


def test_pairs_with_a_label_are_triples_or_pairs_of_a_pair_and_a_label():
    nested = [((text, "a thing"), label) for text, label in zip(TEXTS, LABELS, strict=True)]
    flat = [(text, second, label) for (text, second), label in nested]
    table = pd.DataFrame(flat, columns=["one", "two", "label"])
    found = [fit(data, **ENTAIL).predict([("good film", "a thing")]) for data in (nested, flat, table)]
    assert found[0] == found[1] == found[2]
    model = fit(table, source="two", second="one", target="label", **ENTAIL)
    assert len(model.predict(table)) == 16
    assert model.predict(table[["one", "two"]]) == model.predict(table)


def test_words_and_tags_from_a_table():
    words = [text.split() for text in TEXTS]
    table = pd.DataFrame({"words": words, "tags": [["ADJ", "NOUN"]] * 16})
    model = fit(table, task="tag")
    assert len(model.predict(table)[0].answer.tokens) == 2
    assert model.evaluate(table).examples == 16


def test_a_language_model_reads_texts_from_a_column():
    settings = {"train.epochs": 1, "model.decoder.size": 8, "train.processes": 1, "samples": None}
    table = {"n": list(range(16)), "text": TEXTS}
    one = windlass.fit(table, table, task="lm", target="text", settings=settings, quiet=True)
    assert windlass.fit({"text": TEXTS}, TEXTS, task="lm", settings=settings, quiet=True).score(["a"]) == one.score(
        ["a"]
    )
    other = windlass.fit(iter([*TEXTS, None]), TEXTS, task="lm", settings=settings, quiet=True)
    assert one.score(TEXTS[:2]) == other.score(TEXTS[:2])
    with pytest.raises(RecipeError, match="a language model has no source: name the column of its texts as target"):
        windlass.fit(table, task="lm", source="text", quiet=True)


def test_several_right_answers_are_a_list():
    pairs = [("a", ["x", "y"]), ("b", "z")] * 4
    model = windlass.fit(pairs, pairs, task="pronounce", settings=SMALL | {"model.decoder.size": 8}, quiet=True)
    assert set(model.bundle.sides.tokenizer.symbols) == {"x", "y", "z"}


def test_blank_cells_are_skipped_and_told(capsys):
    holes = FRAME.copy().astype({"stars": "float"})
    holes.loc[3, "review"], holes.loc[5, "stars"] = None, np.nan
    fit(holes, FRAME, quiet=False)
    out = capsys.readouterr().err
    assert "the source is 'review', the target 'stars'" in out
    assert "skipped 2 blank; first is train:4: the source is blank" in out
    model = fit(holes)
    assert set(model.predict("good film")[0].answer.by_label()) == {"0", "1"}  # not 0.0 and 1.0
    with pytest.warns(UserWarning, match="skipped 2 blank; first is data:4: the source is blank"):
        assert model.evaluate(holes).examples == 14
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.evaluate(FRAME)
    with pytest.raises(DataError, match="pairs row 4: the source is missing"):
        model.score(holes)
    assert model.predict(holes)[3].text == ""
    with pytest.raises(DataError, match="train:4: the source is blank"):
        fit(holes, settings=SMALL | {"data.strict": True})


def test_columns_that_cannot_be_chosen_are_errors(model):
    pairs = list(zip(TEXTS, LABELS, strict=True))
    with pytest.raises(DataError, match="train: no column is called 'reviews'; did you mean 'review'"):
        fit(FRAME, source="reviews")
    with pytest.raises(DataError, match="no column is called 'review', as the rows have no names"):
        fit(pairs, source="review")
    with pytest.raises(RecipeError, match="second names the other text of a pair"):
        fit(FRAME, second="stars")
    with pytest.raises(DataError, match="texts have no columns"):
        model.predict(TEXTS, source="review")
    with pytest.raises(DataError, match="data: no column is called 'rating'"):
        model.evaluate(FRAME, target="rating")
    with pytest.raises(DataError, match="no column is called 'review', as the rows"):
        model.evaluate(pairs, source="review")
    with pytest.raises(DataError, match="texts row 2: the source is not text but dict"):
        model.predict(["good film", {"a": "b"}])


def test_columns_of_a_file_are_chosen_too(tmp_path):
    FRAME.to_csv(tmp_path / "reviews.csv", index=False)
    model = fit(tmp_path / "reviews.csv", tmp_path / "reviews.csv", source="review", target="stars")
    assert model.predict(TEXTS) == fit(FRAME).predict(TEXTS)
    assert model.evaluate(tmp_path / "reviews.csv", target="stars").examples == 16


def test_a_model_is_shown_on_one_screen(model, tmp_path):
    text = repr(model)
    assert text.startswith("Windlass model for task classify")
    assert "label, 2 in all: 0, 1" in text
    assert "accuracy 100.00" in text
    assert "(16 examples)" in text
    assert f"({model.baseline.name})" in text
    assert "folder" not in text
    assert max(map(len, text.splitlines())) < 120
    assert len(text.splitlines()) < 10
    model.save(tmp_path / "model")
    loaded = repr(windlass.load(tmp_path / "model"))
    assert str(tmp_path / "model") in loaded
    assert "accuracy 100.00" in loaded


def test_the_baselines_figures_stay_with_the_model(tmp_path):
    trained = fit(FRAME, out=tmp_path / "run")
    row = next(line for line in repr(trained).splitlines() if "baseline" in line)
    assert "accuracy" in row
    loaded = windlass.load(tmp_path / "run")
    assert loaded.baseline_metrics == trained.baseline_metrics
    loaded.save(tmp_path / "copy")
    for folder in ("run", "copy"):
        assert row in repr(windlass.load(tmp_path / folder))
        assert row.split("  ")[-1] in windlass.load(tmp_path / folder)._repr_html_()
        assert describe(Bundle.load(tmp_path / folder), tmp_path / folder)["baseline"] == trained.baseline_metrics
    with pytest.raises(TrainingError, match="no run to resume"):
        fit(FRAME, out=tmp_path / "copy", resume=True)


def test_damaged_figures_are_left_out(model, tmp_path):
    model.save(tmp_path / "model")
    for damaged in ("", "[]", '{"baseline": 3}', '{"baseline": {"accuracy": "x"}}'):
        (tmp_path / "model" / "training" / "outcome.json").write_text(damaged)
        assert windlass.load(tmp_path / "model").baseline_metrics == {}


def test_the_card_escapes_what_it_shows():
    labels = ["<script>" if label else "&" for label in LABELS]
    card = fit(list(zip(TEXTS, labels, strict=True)))._repr_html_()
    assert "<script>" not in card
    assert "&lt;script&gt;" in card
    assert "http" not in card


def test_labels_are_the_same_whether_one_is_missing_or_not():
    whole, missing = FRAME.astype({"stars": float}), FRAME.astype({"stars": float})
    missing.loc[3, "stars"] = np.nan
    for train, test in ((whole, missing), (missing, whole)):
        model = fit(train)
        assert sorted(model.bundle.sides.target.symbols) == ["0", "1"]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "skipped 1 blank")
            assert model.evaluate(test).unknown is None


def test_a_chosen_target_leaves_the_same_source_with_a_task_and_without():
    frame = FRAME.assign(id=[f"TCK-{n}" for n in range(16)]).rename(columns={"id": "ticket"})
    assert fit(frame, target="stars").bundle.recipe.data.source == "review"
    two = frame.rename(columns={"review": "Lema"}).assign(Glosa=[text[::-1] for text in TEXTS])
    with pytest.raises(DataError, match=r"several columns hold text: .*; choose with source=$"):
        fit(two, target="stars")


def test_a_model_that_is_trained_further_reads_its_own_columns(model):
    more = pd.DataFrame({"text": TEXTS[::-1], "review": TEXTS, "stars": LABELS})
    further = windlass.fit(more, more, base=model, settings={"train.epochs": 1}, quiet=True)
    assert (further.bundle.recipe.data.source, further.bundle.recipe.data.target) == ("review", "stars")


def test_several_columns_are_a_list_or_a_text_with_commas():
    sizes = pd.DataFrame({"height": range(16), "width": [n % 5 for n in range(16)], "kind": LABELS})
    for several in (["height", "width"], "height,width", [1, 2]):
        model = windlass.fit(sizes, source=several, target="kind", settings={"train.epochs": 1}, quiet=True)
        assert model.bundle.recipe.task == "classify-numbers"
        assert len(model.predict(sizes, source=["height", "width"])) == 16
        assert model.evaluate(sizes, source=["height", "width"], target="kind").examples == 16


@pytest.mark.parametrize("labels", [LABELS, list(map(str, LABELS)), pd.Series(LABELS)])
def test_labels_as_the_second_argument_are_told_from_validation_data(labels):
    with pytest.raises(DataError, match=r"second argument of fit is validation data: .*zip\(texts, labels\)"):
        windlass.fit(TEXTS, labels, quiet=True)


def test_a_folder_that_is_not_empty_is_refused_in_the_words_of_python(tmp_path):
    fit(FRAME, out=tmp_path / "m", settings=SMALL | {"train.epochs": 1})
    with pytest.raises(TrainingError, match="resume=True, delete it first, or choose another out=") as refused:
        fit(FRAME, out=tmp_path / "m")
    assert "--" not in str(refused.value)


@pytest.mark.parametrize("chosen", [{"source": 1, "target": 2}, {"target": 2}, {}], ids=["both", "target", "none"])
def test_columns_with_integers_for_names_are_chosen_by_name_and_told(tmp_path, capsys, chosen):
    frame = pd.DataFrame([(n, f"{text} {n}", label) for n, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))])
    model = windlass.fit(frame, frame, settings=SMALL | {"train.epochs": 1}, **chosen)
    assert "columns by name: source 1, target 2" in "".join(capsys.readouterr())
    model.save(tmp_path / "model")
    other = windlass.load(tmp_path / "model")
    assert other.predict(frame) == model.predict(list(frame[1])) == other.predict(frame, source=1)
    assert other.evaluate(frame).metrics == model.evaluate(frame, source=1, target=2).metrics


def test_settings_choose_columns_with_integers_for_names_as_keywords_do(capsys):
    frame = pd.DataFrame([(n, f"{text} {n}", label) for n, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))])
    settings = SMALL | {"train.epochs": 1, "data.source": 1, "data.target": 2}
    windlass.fit(frame, frame, settings=settings)
    assert "columns by name: source 1, target 2" in "".join(capsys.readouterr())
    vary = {"data.source": [1], "model.encoder.cell": ["gru"]}
    small = {"model.encoder.size": 8, "train.epochs": 1, "train.threads": 1}
    windlass.compare(frame, dev=frame, vary=vary, settings=small | {"data.target": 2}, task="classify", seeds=1)
    assert "columns by name: source 1, target 2" in "".join(capsys.readouterr())


@pytest.mark.parametrize("name", [1, 0])
def test_an_integer_among_names_is_a_name_and_is_remembered(tmp_path, name):
    rows = [(f"{text} {n}", label, n) for n, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))]
    frame = pd.DataFrame(rows, columns=["text", name, "n"])
    small = SMALL | {"train.epochs": 1}
    one = windlass.fit(frame, frame, source="text", target=name, settings=small, quiet=True)
    other = windlass.fit(frame, frame, settings=small | {"data.source": "text", "data.target": name}, quiet=True)
    one.save(tmp_path / "model")
    again = windlass.load(tmp_path / "model")
    expected = one.evaluate(frame, source="text", target=name).metrics
    for model in (one, other, again):
        assert model.evaluate(frame[["n", name, "text"]]).metrics == expected


def test_a_large_part_that_is_held_out_is_told(capsys):
    pairs = [("ab ba", "x"), ("ba ba", "y")] * 8
    for more, told in (({}, True), ({"dev": pairs}, False), ({"settings": {"data.dev_fraction": 0.5}}, False)):
        small = SMALL | {"train.epochs": 1} | more.pop("settings", {})
        windlass.fit(pairs, task="classify", settings=small, **more)
        assert ("8 of 16 examples are held out, as few sources differ" in "".join(capsys.readouterr())) == told
