"""Pictures, clips, sounds and numbers on the command line and in Python: predict, evaluate, explain, the doctor."""

from __future__ import annotations

import json
import shutil
import warnings
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import windlass
from command import refused
from command import windlass as run
from windlass.bundle import Bundle
from windlass.core.errors import DataError
from windlass.data.examples import Example, Place
from windlass.data.sides import Sides
from windlass.experiment.data import sides_of
from windlass.recipe import compose, setting

SMALL = {
    "classify-picture": ("source.cnn=small", "model.encoder.embedding.size=8", "model.head.pool.score.size=8"),
    "classify-video": ("source.cnn=small", "source.frames=2"),
    "classify-sound": ("source.rate=8000", "source.bands=8"),
    "classify-numbers": (),
}


def untrained(task: str, folder: Path, sources: list[object], *settings: str) -> Path:
    """A model that was never trained: what it says is arbitrary, but always the same."""
    recipe = compose(task, None, [setting(text) for text in (*SMALL[task], *settings)])
    rows = [Example(source, (label,), None, Place("t", 1)) for source in sources or [""] for label in ("cat", "dog")]
    Bundle.new(recipe, Sides.fit(sides_of(recipe), rows)).save(folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WINDLASS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Photos of two labels, files that are bad in every way, and a model."""
    place = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(1)
    for label in ("cat", "dog"):
        (place / "photos" / label).mkdir(parents=True)
        for n in (1, 2, 10):
            Image.fromarray(rng.integers(0, 255, (30, 40, 3), np.uint8)).save(place / "photos" / label / f"{n}.jpg")
    bad = place / "bad"
    bad.mkdir()
    good = (place / "photos/cat/1.jpg").read_bytes()
    (bad / "cut.jpg").write_bytes(good[:-300])
    (bad / "empty.jpg").write_bytes(b"")
    (bad / "text.jpg").write_text("this is no picture\n")
    Image.new("1", (20_000, 20_000)).save(bad / "bomb.png")
    untrained("classify-picture", place / "model", [])
    return place


BAD = {"cut.jpg": "damaged", "empty.jpg": "an empty file", "text.jpg": "text, not a picture", "bomb.png": "megapixels"}


def lines(ran) -> list[str]:
    return ran.out.split("\n")[:-1]


def test_files_folders_lists_and_stdin_give_the_same(place, monkeypatch):
    monkeypatch.chdir(place)
    photos = [f"photos/{label}/{n}.jpg" for label in ("cat", "dog") for n in (1, 2, 10)]  # 2 before 10
    each = [lines(run("predict", "model", photo)) for photo in photos]
    expected = [answer for (answer,) in each]
    assert lines(run("predict", "model", *photos)) == expected
    assert lines(run("predict", "model", "photos")) == expected
    assert lines(run("predict", "model", "photos/cat", "photos/dog")) == expected
    names = "".join(f"{photo}\n" for photo in photos)
    Path("list.txt").write_text(names)
    Path("sub").mkdir()
    Path("sub/list.csv").write_text("id,photo\n" + "".join(f"{n},../{photo}\n" for n, photo in enumerate(photos)))
    assert lines(run("predict", "model", "list.txt")) == expected
    assert lines(run("predict", "model", "sub/list.csv", "--source", "photo")) == expected
    assert lines(run("predict", "model", stdin=names.encode())) == expected
    rows = [json.loads(line) for line in lines(run("predict", "model", "photos", "--json"))]
    assert [(row["input"], row["text"], row["error"]) for row in rows] == [
        (photo, answer, None) for photo, answer in zip(photos, expected, strict=True)
    ]


def test_the_content_decides_whatever_a_file_is_called(place, tmp_path):
    photo = place / "photos/cat/1.jpg"
    expected = lines(run("predict", place / "model", photo))
    for name in ("photo.png", "photo", "photo.dat"):
        shutil.copy(photo, tmp_path / name)
        assert lines(run("predict", place / "model", tmp_path / name)) == expected
    Image.new("RGB", (1, 1)).save(tmp_path / "one.png")
    assert run("predict", place / "model", tmp_path / "one.png").code == 0


def test_bad_files_are_named_and_nothing_else_is_lost(place):
    photos = [place / "photos/cat/1.jpg", *(place / "bad" / name for name in BAD), place / "no.jpg",
              place / "photos/dog/1.jpg"]  # fmt: skip
    ran = run("predict", place / "model", *photos)
    found = lines(ran)
    assert (ran.code, found[1:-1]) == (1, [""] * 5)
    assert found[0]
    assert found[-1]
    told = ran.err.splitlines()
    for path, (name, what) in zip(photos[1:], [*BAD.items(), ("no.jpg", "no such file")], strict=False):
        (line,) = [line for line in told if name in line]
        assert what in line
        assert str(path) in line
    assert told[-1] == "5 of 7 inputs cannot be read"
    assert "Traceback" not in ran.err
    ran = run("predict", place / "model", "--json", stdin=f"{photos[0]}\nno.jpg\n".encode())
    first, second = map(json.loads, lines(ran))
    assert (first["error"], second["text"], second["error"]) == (None, "", "stdin:2: no such file: no.jpg")


def test_bench_takes_what_predict_takes(place, monkeypatch):
    monkeypatch.chdir(place)
    Path("two.txt").write_text("photos/cat/1.jpg\nphotos/dog/2.jpg\n")
    for file, count in (("photos/cat/1.jpg", 1), ("photos", 6), ("two.txt", 2)):
        ran = run("bench", "model", file, "--seconds", "0.01", "--batch", "1", "--json")
        assert json.loads(ran.out)["inputs"] == count


def test_a_folder_without_pictures_is_told(place, tmp_path):
    assert refused("predict", place / "model", tmp_path).endswith("no pictures in this folder: name another, or files")


def test_evaluate_reads_a_folder_of_labels_and_leaves_bad_files_out(place, tmp_path):
    shutil.copytree(place / "photos", tmp_path / "photos")
    whole = json.loads(run("evaluate", place / "model", tmp_path / "photos", "--json").out)
    assert (whole["examples"], set(whole["labels"])) == (6, {"cat", "dog"})
    for name in BAD:
        shutil.copy(place / "bad" / name, tmp_path / "photos" / "cat")
    ran = run("evaluate", place / "model", tmp_path / "photos", "--json")
    assert json.loads(ran.out)["metrics"] == whole["metrics"]
    assert "left out 4 inputs that cannot be read; first is" in ran.err
    with pytest.warns(UserWarning, match="left out 4 inputs that cannot be read"):
        found = windlass.load(place / "model").evaluate(tmp_path / "photos")
    assert found.examples == 6


def test_explain_takes_a_file(place, tmp_path):
    photo = place / "photos/cat/1.jpg"
    assert run("explain", place / "model", photo, "--out", tmp_path / "x.json").code == 0
    found = json.loads((tmp_path / "x.json").read_text())
    assert (found["places"]["kind"], len(found["attention"][0])) == ("grid", 64)
    assert "damaged picture" in refused("explain", place / "model", place / "bad/cut.jpg", "--out", tmp_path / "x.png")
    assert "no such file" in refused("explain", place / "model", place / "no.jpg", "--out", tmp_path / "x.png")


def test_python_takes_names_images_arrays_and_bytes(place):
    model, path = windlass.load(place / "model"), place / "photos/cat/1.jpg"
    expected = model.predict(str(path))[0].score
    image = Image.open(path)
    pixels = np.asarray(image)
    for one in (path, image, pixels, path.read_bytes(), [str(path)], [path], [image], [pixels], pixels[None],
                {"photo": [str(path)]}, [pixels.tolist()], [pixels / 255]):  # fmt: skip
        (found,) = model.predict(one)
        assert found.score == pytest.approx(expected, abs=1e-5)
    assert len(model.predict([str(path), path, image, pixels[:, :, 0]])) == 4
    assert model.explain(image).score == pytest.approx(expected, abs=1e-5)


def test_python_warns_of_bad_files_and_raises_if_there_is_nothing_else(place):
    model, path = windlass.load(place / "model"), str(place / "photos/cat/1.jpg")
    with pytest.warns(UserWarning, match=r"2 of 3 inputs cannot be read; first is .*cut.jpg"):
        cut, good, gone = model.predict([str(place / "bad/cut.jpg"), path, "no.jpg"])
    assert (cut.text, good.error, gone.error) == ("", None, "no.jpg: no such file: check the path")
    with pytest.raises(DataError, match=r"no.jpg: no such file"):
        model.predict("no.jpg")
    with pytest.raises(DataError, match=r"an array of shape \(2, 2, 9\): give"):
        model.predict([np.zeros((2, 2, 9), np.uint8)])


def test_more_pictures_than_are_in_memory_at_once_change_nothing(place, monkeypatch):
    model, photos = windlass.load(place / "model"), [str(path) for path in sorted(place.glob("photos/*/*.jpg"))]
    expected = [p.score for p in model.predict(photos)]
    monkeypatch.setattr("windlass.data.sides.media.AT_HAND", 2)
    assert [p.score for p in model.predict(photos)] == pytest.approx(expected, abs=1e-5)


def test_a_clip_and_a_sound(tmp_path):
    for n in (1, 2, 3):
        (tmp_path / "clips" / "one").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 20), (80 * n, 0, 0)).save(tmp_path / "clips" / "one" / f"{n}.png")
    model = untrained("classify-video", tmp_path / "video", [])
    assert lines(run("predict", model, tmp_path / "clips/one")) == lines(run("predict", model, tmp_path / "clips"))
    for name, count in (("a", 2000), ("b", 10)):
        with wave.open(str(tmp_path / f"{name}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(np.arange(count, dtype="<i2").tobytes())
    model = untrained("classify-sound", tmp_path / "sound", [str(tmp_path / "a.wav")])
    (tmp_path / "cut.wav").write_bytes((tmp_path / "a.wav").read_bytes()[:900])
    ran = run("predict", model, tmp_path / "a.wav", tmp_path / "cut.wav", tmp_path / "b.wav")
    assert (ran.code, [bool(line) for line in lines(ran)]) == (1, [True, False, True])
    assert "cut.wav: cut off or damaged" in ran.err


def test_numbers(tmp_path):
    series = ((0.0, 1.0), (2.0, 3.0), (5.0, 1.0))
    folder = untrained("classify-numbers", tmp_path / "model", [series])
    model = windlass.load(folder)
    expected = model.predict([series])[0].score
    np.save(tmp_path / "one.npy", np.array(series))
    for one in ([np.array(series)], np.array([series]), [[list(row) for row in series]], str(tmp_path / "one.npy")):
        assert [p.score for p in model.predict(one)] == [expected]
    assert len(model.predict(np.array([1.0, 2.0]))) == len(model.predict([1.0, 2.0])) == 1  # one vector
    assert len(model.predict(np.array(series))) == 3  # vectors
    long = json.dumps([list(row) for row in series * 200])
    ran = run("predict", folder, "--json", stdin=f"{long}\n1 2 3\nwhat\n{tmp_path}/one.npy\n".encode())
    rows = [json.loads(line) for line in lines(ran)]
    assert (len(rows[0]["places"]["names"]), rows[3]["score"]) == (600, expected)
    assert "3 numbers a place, where the others have 2" in rows[1]["error"]
    assert rows[2]["error"].startswith("stdin:3: neither numbers")
    assert ran.code == 1
    assert lines(run("predict", folder, tmp_path / "one.npy"))[0]


def test_the_doctor_of_pictures(place, tmp_path):
    for label in ("cat", "dog"):
        shutil.copytree(place / "photos" / label, tmp_path / "photos" / label)
    for name in BAD:
        shutil.copy(place / "bad" / name, tmp_path / "photos" / "cat")
    shutil.copy(tmp_path / "photos/cat/1.jpg", tmp_path / "photos/cat/again.jpg")
    shutil.copy(tmp_path / "photos/cat/2.jpg", tmp_path / "photos/dog/cat.jpg")
    Image.new("RGB", (1, 1)).save(tmp_path / "photos/dog/one.png")
    shutil.copytree(place / "photos/dog", tmp_path / "dev/dog")
    found = json.loads(run("doctor", tmp_path / "photos", "--dev", tmp_path / "dev", "--json").out)
    assert found["counts"] == {
        "unreadable picture": 3,
        "too large": 1,
        "tiny": 1,
        "duplicate": 1,
        "conflicting targets": 1,
        "in train and dev": 3,
    }
    assert found["sizes"]["source, width in pixels"] == "median 40, 95th percentile 40, from 1 to 40"
    told = run("doctor", tmp_path / "photos")
    assert "characters" not in told.out.split("target:")[0]
    assert "seen at most" not in told.out.split("target:")[0]
    assert f"{tmp_path}/photos/dog/one.png: width in pixels: 1, height in pixels: 1 -> kept" in told.out


def test_the_doctor_of_captions_finds_a_photo_under_two_names(place, tmp_path):
    shutil.copytree(place / "photos/cat", tmp_path / "p")
    shutil.copy(tmp_path / "p/1.jpg", tmp_path / "p/3.jpg")
    rows = [("p/1.jpg", "a cat sits here"), ("p/1.jpg", "there it sits"), ("p/2.jpg", "a cat runs"),
            ("p/3.jpg", "it sleeps all day"), ("p/gone.jpg", "nobody knows this one")]  # fmt: skip
    table = tmp_path / "data.csv"
    table.write_text("photo,caption\n" + "".join(f"{a},{b}\n" for a, b in rows))
    found = json.loads(run("doctor", table, "--task", "caption", "--json").out)
    assert found["counts"] == {"missing file": 1, "duplicate": 1}
    duplicate = next(one for one in found["findings"] if one["kind"] == "duplicate")
    assert (duplicate["line"], "3.jpg has the same content as" in duplicate["what"]) == (5, True)


def test_the_doctor_of_numbers_tells_shapes(tmp_path):
    rows = [{"series": [[n, 1.5]] * (n + 1), "state": "ab"[n % 2]} for n in range(11)]
    rows.append({"series": [[1, 2, 3]], "state": "a"})
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = run("doctor", tmp_path / "data.jsonl")
    assert "source, steps: median 6, 95th percentile 11, from 1 to 11" in ran.out
    assert "data.jsonl:12: 3 numbers a step, where most have 2 -> refused" in ran.out
    assert ran.code == 1


def test_sounds_of_the_doctor(tmp_path):
    for label in ("no", "yes"):
        (tmp_path / "s" / label).mkdir(parents=True)
        for n in range(1, 4):
            with wave.open(str(tmp_path / "s" / label / f"{n}.wav"), "wb") as file:
                file.setparams((1, 2, 8000, 0, "NONE", ""))
                file.writeframes(np.full(800 * n if n < 3 else 80, n + len(label), "<i2").tobytes())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ran = run("doctor", tmp_path / "s")
    assert "source, seconds: median 0.1, 95th percentile 0.2, from 0.01 to 0.2" in ran.out
    assert "tiny: 2 kept" in ran.out


def test_training_on_a_folder_with_a_folder_of_validation_data(place, tmp_path):
    rng = np.random.default_rng(3)
    for part, count in (("train", 6), ("dev", 2)):
        for label, pitch in (("high", 0.9), ("low", 0.1)):
            (tmp_path / part / label).mkdir(parents=True)
            for n in range(count):
                with wave.open(str(tmp_path / part / label / f"{n}.wav"), "wb") as file:
                    file.setparams((1, 2, 8000, 0, "NONE", ""))
                    tone = 9000 * np.sin(pitch * np.arange(800)) + rng.normal(0, 99, 800)
                    file.writeframes(tone.astype("<i2").tobytes())
    (tmp_path / "train/low/empty.wav").write_bytes(b"")
    small = ("source.rate=8000", "source.bands=8", "train.evaluate_steps=null", "train.processes=1")
    options = [part for text in small for part in ("--set", text)]
    ran = run(
        "train", tmp_path / "train", "--dev", tmp_path / "dev", "--epochs", "1", "--out", tmp_path / "m", *options
    )
    assert ran.code == 0, ran.err
    assert "task classify-sound, as its folders are 2 labels of recordings (low 7, high 6)" in ran.err
    assert "left out 1 input that cannot be read; first is" in ran.err
    assert f"windlass predict {tmp_path}/m {tmp_path}/dev/high/0.wav" in ran.err
    assert len(lines(run("predict", tmp_path / "m", tmp_path / "dev"))) == 4
    assert json.loads(run("evaluate", tmp_path / "m", tmp_path / "dev", "--json").out)["examples"] == 4
