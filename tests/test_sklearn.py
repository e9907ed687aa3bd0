"""The estimators keep scikit-learn's rules, with its own checks and with its tools."""

from __future__ import annotations

import importlib
import pickle
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks
from sklearn.utils.validation import check_is_fitted, validate_data

from windlass.core.errors import RecipeError
from windlass.sklearn import WindlassClassifier, WindlassTagger, WindlassTransducer

TEXTS = [f"{mood} {thing}" for thing in ("film", "book", "song", "play", "food") for mood in ("good", "bad")] * 3
LABELS = np.array([text.split()[0] for text in TEXTS])
WORDS, TAGS = [text.split() for text in TEXTS], [["ADJ", "NOUN"]] * len(TEXTS)
LEARN = {"train.optimiser.lr": 0.05, "train.average": "none", "train.schedule": "constant", "train.batch_tokens": 20}
NO_DROPOUT = {"model.encoder.dropout": 0, "model.encoder.embedding": {"kind": "learned", "size": 8}}
SMALL = LEARN | NO_DROPOUT | {"model.encoder.size": 8, "train.processes": 1, "train.threads": 1}
QUICK = {"settings": SMALL, "epochs": 4, "validation_fraction": 0.4}
WRITE = {"model.encoder.size": 8, "model.decoder.size": 8, "train.processes": 1, "train.threads": 1}
ESTIMATORS = [WindlassClassifier(), WindlassTagger(), WindlassTransducer()]


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


class Spelled(WindlassClassifier):
    """The classifier on rows of numbers, spelled as texts: scikit-learn's checks have no other data."""

    def __init__(self, random_state=1):
        self.random_state = random_state

    task, recipe, validation_fraction, device, quiet, epochs = "classify", None, None, "cpu", True, 1
    settings = SMALL | {"train.batch_tokens": 800, "source.tokens.min_count": 1}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.one_d_array, tags.input_tags.string = True, False, False
        tags.classifier_tags.poor_score = True  # numbers make bad words, and one epoch is short
        return tags

    def spell(self, X, reset=False):
        return [" ".join(map(str, row.round().astype(int))) for row in validate_data(self, X, reset=reset)]

    def fit(self, X, y):
        return super().fit(X if y is None else self.spell(X, reset=True), y)

    def predict_proba(self, X):
        check_is_fitted(self)
        return super().predict_proba(self.spell(X))


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([Spelled()])
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
@pytest.mark.parametrize(
    "name",
    [
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_estimator_tags_renamed",
        "check_valid_tag_types",
        "check_no_attributes_set_in_init",
        "check_do_not_raise_errors_in_init_or_set_params",
        "check_mixin_order",
        "check_parameters_default_constructible",
        "check_get_params_invariance",
        "check_set_params",
    ],
)
def test_the_checks_that_need_no_data(estimator, name):
    getattr(estimator_checks, name)(type(estimator).__name__, clone(estimator))


@pytest.mark.filterwarnings("ignore:Can't test estimator")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_the_tags_tell_that_the_input_is_text(estimator):
    check_estimator(estimator)
    tags = estimator.__sklearn_tags__()
    assert (tags.input_tags.string, tags.input_tags.two_d_array) == (True, False)
    assert tags.target_tags.required


@pytest.fixture(scope="module")
def classifier() -> WindlassClassifier:
    return WindlassClassifier(**QUICK).fit(TEXTS, LABELS)


def test_a_classifier_learns_and_takes_every_column_of_texts(classifier):
    assert classifier.score(TEXTS, LABELS) == 1.0
    assert classifier.classes_.tolist() == ["bad", "good"]
    array = np.array(TEXTS, dtype=object)
    for X in (array, np.array(TEXTS), pd.Series(TEXTS), pd.DataFrame({"text": TEXTS}), array.reshape(-1, 1)):
        assert classifier.predict(X).tolist() == LABELS.tolist()
    chances = classifier.predict_proba(TEXTS[:4])
    assert chances.shape == (4, 2)
    assert np.allclose(chances.sum(axis=1), 1)
    assert classifier.predict_proba([""]).tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize("labels", [LABELS == "good", (LABELS == "good") * 3, np.where(LABELS == "good", 0.0, 2.0)])
def test_labels_come_back_as_they_were(labels):
    found = WindlassClassifier(**QUICK).fit(TEXTS, labels).predict(TEXTS)
    assert found.dtype == labels.dtype
    assert (found == labels).all()


def test_a_fitted_classifier_is_pickled(classifier, tmp_path):
    joblib.dump(classifier, tmp_path / "classifier.joblib")
    for copy in (joblib.load(tmp_path / "classifier.joblib"), pickle.loads(pickle.dumps(classifier))):
        assert (copy.predict_proba(TEXTS) == classifier.predict_proba(TEXTS)).all()
    assert not hasattr(clone(classifier), "model_")


def test_in_a_pipeline_with_cross_validation():
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = Pipeline([("lower", lower), ("model", WindlassClassifier(**QUICK))])
    scores = cross_val_score(pipeline, np.array([text.upper() for text in TEXTS]), LABELS, cv=2)
    assert scores.min() > 0.8


def test_a_column_of_a_table_in_a_pipeline():
    table = pd.DataFrame({"n": range(len(TEXTS)), "text": TEXTS})
    pipeline = Pipeline([("text", ColumnTransformer([("text", "passthrough", ["text"])])), ("model", clone(MODEL))])
    assert pipeline.fit(table, LABELS).score(table, LABELS) == 1.0


MODEL = WindlassClassifier(**QUICK)


def test_a_grid_search_finds_the_settings_that_learn():
    grid = {"settings": [SMALL | {"train.optimiser.lr": 1e-9}, SMALL], "epochs": [4]}
    search = GridSearchCV(MODEL, grid, cv=2).fit(TEXTS, LABELS)
    assert search.best_params_["settings"] == SMALL
    assert search.best_score_ > 0.8


def test_every_parameter_changes_the_model():
    def chances(**parameters):
        return WindlassClassifier(**QUICK | {"epochs": 1} | parameters).fit(TEXTS, LABELS).predict_proba(TEXTS)

    one = chances()
    assert (one == chances(random_state=1)).all()  # the seed of recipes
    assert (chances(random_state=np.random.RandomState(5)) == chances(random_state=np.random.RandomState(5))).all()
    for other in ({"random_state": 2}, {"validation_fraction": 0.2}, {"settings": SMALL | {"seed": 3}}):
        assert (one != chances(**other)).any(), other
    assert WindlassClassifier(**QUICK | {"epochs": 2}).fit(TEXTS, LABELS).model_.bundle.recipe.train.epochs == 2
    with pytest.raises(RecipeError, match="WindlassClassifier cannot do task tag: use one of classify"):
        chances(task="tag")


def test_a_recipe_and_quiet_are_used(tmp_path, capsys):
    (tmp_path / "mine.yaml").write_text("task: classify\nmodel: {encoder: {size: 6}}\n")
    model = WindlassClassifier(recipe=tmp_path / "mine.yaml", epochs=1, quiet=False).fit(TEXTS, LABELS)
    assert model.model_.bundle.recipe.model.encoder.size == 6
    assert "best dev accuracy" in capsys.readouterr().err


def test_a_tagger():
    tagger = WindlassTagger(**QUICK | {"epochs": 10})
    with pytest.raises(NotFittedError):
        tagger.predict(WORDS)
    tagger.fit(WORDS, TAGS)
    assert tagger.score(WORDS, TAGS) > 0.8
    found = tagger.predict(pd.Series(WORDS))
    assert found[0] == TAGS[0]
    assert pickle.loads(pickle.dumps(tagger)).predict(WORDS) == found
    assert len(cross_val_score(clone(tagger).set_params(epochs=1), WORDS, TAGS, cv=2)) == 2
    with pytest.raises(ValueError, match="row 2: 2 words but 1 tag: give every word a tag"):
        tagger.fit(WORDS[:2], [["ADJ", "NOUN"], ["ADJ"]])


def test_a_transducer():
    transducer = WindlassTransducer(settings=WRITE, epochs=1)
    with pytest.raises(NotFittedError):
        transducer.predict(TEXTS)
    found = transducer.fit(TEXTS, LABELS).predict(np.array(TEXTS))
    assert found.shape == (30,)
    assert transducer.score(TEXTS, found) == 1.0
    assert (clone(transducer).fit(TEXTS, LABELS).predict(TEXTS) == found).all()
    with pytest.raises(ValueError, match="y row 1 is blank"):
        transducer.fit(["a", "b"], ["", "x"])


@pytest.mark.parametrize(
    ("X", "said"),
    [
        ("good film", "X is str"),
        ([], "X is empty"),
        (["good", None], "X row 2 is missing"),
        ([1, 2], "X row 1 is not text but int"),
        (np.array([["a", "b"]]), "X has 2 columns"),
        (pd.DataFrame({"id": [1], "text": ["a"]}), r"X has 2 columns: give one column of texts, such as X\['text'\]"),
    ],
)
def test_what_is_no_column_of_texts_is_refused(classifier, X, said):
    with pytest.raises(ValueError, match=said):
        classifier.predict(X)


def test_labels_that_cannot_be_learned_are_refused():
    with pytest.raises(ValueError, match="y has one class, 'a'"):
        MODEL.fit(["a", "b"], ["a", "a"])
    with pytest.raises(ValueError, match="y has a blank label"):
        MODEL.fit(["a", "b"], ["a", ""])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        MODEL.fit(["a", "b"], ["a"])


def test_blank_texts_are_left_out_with_a_warning():
    with pytest.warns(UserWarning, match="1 blank rows of X are not trained on"):
        clone(MODEL).set_params(epochs=1).fit(["", *TEXTS], ["good", *LABELS])


def test_without_scikit_learn_the_error_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "windlass.sklearn")
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(ImportError, match=r"windlass\.sklearn needs scikit-learn: pip install 'windlass\[sklearn\]'"):
        importlib.import_module("windlass.sklearn")


def test_a_transducer_writes_text_whatever_its_targets_look_like():
    small = {"model.encoder.size": 8, "train.epochs": 1}
    transducer = WindlassTransducer(settings=small).fit([f"a{n} b" for n in range(40)], ["x y", "y x"] * 20)
    assert transducer.model_.bundle.task.name == "text"


def test_integer_tags_come_back_as_integers():
    words, tags = [["a", "cat"], ["the", "dog"], ["no", "dog"]] * 5, [[1, 2]] * 15
    tagger = WindlassTagger(settings={"model.encoder.size": 8}, epochs=1).fit(words, tags)
    found = tagger.predict([["the", "cat"]])
    assert {type(tag) for tag in found[0]} == {int}
    assert tagger.score([["the", "cat"]], found) == 1.0
