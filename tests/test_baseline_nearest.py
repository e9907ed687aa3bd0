"""The nearest neighbour, with a source whose values are names of vectors."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from windlass.baseline import AnyBaseline, best_baseline, fit, load_baseline, save_baseline
from windlass.baseline.nearest import FILE, Nearest
from windlass.bundle import Bundle
from windlass.core.errors import BundleError
from windlass.core.tensors import write_tensors
from windlass.data.sides import SideOptions, Sides
from windlass.data.sides.text import TextSource
from windlass.recipe import Recipe

VECTORS = {
    "dog 1": (9, 1, 0),
    "dog 2": (2, 0.3, 0.1),
    "cat 1": (1, 8, 0),
    "cat 2": (0.1, 0.7, 0.1),
    "car 1": (0, 1, 9),
    "blank": (0, 0, 0),
}
TRAIN = [("dog 1", "a dog"), ("cat 1", "a cat"), ("car 1", "a car")]


@dataclass(frozen=True)
class FakeSource:
    """A source with features."""

    def vector(self, value):
        return np.array(VECTORS[value], dtype=np.float32)


SOURCE = FakeSource()


def fitted(train=TRAIN) -> Nearest:
    return Nearest.fit(train, SOURCE.vector)


def test_the_nearest_is_that_of_the_smallest_angle():
    assert fitted().predict(["dog 2", "cat 2", "car 1"]) == ["a dog", "a cat", "a car"]
    # By distance the small cat would be a dog that is as small.
    assert fitted([("dog 2", "a dog"), ("cat 1", "a cat")]).predict(["cat 2"]) == ["a cat"]
    assert fitted().predict([]) == []


def test_vectors_have_length_1_in_float16_and_one_without_direction_stays_zero():
    baseline = fitted([*TRAIN, ("blank", "nothing")])
    assert baseline.vectors.dtype == np.float16
    assert np.allclose(np.linalg.norm(baseline.vectors.astype(float), axis=1), [1, 1, 1, 0], atol=1e-3)
    assert baseline.predict(["dog 2", "blank"]) == ["a dog", "a dog"]  # of equally near ones the first


def test_a_source_with_several_targets_is_kept_once_with_its_first():
    baseline = fitted([("dog 1", "a dog"), ("dog 1", "a brown dog"), ("cat 1", "a cat")])
    assert baseline.targets == ("a dog", "a cat")
    assert len(baseline.vectors) == 2


def test_many_sources_are_sampled_always_alike(monkeypatch):
    def vector(number):
        return np.eye(40, dtype=np.float32)[number]

    many = [(n, f"number {n}") for n in range(40)]
    assert len(Nearest.fit(many, vector).targets) == 40
    monkeypatch.setattr("windlass.baseline.nearest.MOST_EXAMPLES", 10)
    one, other = Nearest.fit(many, vector), Nearest.fit(many, vector)
    assert len(one.targets) == len(set(one.targets)) == len(one.vectors) == 10
    assert one.targets == other.targets != tuple(target for _, target in many[:10])
    assert all(one.vectors[place, int(target.split()[1])] == 1 for place, target in enumerate(one.targets))
    monkeypatch.setattr("windlass.baseline.nearest.MOST_CELLS", 170)  # vectors of 40 numbers
    assert len(Nearest.fit(many, vector).targets) == 4


def test_portions_of_sources_give_what_single_ones_give(monkeypatch):
    monkeypatch.setattr("windlass.baseline.nearest.PORTION", 2)
    asked = ["dog 2", "cat 2", "car 1", "dog 1", "cat 1"]
    assert fitted().predict(asked) == [answer for one in asked for answer in fitted().predict([one])]


def test_it_is_fitted_where_a_source_has_it_in_the_place_of_another(monkeypatch):
    monkeypatch.setattr(TextSource, "instead", {"bag of words": "nearest"})
    labels = SideOptions(target="label")
    assert [one.name for one in fit(TRAIN, labels, source=SOURCE)] == ["most frequent", "nearest"]
    assert [one.name for one in fit(TRAIN, labels)] == ["most frequent"]  # no vectors, no neighbours
    references = [["a cat"], ["a car"]]
    assert best_baseline(TRAIN, ["cat 2", "car 1"], references, "accuracy", labels, source=SOURCE).name == "nearest"


def test_it_is_saved_with_a_bundle_and_loaded_with_its_source(tmp_path, monkeypatch):
    Bundle.new(Recipe(), Sides.tiny()).save(tmp_path)
    save_baseline(tmp_path, fitted())
    again: AnyBaseline | None = load_baseline(tmp_path, SOURCE)
    assert isinstance(again, Nearest)
    assert again.name == "nearest"
    assert again.targets == fitted().targets
    assert again.vectors.tobytes() == fitted().vectors.tobytes()
    assert again.predict(["cat 2"]) == ["a cat"]
    with pytest.raises(BundleError, match=r"has no vectors; delete it"):
        load_baseline(tmp_path)  # its source is text
    monkeypatch.setattr(TextSource, "vector", FakeSource.vector, raising=False)
    assert load_baseline(tmp_path).predict(["dog 2"]) == ["a dog"]


@pytest.mark.parametrize(
    ("tensors", "note", "said"),
    [
        ({}, {"targets": ["a"]}, "vectors"),
        ({"vectors": torch.ones(2, 3).half()}, {}, "targets"),
        ({"vectors": torch.ones(2, 3).half()}, {"targets": ["a"]}, "one text per vector"),
        ({"vectors": torch.ones(1, 3).half()}, {"targets": [3]}, "one text per vector"),
        ({"vectors": torch.ones(0, 3).half()}, {"targets": []}, "one text per vector"),
        ({"vectors": torch.ones(1, 3)}, {"targets": ["a"]}, "finite numbers"),
        ({"vectors": torch.full((1, 3), torch.nan).half()}, {"targets": ["a"]}, "finite numbers"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path, tensors, note, said):
    write_tensors(tmp_path / FILE, tensors, note)
    with pytest.raises(BundleError, match=f"{FILE}: damaged: .*{said}.*delete it"):
        load_baseline(tmp_path, SOURCE)


def test_a_flipped_bit_is_found(tmp_path):
    save_baseline(tmp_path, fitted())
    content = bytearray((tmp_path / FILE).read_bytes())
    content[-1] ^= 1
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(BundleError, match="checksum"):
        load_baseline(tmp_path, SOURCE)
