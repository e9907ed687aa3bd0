"""Pictures, clips, sounds and numbers in little: made up, learned in seconds, and looked at in the right place."""

from __future__ import annotations

import itertools
import math
import wave
from typing import Any

import numpy as np
import pytest
from PIL import Image

import windlass as w

COLOURS = {"red": (230, 40, 40), "green": (40, 200, 60), "blue": (50, 70, 230)}
FORMS = ("disc", "cross")
SIZE, HALF, RATE = 64, 32, 8000
SMALL: dict[str, Any] = {
    "loss.label_smoothing": 0.0,
    "train.average": "none",
    "train.threads": 1,
    "train.processes": 1,
    "train.schedule": {"kind": "cosine", "warmup": 5},
}
LABEL = SMALL | {"model.head.dropout": 0.0}
WRITES = SMALL | {
    "model.tie": "none",
    "model.decoder.embedding": {"kind": "learned", "size": 16},
    "model.decoder.cell": "gru",
    "model.decoder.size": 32,
    "model.decoder.dropout": 0.0,
    "model.decoder.readout": {"kind": "joined", "size": 32},
    "search": "greedy",
}
ADDITIVE = {"kind": "attention", "score": {"kind": "additive", "size": 16}}
SEEN = {
    "source.cnn": "small",
    "source.augment": False,
    "model.encoder.embedding": {"kind": "features", "size": 24, "activation": "tanh"},
    "train.optimiser.lr": 0.004,
}


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """Features of these files are kept nowhere else."""
    monkeypatch.setenv("WINDLASS_CACHE", str(tmp_path_factory.getbasetemp() / "features"))


def drawn(chance: np.random.Generator, shapes: list[tuple[str, str, tuple[int, int]]]) -> np.ndarray:
    """Noise, with forms of some colours centred at (row, column)."""
    picture = chance.integers(90, 140, (SIZE, SIZE, 3)).astype(np.uint8)
    for colour, form, (row, column) in shapes:
        y, x = np.mgrid[:SIZE, :SIZE]
        y, x = y - row, x - column
        disc = np.hypot(x, y) < 10
        cross = (np.minimum(abs(x), abs(y)) < 4) & (np.maximum(abs(x), abs(y)) < 12)
        picture[disc if form == "disc" else cross] = COLOURS[colour]
    return picture


def share(weights: tuple[float, ...], quarter: tuple[int, int]) -> float:
    """How much of the attention over a picture lies on one of its quarters."""
    side = math.isqrt(len(weights))
    grid = np.array(weights).reshape(side, side)
    rows, columns = (slice(part * side // 2, (part + 1) * side // 2) for part in quarter)
    return float(grid[rows, columns].sum())


def test_each_word_of_a_caption_looks_at_the_form_that_it_names():
    """Two discs side by side, as a grid of the mean colours of 8 x 8 patches and where they are."""
    chance, rows = np.random.default_rng(1), []
    at = np.stack(np.mgrid[:8, :8], 2) / 3.5 - 1
    for _ in range(460):
        said = [str(colour) for colour in chance.choice([*COLOURS], 2)]
        quarters = [(int(chance.integers(2)), side) for side in (0, 1)]
        shapes = [(c, "disc", (HALF * y + 16, HALF * x + 16)) for c, (y, x) in zip(said, quarters, strict=True)]
        patches = drawn(chance, shapes).reshape(8, 8, 8, 8, 3).mean((1, 3)) / 255
        rows.append((np.concatenate([patches, at], 2).round(3).tolist(), " ".join(said), quarters))
    settings = WRITES | {
        "model.encoder": {"kind": "plain", "embedding": {"kind": "features", "size": 24, "activation": "tanh"}},
        "model.decoder.context": ADDITIVE | {"query": "current"},
        "model.decoder.start": "learned",
        "source": {"kind": "numbers"},
        "train.optimiser.lr": 0.01,
        "train.batch_tokens": 1280,
        "train.epochs": 14,
    }
    model = w.fit(
        [row[:2] for row in rows[60:]], [row[:2] for row in rows[:60]], "caption", settings=settings, quiet=True
    )
    found = model.predict([row[0] for row in rows[:60]])
    assert np.mean([p.text == row[1] for p, row in zip(found, rows, strict=False)]) > 0.9
    for word in (0, 1):
        looked = [share(p.attention[word], row[2][word]) for p, row in zip(found, rows, strict=False)]
        assert np.mean(looked) > 0.5  # a quarter would be chance
    assert found[0].places.names[9] == "2,2"


def test_a_cnn_is_trained_from_scratch(tmp_path):
    chance, rows = np.random.default_rng(2), []
    for n, (colour, form) in enumerate([*itertools.product(COLOURS, FORMS)] * 30):
        y, x = chance.integers(14, 50, 2)
        path = tmp_path / f"{n}.png"
        Image.fromarray(drawn(chance, [(colour, form, (int(y), int(x)))])).save(path)
        rows.append((str(path), colour))
    settings = LABEL | SEEN | {"model.head.pool": ADDITIVE, "train.batch_tokens": 512, "train.epochs": 4}
    model = w.fit(rows[36:], rows[:36], "classify-picture", settings=settings, quiet=True)
    assert model.dev.metrics["accuracy"] > 85
    prediction = model.explain(rows[0][0], tmp_path / "x.png")
    assert len(prediction.attention[0]) == len(prediction.places.names) == 64
    assert Image.open(tmp_path / "x.png").width > 600
    model.explain(rows[0][0], tmp_path / "x.html")
    assert (tmp_path / "x.html").read_text().count("<figure>") == 2


def test_the_direction_of_a_movement_is_told(tmp_path):
    chance, rows = np.random.default_rng(4), []
    steps = {"left": (0, -8), "right": (0, 8), "up": (-8, 0), "down": (8, 0)}
    for n in range(96):
        direction = [*steps][n % 4]
        clip, at = tmp_path / str(n), chance.integers(27, 37, 2)
        clip.mkdir()
        for frame in range(4):
            y, x = at + (frame - 1.5) * np.array(steps[direction])
            Image.fromarray(drawn(chance, [("red", "disc", (int(y), int(x)))])).save(clip / f"{frame}.png")
        rows.append((str(clip), direction))
    settings = {
        **LABEL,
        **SEEN,
        "source.frames": 4,
        "source.regions": 2,
        "model.encoder.cell": "gru",
        "model.encoder.size": 24,
        "model.encoder.dropout": 0.0,
        "train.batch_tokens": 32,
        "train.optimiser.lr": 0.002,
        "train.epochs": 12,
    }
    model = w.fit(rows[24:], rows[:24], "classify-video", settings=settings, quiet=True)
    assert model.dev.metrics["accuracy"] > 75
    model.explain(rows[0][0], tmp_path / "x.png")
    assert Image.open(tmp_path / "x.png").width > 900


PITCHES = {"a": 300, "b": 600, "c": 1200, "d": 2400}


def sound(path, letters, chance, each=0.08):
    """A tone for each letter, in noise."""
    times = np.arange(int(each * RATE)) / RATE
    tones = [np.sin(2 * np.pi * PITCHES[letter] * times) * np.hanning(len(times)) ** 0.25 for letter in letters]
    samples = 0.3 * np.concatenate(tones) + 0.01 * chance.standard_normal(len(times) * len(letters))
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes((20000 * samples).astype("<i2").tobytes())
    return str(path)


def test_a_tone_is_told_by_its_pitch(tmp_path):
    chance = np.random.default_rng(5)
    rows = [(sound(tmp_path / f"{n}.wav", letter, chance), letter) for n, letter in enumerate("abcd" * 30)]
    settings = LABEL | {
        "source.rate": RATE,
        "source.bands": 16,
        "model.encoder.embedding": {"kind": "features", "size": 16},
        "model.encoder.size": 8,
        "model.encoder.dropout": 0.0,
        "train.optimiser.lr": 0.01,
        "train.batch_tokens": 100,
        "train.epochs": 6,
    }
    model = w.fit(rows[24:], rows[:24], "classify-sound", settings=settings, quiet=True)
    assert model.dev.metrics["accuracy"] > 90


@pytest.fixture(scope="module")
def listener(tmp_path_factory):
    folder, chance = tmp_path_factory.mktemp("tones"), np.random.default_rng(6)
    texts = ["".join(chance.permutation([*PITCHES])[: chance.integers(2, 5)]) for _ in range(330)]
    rows = [(sound(folder / f"{n}.wav", text, chance), text) for n, text in enumerate(texts)]
    settings = WRITES | {
        "source.rate": RATE,
        "source.bands": 16,
        "model.encoder": {
            "kind": "pyramid",
            "embedding": {"kind": "features", "size": 24, "stack": 2},
            "cell": "gru",
            "size": 24,
            "layers": 2,
        },
        "model.decoder.context": ADDITIVE | {"query": "current"},
        "train.optimiser.lr": 0.01,
        "train.batch_tokens": 400,
        "train.epochs": 16,
    }
    return w.fit(rows[30:], rows[:30], "transcribe", settings=settings, quiet=True), rows[:30]


def test_tones_are_written_down_and_each_letter_is_heard_at_its_time(listener, tmp_path):
    model, held = listener
    found = model.predict([path for path, _ in held])
    assert sum(p.text == text for p, (_, text) in zip(found, held, strict=True)) > 0.8 * len(held)
    apart = []
    for p, (_, text) in zip(found, held, strict=True):
        count = len(p.places.names)
        assert p.places.joined == 4
        assert all(len(row) == count for row in p.attention)
        if p.text == text:
            heard = [np.dot(row, np.arange(count)) / count for row in p.attention[: len(text)]]
            apart.append(heard == sorted(heard))
    assert np.mean(apart) > 0.8  # letters are heard one after another
    model.explain(held[0][0], tmp_path / "x.png")
    assert Image.open(tmp_path / "x.png").width > 900


def readings(chance: np.random.Generator, length: int) -> tuple[np.ndarray, list[str]]:
    """Two sensors: a slow wave, and noise that is strong while the machine runs."""
    begin, end = sorted(chance.choice(np.arange(2, length - 1), 2, replace=False))
    running = np.array([begin <= t < end for t in range(length)])
    values = np.stack([np.sin(np.arange(length) / 3 + chance.random()), 0.2 * chance.standard_normal(length)], 1)
    values[running, 1] += 1.5
    return values, ["on" if on else "off" for on in running]


def test_the_state_of_a_machine_is_told_at_every_step(tmp_path):
    chance = np.random.default_rng(7)
    rows = [readings(chance, int(chance.integers(8, 16))) for _ in range(160)]
    pairs = [(values.round(3).tolist(), " ".join(tags)) for values, tags in rows]
    settings = SMALL | {
        "model.encoder.embedding": {"kind": "features", "size": 16},
        "model.encoder.size": 12,
        "model.encoder.dropout": 0.0,
        "train.optimiser.lr": 0.02,
        "train.batch_tokens": 200,
        "train.epochs": 8,
    }
    model = w.fit(pairs[30:], pairs[:30], "tag-numbers", settings=settings, quiet=True)
    assert model.dev.metrics["tag_accuracy"] > 95
    prediction = model.explain(pairs[0][0], tmp_path / "x.png")
    assert len(prediction.answer.tokens) == len(prediction.places.names) == len(pairs[0][0])
    assert Image.open(tmp_path / "x.png").width > 900


def test_readings_are_told_apart_by_the_steps_that_differ(tmp_path):
    chance, rows, places = np.random.default_rng(8), [], []
    for n in range(200):
        values = 0.2 * chance.standard_normal((12, 2))
        at = int(chance.integers(12))
        values[at] += (2.0, 2.0) if n % 2 else (2.0, -2.0)
        rows.append((values.round(3).tolist(), "odd" if n % 2 else "even"))
        places.append(at)
    settings = LABEL | {
        "model.encoder": {"kind": "plain", "embedding": {"kind": "features", "size": 16, "activation": "tanh"}},
        "model.head.pool": ADDITIVE,
        "train.optimiser.lr": 0.02,
        "train.batch_tokens": 240,
        "train.epochs": 8,
    }
    model = w.fit(rows[40:], rows[:40], "classify-numbers", settings=settings, quiet=True)
    assert model.dev.metrics["accuracy"] > 90
    found = model.predict([row[0] for row in rows[:40]])
    assert np.mean([np.argmax(p.attention[0]) == at for p, at in zip(found, places, strict=False)]) > 0.8
    model.explain(rows[0][0], tmp_path / "x.html")
    assert "<img" in (tmp_path / "x.html").read_text()
