"""Pictures of documents: what stands where, how strong, and that nothing of the text gets lost or runs."""

from __future__ import annotations

import re

import pytest

from windlass.core.errors import WindlassError
from windlass.core.records import LabelAnswer, Places, Prediction, TagsAnswer, TextAnswer
from windlass.explain.attention import draw
from windlass.explain.document import lines


def sentences(texts, *words, unread=0):
    return Places("sentences", texts, within=tuple(Places("words", each) for each in words), unread=unread)


DOCUMENT = Prediction(
    text="<b>",
    answer=LabelAnswer(("<b>",), (0.7,), {"<b>": 0.7, "y": 0.3}),
    places=sentences(
        ('He said "no" & left.', "Why?"), ("He", "said", '"', "no", '"', "&", "left", "."), ("Why", "?"), unread=7
    ),
    score=-0.1,
    confidence=0.7,
    attention=((0.8, 0.2),),
    word_attention=((0.1, 0.1, 0.1, 0.4, 0.1, 0.1, 0.05, 0.05), (0.5, 0.5)),
)


def test_shades_are_beside_the_weightiest_and_gaps_as_in_the_text():
    first, second = lines(DOCUMENT)
    assert (first.weight, first.shade, second.shade) == (0.8, 1.0, pytest.approx(0.25))
    assert [round(word.shade, 3) for word in first.words][:5] == [0, 0, 0, 1, 0]  # an even share is an eighth
    assert [word.shade for word in second.words] == [0, 0]
    assert "".join(word.gap + word.text for word in first.words) == DOCUMENT.places.names[0]


def test_a_word_a_little_above_its_even_share_is_pale():
    weights = ((0.3, 0.2, 0.25, 0.25),)
    places = sentences(("a b c d",), ("a", "b", "c", "d"))
    found = Prediction("x", TextAnswer(("x",)), places, word_attention=weights)
    assert [word.shade for word in lines(found)[0].words] == [pytest.approx(0.1), 0, 0, 0]  # 0.2 of the way to 3 times


def test_subwords_bring_their_own_space():
    places = sentences(("The cats",), ("▁the", "▁cat", "s"))
    pieces = Prediction("x", TextAnswer(("x",)), places, attention=((1.0,),))
    (line,) = lines(pieces)
    assert "".join(word.gap + word.text for word in line.words) == "the cats"
    assert line.words[0].weight is None


def test_a_page_has_every_sentence_with_its_weight_and_nothing_runs(tmp_path):
    page = draw([DOCUMENT], tmp_path / "a.html").read_text()
    assert "<b>" not in page.replace("</b>", "")
    assert "&lt;b&gt;" in page
    text = re.sub(r"<[^>]+>", "", page[page.index("<article") : page.index("<output")])
    assert "80.0 %He said &quot;no&quot; &amp; left." in text.replace("\n", "")
    assert "7 more words are not read" in page
    assert page.count('class="sentence"') == 2
    assert "http" not in page  # it needs nothing from elsewhere


def test_tags_stand_beside_their_sentences(tmp_path):
    answer = TagsAnswer(("ASK", "SAY"), (0.9, 0.8), distribution={"ASK": (0.9, 0.2), "SAY": (0.1, 0.8)})
    places = sentences(("who", "me"), ("who",), ("me",))
    tagged = Prediction("ASK SAY", answer, places, -0.2, 0.8, word_attention=((1.0,), (1.0,)))
    assert [line.tag for line in lines(tagged)] == [("ASK", 0.9), ("SAY", 0.8)]
    assert "<b>ASK</b> 90 %" in draw([tagged], tmp_path / "a.html").read_text()
    assert draw([tagged, tagged], tmp_path / "a.png").stat().st_size > 5000


def test_a_model_that_weighs_nothing_is_told_so(tmp_path):
    plain = Prediction("x", LabelAnswer(("x",), (1.0,), {"x": 1.0}), sentences(("a",), ("a",)))
    with pytest.raises(WindlassError, match="no attention to draw"):
        draw([plain], tmp_path / "a.html")
    with pytest.raises(WindlassError, match=r"\.gif"):
        draw([DOCUMENT], tmp_path / "a.gif")
