"""Pairs: two columns as one source, one vocabulary for both texts."""

from __future__ import annotations

import json

import pytest

from windlass.bundle import Bundle
from windlass.core.errors import DataError, RecipeError
from windlass.data.readers import DataOptions, read
from windlass.data.sides import SideOptions, Sides
from windlass.data.sides.labels import LabelOptions, LabelTarget
from windlass.data.sides.pair import PairOptions, PairSource
from windlass.experiment.data import as_data
from windlass.experiment.loaders import fit_sides, load_vectors
from windlass.recipe import compose, setting

LABEL = SideOptions(source="pair", target="label")

PAIRS = [("a cat sleeps", "an animal rests"), ("a dog", "a cat")]
ROWS = "id\tpremise\thypothesis\tlabel\n1\ta cat\tan animal\tyes\n2\ta dog\t\tno\n3\ta dog\ta cat\tno\n"


def test_two_columns_are_one_source_by_name_and_by_number(tmp_path):
    (tmp_path / "a.tsv").write_text(ROWS)
    by_name = DataOptions(source="premise", second="hypothesis", target="label")
    found = read(tmp_path / "a.tsv", by_name, LABEL)
    assert [(e.source, e.target) for e in found.examples] == [
        (("a cat", "an animal"), "yes"),
        (("a dog", "a cat"), "no"),
    ]
    assert [f.what for f in found.findings] == ["the second text is blank"]
    by_number = read(tmp_path / "a.tsv", DataOptions(source=2, second=3, target=4), LABEL)
    assert by_number.examples == found.examples  # the header is known by its names
    assert found.examples[0].text == "a cat an animal"


def test_jsonl_has_pairs_too(tmp_path):
    rows = [{"p": "a", "h": "b", "label": "yes"}, {"p": "a", "label": "no"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read(tmp_path / "a.jsonl", DataOptions(source="p", second="h", target="label"), LABEL)
    assert [e.source for e in found.examples] == [("a", "b")]
    assert found.findings[0].what == "no second text column ('h')"


def test_pairs_are_not_read_from_line_parallel_files(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text("x\n")
    with pytest.raises(DataError, match="from columns of one file"):
        read([tmp_path / "a", tmp_path / "b"], DataOptions(), LABEL)


def test_a_word_has_one_id_in_both_texts():
    codec = PairSource.fit(PairOptions(each={"tokens": "words"}), PAIRS)
    found = codec.encode(("a cat", "cat a"))
    assert found["source"].tolist() == found["second"][::-1].tolist()
    assert codec.places(("a cat", "so")).names == ("a", "cat")
    assert codec.places(("a cat", "so")).parts["second"].names == ("so",)
    assert codec.unknown(("a cow", "so")) == ("cow", "so")


@pytest.mark.parametrize("each", [{"kind": "text", "tokens": {"kind": "bpe", "size": 30}}, {"kind": "words"}])
def test_a_codec_goes_to_json_and_back_and_grows_without_moving_an_id(each):
    codec = PairSource.fit(PairOptions(each=each), PAIRS)
    again = PairSource.from_json(codec.options, json.loads(json.dumps(codec.to_json())))
    assert again == codec
    assert ("second_characters" in codec.encode(PAIRS[0])) == (each["kind"] == "words")
    grown, _ = codec.extend([("zebra zebra", "Quail")])
    before = codec.encode(PAIRS[0])
    assert all(array.tolist() == before[name].tolist() for name, array in grown.encode(PAIRS[0]).items())
    assert grown.sizes["source"] > codec.sizes["source"]


def test_what_is_not_two_texts_is_refused():
    assert PairSource.read(PairOptions(), "a\tb") == ("a", "b")
    with pytest.raises(DataError, match="the source must be two texts, with a tab between them"):
        PairSource.read(PairOptions(), "a\tb\tc")
    recipe = compose("entail", None)
    with pytest.raises(DataError, match="row 1: the source must be two texts"):
        as_data([("a cat", "yes")], None, recipe)


def test_a_batch_has_room_for_the_longer_text():
    pairs = PairSource.fit(PairOptions(each={"tokens": "words"}), PAIRS)
    sides = Sides(pairs, LabelTarget.fit(LabelOptions(), ["yes"]))
    loader = sides.loader([sides.encode(("a", "cat " * n), "yes") for n in (1, 9, 9)], batch_tokens=10)
    assert [batch.keys.tolist() for batch in loader.epoch(0)] == [[0], [1], [2]]
    assert next(loader.epoch(0)).inputs["second"].values.shape == (1, 1)


@pytest.mark.parametrize(
    ("task", "key", "said"),
    [
        ("classify", "data.second=2", "data.second is for a source of kind pair or question, not text: leave it out"),
        ("entail", "model.encoder=recurrent", "model.encoder: recurrent reads one text of source: pair"),
        ("entail", "source.each=words", "source.characters gives letters that nothing reads"),
        ("entail", "model.head={kind: label, pool: ends}", "pool: ends sees one word's comparison"),
        ("entail", "model.encoder.attention.score={kind: dot, coverage: true}", "coverage changes nothing"),
        (
            "text",
            "model={encoder: convolution, decoder: {start: final}}",
            "leaves no last states: set model.decoder.start: summary",
        ),
        ("text", "model={encoder: attention, decoder: {cell: convolution, start: summary}}", "has no state that start"),
        ("classify", "model.encoder={kind: attention, size: 10, heads: 4}", "cannot be shared among 4 heads"),
        ("classify", "model.encoder={kind: attention, below: {cell: gru}}", "knows the order: set positions: none"),
        ("classify", "model.encoder={kind: attention, longest: 9}", "longest is for positions: learned"),
        ("classify", "model.encoder={kind: convolution, connect: residual}", "changes nothing with one layer"),
    ],
)
def test_what_does_not_go_together_is_told(task, key, said):
    with pytest.raises(RecipeError) as caught:
        compose(task, None, [setting(key)])
    assert said in str(caught.value)


@pytest.mark.parametrize("shared", [True, False])
def test_word_vectors_reach_every_network_of_a_pair(shared, tmp_path):
    (tmp_path / "v.txt").write_text("cat 1 2\ndog 3 4\n")
    embedding = {"kind": "vectors", "path": str(tmp_path / "v.txt"), "size": 2}
    over = {"model": {"encoder": {"shared": shared, "reader": {"embedding": embedding}}}}
    recipe = compose("entail", None, [over, setting("source.each.tokens.min_count=1")])
    bundle = Bundle.new(recipe, fit_sides(recipe, as_data([(pair, "x") for pair in PAIRS], None, recipe).train))
    said: list[str] = []
    load_vectors(bundle, said.append)
    encoder = bundle.model.encoder
    for network in (encoder.reader, encoder.other or encoder.reader):
        cat = bundle.sides.source.vocabulary.encode("cat")[0]
        assert network.embedding.table[cat].tolist() == [1.0, 2.0]
    assert len(said) == (1 if shared else 2)
