"""The store of features: what a killed run leaves behind, whose features they are, and that they are read from disk."""

from __future__ import annotations

import numpy as np
import pytest

from windlass.core.errors import DataError
from windlass.data.sides.sound import SoundOptions, SoundSource
from windlass.media.samples import sample_sounds
from windlass.media.store import FeatureStore


def opened(folder, identity="net"):
    return FeatureStore(folder, identity, (2,), "float16")


def rows(first, count):
    return np.arange(first, first + 2 * count, dtype=np.float16).reshape(count, 2)


@pytest.fixture
def store(tmp_path):
    made = opened(tmp_path / "store")
    made.add("a", rows(0, 3))
    made.add("b", rows(10, 2))
    return made


def cut(path, by):
    content = path.read_bytes()
    path.write_bytes(content[:-by])


@pytest.mark.parametrize("by", range(1, 9))
def test_rows_that_are_cut_off_are_lost_alone_and_are_never_those_that_follow(store, by):
    cut(store.folder / "rows.bin", by)  # of the 8 bytes of b
    again = opened(store.folder)
    assert again.find("b") is None
    assert again.read(again.find("a")).tolist() == rows(0, 3).tolist()
    again.add("c", rows(20, 3))
    last = opened(store.folder)
    assert last.find("b") is None
    assert last.read(last.find("c")).tolist() == rows(20, 3).tolist()
    assert last.read(last.find("a")).tolist() == rows(0, 3).tolist()
    last.add("b", rows(10, 2))
    assert opened(store.folder).read(last.find("b")).tolist() == rows(10, 2).tolist()


@pytest.mark.parametrize("by", range(1, 12))
def test_a_line_that_is_cut_off_is_lost_alone(store, by):
    cut(store.folder / "index.jsonl", by)
    again = opened(store.folder)
    assert (again.find("b") is None) == (by > 1)  # without its line break it is whole
    again.add("c", rows(20, 3))
    last = opened(store.folder)
    assert last.read(last.find("c")).tolist() == rows(20, 3).tolist()
    assert last.read(last.find("a")).tolist() == rows(0, 3).tolist()
    assert (last.find("b") is None) == (by > 1)


def test_features_of_another_network_are_refused_and_so_is_a_folder_of_something_else(store, tmp_path):
    with pytest.raises(DataError, match="holds features of net, not of other: name another store, or delete it"):
        opened(store.folder, "other")
    (store.folder / "about.json").write_text("{")
    with pytest.raises(DataError, match="damaged: delete the folder"):
        opened(store.folder)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"")
    with pytest.raises(DataError, match="not empty, and no store of features"):
        opened(tmp_path / "photos")
    with pytest.raises(DataError, match="rows of float32"):
        store.add("d", np.zeros((1, 2), np.float32))


def test_a_file_that_was_renamed_or_copied_is_found_by_its_content(store, tmp_path):
    first = tmp_path / "one.wav"
    first.write_bytes(b"content")
    key = store.key(str(first))
    store.add(key, rows(0, 1))
    moved = first.rename(tmp_path / "two.wav")
    assert store.key(str(moved)) == key
    moved.write_bytes(b"changed")
    assert store.find(store.key(str(moved))) is None
    assert opened(store.folder).key(str(moved)) == store.key(str(moved)) != key


def test_a_file_is_hashed_once(store, tmp_path, monkeypatch):
    path = tmp_path / "one.wav"
    path.write_bytes(b"content")
    key = store.key(str(path))
    monkeypatch.setattr("windlass.media.store.file_key", lambda name: pytest.fail(f"{name} is read again"))
    assert store.key(str(path)) == opened(store.folder).key(str(path)) == key


def test_rows_are_mapped_from_the_file_and_another_run_may_add_to_it(store):
    assert isinstance(store._map, np.ndarray)
    store.read((0, 1))
    assert isinstance(store._map, np.memmap)
    other = opened(store.folder)
    at = other.add("c", rows(20, 1))
    assert store.find("c") is None
    store.refresh()
    assert store.read(store.find("c")).tolist() == other.read(at).tolist() == rows(20, 1).tolist()


def test_features_are_computed_once_and_then_referred_to(tmp_path, monkeypatch):
    sounds = sample_sounds()
    fitted = SoundSource.fit(SoundOptions(rate=8000, bands=8, store=str(tmp_path / "kept")), sounds)
    notes: list[str] = []
    broken = tmp_path / "broken.wav"
    broken.write_bytes(b"RIFF")
    side, failed = fitted.prepare([*sounds, str(broken), str(tmp_path / "no.wav")], notes.append, lambda r, *_: r)
    assert set(failed) == {str(broken), str(tmp_path / "no.wav")}
    assert "4 recordings" in notes[0]
    held = side.encode_all(sounds)
    assert [set(arrays) for arrays in held] == [{"rows"}] * 3
    inline = fitted.encode_all(sounds)
    for name, batch in side.collate(held).items():
        assert np.array_equal(batch.values, fitted.collate(inline)[name].values)
    monkeypatch.setattr(type(side), "_rows", lambda *_: pytest.fail("computed again"))
    again, _ = fitted.prepare(sounds, notes.append, lambda r, *_: r)
    assert len(notes) == 1
    assert again.encode_all(sounds)[0]["rows"].tolist() == held[0]["rows"].tolist()
