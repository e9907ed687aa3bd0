"""The chain of tags against brute force: every path is written down and summed."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
import torch

from chain_path import path_score
from windlass.nn import crf
from windlass.nn.crf import CRF, Chain

S, V = 4, 3
LENGTHS = (4, 2, 1)


@pytest.fixture(autouse=True, params=[np, torch], ids=["numpy", "torch"])
def library(request, monkeypatch):
    """The sums as they run on a processor, and as they run elsewhere."""
    monkeypatch.setattr(crf, "_library", lambda device: request.param)


@pytest.fixture
def given():
    torch.manual_seed(5)
    chain = Chain(*(torch.randn(*shape, dtype=torch.float64) for shape in ((V,), (V, V), (V,))))
    emissions = 2 * torch.randn(len(LENGTHS), S, V, dtype=torch.float64)
    mask = torch.arange(S) < torch.tensor(LENGTHS)[:, None]
    return chain, emissions, mask


def score(chain, emissions, row, path):
    """By hand: start, emissions, steps, end."""
    total = chain.start[path[0]] + chain.end[path[-1]]
    total = total + sum(emissions[row, t, tag] for t, tag in enumerate(path))
    return total + sum(chain.transitions[a, b] for a, b in pairwise(path))


def paths(row):
    return list(product(range(V), repeat=LENGTHS[row]))


def test_the_partition_is_the_sum_over_all_paths(given):
    chain, emissions, mask = given
    found = chain.log_partition(emissions, mask)
    for row in range(len(LENGTHS)):
        every = torch.stack([score(chain, emissions, row, path) for path in paths(row)])
        assert torch.isclose(found[row], every.logsumexp(0))


def test_the_score_of_a_path_is_what_lies_on_it(given):
    chain, emissions, mask = given
    tags = torch.tensor([[2, 0, 1, 1], [1, 2, 0, 0], [2, 1, 1, 1]])  # rubbish on padding
    found = path_score(chain, emissions, tags, mask)
    for row, length in enumerate(LENGTHS):
        assert torch.isclose(found[row], score(chain, emissions, row, tags[row, :length].tolist()))


def test_the_best_path_is_the_best_of_all(given):
    chain, emissions, mask = given
    tags, scores = chain.viterbi(emissions, mask)
    for row, length in enumerate(LENGTHS):
        best = max(paths(row), key=lambda path: score(chain, emissions, row, path))
        assert tuple(tags[row, :length].tolist()) == best
        assert torch.isclose(scores[row], score(chain, emissions, row, best))
        assert not tags[row, length:].any()


def test_marginals_are_shares_of_paths(given):
    chain, emissions, mask = given
    found = chain.marginals(emissions, mask)
    for row, length in enumerate(LENGTHS):
        every = torch.stack([score(chain, emissions, row, path) for path in paths(row)]).softmax(0)
        for t, tag in product(range(length), range(V)):
            share = sum(p for p, path in zip(every, paths(row), strict=True) if path[t] == tag)
            assert torch.isclose(found[row, t, tag], torch.as_tensor(share))
        assert not found[row, length:].any()


def test_gradients_of_the_partition_are_those_of_the_sum_over_paths(given):
    chain, emissions, mask = given
    inputs = [t.clone().requires_grad_() for t in (emissions, chain.start, chain.transitions, chain.end)]
    weights = torch.tensor([0.5, 2.0, -1.0], dtype=torch.float64)  # rows that count differently

    def brute(e, start, pairs, end):
        own = Chain(start, pairs, end)
        return sum(
            w * torch.stack([score(own, e, row, path) for path in paths(row)]).logsumexp(0)
            for row, w in enumerate(weights)
        )

    expected = torch.autograd.grad(brute(*inputs), inputs)
    e, start, pairs, end = inputs
    found = torch.autograd.grad((Chain(start, pairs, end).log_partition(e, mask) * weights).sum(), inputs)
    assert all(torch.allclose(a, b) for a, b in zip(found, expected, strict=True))


def test_what_is_forbidden_has_no_probability_and_is_never_chosen(given):
    _, emissions, mask = given
    first = torch.tensor([True, True, False])
    after = torch.tensor([[True, False, True], [True, True, True], [False, True, True]])
    last = torch.tensor([True, True, True])
    chain = Chain.from_masks(first, after, last)
    allowed = CRF(V).double()(Chain(chain.start.double(), chain.transitions.double(), chain.end.double()))
    assert not allowed.marginals(emissions, mask)[:, 0, 2].any()
    tags, _ = allowed.viterbi(emissions, mask)
    for row, length in enumerate(LENGTHS):
        own = tags[row, :length].tolist()
        assert first[own[0]]
        assert all(after[a, b] for a, b in pairwise(own))


def test_large_scores_neither_overflow_nor_vanish():
    chain = Chain(torch.zeros(V), torch.zeros(V, V), torch.zeros(V))
    emissions = torch.tensor([[[300.0, -300.0, 0.0]] * S])
    mask = torch.ones(1, S, dtype=torch.bool)
    assert torch.isclose(chain.log_partition(emissions, mask), torch.tensor([300.0 * S]))


def test_a_row_with_nothing_in_it_has_one_path_of_no_score(given):
    chain, emissions, _ = given
    mask = torch.zeros(len(LENGTHS), S, dtype=torch.bool)
    assert not chain.log_partition(emissions, mask).any()
    assert not path_score(chain, emissions, torch.zeros(len(LENGTHS), S, dtype=torch.long), mask).any()
    assert not chain.marginals(emissions, mask).any()
    assert not chain.viterbi(emissions, mask)[1].any()


def test_the_loss_is_the_partition_less_the_path_with_the_same_gradients(given):
    chain, emissions, mask = given
    tags = torch.tensor([[2, 0, 1, 1], [1, 2, -1, 9], [2, 1, 1, 1]])  # rubbish on padding
    inputs = [t.clone().requires_grad_() for t in (emissions, chain.start, chain.transitions, chain.end)]
    own = Chain(*inputs[1:])
    path = path_score(own, inputs[0], tags.where(mask, 0), mask)
    expected, found = own.log_partition(inputs[0], mask) - path, own.loss(inputs[0], tags, mask)
    assert torch.allclose(found, expected)
    share = torch.tensor([0.5, 2.0, -1.0], dtype=torch.float64)
    ours, theirs = (torch.autograd.grad((nll * share).sum(), inputs) for nll in (found, expected))
    assert all(torch.allclose(a, b) for a, b in zip(ours, theirs, strict=True))


def test_nothing_on_padding_matters(given):
    chain, emissions, mask = given
    tags = torch.tensor([[2, 0, 1, 1], [1, 2, 0, 0], [2, 1, 1, 1]])
    outcomes = []
    for rubbish in (0.0, 1e30, float("nan")):
        filled = emissions.masked_fill(~mask[..., None], rubbish).requires_grad_()
        pairs = chain.transitions.clone().requires_grad_()
        own = Chain(chain.start, pairs, chain.end)
        loss = own.loss(filled, tags, mask)
        gradients = torch.autograd.grad(loss.sum(), (filled, pairs))
        assert not gradients[0][~mask].any()
        outcomes.append([loss, own.log_partition(filled, mask), own.marginals(filled, mask), *gradients])
        outcomes[-1] += own.viterbi(filled, mask)
    for other in outcomes[1:]:
        assert all(torch.equal(a, b) for a, b in zip(outcomes[0], other, strict=True))


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_what_comes_out_is_of_the_kind_that_went_in(given, kind):
    chain, emissions, mask = given
    inputs = [t.to(kind).requires_grad_() for t in (emissions, chain.start, chain.transitions, chain.end)]
    own = Chain(*inputs[1:])
    loss = own.loss(inputs[0], torch.zeros(mask.shape, dtype=torch.long), mask)
    gradients = torch.autograd.grad(loss.sum(), inputs)
    others = [own.log_partition(inputs[0], mask), own.marginals(inputs[0], mask), own.viterbi(inputs[0], mask)[1]]
    assert {tensor.dtype for tensor in (loss, *gradients, *others)} == {kind}
    exact = chain.loss(emissions, torch.zeros(mask.shape, dtype=torch.long), mask)
    assert torch.allclose(loss.double(), exact, rtol=1e-5 if kind != torch.bfloat16 else 0.05)


def log_space(chain, emissions, lengths):
    """Partitions, step by step, a row at a time."""
    totals = []
    for row, length in enumerate(lengths):
        a = chain.start + emissions[row, 0]
        for t in range(1, length):
            a = torch.logsumexp(a[:, None] + chain.transitions, dim=0) + emissions[row, t]
        totals.append(torch.logsumexp(a + chain.end, dim=0))
    return torch.stack(totals)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_rows_of_400_words_have_the_sums_gradients_and_best_paths_of_log_space(kind):
    torch.manual_seed(7)
    lengths = [400, 399, 37]
    mask = torch.arange(400) < torch.tensor(lengths)[:, None]
    given = (5 * torch.randn(3, 400, 9), torch.randn(9), 3 * torch.randn(9, 9), torch.randn(9))
    inputs = [t.to(kind).requires_grad_() for t in given]
    exact = [t.double().requires_grad_() for t in given]
    found, expected = Chain(*inputs[1:]).log_partition(inputs[0], mask), log_space(Chain(*exact[1:]), exact[0], lengths)
    assert torch.allclose(found.double(), expected)
    ours, theirs = torch.autograd.grad(found.sum(), inputs), torch.autograd.grad(expected.sum(), exact)
    assert all(torch.allclose(a.double(), b, rtol=1e-4, atol=1e-6) for a, b in zip(ours, theirs, strict=True))
    chain, emissions = Chain(*(t.detach() for t in exact[1:])), exact[0].detach()
    best, total = Chain(*inputs[1:]).viterbi(inputs[0], mask)
    assert torch.allclose(path_score(chain, emissions, best, mask), total.double())
    for row, length in enumerate(lengths):  # the loop with the origin of every tag kept
        a, origins = chain.start + emissions[row, 0], []
        for t in range(1, length):
            highest, origin = (a[:, None] + chain.transitions).max(0)
            a = highest + emissions[row, t]
            origins.append(origin)
        tags = [int((a + chain.end).argmax())]
        for origin in reversed(origins):
            tags.append(int(origin[tags[-1]]))
        assert best[row, :length].tolist() == tags[::-1]


@pytest.mark.parametrize("spread", [1.0, 40.0])
def test_long_rows_have_the_sums_and_gradients_of_log_space(spread):
    torch.manual_seed(6)
    lengths = torch.tensor([23, 20, 9, 8, 4, 1])  # some end where sums are scaled, some beside it
    mask = torch.arange(23) < lengths[:, None]
    emissions = (spread * torch.randn(6, 23, V, dtype=torch.float64)).requires_grad_()
    chain = Chain(*(torch.randn(*shape, dtype=torch.float64).requires_grad_() for shape in ((V,), (V, V), (V,))))
    found, expected = chain.log_partition(emissions, mask), log_space(chain, emissions, lengths.tolist())
    assert torch.allclose(found, expected)
    wanted = (emissions, chain.start, chain.transitions, chain.end)
    share = torch.arange(1.0, 7.0, dtype=torch.float64)
    ours, theirs = (torch.autograd.grad((total * share).sum(), wanted) for total in (found, expected))
    assert all(torch.allclose(a, b, atol=1e-9) for a, b in zip(ours, theirs, strict=True))
    marginals = chain.marginals(emissions, mask)
    assert torch.allclose(marginals.sum(-1), mask.double())
