"""Without a decoder, a CTC head learns what keeps the order of its source, and says where each token comes from."""

from __future__ import annotations

import random

import numpy as np
import pytest
from test_learn_media import PITCHES, RATE, sound

import windlass
from windlass.core.errors import DataError
from windlass.experiment.data import as_data
from windlass.experiment.run import run
from windlass.recipe import compose, override
from windlass.training.observe import Observer

SETTINGS = {
    "model.head": {"kind": "ctc", "frames": 3},
    "model.encoder": {"kind": "recurrent", "embedding": {"kind": "learned", "size": 16}, "cell": "gru", "size": 24},
    "train.optimiser.lr": 0.01,
    "train.schedule": {"kind": "cosine", "warmup": 5},
    "train.average": "none",
    "train.batch_tokens": 200,
    "train.epochs": 12,
    "train.threads": 1,
}
SOUNDS = {"a": "A", "b": "B", "c": "K", "x": "K S", "h": ""}  # x is two phonemes, h is none


def words(count):
    chance = random.Random(3)
    drawn = ["".join(chance.choices([*SOUNDS], k=chance.randint(2, 6))) for _ in range(2 * count)]
    pairs = [(word, " ".join(SOUNDS[letter] for letter in word if SOUNDS[letter])) for word in drawn]
    return [(word, phonemes) for word, phonemes in pairs if phonemes][:count]


def test_letters_are_pronounced_and_every_phoneme_points_at_its_letter():
    pairs = words(350)
    model = windlass.fit(pairs[50:], pairs[:50], "pronounce", settings=SETTINGS, quiet=True)
    found = model.predict([word for word, _ in pairs[:50]], nbest=2)
    assert sum(p.text == right for p, (_, right) in zip(found, pairs[:50], strict=True)) >= 45
    assert len(found[0].alternatives) == 1
    assert found[0].score >= found[0].alternatives[0].score
    prediction = model.explain("ahb", target="A B")
    assert [sum(row) for row in prediction.attention] == pytest.approx([1, 1])
    first, second = (np.argmax(row) for row in prediction.attention)
    assert first < second


def test_tones_are_written_down_repeats_too(tmp_path, monkeypatch):
    monkeypatch.setenv("WINDLASS_CACHE", str(tmp_path / "features"))
    chance = np.random.default_rng(6)
    texts = ["".join(chance.choice([*PITCHES], chance.integers(2, 5))) for _ in range(240)]
    rows = [(sound(tmp_path / f"{n}.wav", text, chance), text) for n, text in enumerate(texts)]
    settings = SETTINGS | {
        "source.rate": RATE,
        "source.bands": 16,
        "model.head": "ctc",
        "model.encoder.embedding": {"kind": "features", "size": 24, "stack": 2},
        "train.batch_tokens": 400,
    }
    model = windlass.fit(rows[30:], rows[:30], "transcribe", settings=settings, quiet=True)
    found = model.predict([path for path, _ in rows[:30]])
    assert sum(p.text == text for p, (_, text) in zip(found, rows, strict=False)) >= 25
    model.explain(rows[0][0], tmp_path / "x.png")
    model.explain(rows[0][0], tmp_path / "x.html")
    assert "Alignment over time" in (tmp_path / "x.html").read_text(encoding="utf-8")
    assert (tmp_path / "x.png").exists()


def test_targets_that_do_not_fit_are_noted_and_left_out(tmp_path):
    pairs = words(60)
    few = {**SETTINGS, "model.head": {"kind": "ctc", "frames": 1}, "train.epochs": 1}
    recipe = compose("pronounce", None, [override(key, value) for key, value in few.items()])
    assert recipe.model.decoder is None
    assert recipe.search.length_penalty == 0
    notes = []

    class Notes(Observer):
        def note(self, text):
            notes.append(text)

    data = as_data([("x", "K S K S K S"), *pairs[10:]], pairs[:10], recipe)
    run(recipe, data, tmp_path / "model", Notes(), draw=False)
    assert any("left out of training: raise model.head.frames" in note for note in notes)
    with pytest.raises(DataError, match="every target is longer"):
        run(recipe, as_data([("x", "K S K S K S")], pairs[:10], recipe), tmp_path / "other", Notes(), draw=False)


def test_frames_are_chosen_by_the_training_targets_and_kept_when_the_run_goes_on(tmp_path):
    pairs = words(60)
    settings = {**SETTINGS, "model.head": "ctc", "train.epochs": 1}
    recipe = compose("pronounce", None, [override(key, value) for key, value in settings.items()])
    assert recipe.model.head.frames is None
    data = as_data([("x", "K S K S K S"), *pairs[10:]], pairs[:10], recipe)
    bundle = run(recipe, data, tmp_path / "model", Observer(), draw=False).bundle
    assert bundle.recipe.model.head.frames == bundle.model.head.frames == 3  # but for the one long target
    longer = recipe.model_copy(update={"train": recipe.train.model_copy(update={"epochs": 2})})
    again = run(longer, data, tmp_path / "model", Observer(), resume=True, draw=False)
    assert again.bundle.recipe.model.head.frames == 3
    assert again.fit.epochs == 2
    with pytest.raises(DataError, match=r"would need 38 outputs .* set model.head: text"):
        run(
            recipe,
            as_data([("x", ("K S " * 25).strip())], pairs[:10], recipe),
            tmp_path / "other",
            Observer(),
            draw=False,
        )
