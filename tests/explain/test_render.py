import json
import unicodedata
import warnings

import pytest
from fontTools.ttLib import TTFont
from matplotlib import font_manager
from PIL import Image

from windlass.core.errors import DataError, WindlassError
from windlass.explain import fonts
from windlass.explain.curves import compare_curves, curves, read_rows
from windlass.explain.render import Heat, label, sheet

SAMPLES = {
    "devanagari": "कानपुर क्षत्रिय ज्ञ श्री ँ ं ः ़ ् ि ी ॉ",
    "bengali": "ঢাকা ক্ষ ো",
    "gurmukhi": "ਅੰਮ੍ਰਿਤਸਰ ੱ",
    "katakana": "ミシシッピ・ニューヨーク＝ヴ",
    "hangul": "서울 값 힣",
    "jamo": unicodedata.normalize("NFD", "서울 값"),
    "thai": "กรุงเทพ ี",
    "ethiopic": "አዲስ",
    "cyrillic": "Нью-Йорк",
    "greek": "Αθήνα ϊ",
    "georgian": "თბილისი",
    "armenian": "Երևան",
    "hebrew": "חיפה",
    "arabic": "البصرة إ",
    "phones": "t͡ʃ ɜː ə̃ ˈɾ ɡ ʔ ʲ",
    "latin": "Müller Łódź ẞ Đà",
}


def heatmap(attention, source_tokens, target_tokens, path, title=None):
    return sheet([Heat(attention, source_tokens, target_tokens, title)], path)


def file_of(family):
    return fonts.bundled().get(family) or font_manager.findfont(family, fallback_to_default=False)


def characters(family):
    with TTFont(file_of(family)) as font:
        return set(font.getBestCmap())


def even(rows, columns):
    return [[1 / columns] * columns for _ in range(rows)]


@pytest.mark.parametrize("script", SAMPLES)
def test_every_label_of_a_script_is_covered_by_its_fonts(script):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a missing character is warned of
        for token in (*SAMPLES[script].split(), *SAMPLES[script]):
            shown = label(token)
            covered = set()
            for family in fonts.families(shown):
                covered |= characters(family)
            pieces = unicodedata.normalize("NFD", shown) if "가" <= shown[0] <= "힣" else shown
            assert {ord(c) for c in pieces} <= covered


def test_a_mark_and_its_dotted_circle_come_from_one_font():
    for script in ("devanagari", "bengali", "gurmukhi", "thai"):
        mark = next(c for c in SAMPLES[script] if unicodedata.category(c) == "Mn")
        first = characters(fonts.families("◌" + mark)[0])
        assert {0x25CC, ord(mark)} <= first


def test_a_character_that_no_font_has_is_warned_of_with_its_script_and_the_cure():
    with pytest.warns(UserWarning, match="no font here has LINEAR characters.*fonts-noto"):
        assert fonts.families("𐀀") == ["DejaVu Sans"]


def test_a_font_of_the_machine_is_used_before_giving_up(monkeypatch):
    monkeypatch.setattr(fonts, "_installed", lambda character: "Some Han Font")
    assert fonts.families("漢") == ["DejaVu Sans", "Some Han Font"]


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (" ", "␣"),
        ("</s>", "end"),
        ("<unk>", "unknown"),
        ("", "∅"),
        ("ि", "◌ि"),
        ("कि", "कि"),
        ("a b", "a␣b"),
        ("x", "x"),
    ],
)
def test_labels_can_be_read_alone(token, shown):
    assert label(token) == shown


def test_a_png_is_a_picture_that_grows_with_its_table(tmp_path):
    small = Image.open(heatmap(even(7, 6), list("Kanpur"), list("कानपुर"), tmp_path / "small.png", "Kanpur"))
    large = Image.open(heatmap(even(30, 40), list("abcd" * 10), list("abc" * 10), tmp_path / "large.png"))
    assert small.format == "PNG"
    assert small.width >= 600
    assert large.width > 2 * small.width > 2 * 600
    assert len(small.convert("L").getcolors()) > 20  # not a blank sheet


def test_a_very_long_table_stays_a_sane_picture(tmp_path):
    path = heatmap(even(120, 150), ["a"] * 150, ["b"] * 120, tmp_path / "long.png")
    assert max(Image.open(path).size) < 6000


def test_the_heaviest_cell_is_the_darkest(tmp_path):
    picture = Image.open(heatmap([[0, 1], [1, 0]], ["a", "b"], ["c", "d"], tmp_path / "x.png")).convert("L")
    dark = [(x, y) for x in range(picture.width) for y in range(picture.height) if picture.getpixel((x, y)) < 60]
    table = [(x, y) for x, y in dark if y < picture.height - 110]  # without the legend
    left, right = [x for x, _ in table if x], []
    middle = (min(left) + max(left)) / 2
    right = [y for x, y in table if x > middle + 10]
    left = [y for x, y in table if x < middle - 40]
    assert sum(right) / len(right) < sum(left) / len(left)  # row c looks at b, row d at a


def test_the_same_table_gives_the_same_bytes(tmp_path):
    paths = [heatmap(even(2, 2), ["a", "b"], ["क", "ा"], tmp_path / f"{n}.png") for n in "12"]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_page_is_whole_in_itself_and_holds_every_label_and_number(tmp_path):
    page = heatmap([[0.75, 0.25], [0.125, 0.875]], ["<", "&"], ["क"], tmp_path / "x.html", "a <b> & c").read_text(
        encoding="utf-8"
    )
    assert "http" not in page.replace("https://www.w3.org", "")
    assert page.count('scope="col"') == 2
    assert ">&lt;</th>" in page
    assert ">&amp;</th>" in page
    assert ">क</th>" in page
    assert 'class="mark">end</th>' in page
    assert 'style="--w:75.0" title="क, &lt;: attention 75.0 %"><span>75</span>' in page
    assert '<h1 dir="auto">a &lt;b&gt; &amp; c</h1>' in page
    assert "prefers-color-scheme: dark" in page
    assert '"Windlass Devanagari"; src: url(data:font/ttf;base64,' in page


def test_a_page_in_latin_letters_carries_no_fonts(tmp_path):
    assert "@font-face" not in heatmap(even(1, 1), ["a"], ["b"], tmp_path / "x.html").read_text(encoding="utf-8")


def test_json_gives_back_what_went_in(tmp_path):
    path = heatmap([[0.75, 0.25]], ["k", " "], ["क"], tmp_path / "x.json", "t")
    assert json.loads(path.read_text(encoding="utf-8")) == [
        {"title": "t", "source": ["k", " "], "target": ["क"], "attention": [[0.75, 0.25]]}
    ]


@pytest.mark.parametrize("suffix", [".png", ".html", ".json"])
def test_a_sheet_holds_all_its_tables(tmp_path, suffix):
    items = [Heat(even(2, 3), list("abc"), [letter], letter) for letter in "defgh"]
    one = sheet(items[:1], tmp_path / "new" / f"one{suffix}")
    five = sheet(items, tmp_path / f"five{suffix}", "Five")
    assert five.stat().st_size > one.stat().st_size


def test_an_unknown_suffix_and_an_empty_sheet_are_refused(tmp_path):
    with pytest.raises(WindlassError, match=r"x\.gif: cannot write '\.gif'.*\.png, \.svg, \.html or \.json"):
        heatmap(even(1, 1), ["a"], ["b"], tmp_path / "x.gif")
    with pytest.raises(DataError, match="no attention to draw"):
        sheet([], tmp_path / "x.png")


@pytest.mark.parametrize(
    ("attention", "source", "target"),
    [(even(3, 2), "ab", "c"), (even(1, 2), "abc", "d"), ([], "ab", ""), ([[]], "", "a")],
)
def test_attention_that_does_not_fit_its_tokens_is_refused(attention, source, target):
    with pytest.raises(DataError):
        Heat(attention, list(source), list(target))


def test_curves_are_one_picture_with_a_panel_for_loss_and_one_for_score(tmp_path):
    rows = [{"epoch": e, "loss": 3 / e, "dev_loss": 4 / e, "dev_wer": 90 / e} for e in range(1, 6)]
    both = Image.open(curves(rows, tmp_path / "both.png"))
    loss_alone = Image.open(curves([{"loss": 1.0}, {"loss": 0.5}], tmp_path / "loss.png"))
    assert both.height > 1.5 * loss_alone.height


def test_curves_refuse_what_they_cannot_draw(tmp_path):
    with pytest.raises(DataError, match="no epochs"):
        curves([], tmp_path / "x.png")
    with pytest.raises(DataError, match=r"neither a loss nor a score"):
        curves([{"epoch": 1}], tmp_path / "x.png")
    with pytest.raises(WindlassError, match=r"name it \.png"):
        curves([{"loss": 1.0}], tmp_path / "x.svg")


def test_runs_of_different_metrics_have_a_panel_each(tmp_path):
    rows = [{"epoch": e, "loss": 3 / e, "dev_loss": 4 / e, "wer": 90 / e, "accuracy": 10.0 * e} for e in range(1, 6)]
    one = Image.open(compare_curves({"gru": (rows, "wer"), "lstm": (rows, "wer")}, tmp_path / "one.png"))
    two = Image.open(compare_curves({"gru": (rows, "wer"), "lstm": (rows, "accuracy")}, tmp_path / "two.png"))
    assert two.height > 1.3 * one.height


def test_the_rows_of_a_run_hold_both_losses(tmp_path):
    (tmp_path / "training").mkdir()
    log = tmp_path / "training" / "metrics.jsonl"
    log.write_text('{"epoch": 1, "loss": 2.0, "dev_loss": 2.5, "dev": {"wer": 80.0}, "lr": 0.1}\n')
    assert read_rows(tmp_path) == [{"epoch": 1, "loss": 2.0, "dev_loss": 2.5, "wer": 80.0}]
    log.write_text('{"epoch": 1, "loss": 2.0, "dev": {"nats": 2.25}, "lr": 0.1}\n')  # a language model
    assert read_rows(tmp_path) == [{"epoch": 1, "loss": 2.0, "dev_loss": 2.25, "nats": 2.25}]


def marks(monkeypatch, rows, score):
    """The panels of the curves of a run, and what is marked in each: where, and the text."""
    figures = []
    monkeypatch.setattr("windlass.explain.curves.save", lambda figure, path: figures.append(figure))
    curves(rows, "x.png", score)
    return [[(text.xy[0], text.get_text()) for text in axes.texts] for axes in figures[0].axes]


def test_the_evaluation_that_was_kept_is_marked_not_the_first_as_good(monkeypatch):
    rows = [{"epoch": e, "step": 10 * e, "best_step": 30, "loss": 1.0, "cer": 5.0} for e in (1, 2, 3, 4)]
    assert marks(monkeypatch, rows, "cer") == [[], [(3, "best 5.00")]]
    old = [{name: row[name] for name in ("epoch", "loss", "cer")} for row in rows]
    assert marks(monkeypatch, old, "cer") == [[], [(1, "best 5.00")]]


def test_the_dev_loss_of_a_language_model_is_drawn_once(monkeypatch):
    rows = [{"epoch": e, "loss": 2.0 / e, "dev_loss": 3.0 / e, "nats": 3.0 / e} for e in (1, 2)]
    assert marks(monkeypatch, rows, "nats") == [[(2, "best 1.5000")]]
