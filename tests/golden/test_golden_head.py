"""The decoder, against its equations written out step by step with whole, unsplit inputs."""

import itertools
import math
from dataclasses import replace

import pytest
import torch

from windlass.core.errors import RecipeError
from windlass.core.marks import BOS, EOS
from windlass.core.records import Batch, Padded
from windlass.model import LossOptions, ModelOptions, build
from windlass.nn.loss import alignment_loss, coverage_loss
from windlass.recipe import parse

H, E, V = 6, 4, 9
SOURCE = Padded.of([[4, 5, 6, 7], [5, 8]])
TARGET = Padded.of([[6, 5, EOS], [8, 4, EOS]])
BATCH = Batch({"source": SOURCE}, TARGET, torch.arange(2))
ADDITIVE = {"kind": "additive", "size": 5}


def made(encoder=None, tie="none", loss=None, **decoder):
    torch.manual_seed(0)
    table = {"kind": "learned", "size": E}
    given = {"kind": "recurrent", "cell": "gru", "size": 5, "embedding": table, **(encoder or {})}
    given = {"kind": "prefix"} if given["kind"] == "prefix" else given
    if decoder.get("feedback", True):
        decoder = {"embedding": table, **decoder}
    options = {"encoder": given, "decoder": {"cell": "gru", "size": H, **decoder}, "tie": tie}
    model = build(ModelOptions.model_validate(options), loss or LossOptions(), V, V).double().eval()
    for parameter in model.parameters():
        parameter.data.normal_(std=0.6)
    return model


def aimed(target):
    """The batch with other targets."""
    return replace(BATCH, target=target if isinstance(target, Padded) else Padded(target, torch.ones_like(target) > 0))


def attention(query="previous", feeding=False, coverage=False, **score):
    kind = {**ADDITIVE, "coverage": coverage, **score}
    return {"kind": "attention", "score": kind, "query": query, "input_feeding": feeding}


def layered(head, x, states):
    """All layers of a plain stack, each one product of its whole input."""
    after = []
    for cell, state in zip(head.stack.cells, states, strict=True):
        x = x @ cell.weight_x.t() + (0 if cell.bias is None else cell.bias)
        after.append(cell.step(x, state))
        x = after[-1][0]
    return x, after


def vector(head, y):
    """A token's row of the table; a tied table is small, and what is read from it is enlarged by sqrt(E)."""
    tied = head.output.weight is head.embedding.table
    return head.embedding.table[y][None] * (math.sqrt(E) if tied else 1)


def by_equation(model, row, context, readout, start, query="previous", feeding=False, target=None):
    """Log probabilities (T, V) and attention of one row, its source cut to its length; None: nothing fed back."""
    head, memory = model.head, model.encode(BATCH).select(torch.tensor([row]))
    states = start
    fed = torch.zeros(1, head.readout_size, dtype=torch.float64)
    coverage = torch.zeros(1, memory.mask.size(1), dtype=torch.float64)
    rows, seen = [], []
    for y in [BOS, *(TARGET.values[row].tolist() if target is None else target)][:-1]:
        e = torch.zeros(1, 0).double() if head.embedding is None else vector(head, y)
        pieces, c = [e], None

        def attend(q, received):
            keys = head.attention.prepare(memory)
            given = received[:, None] if head.uses_coverage else None
            found, weights = head.attention(q[:, None], keys, given)
            return found[:, 0], weights[:, 0]

        if context == "summary":
            c = memory.summary
            pieces.append(c)
        if context == "attention" and query == "previous":
            c, weights = attend(states[-1][0], coverage)
            pieces.append(c)
        if feeding:
            pieces.append(fed)
        s, states = layered(head, torch.cat(pieces, 1), states)
        if context == "attention" and query == "current":
            c, weights = attend(s, coverage)
        o = s
        if readout == "joined":
            o = torch.tanh(torch.cat([s, c], 1) @ head.join.weight.t())
        if readout == "deep":
            o = torch.tanh(torch.cat([s, e] if c is None else [s, c, e], 1) @ head.join.weight.t())
        fed = o
        if context == "attention":
            coverage = coverage + weights
            seen.append(weights[0])
        rows.append(torch.log_softmax(o @ head.output.weight.t() + head.output.bias, -1)[0])
    return torch.stack(rows), torch.stack(seen) if seen else None


def zeros(parts=1, layers=1):
    return [tuple(torch.zeros(1, H, dtype=torch.float64) for _ in range(parts))] * layers


def forced(model):
    with torch.no_grad():
        return model.head.reference_logprobs(model.encode(BATCH), BATCH)


def agrees(model, context, readout, start=None, **how):
    """Whether the head gives the log probabilities of an equation."""
    head = model.head
    logp, weights = forced(model)
    for row in range(2):
        right, seen = by_equation(
            model, row, context, readout, start or zeros(head.stack.first.parts, len(head.stack.cells)), **how
        )
        right = right.gather(1, TARGET.values[row][:, None]).squeeze(1)
        if not torch.allclose(logp[row], right):
            return False
        if seen is not None:
            assert torch.allclose(weights[row], seen)
    return True


@pytest.mark.parametrize("readout", ["state", "joined", "deep"])
@pytest.mark.parametrize("context", ["none", "summary", "attention"])
def test_contexts_and_readouts_are_those_of_the_equations(context, readout):
    if (context, readout) == ("none", "joined"):
        with pytest.raises(RecipeError, match="joined"):
            made(context="none", readout="joined", start="summary")
        return
    given = attention() if context == "attention" else context
    size = {} if readout == "state" else {"size": 5}
    model = made(context=given, readout={"kind": readout, **size}, start="summary", encoder={"size": H // 2})
    with torch.no_grad():
        start = model.encode(BATCH).summary
        for row in range(2):
            right, _ = by_equation(model, row, context, readout, [(start[row : row + 1],)])
            logp = forced(model)[0][row]
            assert torch.allclose(logp, right.gather(1, TARGET.values[row][:, None]).squeeze(1))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("coverage", [False, True])
@pytest.mark.parametrize("feeding", [False, True])
@pytest.mark.parametrize("query", ["previous", "current"])
def test_the_query_is_the_state_told_and_feeding_brings_the_last_readout_back(query, feeding, coverage, layers):
    model = made(layers=layers, context=attention(query, feeding, coverage), readout={"kind": "joined", "size": 5})
    assert agrees(model, "attention", "joined", query=query, feeding=feeding)
    if coverage:  # forgetting what was covered gives other numbers
        logp, _ = forced(model)
        model.head.attention.coverage.data.zero_()
        assert not torch.allclose(forced(model)[0], logp)


def test_the_two_queries_and_feeding_give_different_numbers():
    outcomes = []
    for query, feeding in itertools.product(("previous", "current"), (False, True)):
        outcomes.append(forced(made(context=attention(query, feeding), readout={"kind": "joined", "size": 5}))[0])
    assert all(not torch.allclose(a, b) for a, b in itertools.combinations(outcomes, 2))


# -- starts


def started(model):
    return model.head.begin(model.encode(BATCH), BATCH)[1].stack.layers


def test_start_zeros():
    for layer in started(made(cell="lstm", layers=2, context="summary")):
        assert not any(part.any() for part in layer)


def test_start_learned_is_the_same_parameter_for_every_row():
    model = made(cell="lstm", layers=2, start="learned", context="summary")
    for layer, states in zip(started(model), model.head.start.states, strict=True):
        for part, state in zip(layer, states, strict=True):
            assert torch.equal(part, state.expand(2, -1))
            assert part.any()


def test_start_summary_is_the_summary_itself_where_sizes_agree_and_a_cell_starts_at_zero():
    model = made(cell="lstm", layers=2, start="summary", encoder={"size": H // 2})
    for h, c in started(model):
        assert torch.equal(h, model.encode(BATCH).summary)
        assert not c.any()


def test_start_summary_goes_through_a_layer_with_tanh_where_sizes_differ():
    model = made(cell="lstm", layers=2, start="summary")
    summary = model.encode(BATCH).summary
    for (h, c), (linear, _) in zip(started(model), model.head.start.bridges, strict=True):
        assert torch.allclose(h, torch.tanh(summary @ linear.weight.t() + linear.bias))
        assert not c.any()


def test_the_summary_is_both_ends_of_the_last_layers_outputs_with_their_connection():
    for connect in ("plain", "residual", "highway"):
        model = made(encoder={"layers": 2, "connect": connect}, context="summary")
        memory = model.encode(BATCH)
        for row, last in enumerate((3, 1)):
            right = torch.cat([memory.states[row, last, :5], memory.states[row, 0, 5:]])
            assert torch.equal(memory.summary[row], right)
        assert torch.equal(memory.summary, memory.final[-1][0]) == (connect == "plain")


def test_start_final_takes_every_layer_from_its_own_cells_too():
    model = made(cell="lstm", layers=2, start="final", encoder={"cell": "lstm", "layers": 2, "size": H // 2})
    final = model.encode(BATCH).final
    for mine, theirs in zip(started(model), final, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
        assert mine[1].any()


def test_start_final_is_projected_without_tanh_where_sizes_differ():
    model = made(cell="lstm", layers=2, start="final", encoder={"cell": "lstm", "layers": 2})
    final = model.encode(BATCH).final
    for layer, (mine, bridges) in enumerate(zip(started(model), model.head.start.bridges, strict=True)):
        for part, (state, linear) in enumerate(zip(mine, bridges, strict=True)):
            assert torch.allclose(state, final[layer][part] @ linear.weight.t() + linear.bias)


def test_start_final_gives_upper_layers_the_encoders_last_and_ignores_lower_ones_too_many():
    model = made(layers=3, start="final", encoder={"layers": 2, "size": H // 2})
    final = model.encode(BATCH).final
    assert [torch.equal(mine[0], final[1][0]) for mine in started(model)] == [False, True, True]
    assert torch.equal(started(model)[0][0], final[0][0])


def test_start_final_of_a_gru_gives_an_lstm_its_h_and_of_an_lstm_a_gru_too():
    model = made(cell="lstm", start="final", encoder={"cell": "gru", "size": H // 2})
    ((h, c),) = started(model)
    assert torch.equal(h, model.encode(BATCH).final[0][0])
    assert not c.any()
    model = made(cell="gru", start="final", encoder={"cell": "lstm", "size": H // 2})
    ((h,),) = started(model)
    assert torch.equal(h, model.encode(BATCH).final[0][0])


def test_the_four_starts_give_different_numbers():
    kinds = ("zeros", "learned", "summary", "final")
    outcomes = [forced(made(start=kind, encoder={"size": H // 2, "layers": 2}, layers=2))[0] for kind in kinds]
    assert all(not torch.allclose(a, b) for a, b in itertools.combinations(outcomes, 2))


# -- feedback, ties, prefix


@pytest.mark.parametrize("context", ["none", "summary", "attention"])
def test_without_feedback_what_was_put_out_does_not_matter(context):
    given = attention() if context == "attention" else context
    for feedback in (True, False):
        model = made(feedback=feedback, context=given, start="summary")
        readouts = []
        for first in (4, 8):
            target = torch.tensor([[first, 5, EOS]] * 2)
            readouts.append(model.head.teacher_force(model.encode(BATCH), aimed(target)).readout)
        assert torch.equal(readouts[0][:, 0], readouts[1][:, 0])
        assert torch.allclose(readouts[0], readouts[1]) != feedback
    assert model.head.embedding is None


def test_a_tied_output_is_the_embedding_and_learns_with_it():
    model = made(readout={"kind": "joined", "size": E}, tie="target")
    head = model.head
    assert head.output.weight is head.embedding.table
    assert model.encoder.embedding.table is not head.embedding.table
    assert len([p for p in model.parameters() if p is head.embedding.table]) == 1
    assert agrees(model, "attention", "joined")
    every = made(readout={"kind": "joined", "size": E}, tie="all")
    assert every.encoder.embedding.table is every.head.output.weight
    apart = made(readout={"kind": "joined", "size": E}).head
    assert apart.output.weight is not apart.embedding.table


@pytest.mark.parametrize("feedback", [True, False])
@pytest.mark.parametrize("cell", ["gru", "lstm", "leaky"])
def test_a_prefix_is_one_run_over_source_separator_and_target(cell, feedback):
    table = {"kind": "learned", "size": E}
    model = made(encoder={"kind": "prefix"}, cell=cell, layers=2, context="none", feedback=feedback, embedding=table)
    logp, weights = forced(model)
    assert weights is None
    for row in range(2):
        source, target = SOURCE.values[row, : int(SOURCE.lengths[row])].tolist(), TARGET.values[row].tolist()
        ids = [*source, BOS, *(target if feedback else [BOS] * len(target))]
        states, rows = zeros(model.head.stack.first.parts, 2), []
        for y in ids[:-1]:
            s, states = layered(model.head, model.head.embedding.table[y][None], states)
            rows.append(torch.log_softmax(model.head.output(s), -1)[0])
        right = torch.stack(rows[-3:]).gather(1, TARGET.values[row][:, None]).squeeze(1)
        assert torch.allclose(logp[row], right)


def test_a_prefix_keeps_its_locked_dropout_into_the_target():
    model = made(encoder={"kind": "prefix"}, context="none", dropout=0.5, locked=True).train()
    draws = []
    original = model.head.stack._mask
    model.head.stack._mask = lambda like: (draws.append(1), original(like))[1]
    model.head.begin(model.encode(BATCH), BATCH)
    assert len(draws) == 1


@pytest.mark.parametrize("readout", ["joined", "deep"])
def test_the_readouts_dropout_acts_in_training_only(readout):
    model = made(readout={"kind": readout, "size": 40, "dropout": 0.5}, context=attention())
    memory = model.encode(BATCH)
    clean = model.eval().head.teacher_force(memory, BATCH).readout
    noisy = model.train().head.teacher_force(memory, BATCH).readout
    gone = noisy == 0
    assert 0.3 < gone.double().mean() < 0.7
    assert torch.allclose(noisy[~gone], 2 * clean[~gone])
    assert not (clean == 0).any()


# -- what is fed in, and losses


def test_fed_its_own_output_always_it_follows_its_own_argmax():
    model = made(context=attention("current", True), readout={"kind": "deep", "size": 5})
    memory = model.encode(BATCH)
    taught = model.head.teacher_force(memory, BATCH, sampling_prob=1.0)
    own = model.head.output(taught.readout).argmax(-1)
    assert (own != TARGET.values).any()
    along = torch.cat([own[:, :-1], TARGET.values[:, -1:]], 1)
    assert torch.allclose(taught.readout, model.head.teacher_force(memory, aimed(along)).readout)
    assert not torch.allclose(taught.readout, model.head.teacher_force(memory, BATCH).readout)


def test_with_a_coin_some_steps_are_fed_the_right_token_and_some_their_own():
    model = made(context="summary")
    memory, target = model.encode(BATCH), torch.tensor([[6, 5, 4, 7, EOS]] * 2)
    right, own = (
        model.head.teacher_force(memory, aimed(target)),
        model.head.teacher_force(memory, aimed(target), sampling_prob=1.0),
    )
    torch.manual_seed(0)
    mixed = [model.head.teacher_force(memory, aimed(target), sampling_prob=0.5).readout for _ in range(40)]
    second = torch.stack([m[0, 1] for m in mixed])
    took_own = [torch.allclose(s, own.readout[0, 1]) for s in second]
    took_right = [torch.allclose(s, right.readout[0, 1]) for s in second]
    assert all(a != b for a, b in zip(took_own, took_right, strict=True))
    assert 8 < sum(took_own) < 32


def test_links_of_a_word_are_held_against_the_step_that_writes_or_has_read_it():
    gold = torch.zeros(2, 3, 4, dtype=torch.float64)
    gold[0, 0, 1] = gold[1, 1, 0] = 1
    for links, late in (("writing", 0), ("reading", 1)):
        model = made(context=attention(query="current") | {"links": links}, readout="deep")
        memory = model.encode(BATCH)
        weights = model.head.teacher_force(memory, BATCH).weights
        right = -(weights[0, 0 + late, 1].log() + weights[1, 1 + late, 0].log())
        scored = model.head.score(memory, replace(BATCH, alignment=gold), LossOptions(alignment=1.0))
        assert torch.allclose(scored.terms["alignment"], right)


def test_losses_are_added_with_their_weights_over_real_places():
    gold = torch.zeros(2, 3, 4, dtype=torch.float64)
    gold[0, 0, 1] = gold[1, 1, 0] = 1
    model = made(context=attention(coverage=True))
    target = Padded(TARGET.values, torch.tensor([[True] * 3, [True, True, False]]))
    memory = model.encode(BATCH)
    taught = model.head.teacher_force(memory, aimed(target))
    again = coverage_loss(taught.weights)[target.mask].sum()
    aligned = alignment_loss(taught.weights, gold)
    batch, loss = replace(aimed(target), alignment=gold), LossOptions(label_smoothing=0.2, coverage=0.5, alignment=0.25)
    plain = model.head.score(memory, aimed(target))
    smooth = model.head.score(memory, aimed(target), LossOptions(label_smoothing=0.2))
    scored = model.head.score(memory, batch, loss)
    assert torch.allclose(scored.loss_sum, smooth.loss_sum + 0.5 * again + 0.25 * aligned)
    assert torch.allclose(scored.terms["nll"], plain.loss_sum)
    assert torch.allclose(scored.terms["coverage"], again)
    assert torch.allclose(scored.terms["alignment"], aligned)
    assert not torch.allclose(smooth.loss_sum, plain.loss_sum)
    assert scored.count == 5
    assert set(plain.terms) == {"nll"}


@pytest.mark.parametrize(("query", "feeding"), [("previous", False), ("current", False), ("current", True)])
def test_the_doubly_stochastic_penalty_is_over_real_steps_and_real_places(query, feeding):
    model = made(context=attention(query, feeding), readout={"kind": "joined", "size": 5})
    target = Padded(TARGET.values, torch.tensor([[True] * 3, [True, True, False]]))
    memory = model.encode(BATCH)
    weights = model.head.teacher_force(memory, aimed(target)).weights
    right = sum((1 - weights[0, :3, place].sum()) ** 2 for place in range(4))
    right += sum((1 - weights[1, :2, place].sum()) ** 2 for place in range(2))
    plain, scored = (model.head.score(memory, aimed(target), LossOptions(doubly_stochastic=x)) for x in (0.0, 0.3))
    assert torch.allclose(scored.loss_sum, plain.loss_sum + 0.3 * right)
    assert torch.allclose(scored.terms["doubly_stochastic"], right)
    assert not scored.terms["doubly_stochastic"].requires_grad


def test_the_doubly_stochastic_penalty_has_the_gradient_of_its_differences():
    model, loss = made(context=attention()), LossOptions(doubly_stochastic=0.7)
    weight = model.head.attention.score.v
    (found,) = torch.autograd.grad(model.head.score(model.encode(BATCH), BATCH, loss).loss_sum, weight)
    for place in range(len(weight)):
        sides = []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                weight[place] += step
                sides.append(model.head.score(model.encode(BATCH), BATCH, loss).loss_sum.item())
                weight[place] -= step
        assert found[place].item() == pytest.approx((sides[0] - sides[1]) / 2e-5, rel=1e-4)


def test_the_doubly_stochastic_penalty_needs_attention():
    for context in ("none", "summary"):
        with pytest.raises(RecipeError, match="doubly_stochastic needs a decoder with context: attention"):
            parse({"model": {"decoder": {"context": context, "start": "summary"}}, "loss": {"doubly_stochastic": 1}})


def test_in_float64_everything_stays_in_float64():
    for model in (made(), made(encoder={"kind": "prefix"}, context="none"), made(feedback=False)):
        logp, weights = forced(model)
        assert logp.dtype == torch.float64
        assert weights is None or weights.dtype == torch.float64
