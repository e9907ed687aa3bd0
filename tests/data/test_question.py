"""Questions about pictures as a source, and the most frequent labels as a target."""

from __future__ import annotations

import numpy as np
import pytest

from windlass.baseline import fit
from windlass.core.errors import RecipeError
from windlass.core.options import members
from windlass.data.corpus import EXAMPLES
from windlass.data.examples import Example, Place
from windlass.data.sides import CellError, SideOptions
from windlass.data.sides.labels import LabelOptions, LabelTarget
from windlass.data.sides.picture import PictureOptions
from windlass.data.sides.question import QuestionOptions, QuestionSource
from windlass.media.samples import sample_pictures
from windlass.nn.attention import AttentionOptions
from windlass.recipe import compose, setting

ASKED = "what colour is it"


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    """A source of pictures, whose features are kept in a folder of the test."""
    monkeypatch.setenv("WINDLASS_CACHE", str(tmp_path))
    options = QuestionOptions(picture=PictureOptions(cnn="small"))
    return QuestionSource.fit(options, [(path, ASKED) for path in sample_pictures()])


def test_rows_refer_to_the_stored_features_of_the_picture(pictures, tmp_path):
    good, bad = sample_pictures()[0], tmp_path / "bad.png"
    bad.write_text("no picture")
    values = [(good, ASKED), (str(bad), ASKED), (good, "what form is it")]
    prepared, failed = pictures.prepare(iter(values), lambda text: None, lambda numbers, count, what: numbers)
    assert [*failed] == [values[1]]
    first, last = prepared.encode_all([values[0], values[2]])
    assert first["picture_rows"].tolist() == last["picture_rows"].tolist()
    inline = pictures.collate([pictures.encode(values[0])])
    stored = prepared.collate([first])
    assert all(np.array_equal(inline[name].values, stored[name].values) for name in ("source", "picture"))


def test_a_picture_that_is_missing_or_a_source_that_is_no_pair_is_a_finding(tmp_path):
    options = QuestionOptions()
    with pytest.raises(CellError, match="no such file"):
        QuestionSource.locate(options, ("no.png", ASKED), tmp_path)
    with pytest.raises(CellError, match="a picture and a question"):
        QuestionSource.read(options, "no.png")
    assert QuestionSource.blank(("a.png", " "))
    assert QuestionSource.blank(("", ASKED))


def test_no_picture_is_in_both_train_and_dev():
    rows = [((f"{n // 5}.png", f"question {n}"), ("yes",), None, Place("a.tsv", n)) for n in range(100)]
    examples = [Example(*row) for row in rows]
    train, dev = EXAMPLES.split(examples, 0.2, by=QuestionSource.held_out_by)
    assert len(dev) == 20
    assert not {e.source[0] for e in train} & {e.source[0] for e in dev}


def test_the_most_frequent_labels_are_kept_and_a_tie_goes_by_the_alphabet():
    side = LabelTarget.fit(LabelOptions(most=2), ["b", "c", "a", "b"])
    assert side.symbols == ("b", "a")
    assert [side.can_learn(label) for label in "abc"] == [True, True, False]
    assert side.unknown("c") == ("c",)
    grown, new = side.extend(["d"])
    assert (grown, new) == (side, ())  # no room


def test_baselines_read_the_question_or_find_the_nearest_of_both():
    side, values = QuestionSource.tiny()
    train = [(values[0], "red"), (values[1], "disc")] * 3
    found = {
        baseline.name: baseline for baseline in fit(train, SideOptions(source="question", target="label"), source=side)
    }
    assert [*found] == ["most frequent", "bag of words of the question", "nearest"]
    swapped = [(values[1][0], values[0][1]), (values[0][0], values[1][1])]
    assert found["bag of words of the question"].predict(swapped) == ["red", "disc"]
    assert found["nearest"].predict(values[:2]) == ["red", "disc"]


@pytest.mark.parametrize("score", members(AttentionOptions))
def test_every_score_can_look_at_the_picture(score):
    keys = ", keys: 512" if score in ("dot", "scaled_dot", "cosine") else ""
    recipe = compose("answer", None, [setting(f"model.encoder.picture.attention={{kind: {score}{keys}}}")])
    recipe.model.encoder.build({"source": 9, "picture": 5})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("model.head.pool=attention", "use pool: summary"),
        ("model.encoder=recurrent", "set model.encoder: question"),
        ("source=text", "task answer reads question"),
        ("model.encoder.picture.attention.coverage=true", "coverage changes nothing"),
        ("target.most=1", "target.most"),
    ],
)
def test_what_does_not_fit_is_told_with_its_mend(change, told):
    with pytest.raises(RecipeError, match=told):
        compose("answer", None, [setting(change)])
