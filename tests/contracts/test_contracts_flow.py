"""Contracts of the road from batch to loss, held by every registered part."""

import pytest
import torch
from contract_parts import VARIANTS, batch, close, fresh, model

from windlass.core.marks import BOS

every = pytest.mark.parametrize("name", VARIANTS)


def forced(name, given):
    m = model(name)
    with torch.no_grad():
        return m.head.reference_logprobs(m.encode(given), given)


@every
def test_more_padding_changes_nothing(name):
    m, narrow, wide = model(name), batch(), batch(wider=3)
    with torch.no_grad():
        a, b = m.encode(narrow), m.encode(wide)
        assert close(a.summary, b.summary)
        assert close(a.states, b.states[:, : a.states.size(1)])
        assert all(close(x, y) for p, q in zip(a.final, b.final, strict=True) for x, y in zip(p, q, strict=True))
        assert close(m(narrow).loss_sum, m(wide).loss_sum)
        assert m(narrow).count == m(wide).count == 10
    (logp, weights), (wide_logp, wide_weights) = forced(name, narrow), forced(name, wide)
    T = logp.size(1)
    assert close(logp, wide_logp[:, :T])
    assert not wide_logp[:, T:].any()
    if weights is not None:
        real, S = narrow.target.mask[..., None], weights.size(2)
        assert close(weights * real, wide_weights[:, :T, :S] * real)
        assert not wide_weights[:, :, S:].any()


@every
def test_a_batch_equals_its_rows_one_by_one(name):
    logp, weights = forced(name, batch())
    loss = 0.0
    for row in range(3):
        alone = batch((row,))
        one, own = forced(name, alone)
        assert close(one[0], logp[row, : one.size(1)])
        if own is not None:
            assert close(own[0], weights[row, : own.size(1), : own.size(2)])
        with torch.no_grad():
            loss = loss + model(name)(alone).loss_sum
    with torch.no_grad():
        assert close(loss, model(name)(batch()).loss_sum)


@every
def test_permuting_rows_permutes_results(name):
    logp, weights = forced(name, batch())
    turned, turned_weights = forced(name, batch((2, 0, 1)))
    assert close(turned, logp[[2, 0, 1]])
    if weights is not None:
        assert close(turned_weights, weights[[2, 0, 1]])


@every
def test_every_parameter_gets_a_finite_gradient_that_is_not_zero(name):
    m = fresh(name).train()
    m(batch()).loss_sum.backward()
    for part, parameter in m.named_parameters():
        assert parameter.grad is not None, f"{part} is not used"
        assert parameter.grad.isfinite().all(), part
        assert not parameter.numel() or parameter.grad.abs().max() > 1e-9, f"{part} changes nothing"


def stepped(m, memory, given):
    """Log probabilities and attention of a target, one step at a time."""
    target = given.target
    source, state = m.head.begin(memory, given)
    tokens = torch.full_like(target.values[:, 0], BOS)
    logps, seen = [], []
    for t in range(target.values.size(1)):
        logp, state, weights = m.head.step(tokens, state, source)
        tokens = target.values[:, t]
        logps.append(logp.gather(1, tokens[:, None]).squeeze(1))
        seen.append(weights)
    return torch.stack(logps, 1), None if seen[0] is None else torch.stack(seen, 1)


@every
def test_a_whole_target_at_once_equals_step_by_step_in_outputs_and_gradients(name):
    m, given = fresh(name), batch()
    logp, weights = m.head.reference_logprobs(m.encode(given), given)
    steps, step_weights = stepped(m, m.encode(given), given)
    steps = steps * given.target.mask
    assert close(logp, steps)
    assert (weights is None) == (step_weights is None)
    if weights is not None:
        assert close(weights, step_weights)
    used = [p for p in m.parameters() if p.requires_grad]
    whole = torch.autograd.grad(logp.sum(), used)
    by_steps = torch.autograd.grad(steps.sum(), used)
    assert all(close(a, b) for a, b in zip(whole, by_steps, strict=True))


@every
def test_the_loss_is_the_forced_score_with_its_sign_turned(name):
    logp, _ = forced(name, batch())
    with torch.no_grad():
        scored = model(name)(batch())
    assert close(scored.loss_sum, -logp.sum())
    assert close(scored.terms["nll"], -logp.sum())


@every
def test_being_fed_its_own_output_never_is_teacher_forcing(name):
    m, given = model(name), batch()
    memory = m.encode(given)
    forced = m.head.teacher_force(memory, given)
    sampled = m.head.teacher_force(memory, given, sampling_prob=1e-12)  # the sampled path, which never samples
    assert close(forced.readout, sampled.readout)


@every
def test_a_source_with_nothing_in_it_gives_no_nan_in_loss_weights_or_gradients(name):
    m, given = fresh(name), batch(blank=True)
    scored = m(given)
    assert scored.loss_sum.isfinite()
    scored.loss_sum.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in m.parameters())
    logp, weights = m.head.reference_logprobs(m.encode(given), given)
    assert logp.isfinite().all()
    if weights is not None:
        assert not weights[1].any()
        assert close(weights[[0, 2]].sum(-1), torch.ones(2, weights.size(1), dtype=torch.float64))


@every
def test_nothing_that_was_given_is_changed_in_place(name):
    m, given = model(name), batch()
    memory = m.encode(given)
    before = memory.map(lambda t: t.clone())
    m.head.reference_logprobs(memory, given)
    source, state = m.head.begin(memory, given)
    kept = state.map(lambda t: t.clone())
    m.head.step(torch.tensor([4, 5, 6]), state, source)
    same = []
    kept.map(lambda t: (same.append(t), t)[1])
    here = []
    state.map(lambda t: (here.append(t), t)[1])
    assert all(torch.equal(a, b) for a, b in zip(same, here, strict=True))
    assert torch.equal(before.states, memory.states)
    assert torch.equal(before.summary, memory.summary)
