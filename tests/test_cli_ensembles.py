"""Ensembles of a decoder and CTC on the command line, and scores by CTC."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from command import refused, windlass
from windlass.bundle import Bundle
from windlass.data import Sides
from windlass.recipe import compose

SIDES = {"source": {"tokens": "characters"}, "target": {"tokens": "characters"}, "loss": {"label_smoothing": 0.0}}
CTC = {"model": {"head": {"kind": "ctc", "frames": 2}}, "search": {"kind": "beam", "length_penalty": 0.0}}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two decoders with CTC between them, and pairs."""
    folder = tmp_path_factory.mktemp("mixed")
    for name, over in (("decoder", {}), ("ctc", CTC), ("other", {})):
        torch.manual_seed(len(name))
        Bundle.new(compose("text", None, [SIDES, over, {"seed": len(name)}]), Sides.tiny()).save(folder / name)
    (folder / "test.tsv").write_text("cab\tabc\nab\tba\nbbca\tacbb\n")
    (folder / "words.txt").write_text("cab\nab\nbbca\n")
    return [folder / name for name in ("decoder", "ctc", "other", "test.tsv", "words.txt")]


@pytest.mark.parametrize("flags", [(), ("--beam", "3"), ("--search", "greedy")], ids=" ".join)
def test_the_order_of_a_mixed_ensemble_does_not_matter(folders, flags):
    decoder, ctc, other, test, words = folders
    found, written = [], []
    for first, *also in ((decoder, ctc, other), (ctc, decoder, other), (decoder, other, ctc)):
        members = [part for folder in also for part in ("--also", folder)]
        ran = windlass("evaluate", first, test, "--json", *members, *flags)
        assert ran.code == 0, ran.err
        found.append(json.loads(ran.out))
        written.append(windlass("predict", first, words, *members, *flags).out)
    assert len(written[0].splitlines()) == 3
    assert written[1:] == written[:1] * 2
    assert found[1]["metrics"] == found[2]["metrics"] == found[0]["metrics"]
    assert len(found[0]["searches"]) == 3
    if "greedy" not in flags:
        assert [search["length_penalty"] for search in found[0]["searches"]] == [1.0, 0.0, 1.0]


def test_an_option_that_a_member_cannot_do_is_refused_with_its_name(folders):
    decoder, ctc, _, test, words = folders
    for command in (("evaluate", decoder, test, "--also", ctc), ("predict", decoder, words, "--also", ctc)):
        said = refused(*command, "--length-penalty", "0.5")
        assert f"{ctc}: a CTC model searches by greedy or by beam" in said
    assert "a CTC model searches" in refused("predict", ctc, words, "--search", "sample")


def test_score_goes_on_after_an_output_that_does_not_fit_and_names_what_the_model_never_writes(folders, tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("cab\tabc\na\tabcabc\nab\tb\nab\tbq\n")
    ran = windlass("score", folders[1], file)
    assert ran.code == 0
    scores = [float(line.split("\t")[0]) for line in ran.out.splitlines()]
    assert scores[1] == -math.inf
    assert all(-math.inf < one < 0 for n, one in enumerate(scores) if n != 1)
    assert f"{file}:2: the output has more tokens than its input has frames" in ran.err
    assert f"{file}:4: the model never writes 'q': read as unknown" in ran.err
    rows = [json.loads(line) for line in windlass("score", folders[1], file, "--json").out.splitlines()]
    assert (rows[1]["score"], rows[1]["confidence"], rows[1]["text"]) == (None, 0.0, "abcabc")
    assert [row["score"] for row in rows if row is not rows[1]] == pytest.approx(
        [one for n, one in enumerate(scores) if n != 1], abs=1e-3
    )
    out = tmp_path / "x.png"
    assert "does not fit into" in refused("explain", folders[1], "a", "--target", "abcabc", "--out", out)
    assert "frames" not in windlass("score", folders[0], file).err
