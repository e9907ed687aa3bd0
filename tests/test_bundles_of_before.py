"""Bundles that were made before predictions and modules were arranged anew still load, and still say the same.

`fixtures/make_bundles.py` tells how they were made, and with which commit.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import windlass

BUNDLES = Path(__file__).parent / "fixtures" / "bundles"
NAMES = sorted(path.name for path in BUNDLES.iterdir())
IN_8_BITS = {"pronounce-8bit"}


def fields(prediction: Any) -> dict[str, Any]:
    """A prediction by the names that `expected.json` has for its parts: all that depends on what its record is like."""
    return {
        "text": prediction.text,
        "score": prediction.score,
        "confidence": prediction.confidence,
        "tokens": list(prediction.answer.tokens),
        "probabilities": list(prediction.answer.probabilities),
        "source_tokens": list(prediction.places.names),
        "attention": None if prediction.attention is None else [list(row) for row in prediction.attention],
        "unknown": list(prediction.unknown),
        "alternatives": [other.text for other in prediction.alternatives],
    }


@cache
def model(name: str) -> windlass.Trained:
    return windlass.load(BUNDLES / name)


def said_before(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((BUNDLES / name / "expected.json").read_text(encoding="utf-8"))
    return found


def source(given: str | list[str]) -> str | tuple[str, ...]:
    return given if isinstance(given, str) else tuple(given)


def predict(trained: windlass.Trained, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    nbest = 1 + max(len(one["alternatives"]) for one in asked)
    return [fields(found) for found in trained.predict([source(one["source"]) for one in asked], nbest=nbest)]


def check(name: str, found: Any, told: Any, where: str = "") -> None:
    """Texts are equal; numbers are as near as a float, or 8 bits, can be on another machine."""
    if isinstance(told, float):
        off = 5e-2 if name in IN_8_BITS else 1e-4
        assert found == pytest.approx(told, rel=off, abs=off), where
    elif isinstance(told, dict):
        assert found.keys() == told.keys(), where
        for key, value in told.items():
            check(name, found[key], value, f"{where}.{key}")
    elif isinstance(told, list):
        assert len(found) == len(told), where
        for n, value in enumerate(told):
            check(name, found[n], value, f"{where}[{n}]")
    else:
        assert found == told, where


def having(key: str) -> list[str]:
    return [name for name in NAMES if said_before(name).get(key)]


def test_all_kinds_are_there():
    kinds = {"classify", "classify-document", "entail", "lm", "parse", "prefix", "pronounce", "summarise", "tag"}
    assert set(NAMES) == kinds | IN_8_BITS


@pytest.mark.parametrize("name", having("predict"))
def test_predictions_are_those_of_before(name):
    told = said_before(name)["predict"]
    check(name, predict(model(name), told), [{k: v for k, v in one.items() if k != "source"} for one in told])


@pytest.mark.parametrize("name", NAMES)
def test_given_answers_are_as_likely_as_before(name):
    told = said_before(name)["score"]
    asked = [one["target"] if name == "lm" else (source(one["source"]), one["target"]) for one in told]
    found = [fields(one) for one in model(name).score(asked)]
    for key in ("score", "probabilities"):
        check(name, [one[key] for one in found], [one[key] for one in told], key)


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_those_of_before(name):
    told = said_before(name)["evaluate"]
    pairs = [(source(given), target) for given, targets in told["examples"] for target in targets]
    found = model(name).evaluate([target for _, target in pairs] if name == "lm" else pairs)
    check(name, found.metrics, told["metrics"])


@pytest.mark.parametrize("name", having("generate"))
def test_texts_go_on_as_before(name):
    for one in said_before(name)["generate"]:
        assert model(name).generate(one["prompt"], length=one["length"], seed=one["seed"]) == one["text"]


@pytest.mark.parametrize("name", having("baseline"))
def test_baselines_say_what_they_said_before(name):
    told, baseline = said_before(name)["baseline"], model(name).baseline
    assert baseline is not None
    assert baseline.name == told["name"]
    if name == "lm":
        check(name, baseline.logprobs(told["ids"]), told["logprobs"])
    else:
        asked = [source(one["source"]) for one in said_before(name)["predict"]]
        read = model(name).bundle.sides.read
        assert list(baseline.predict([read(source) for source in asked])) == told["predictions"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_saved_again_says_the_same(name, tmp_path):
    first = model(name)
    first.save(tmp_path / "saved")
    again = windlass.load(tmp_path / "saved")
    told = said_before(name)
    if told["predict"]:
        assert predict(again, told["predict"]) == predict(first, told["predict"])
    else:
        texts = [one["target"] for one in told["score"]]
        assert [fields(one) for one in again.score(texts)] == [fields(one) for one in first.score(texts)]
    assert (again.baseline is None) == (first.baseline is None)
