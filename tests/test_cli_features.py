"""The command `features`: what it stores, that nothing is computed twice, and that models need no store to predict."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command import refused, windlass
from windlass.bundle import Bundle
from windlass.core.errors import DataError
from windlass.data.examples import Example, Place
from windlass.data.sides import Sides
from windlass.data.sides.media import MediaSource, Reader
from windlass.data.sides.picture import CnnReader, PictureOptions, PictureSource
from windlass.experiment.data import prepare_sources, sides_of
from windlass.inference.predict import predict
from windlass.media.samples import sample_sounds
from windlass.media.store import FeatureStore
from windlass.recipe import compose, setting

TUNED = ("--task", "classify-picture", "--cnn", "small")  # its features are pixels: no weights to load


def photos(folder: Path, count: int) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{n}.png" for n in range(count)]
    for n, path in enumerate(paths):
        Image.new("RGB", (20, 20), (n % 256, n // 256, 7)).save(path)
    return paths


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WINDLASS_CACHE", str(tmp_path / "cache"))


def told(*arguments: object) -> dict[str, object]:
    ran = windlass("features", *map(str, arguments), "--json")
    found: dict[str, object] = json.loads(ran.out)
    assert ran.code == bool(found["failed"])
    return found


def test_a_folder_is_computed_once_and_what_is_there_is_kept(tmp_path, monkeypatch):
    paths = photos(tmp_path / "p", 5)
    calls: list[int] = []
    rows = CnnReader.rows
    monkeypatch.setattr(CnnReader, "rows", lambda self, loaded: [calls.append(len(loaded)), rows(self, loaded)][1])
    found = told(tmp_path / "p", *TUNED, "--out", tmp_path / "store")
    assert (found["new"], found["items"], found["shape"], found["dtype"]) == (5, 5, [64, 64, 3], "uint8")
    assert found["bytes"] == (tmp_path / "store/rows.bin").stat().st_size == 5 * 64 * 64 * 3
    shutil.copy(paths[0], tmp_path / "p" / "copy.png")  # the same content
    photos(tmp_path / "p", 6)
    assert told(tmp_path / "p", *TUNED, "--out", tmp_path / "store")["new"] == 1
    assert sum(calls) == 6
    printed = windlass("features", tmp_path / "p", *TUNED, "--out", tmp_path / "store").out
    assert printed == f"{tmp_path}/store: 6 pictures (0 new), 6 rows of 64 x 64 x 3 numbers, 0.1 MB; by pixels 64\n"


def test_a_run_that_was_stopped_goes_on_where_it_stopped(tmp_path, monkeypatch):
    photos(tmp_path / "p", 70)
    rows, done = CnnReader.rows, []

    def stopped(self, loaded):
        if done:
            raise KeyboardInterrupt
        done.append(len(loaded))
        return rows(self, loaded)

    with monkeypatch.context() as patch:
        patch.setattr(CnnReader, "rows", stopped)
        assert windlass("features", tmp_path / "p", *TUNED, "--out", tmp_path / "store").code == 130
    with (tmp_path / "store/rows.bin").open("ab") as file:
        file.write(b"half a row")
    found = told(tmp_path / "p", *TUNED, "--out", tmp_path / "store")
    assert (found["new"], found["items"]) == (70 - done[0], 70)


def test_lists_tables_and_single_files(tmp_path):
    paths = photos(tmp_path / "p", 4)
    (tmp_path / "list.txt").write_text("p/0.png\np/1.png\n")
    (tmp_path / "table.csv").write_text("label,photo\na,p/1.png\nb,p/2.png\na,p/gone.png\n")
    found = told(tmp_path / "list.txt", tmp_path / "table.csv", paths[3], "--cnn", "small")
    assert (found["files"], found["new"], list(found["failed"])) == (4, 4, ["p/gone.png"])
    assert str(found["store"]).startswith(str(tmp_path / "cache"))
    ran = windlass("features", *sample_sounds(), "--set", "source.bands=8")
    assert "3 recordings (3 new)" in ran.out
    assert "no pictures, clips or sounds" in refused("features", tmp_path / "cache")


def test_files_that_cannot_be_read_are_named(tmp_path):
    photos(tmp_path / "p", 2)
    (tmp_path / "p" / "text.jpg").write_text("no picture")
    ran = windlass("features", tmp_path / "p", *TUNED)
    assert (ran.code, "2 pictures (2 new)" in ran.out) == (1, True)
    assert f"{tmp_path}/p/text.jpg: text, not a picture" in ran.err


def test_foreign_and_damaged_stores_are_refused(tmp_path):
    (path,) = photos(tmp_path / "p", 1)
    told(path, *TUNED, "--out", tmp_path / "store")
    line = refused("features", sample_sounds()[0], "--out", tmp_path / "store")
    assert "holds features of pixels 64, not of log-mel" in line
    about = json.loads((tmp_path / "store/about.json").read_text())
    (tmp_path / "store/about.json").write_text(json.dumps(about | {"identity": "an older CNN"}))
    line = refused("features", path, *TUNED, "--out", tmp_path / "store")
    assert "holds features of an older CNN, not of pixels 64" in line
    (tmp_path / "store/about.json").write_text("{")
    assert "damaged: delete the folder" in refused("features", path, *TUNED, "--out", tmp_path / "store")
    assert "not empty, and no store of features" in refused("features", path, *TUNED, "--out", tmp_path / "p")
    with pytest.raises(DataError, match="rows of"):
        FeatureStore(tmp_path / "other", "x", (2,), "float16").add("a", np.zeros((1, 3), np.float16))


def test_a_picture_that_has_changed_is_computed_again(tmp_path):
    (path,) = photos(tmp_path / "p", 1)
    told(path, *TUNED, "--out", tmp_path / "store")
    Image.new("RGB", (20, 20), "white").save(path)
    assert told(path, *TUNED, "--out", tmp_path / "store")["new"] == 1
    side = PictureSource.fit(PictureOptions(cnn="small", store=str(tmp_path / "store")), ())
    side, failed = side.prepare([str(path)], print, lambda numbers, count, what: numbers)
    assert not failed
    assert side.features(side.encode(str(path))).min() == 255


def test_a_model_elsewhere_gives_without_a_store_what_stored_features_give(tmp_path, monkeypatch):
    paths = list(map(str, photos(tmp_path / "p", 3)))
    store = tmp_path / "photos.features"
    told(tmp_path / "p", *TUNED, "--out", store)
    settings = ("source.cnn=small", f"source.store={store}", "model.encoder.embedding.size=8")
    recipe = compose("classify-picture", None, [setting(text) for text in settings])
    rows = [Example(path, (label,), None, Place("t", 1)) for path in paths for label in ("cat", "dog")]
    bundle = Bundle.new(recipe, Sides.fit(sides_of(recipe), rows))
    loaded: list[str] = []
    load = CnnReader.load
    monkeypatch.setattr(CnnReader, "load", lambda self, path: [loaded.append(path), load(self, path)][1])
    (with_store,), _ = prepare_sources([bundle], rows, print)
    stored = [p.score for p in predict([with_store], paths)]
    assert not loaded  # nothing but the store was read
    bundle.save(tmp_path / "model")
    shutil.move(tmp_path / "model", tmp_path / "moved")
    shutil.rmtree(store)
    monkeypatch.chdir(tmp_path / "p")
    moved = Bundle.load(tmp_path / "moved")
    assert [p.score for p in predict([moved], ["0.png", "1.png", "2.png"])] == pytest.approx(stored, abs=1e-5)
    assert len(loaded) == 3
    assert not store.exists()  # neither does evaluation bring it back
    prepare_sources([moved], rows, lambda text: None)
    assert not store.exists()


class _Wide(Reader):
    """Features of a quarter of a megabyte a picture."""

    identity, shape = "wide", (1 << 17,)

    def load(self, path):
        return 0

    def rows(self, loaded):
        return [np.zeros((1, 1 << 17), np.float16) for _ in loaded]


def test_memory_is_flat_in_the_number_of_pictures(tmp_path, monkeypatch):
    monkeypatch.setattr(MediaSource, "reader", _Wide(), raising=False)
    peaks = []
    for count in (64, 256):
        paths = [str(path) for path in photos(tmp_path / str(count), count)]
        side = PictureSource(PictureOptions(store=str(tmp_path / f"store{count}")), (1 << 17,), "wide")
        tracemalloc.start()
        side.prepare(paths, lambda text: None, lambda numbers, many, what: numbers)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (tmp_path / "store256/rows.bin").stat().st_size == 256 << 18
    assert peaks[1] < 1.2 * peaks[0] < 40 << 20
