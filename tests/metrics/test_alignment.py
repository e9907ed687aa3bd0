import pytest
import torch

from windlass.core.errors import DataError
from windlass.metrics.alignment import align, alignment_error_rate, diagonal


def test_align_links_each_target_place_to_its_heaviest_source_place():
    weights = torch.tensor([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1]])  # two target places, three source places
    assert align(weights) == {(1, 0), (0, 1)}
    assert align(weights.tolist()) == {(1, 0), (0, 1)}


def test_a_place_that_attends_to_nothing_has_no_link():
    assert align([[0.0, 0.0], [0.0, 1.0]]) == {(1, 1)}
    assert align([]) == set()


def test_align_refuses_a_batch():
    with pytest.raises(DataError, match="3 axes"):
        align(torch.ones(1, 2, 3))


def test_the_diagonal_is_the_identity_where_lengths_agree():
    assert diagonal(3, 3) == {(0, 0), (1, 1), (2, 2)}


def test_the_diagonal_stretches_and_shrinks():
    assert diagonal(2, 5) == {(0, 0), (0, 1), (1, 2), (1, 3), (1, 4)}
    assert diagonal(5, 2) == {(1, 0), (3, 1)}
    assert diagonal(7, 1) == {(3, 0)}
    assert diagonal(0, 3) == set()
    assert diagonal(3, 0) == set()


def test_error_rate_against_sure_links_alone_is_one_minus_f1():
    # A = 3 links, S = 4, two shared: precision 2/3, recall 2/4, AER = 1 - 2*2/7
    found = alignment_error_rate([{(0, 0), (1, 1), (2, 3)}], [{(0, 0), (1, 1), (2, 2), (3, 3)}])
    assert found["precision"] == pytest.approx(200 / 3)
    assert found["recall"] == pytest.approx(50)
    assert found["aer"] == pytest.approx(100 * (1 - 4 / 7))


def test_possible_links_help_precision_and_cannot_hurt_recall():
    # A = 3, S = 1 (found), P = S + 1 (found): precision 2/3, recall 1/1, AER = 1 - (1 + 2) / (3 + 1)
    found = alignment_error_rate([{(0, 0), (1, 1), (2, 2)}], [{(0, 0)}], [{(1, 1)}])
    assert found == {"aer": pytest.approx(25), "precision": pytest.approx(200 / 3), "recall": 100.0}


def test_links_are_counted_over_all_pairs_before_dividing():
    found = alignment_error_rate([{(0, 0)}, {(0, 0), (1, 1), (2, 2)}], [{(0, 1)}, {(0, 0), (1, 1), (2, 2)}])
    assert found["precision"] == pytest.approx(75)  # a mean over pairs would give 50
    assert found["aer"] == pytest.approx(25)


def test_a_pair_without_links_is_not_an_error():
    assert alignment_error_rate([set()], [set()]) == {"aer": 0.0, "precision": 100.0, "recall": 100.0}
    assert alignment_error_rate([set()], [{(0, 0)}]) == {"aer": 100.0, "precision": 100.0, "recall": 0.0}


def test_unequal_counts_are_refused():
    with pytest.raises(DataError, match="2 predicted alignments, but 1 sure"):
        alignment_error_rate([set(), set()], [set()])
