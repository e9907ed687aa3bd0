"""A model in 8 bits is a model like any other; `bench` measures what it says."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

import windlass as package
from command import refused, windlass
from windlass.bundle import Bundle
from windlass.core.weights import weights
from windlass.inference.bench import Measurement, bench, quantile
from windlass.inference.predict import predict
from windlass.inference.quantise import quantise
from windlass.nn.fast import int8

pytestmark = pytest.mark.skipif(not int8.levels(), reason="no 8-bit products on this machine")
WORDS = ["abcd", "ab", "", "dcba", "ccab"]


@pytest.fixture(scope="module")
def small(tiny_model, tmp_path_factory):
    """The folder of a model in 8 bits."""
    folder = tmp_path_factory.mktemp("small") / "int8"
    quantise(Bundle.load(tiny_model)).save(folder)
    return folder


def test_a_model_in_8_bits_is_a_quarter_of_the_size_and_near_the_model(tiny_model, small):
    whole, rounded = (weights(Bundle.load(folder).model) for folder in (tiny_model, small))
    assert whole.keys() == rounded.keys()
    for name, weight in whole.items():
        if weight.dim() == 2:
            step = weight.abs().amax(1, keepdim=True) / 127
            assert ((weight - rounded[name]).abs() <= step * 0.51).all()
            assert not torch.equal(weight, rounded[name])
        else:
            assert torch.equal(weight, rounded[name])
    sizes = [(folder / "weights.safetensors").stat().st_size for folder in (tiny_model, small)]
    assert sizes[1] < 0.45 * sizes[0]  # in a model this small, names and biases weigh too


def test_a_model_in_8_bits_predicts_the_same_after_it_was_saved_and_loaded_and_searches_in_8_bits(small, tmp_path):
    bundle = Bundle.load(small)
    assert bundle.int8
    bundle.save(tmp_path / "again")
    again = Bundle.load(tmp_path / "again")
    assert predict([again], WORDS, nbest=2) == predict([bundle], WORDS, nbest=2)
    plain = Bundle(bundle.recipe, bundle.sides, bundle.model, {})  # the same rounded weights, multiplied in float32
    scores = [[p.score for p in predict([b], WORDS)] for b in (bundle, plain)]
    assert scores[0] != scores[1]
    assert scores[0] == pytest.approx(scores[1], abs=0.1)


def test_a_model_in_8_bits_is_used_by_every_command(small, tiny_model, tmp_path):
    assert windlass("predict", small, stdin=b"abcd\n").code == 0
    assert windlass("predict", small, "--also", tiny_model, stdin=b"abcd\n").code == 0
    (tmp_path / "pairs.tsv").write_text("abcd\tdcba\n")
    for command in ("evaluate", "score"):
        assert windlass(command, small, tmp_path / "pairs.tsv").code == 0
    assert package.load(small).explain("abcd").attention is not None


def test_a_version_that_does_not_know_8_bits_would_say_so(small, tiny_model):
    formats = [json.loads((folder / "bundle.json").read_text())["format"] for folder in (tiny_model, small)]
    assert formats == [1, 2]


def test_a_damaged_model_in_8_bits_is_refused(small, tmp_path):
    folder = shutil.copytree(small, tmp_path / "damaged")
    content = bytearray((folder / "weights.safetensors").read_bytes())
    content[-7] ^= 1
    (folder / "weights.safetensors").write_bytes(content)
    assert "checksum" in refused("predict", folder)


def test_quantise_shows_what_is_lost_on_a_file(tiny_model, tmp_path):
    (tmp_path / "pairs.tsv").write_text("abcd\tdcba\nab\tba\n")
    ran = windlass("quantise", tiny_model, tmp_path / "pairs.tsv", "--out", tmp_path / "small", "--json")
    found = json.loads(ran.out)
    assert found["before"].keys() == found["after"].keys() != set()
    assert found["mb_after"] < found["mb_before"]
    assert Bundle.load(tmp_path / "small").scores == found["after"]
    text = windlass("quantise", tiny_model, tmp_path / "pairs.tsv", "--out", tmp_path / "other").out
    assert "->" in text
    assert "MB" in text
    assert "not measured" in windlass("quantise", tiny_model, "--out", tmp_path / "third").err


def test_quantise_refuses_what_it_cannot_do(tiny_model, small, tmp_path):
    assert "is not empty" in refused("quantise", tiny_model, "--out", small)
    assert "in 8 bits already" in refused("quantise", small, "--out", tmp_path / "out")
    assert "no such folder" in refused("quantise", tmp_path / "none", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_quantise_refuses_where_the_machine_has_no_8_bit_products(tiny_model, monkeypatch):
    monkeypatch.setattr("windlass.inference.quantise.levels", lambda: 0)
    with pytest.raises(package.core.errors.WindlassError, match="no 8-bit products"):
        quantise(Bundle.load(tiny_model))


# -- bench


def test_bench_measures_every_way_and_counts_what_was_predicted(tiny_model):
    bundle = Bundle.load(tiny_model)
    found = bench(bundle, WORDS, (1, 3), seconds=0.05)
    ways = {(f.numbers, f.search, f.batch) for f in found}
    own = f"beam {bundle.recipe.search.size}"
    assert ways == {(n, s, b) for n in ("float32", "int8") for s in ("greedy", own) for b in (1, 3)}
    for figure in found:
        assert figure.seconds >= 0.05
        assert figure.seconds == pytest.approx(sum(figure.latencies))
        if figure.batch == 1:
            assert figure.sentences == len(figure.latencies)
    tokens = sum(len(p.answer.probabilities) for p in predict([bundle], ["ab"]))
    (alone,) = (f for f in bench(bundle, ["ab"], (1,), 0.01) if (f.numbers, f.search) == ("float32", own))
    assert alone.tokens == tokens * alone.sentences


def test_bench_measures_a_model_in_8_bits_in_8_bits_alone(small):
    assert {f.numbers for f in bench(Bundle.load(small), WORDS, (1,), 0.01)} == {"int8"}


def test_bench_tells_the_size_of_the_weights_as_they_are_saved(tiny_model, small):
    for folder in (tiny_model, small):
        ran = windlass("bench", folder, "--batch", "1", "--seconds", "0.01", "--json")
        saved = (folder / "weights.safetensors").stat().st_size / (1 << 20)
        assert json.loads(ran.out)["weights_mb"] == pytest.approx(saved, abs=0.03)
    assert Bundle.load(small).weight_bytes < Bundle.load(tiny_model).weight_bytes / 2


def test_latencies_are_quantiles_and_rates_are_shares():
    figure = Measurement("int8", "greedy", 2, 8, 4.0, 40, (0.5, 0.5, 1.0, 2.0))
    assert (figure.per_second, figure.tokens_per_second) == (2.0, 10.0)
    assert (figure.p50, figure.p99) == (0.5, 2.0)
    assert [quantile(range(1, 101), share) for share in (0.01, 0.5, 0.99, 1.0)] == [1, 50, 99, 100]


def test_synthetic_inputs_are_the_models_own_symbols_and_none_is_blank(tiny_model):
    source = Bundle.load(tiny_model).sides.source
    texts = source.random_values(50)
    assert all(text.strip() for text in texts)
    assert not any(source.unknown(text) for text in texts)


def test_the_bench_command_prints_a_table_or_json(tiny_model, tmp_path):
    (tmp_path / "words.txt").write_text("abcd\n\nab\n")
    ran = windlass("bench", tiny_model, tmp_path / "words.txt", "--batch", "1", "--seconds", "0.02", "--json")
    found = json.loads(ran.out)
    assert found["inputs"] == 2
    assert {row["numbers"] for row in found["figures"]} == {"float32", "int8"}
    assert all(row["p50_ms"] <= row["p99_ms"] for row in found["figures"])
    table = windlass("bench", tiny_model, "--batch", "2", "--seconds", "0.02")
    assert "sentences/s" in table.out
    assert "synthetic" in table.err
    (tmp_path / "blank.txt").write_text("\n\n")
    assert "only blank lines" in refused("bench", tiny_model, tmp_path / "blank.txt")
