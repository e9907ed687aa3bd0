"""How far attention can be trusted, measured."""

from __future__ import annotations

import numpy as np
import pytest

from command import windlass
from toy import learn, reversals
from windlass.core.errors import DataError
from windlass.inference.importance import leave_one_out
from windlass.inference.predict import score


@pytest.fixture(scope="module")
def reversing():
    return learn(reversals())


def test_importance_is_the_drop_of_the_forced_log_probability(reversing):
    drops = leave_one_out(reversing.bundle, "abcd", "dcba")
    without_c = score(reversing.bundle, [("abcd", "dcba"), ("abd", "dcba")])
    whole, rest = (np.log(prediction.answer.probabilities[:4]) for prediction in without_c)
    assert drops.shape == (4, 4)
    assert drops[:, 2] == pytest.approx(whole - rest, abs=1e-4)


def test_a_model_that_reverses_depends_on_the_mirrored_letter(reversing):
    drops = leave_one_out(reversing.bundle, "abcd", "dcba")
    assert drops[0].argmax() == 3
    report = reversing.attention_report(reversals()[:20])
    assert report.examples == 20
    assert report.chance == pytest.approx(100 / 3.6, rel=0.25)
    assert 0 < report.entropy < 1
    assert report.agreement > report.chance


def test_the_command_prints_it_and_says_what_has_no_attention(tmp_path, tiny_model):
    (tmp_path / "test.tsv").write_text("ab\tba\nabc\tcba\n", encoding="utf-8")
    ran = windlass("evaluate", tiny_model, tmp_path / "test.tsv", "--attention", "2")
    assert ran.code == 0, ran.err
    assert "leave-one-out importance" in ran.out


def test_a_model_without_attention_is_refused():
    parts = {"context": "none", "start": "summary", "readout": "state"}
    blind = learn(reversals()[:60], 10, train__epochs=1, **{f"model__decoder__{k}": v for k, v in parts.items()})
    with pytest.raises(DataError, match="no attention to measure"):
        blind.attention_report([("ab", "ba")])
