"""The demo from names to pictures, on names made up for the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from command import refused
from windlass.demo import run as demo
from windlass.demo.names import PlaceNames
from windlass.recipe import compose
from windlass.training.observe import Silent

GREEK = str.maketrans("abgdei", "αβγδει")
PAIRS = tuple((a + b + c, (a + b + c).translate(GREEK)) for a in "abgdei" for b in "abgdei" for c in "abgdei")


@pytest.fixture
def names(monkeypatch) -> PlaceNames:
    made = PlaceNames("greek", PAIRS[:180], PAIRS[180:198], PAIRS[198:], {"too long": 3})
    monkeypatch.setattr(demo, "place_names", lambda script: made)
    return made


def test_the_demo_scores_shows_draws_and_says_what_to_type_next(names, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert demo.run_demo("greek", 0.02, Path("my runs"), 1, Silent())
    out = capsys.readouterr().out
    assert "test: 18 names" in out
    assert "(baseline, letter by letter:" in out
    assert out.count("(confidence ") == 10
    assert "windlass predict 'my runs/greek/model'" in out
    assert "windlass evaluate 'my runs/greek/model' 'my runs/greek/test.tsv'" in out
    assert {path.name for path in Path("my runs/greek").iterdir()} == {
        *("model", "train.tsv", "dev.tsv", "test.tsv", "alignment.png", "alignment.html")
    }
    with pytest.raises(Exception, match="already there"):
        demo.run_demo("greek", 0.02, Path("my runs"), 1, Silent())


def test_the_number_of_epochs_follows_the_time(names, tmp_path):
    files = demo._write_names(names, tmp_path)
    recipe = compose("transliterate", None, [{"data": {"train": [files[0]], "dev": files[1]}}])
    short, long = demo._fit_to_time(recipe, 0.001), demo._fit_to_time(recipe, 1000)
    assert short.train.epochs == demo.MIN_EPOCHS  # the time limit still holds
    assert long.train.epochs == recipe.train.epochs  # never more than the recipe's own
    assert short.train.minutes is not None
    assert short.train.schedule.warmup < long.train.schedule.warmup < recipe.train.schedule.warmup


def test_an_unknown_script_names_the_known_ones(tmp_path):
    told = refused("demo", "--script", "klingon", "--out", tmp_path / "runs")
    assert "no place names in the script 'klingon': known: arabic" in told
    assert not (tmp_path / "runs").exists()
