"""Every way from ids to vectors."""

import pytest
import torch
from pydantic import TypeAdapter

from windlass.core.errors import DataError, WindlassError
from windlass.nn.embedding import EmbeddingOptions, Learned

IDS = torch.tensor([[2, 0], [1, 2]])


def made(**options):
    return TypeAdapter(EmbeddingOptions).validate_python(options).build(3)


def test_learned_looks_a_row_up_and_learns_it():
    embedding = made(kind="learned", size=4)
    assert torch.equal(embedding(IDS)[0, 0], embedding.table[2])
    assert [p.shape for p in embedding.parameters()] == [(3, 4)]


def test_one_hot_has_a_one_in_the_ids_place_and_learns_nothing():
    embedding = made(kind="one_hot")
    assert embedding(IDS).tolist() == [[[0, 0, 1], [1, 0, 0]], [[0, 1, 0], [0, 0, 1]]]
    assert list(embedding.parameters()) == []
    assert embedding.size == 3
    assert embedding.double()(IDS).dtype == torch.float64


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("cat 1 2\ndog 3 4\nemu 5 6\ndog 7 8\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("header", ["", "4 2\n"])
@pytest.mark.parametrize("freeze", [True, False])
def test_vectors_come_from_the_file_and_are_learned_unless_frozen(file, freeze, header):
    file.write_text(header + file.read_text())
    embedding = made(kind="vectors", path=str(file), size=2, freeze=freeze)
    before = embedding.table.detach().clone()
    assert embedding.load(str(file), ["emu", "yak", "cat"]) == 2
    assert embedding(torch.tensor([0, 2])).tolist() == [[5, 6], [1, 2]]
    assert torch.equal(embedding.table[1], before[1])  # what the file lacks stays as drawn
    assert len(list(embedding.parameters())) == (not freeze)
    assert "table" in embedding.state_dict()


def test_a_word_that_the_file_has_twice_is_one_match(file):
    assert made(kind="vectors", path=str(file), size=2).load(str(file), ["dog", "x", "y"]) == 1


def test_a_first_word_with_a_vector_of_one_number_is_no_header(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("cat 0.5\n")
    assert made(kind="vectors", path=str(path), size=1).load(str(path), ["cat", "x", "y"]) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"cat 1 2\ndog 1 2 3\n", r"v.txt:2: .*3 numbers.*size is 2"),
        (b"cat 1 two\n", r"v.txt:1: not a number.*'cat'"),
        (b"cat 1 2\n\xff\xfe 1 2\n", r"v.txt: not UTF-8"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path, content, message):
    path = tmp_path / "v.txt"
    path.write_bytes(content)
    with pytest.raises(WindlassError, match=message):
        made(kind="vectors", path=str(path), size=2).load(str(path), ["cat", "x", "y"])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"none.txt: cannot read"):
        made(kind="vectors", path="x", size=2).load(str(tmp_path / "none.txt"), ["cat", "x", "y"])


@pytest.mark.parametrize("kind", [{"kind": "learned", "size": 50}, {"kind": "one_hot"}])
def test_dropout_acts_in_training_only_and_scales_what_it_keeps(kind):
    torch.manual_seed(0)
    embedding = made(**kind, dropout=0.5)
    clean = embedding.eval()(IDS.repeat(50, 1))
    noisy = embedding.train()(IDS.repeat(50, 1))
    kept = noisy != 0
    assert torch.equal(clean, made(**kind).eval()(IDS.repeat(50, 1))) or kind["kind"] == "learned"
    assert torch.allclose(noisy[kept], 2 * clean[kept])
    assert 0.3 < kept[clean != 0].double().mean() < 0.7
    assert torch.equal(embedding.eval()(IDS), embedding.table[IDS])


def test_blank_tokens_get_the_unknown_vector_in_training_only():
    embedding = Learned(size=2, blank=0.5).build(6)
    ids = torch.full((400,), 4)
    rows = embedding(ids)
    blank = (rows == embedding.table[1]).all(dim=1)
    assert 130 < blank.sum() < 270
    assert torch.equal(rows[~blank], embedding.table[4].expand(int((~blank).sum()), 2))
    assert torch.equal(embedding.eval()(ids), embedding.table[4].expand(400, 2))


def test_the_spread_is_that_of_the_first_values():
    assert abs(Learned(size=50, spread=0.1).build(400).table.std().item() - 0.1) < 0.005


def test_a_word_with_capitals_takes_the_vector_of_its_lower_case_unless_it_has_its_own(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("Ulm 1 2\nulm 3 4\ncat 5 6\n", encoding="utf-8")
    embedding = made(kind="vectors", path=str(path), size=2)
    assert embedding.load(str(path), ["Ulm", "CAT", "Dog"]) == 2
    assert embedding.table[:2].tolist() == [[1, 2], [5, 6]]
