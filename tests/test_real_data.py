"""The development data, where it is: every file of the text-to-text tasks is read whole, and nothing is lost."""

import os
from pathlib import Path

import pytest

from windlass.data.readers import DataOptions, read
from windlass.data.tokenizer import Tokenizer
from windlass.data.tokens import TextOptions

ROOT = Path(os.environ.get("WINDLASS_DATA") or "/nonexistent")

pytestmark = pytest.mark.skipif(
    not ROOT.is_dir(), reason="needs the development data: set WINDLASS_DATA to its folder to run these tests"
)


@pytest.mark.parametrize("language", ["arm", "bul", "fre", "geo", "gre", "hin", "hun", "ice", "kor", "lit"])
@pytest.mark.parametrize(("part", "count"), [("train", 3600), ("dev", 450), ("test", 450)])
def test_every_pronunciation_is_read(language, part, count):
    result = read(ROOT / "g2p/sigmorphon2020" / part / f"{language}_{part}.tsv")
    assert len(result.examples) == count
    assert not [finding for finding in result.findings if finding.action == "skipped"]


@pytest.mark.parametrize(("part", "count"), [("train", 41584), ("dev", 10395), ("test", 12994)])
def test_every_name_is_read(part, count):
    result = read(ROOT / f"transliteration/wikidata-en-ar/{part}.tsv.gz")
    assert len(result.examples) == count


@pytest.mark.parametrize(("part", "count"), [("train", 29000), ("val", 1014), ("test_2016_flickr", 1000)])
def test_every_caption_is_read_and_bpe_gives_it_back(part, count):
    root = ROOT / "translation/multi30k-en-de"
    result = read((root / f"{part}.en.gz", root / f"{part}.de.gz"))
    assert len(result.examples) == count
    german = [example.target for example in result.examples[:1000]]
    codec = Tokenizer.fit(TextOptions(tokens={"kind": "bpe", "size": 1000}), german)
    assert [codec.decode(codec.encode(text)) for text in german] == german


@pytest.mark.parametrize("language", ["es", "it"])
@pytest.mark.parametrize("part", ["train", "dev", "test"])
def test_every_gold_link_is_inside_its_sentences(language, part):
    path = ROOT / f"alignment/xl-wa-en-{language}/{part}.tsv.gz"
    result = read(path, DataOptions(alignment=3, max_length=2000))
    assert result.examples
    assert not [finding for finding in result.findings if finding.action == "skipped"]
    for example in result.examples:
        source, target = example.source.split(), example.target.split()
        assert example.alignment
        assert all(i < len(source) and j < len(target) for i, j in example.alignment)
