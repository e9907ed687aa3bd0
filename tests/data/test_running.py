"""Running text: read whole, split at its end, served in rows that go on."""

import pytest
import torch

from windlass.core.errors import DataError
from windlass.data.readers import DataOptions
from windlass.data.running import Running, from_memory, joined_ids, read_texts, split_end, survey_texts
from windlass.data.sides.base import ids


def columns(loader, number=0):
    """What every row reads over an epoch."""
    rows = {}
    for batch in loader.epoch(number):
        for row, (values, mask) in enumerate(zip(batch.target.values, batch.target.mask, strict=True)):
            rows.setdefault(row, []).extend(values[mask].tolist())
    return [rows[n] for n in sorted(rows)]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("count", "rows", "chunk"), [(100, 4, 7), (101, 4, 7), (5, 8, 3), (23, 1, 50), (50, 5, 10)])
def test_every_token_is_read_once_and_in_order(count, rows, chunk, shuffle):
    ids = list(range(4, 4 + count))
    loader = Running(ids, rows, chunk, seed=1, shuffle=shuffle)
    for number in range(3):
        assert [n for row in columns(loader, number) for n in row] == ids
        assert all(batch.target.values.size(1) <= chunk for batch in loader.epoch(number))
        assert loader.batches(number) == len(list(loader.epoch(number)))


def test_the_token_before_a_chunk_is_the_last_of_the_chunk_before():
    last = None
    for batch in Running(list(range(4, 64)), 3, 7, seed=1, shuffle=True).epoch(0):
        before = batch.inputs["before"].values.squeeze(1)
        assert before.tolist() == ([2, 2, 2] if last is None else last)
        assert batch.continues.all() == (last is not None)
        last = batch.target.values[:, -1].tolist()


def test_chunks_end_elsewhere_in_another_epoch_but_not_in_the_same():
    loader = Running(list(range(4, 404)), 2, 20, seed=1, shuffle=True)
    ends = [[batch.target.values.size(1) for batch in loader.epoch(n)] for n in (0, 1, 2, 3, 0)]
    assert ends[0] == ends[4]
    assert len(set(map(tuple, ends))) > 1
    assert min(map(min, ends)) >= 9  # no step is made of scraps


def test_an_epoch_goes_on_where_it_stopped():
    loader = Running(list(range(4, 104)), 3, 7, seed=1, shuffle=True)
    whole = list(loader.epoch(2))
    for a, b in zip(whole[2:], loader.epoch(2, start=2), strict=True):
        assert torch.equal(a.target.values, b.target.values)
        assert torch.equal(a.inputs["before"].values, b.inputs["before"].values)


def test_the_dev_part_is_the_end_of_the_text_and_nothing_is_lost():
    text = "".join(f"word{n} " for n in range(200))
    train, dev = split_end(from_memory([text], "train").examples, 0.1)
    assert train[0].target + dev[0].target == text
    assert len(dev[0].target) == pytest.approx(0.1 * len(text), abs=10)
    assert dev[0].target.startswith(" word")  # no word is torn


def test_of_several_texts_the_last_are_set_aside():
    texts = [letter * 100 for letter in "abcdefghij"]
    train, dev = split_end(from_memory(texts, "train").examples, 0.2)
    assert [e.target[0] for e in train] == list("abcdefgh")
    assert [e.target[0] for e in dev] == list("ij")


def test_the_dev_part_says_on_which_line_it_begins():
    _, dev = split_end(from_memory(["one\ntwo\nthree\nfour\n"], "train").examples, 0.3)
    assert dev[0].target == "\nfour\n"
    assert dev[0].place.line == 3


def test_a_text_too_short_to_be_split_is_refused():
    with pytest.raises(DataError, match="give a dev file"):
        split_end(from_memory(["word"], "train").examples, 0.1)


def test_a_file_is_one_text_with_its_line_breaks(tmp_path):
    file = tmp_path / "text.txt"
    file.write_bytes("\ufeffone\r\n\r\ntwo caf\u00e9\r\n".encode())
    result = read_texts(file)
    assert result.examples[0].target == "one\n\ntwo café\n"
    assert {f.kind for f in result.findings} == {"byte-order mark", "line ends"}


def test_what_is_not_utf8_is_mended_and_told(tmp_path):
    file = tmp_path / "text.txt"
    file.write_bytes(b"one\ncaf\xe9\n")
    result = read_texts(file)
    assert result.examples[0].target == "one\ncaf\ufffd\n"
    assert str(result.findings[0]).endswith(":2: invalid UTF-8: byte 0xE9 at character 4, now U+FFFD -> mended")
    with pytest.raises(DataError, match="strict"):
        read_texts(file, DataOptions(strict=True))


def test_lines_that_cannot_be_used_are_told(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("one\n\n" + "x" * 30 + "\ntwo\n")
    result = read_texts(file, DataOptions(max_length=20), whole=False)
    assert [(e.target, e.place.line) for e in result.examples] == [("one", 1), ("two", 4)]
    assert [(f.line, f.kind) for f in result.findings] == [(2, "blank"), (3, "over-long")]


def test_a_file_of_blanks_is_refused(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("\n\n")
    with pytest.raises(DataError, match="no text but blanks"):
        read_texts(file)


def test_several_texts_each_end_with_the_end_mark():
    assert joined_ids([ids([5]), ids([6])]).tolist() == [5, 3, 6, 3]


def test_a_rare_character_is_told_with_its_line(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("aaa\naaa\naéa\naaa\n", encoding="utf-8")
    (rare,) = survey_texts([read_texts(file)]).rare
    assert str(rare) == f"'é' U+00E9 LATIN SMALL LETTER E WITH ACUTE: 1 in the text, first at {file}:3"
