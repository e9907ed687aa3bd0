"""CTC against brute force: the sum over every path that collapses to an output."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import product

import pytest
import torch

from windlass.core.errors import DataError, RecipeError
from windlass.core.marks import EOS
from windlass.core.records import Batch, Member, Memory, Padded
from windlass.decoding.options import Beam, Greedy, Sample
from windlass.decoding.search import SearchRequest
from windlass.heads.ctc import CtcHead, CtcHeadOptions
from windlass.nn.ctc import best_path, frames_needed, posteriors, prefix_search

S, V = 5, 3


def collapsed(path):
    kept = [token for n, token in enumerate(path) if n == 0 or token != path[n - 1]]
    return tuple(token for token in kept if token)


def frames(seed=0, length=S):
    torch.manual_seed(seed)
    return torch.log_softmax(2 * torch.randn(length, V, dtype=torch.float64), -1)


def brute(logprobs):
    """p of every output, and for each of its tokens the probability that a frame writes it."""
    total, written = defaultdict(float), defaultdict(lambda: torch.zeros(S, len(logprobs)))
    for path in product(range(V), repeat=len(logprobs)):
        chance = math.exp(sum(logprobs[t, token].item() for t, token in enumerate(path)))
        output = collapsed(path)
        total[output] += chance
        token = -1
        for t, here in enumerate(path):
            if here:
                token += t == 0 or path[t - 1] != here
                written[output][token, t] += chance
    return total, written


@pytest.mark.parametrize("seed", range(3))
def test_a_wide_prefix_search_ranks_outputs_as_brute_force_does(seed):
    logprobs = frames(seed)
    total, _ = brute(logprobs)
    right = sorted(total, key=lambda output: -total[output])
    assert prefix_search(logprobs, 0, size=100) == right
    assert prefix_search(logprobs, 0, size=100, most=1)[0] == next(output for output in right if len(output) <= 1)
    best = max(product(range(V), repeat=S), key=lambda path: sum(logprobs[t, n].item() for t, n in enumerate(path)))
    assert tuple(best_path(logprobs, 0)) == collapsed(best)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("sharp", [1.0, 4.0])
def test_a_narrow_prefix_search_keeps_the_best_prefixes_of_every_frame(size, sharp):
    """Without the shortcuts: every prefix by brute force, cut to the best after each frame."""
    torch.manual_seed(size)
    logprobs = torch.log_softmax(sharp * torch.randn(7, 6, dtype=torch.float64), -1)
    best = {(): (1.0, 0.0)}
    for frame in logprobs.exp().tolist():
        grown = defaultdict(lambda: [0.0, 0.0])
        for prefix, (blank, token) in best.items():
            grown[prefix][0] += (blank + token) * frame[0]
            for n, p in enumerate(frame[1:], 1):
                if prefix[-1:] == (n,):
                    grown[prefix][1] += token * p
                grown[(*prefix, n)][1] += (blank if prefix[-1:] == (n,) else blank + token) * p
        best = dict(sorted(grown.items(), key=lambda item: -sum(item[1]))[:size])
    assert prefix_search(logprobs, 0, size) == list(best)


def test_frames_that_can_write_nothing_more_are_passed_over():
    logprobs = torch.tensor([[-1e4, 0.0, -1e4], [-1e4, -1e4, 0.0], [-1e4, 0.0, -1e4]])
    assert prefix_search(logprobs, 0, size=3) == [(1, 2, 1)]
    assert prefix_search(logprobs, 0, size=3, most=1) == [(1,)]


def test_posteriors_are_those_of_brute_force_whatever_the_lengths():
    rows = [(frames(1), (1, 2)), (frames(2, 3), (2, 2)), (frames(3), ()), (frames(4, 2), (2,))]
    padded = torch.zeros(len(rows), S, V, dtype=torch.float64)
    for row, (logprobs, _) in enumerate(rows):
        padded[row, : len(logprobs)] = logprobs
    lengths = torch.tensor([len(logprobs) for logprobs, _ in rows])
    found, shares = posteriors(padded, lengths, [list(output) for _, output in rows], blank=0)
    for row, (logprobs, output) in enumerate(rows):
        total, written = brute(logprobs)
        assert found[row].exp().item() == pytest.approx(total[output])
        right = written[output][: len(output)] / total[output]
        assert torch.allclose(shares[row, : len(output), : len(logprobs)], right.double(), atol=1e-6)
        assert not shares[row, len(output) :].any()
        assert not shares[row, :, len(logprobs) :].any()


def made(size=1, **options):
    torch.manual_seed(3)
    head = CtcHead(CtcHeadOptions(**options), vocabulary=6, memory_size=4).double().eval()
    memory = Memory(
        2 * torch.randn(2, 4, 4, dtype=torch.float64), torch.arange(4) < torch.tensor([[4], [3]]), torch.zeros(2, 4)
    )
    return head, memory


def aimed(*targets):
    return Batch({}, Padded.of([[*target, EOS] for target in targets]), torch.arange(len(targets)))


def test_the_loss_is_minus_log_p_and_leaves_out_targets_that_do_not_fit():
    head, memory = made(frames=2)
    both = aimed([4, 5, 4], [5, 5])
    scored = head.score(memory, both)
    assert scored.count == 5
    assert scored.loss_sum.item() == pytest.approx(-sum(h.score for h in head.force(memory, both)))
    long = aimed([4, 5, 4], [5, 5, 5, 5])  # seven frames with the blanks between, and there are six
    assert frames_needed(long.target.values, long.target.mask & (long.target.values != EOS)).tolist() == [3, 7]
    assert head.too_long(long, torch.tensor([4, 3])).tolist() == [False, True]
    less = head.score(memory, long)
    assert less.count == 3
    assert less.loss_sum.item() == pytest.approx(-head.force(memory, both)[0].score)
    with pytest.raises(DataError, match="4 tokens does not fit into the 6 frames"):
        head.force(memory, long)


def test_a_prediction_shows_the_places_that_write_each_token():
    head, memory = made(frames=2)
    (first, *_), (second, *_) = CtcHead.predict([Member(head, memory)], SearchRequest(Beam(length_penalty=0, size=50)))
    for row, hypothesis in enumerate((first, second)):
        logprobs, lengths = head(memory)
        total, shares = posteriors(logprobs, lengths, [first.ids, second.ids], blank=0)
        assert hypothesis.score == pytest.approx(total[row].item())
        of_places = shares[row, : len(hypothesis.ids)].unflatten(1, (4, 2)).sum(2)
        assert torch.allclose(hypothesis.weights, of_places / of_places.sum(1, keepdim=True))
        assert len(hypothesis.logprobs) == len(hypothesis.ids)
    greedy = CtcHead.predict([Member(head, memory)], SearchRequest(Greedy()))
    assert [row[0].ids for row in greedy] == [tuple(best_path(logprobs[n, : lengths[n]], 0)) for n in range(2)]
    assert all(g[0].score <= b.score + 1e-9 for g, b in zip(greedy, (first, second), strict=True))


@pytest.mark.parametrize("options", [Sample(), Beam(length_penalty=1), Greedy(block_ngrams=2)])
def test_what_a_search_over_prefixes_cannot_do_is_refused(options):
    head, memory = made()
    with pytest.raises(RecipeError, match="CTC"):
        CtcHead.predict([Member(head, memory)], SearchRequest(options))


def sure(paths, outputs=8):
    """A head that reads its paths off the memory, and the memory: a path is a list of likely outputs per frame."""
    head = CtcHead(CtcHeadOptions(frames=1), outputs, outputs).eval()
    head.output[-1].weight.data.copy_(10 * torch.eye(outputs))
    head.output[-1].bias.data.zero_()
    states = torch.stack([torch.nn.functional.one_hot(torch.tensor(path), outputs).float() for path in paths])
    return head, Memory(states, torch.ones(states.shape[:2]) > 0, states[:, 0])


@pytest.mark.parametrize("options", [Greedy, Beam], ids=["greedy", "beam"])
def test_an_output_that_the_length_limit_cuts_off_is_not_finished(options):
    head, memory = sure([[4, 5, 6, 7], [4, 5, 0, 0], [4, 0, 0, 0]])
    for most, whole in ((2, [False, True, True]), (1, [False, False, True]), (4, [True] * 3)):
        request = SearchRequest(options(length_factor=0, length_plus=most))
        found = [best for (best, *_) in CtcHead.predict([Member(head, memory)], request)]
        assert [best.finished for best in found] == whole
        assert [len(best.ids) for best in found] == [most, min(most, 2), 1]
    several = CtcHead.predict([Member(head, memory)] * 2, SearchRequest(options(length_factor=0, length_plus=2)))
    assert [best.finished for (best, *_) in several] == [False, True, True]


def test_a_beam_without_a_length_penalty_is_that_of_penalty_0():
    head, memory = sure([[4, 5, 5, 7], [4, 5, 0, 0]])
    plain, same = (
        CtcHead.predict([Member(head, memory)], SearchRequest(beam))
        for beam in (Beam(size=3), Beam(size=3, length_penalty=0))
    )
    assert [(h.ids, h.score) for (h, *_) in plain] == [(h.ids, h.score) for (h, *_) in same]
