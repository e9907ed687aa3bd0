"""Attention over pictures, clips, sounds and readings, drawn."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from windlass.core.errors import WindlassError
from windlass.core.records import LabelAnswer, Places, Prediction, TagsAnswer, TextAnswer
from windlass.explain.attention import draw
from windlass.explain.media import View, lit

GRID = Places("grid", tuple(f"{row},{column}" for row in (1, 2, 3) for column in (1, 2, 3)))
PHOTO = np.full((90, 90, 3), 200, np.uint8)
SURE = LabelAnswer(("wave",), (0.9,), {"wave": 0.9, "nod": 0.1})


def at(place, places):
    return tuple(float(n == place) for n in range(places))


def caption():
    answer = TextAnswer(("a", "cat"), (0.9, 0.8, 1.0))
    return Prediction("a cat", answer, GRID, attention=(at(0, 9), at(5, 9), at(8, 9)))


@pytest.mark.parametrize("place", range(9))
def test_the_light_is_where_the_attention_is_and_even_attention_lights_nothing(place):
    picture = lit(PHOTO, np.array(at(place, 9)).reshape(3, 3)).astype(int).sum(2)
    brightest = np.unravel_index(picture.argmax(), picture.shape)
    assert (brightest[0] // 30, brightest[1] // 30) == divmod(place, 3)
    middle = [picture[15 + 30 * row, 15 + 30 * column] for row in range(3) for column in range(3)]
    assert np.argmax(middle) == place
    assert middle[place] > 1.5 * sorted(middle)[-2]
    even = lit(PHOTO, np.full((3, 3), 1 / 9))
    assert np.ptp(even) < 3
    assert even.mean() < picture.max() / 3


def test_a_caption_has_a_panel_for_each_word_and_none_for_the_end(tmp_path):
    draw([caption()], tmp_path / "x.png", over=[PHOTO])
    assert Image.open(tmp_path / "x.png").size[0] > 900
    draw([caption()], tmp_path / "x.html", "Cats", over=[PHOTO])
    page = (tmp_path / "x.html").read_text()
    assert page.count("<figure>") == page.count("data:image/jpeg") == 3
    assert ">cat</figcaption>" in page
    assert '<h1 dir="auto">Cats</h1>' in page
    assert "//" not in page.replace("base64,//", "base64,").split("<figure>")[0]  # nothing is loaded from elsewhere


def test_words_are_escaped(tmp_path):
    answer = TextAnswer(("<b>", "$x$"), (0.9, 0.8, 1.0))
    p = Prediction("<b> $x$", answer, GRID, attention=(at(0, 9),) * 3)
    draw([p], tmp_path / "x.html", over=[PHOTO])
    assert "<b>" not in (tmp_path / "x.html").read_text()
    draw([p], tmp_path / "x.png", over=[PHOTO])


def test_an_answer_to_a_question_and_a_label_have_one_panel(tmp_path):
    asked = Places("grid", GRID.names, parts={"question": Places("tokens", ("what", "is", "it"))})
    p = Prediction("wave", SURE, asked, attention=(at(4, 9),))
    view = View.of(p, PHOTO)
    assert (view.names, view.heading) == (("wave",), "what is it  wave 90 %,  nod 10 %")
    draw([p, p], tmp_path / "x.html", over=[PHOTO, PHOTO])
    assert (tmp_path / "x.html").read_text().count("<figure>") == 4


def dark_columns(path):
    """Where the line of weights is darkest: the part of its width, from 0 to 1."""
    pixels = np.asarray(Image.open(path).convert("RGB")).astype(int)
    blue = (pixels[..., 2] - pixels[..., 0]) * (pixels[..., 0] < 60)  # the dark end of the colours
    columns = np.flatnonzero((blue > 40).sum(0) > 10)
    return columns.min() / pixels.shape[1], columns.max() / pixels.shape[1]


@pytest.mark.parametrize("kind", ["frames", "spectrogram", "steps"])
def test_weights_stand_under_their_part_of_a_sequence(kind, tmp_path):
    shown = np.zeros((8, 16, 16, 3), np.uint8) if kind == "frames" else np.zeros((8, 3))
    names = tuple(f"{0.1 * n:.2f}" if kind == "spectrogram" else str(n + 1) for n in range(8))
    early, late = (Prediction("wave", SURE, Places(kind, names), attention=(at(n, 8),)) for n in (1, 6))
    (left, end), (begin, right) = (
        dark_columns(draw([p], tmp_path / f"{n}.png", over=[shown])) for n, p in enumerate((early, late))
    )
    assert left < end < 0.45
    assert 0.6 < begin < right
    draw([early], tmp_path / "x.html", over=[shown])
    assert (tmp_path / "x.html").read_text().count("data:image/png") == 1


def test_joined_places_span_those_they_stand_for():
    places = Places("spectrogram", tuple(f"{0.01 * n:.2f}" for n in range(10))).grouped(4)
    assert places.names == ("0.00-0.03", "0.04-0.07", "0.08-0.09")
    view = View.of(Prediction("wave", SURE, places, attention=((0.2, 0.3, 0.5),)), np.zeros((10, 80)))
    assert view.edges == [0, 4, 8, 10]
    assert places.grouped(2).joined == 8


def test_tags_are_drawn_with_their_probabilities(tmp_path):
    answer = TagsAnswer(("on", "off"), (0.9, 0.8), distribution={"on": (0.9, 0.2), "off": (0.1, 0.8)})
    p = Prediction("on off", answer, Places("steps", ("1", "2")))
    view = View.of(p, np.zeros((2, 3)))
    assert (view.names, view.weights.tolist()) == (("on", "off"), [[0.9, 0.2], [0.1, 0.8]])
    draw([p], tmp_path / "x.png", over=[np.zeros((2, 3))])
    assert Image.open(tmp_path / "x.png").size[0] > 900


def test_a_long_clip_and_many_numbers_are_drawn_in_a_sane_size(tmp_path):
    frames = np.zeros((300, 8, 8, 3), np.uint8)
    weights = tuple(1 / 300 for _ in range(300))
    names = tuple(map(str, range(1, 301)))
    draw([Prediction("w", SURE, Places("frames", names), attention=(weights,))], tmp_path / "x.png", over=[frames])
    many = np.random.default_rng(0).random((300, 40))
    draw([Prediction("w", SURE, Places("steps", names), attention=(weights,))], tmp_path / "y.png", over=[many])
    assert max(max(Image.open(tmp_path / name).size) for name in ("x.png", "y.png")) < 2500


def test_without_attention_the_way_to_get_some_is_told_and_data_are_written_as_ever(tmp_path):
    p = Prediction("wave", SURE, GRID)
    with pytest.raises(WindlassError, match=r"model\.head\.pool=attention"):
        draw([p], tmp_path / "x.png", over=[PHOTO])
    draw([caption()], tmp_path / "x.json", over=[PHOTO])
    assert json.loads((tmp_path / "x.json").read_text())["places"]["kind"] == "grid"
    with pytest.raises(WindlassError, match=r"cannot write '\.gif'"):
        draw([caption()], tmp_path / "x.gif", over=[PHOTO])
