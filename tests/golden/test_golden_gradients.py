"""The gradient lab, held to closed forms, finite differences and autograd."""

import math
from dataclasses import replace

import pytest
import torch

from task_models import task_model
from windlass import gradients
from windlass.core.errors import WindlassError
from windlass.core.options import members
from windlass.gradients.lstm import _true
from windlass.gradients.reading import batch_of
from windlass.gradients.transformer import transformer_jacobians
from windlass.nn.cells import GRU, LSTM, RNN, CellOptions, Leaky
from windlass.nn.fast.switch import disabled
from windlass.nn.positions import Rotation
from windlass.nn.recurrence import run

CELLS = [options for kind in members(CellOptions).values() for options in kind.tiny()]


def read(options, size=6, steps=9, seed=3):
    """A fresh cell that starts from a random state; peepholes are random too."""
    reading = gradients.fresh(options, size, steps, seed=seed)
    if getattr(reading.cell, "peepholes", None) is not None:
        reading.cell.peepholes.data.normal_()
    return replace(reading, start=tuple(torch.randn_like(part) / 2 for part in reading.start))


def identity(options):
    return str(options)


@pytest.mark.parametrize("options", LSTM.Options.tiny(), ids=identity)
def test_the_four_terms_sum_to_the_jacobian_of_autograd_and_of_finite_differences(options):
    reading = read(options)
    steps = gradients.one_steps(reading)
    assert len(steps) == reading.steps - 1
    for t, step in enumerate(steps, 1):
        assert (step.total - step.jacobian).abs().max() < 1e-6
        assert (step.total - gradients.finite_differences(reading, t)).abs().max() < 1e-6
        assert all(term.abs().max() > 1e-6 for term in (step.p, step.q, step.r, step.s))


@pytest.mark.parametrize("options", LSTM.Options.tiny(), ids=identity)
def test_the_true_derivative_over_several_steps_is_that_of_finite_differences(options):
    reading, begin, by = read(options), 3, 1e-5
    cell = reading.cell
    with disabled(), torch.no_grad():
        states = reading.unroll()
        a = cell.project(reading.inputs[begin - 1 : begin]) + states[begin - 1][0] @ cell.weight_h.t()

        def end(c):
            """c_T from c_begin, with o_begin as it was (but for peepholes, which see c)."""
            o = torch.sigmoid(a[:, 12:18] + (0 if cell.peepholes is None else cell.peepholes[2] * c))
            state = o * cell.output(c), c
            for x in cell.project(reading.inputs[begin:]):
                state = cell.step(x.expand(len(c), -1), state)
            return state[1]

        moved = by * torch.eye(6, dtype=torch.float64)
        measured = (end(states[begin][1] + moved) - end(states[begin][1] - moved)).t() / (2 * by)
    assert (_true(reading)[reading.steps - begin] - measured).abs().max() < 1e-6


def test_the_product_of_the_four_terms_leaves_out_what_goes_through_the_output_gate():
    found = gradients.paths(read(LSTM.Options(), steps=20))
    assert found.left_out[1] < 1e-9
    assert found.left_out[19] > 0.01
    closed = read(LSTM.Options())
    closed.cell.weight_h.data[12:18] = 0  # the output gate does not see the state: nothing is left out
    assert max(gradients.paths(closed).left_out) < 1e-9


def test_with_open_forget_gates_and_no_recurrent_weights_the_gradient_stays():
    reading = gradients.fresh(LSTM.Options(forget_bias=40.0), size=4, steps=30)
    reading.cell.weight_h.data.zero_()
    reading.cell.weight_x.data.zero_()
    found = gradients.paths(reading)
    assert found.forget[-1] == pytest.approx(1)
    assert found.true[-1] == pytest.approx(1)


@pytest.mark.parametrize("options", CELLS, ids=identity)
def test_the_norms_are_those_of_the_product_of_the_jacobians_of_all_steps(options):
    reading = read(options, size=4)
    cell, size = reading.cell, 4 * reading.cell.parts

    def step(flat, x):
        with disabled():
            return torch.cat(cell.step(x[None], flat.view(1, -1).split(4, 1)), 1)[0]

    states = [torch.cat(state, 1)[0].detach() for state in reading.unroll()]
    product = torch.eye(size, dtype=torch.float64)
    found = gradients.flow(reading)
    with disabled():
        inputs = cell.project(reading.inputs).detach()
    for k in range(reading.steps):
        assert found.output[k] == pytest.approx(float(torch.linalg.matrix_norm(product[:4, :4], 2)), abs=1e-12)
        assert found.whole[k] == pytest.approx(float(torch.linalg.matrix_norm(product[:4], 2)), abs=1e-12)
        n = reading.steps - 1 - k
        product = product @ torch.autograd.functional.jacobian(lambda s, n=n: step(s, inputs[n]), states[n])


@pytest.mark.parametrize("gain", [0.9, 1.0, 1.1])
def test_a_linear_cell_with_orthogonal_weights_gives_the_gain_to_the_power_of_the_distance(gain):
    found = gradients.flow(gradients.fresh(RNN.Options(activation="identity"), size=6, steps=50, gain=gain))
    assert found.output == pytest.approx([gain**k for k in range(50)], rel=1e-4)  # orthogonal in float32
    assert found.rate == pytest.approx(gain, rel=1e-4)


def test_a_leaky_cell_gives_its_largest_rate_to_the_power_of_the_distance():
    reading = gradients.fresh(Leaky.Options(), size=6, steps=30)
    rate = torch.sigmoid(reading.cell.rate).max().item()
    assert gradients.flow(reading).output == pytest.approx([rate**k for k in range(30)])


def test_truncation_and_clipping():
    reading = gradients.fresh(RNN.Options(activation="identity"), size=4, steps=20, gain=1.5)
    full, cut = gradients.flow(reading), gradients.flow(reading, truncate=5)
    assert cut.output[:5] == full.output[:5]
    assert set(cut.output[5:]) == {0.0}
    assert max(gradients.flow(reading, clip=2.0).output) == 2.0


@pytest.mark.parametrize("options", CELLS, ids=identity)
def test_the_gradient_by_distance_sums_to_that_of_autograd_full_and_in_chunks(options):
    reading = read(options)
    found = gradients.share(reading, truncate=4)
    assert found.difference < 1e-10
    assert sum(found.portions) == pytest.approx(1)
    assert set(found.truncated[4:]) == {0.0}
    state, loss = reading.start, 0
    with disabled():
        for x, u in zip(reading.inputs.split(4), reading.upstream.split(4), strict=True):
            outputs, state = run(reading.cell, x[None], state=state)
            state = tuple(part.detach() for part in state)
            loss = loss + (outputs[0] * u).sum()
    chunked = torch.autograd.grad(loss, list(reading.cell.parameters()), allow_unused=True)
    norm = math.sqrt(sum(float(g.square().sum()) for g in chunked if g is not None))
    assert found.truncated_total == pytest.approx(norm)


def test_every_expansion_sums_to_the_gradient_of_autograd():
    for expansion in (gradients.bptt(), gradients.bptt(size=1, steps=9), gradients.two_step(), *gradients.two_layers()):
        assert expansion.difference < 1e-9
        assert all(term.norm > 0 for term in expansion.terms)
    assert len(gradients.bptt().terms) == 5
    assert len(gradients.two_step().terms) == 3


def test_the_two_step_network_is_that_of_finite_differences():
    def loss(w):
        h, total = 0.2, 0.0
        for x, target in ((1.0, 0.5), (0.5, -0.3)):
            h = math.tanh(0.6 * x + w * h)
            total += (math.tanh(1.1 * h) - target) ** 2 / 2
        return total

    slope = (loss(0.8 + 1e-5) - loss(0.8 - 1e-5)) / 2e-5
    expansion = gradients.two_step(w=0.8)
    assert float(expansion.total) == pytest.approx(slope, abs=1e-8)
    assert expansion.note.endswith(f"= {0.8 - 0.1 * slope:.4f}")


def test_the_scalar_case_is_the_49th_power_and_the_decks_print_the_50th():
    small, large = gradients.scalars().cases
    assert small.measured == pytest.approx(0.9**49)
    assert large.measured == pytest.approx(1.1**49)
    assert (f"{small.power:.5f}", f"{large.power:.1f}") == ("0.00515", "117.4")
    assert (f"{small.closed:.5f}", f"{large.closed:.1f}") == ("0.00573", "106.7")
    assert large.squashed == pytest.approx(large.squashed_closed)
    assert "w^50" in gradients.scalars().words()[0]


def test_what_vanishes_and_what_explodes_is_said():
    rnn = gradients.fresh(RNN.Options(), size=8, steps=60)
    wild = gradients.fresh(RNN.Options(activation="identity"), size=8, steps=60, gain=1.2, name="wild")
    words = gradients.distances([rnn, wild, gradients.fresh(Leaky.Options(), size=8, steps=60)]).words()
    assert [sentence.split(":")[0] for sentence in words] == [
        "rnn vanishes",
        "wild explodes",
        "leaky holds",
        "Vanishing",
        "Exploding",
    ]


def test_a_short_text_does_not_hide_what_a_cell_loses_with_every_step():
    (short,) = gradients.distances([gradients.fresh(RNN.Options(), size=8, steps=6)]).words()
    assert short.startswith("rnn shrinks: 5 steps back, a factor of ")
    (long,) = gradients.distances([gradients.fresh(Leaky.Options(), size=8, steps=6)]).words()
    assert long.startswith("leaky holds: ")


def test_the_four_terms_are_those_of_an_lstm_only():
    with pytest.raises(WindlassError, match="those of an LSTM"):
        gradients.paths(gradients.fresh(GRU.Options(), 4, 9))


def small_transformers():
    table = {"kind": "learned", "size": 6}
    layers = {"size": 6, "heads": 1, "hidden": 5, "layers": 2, "positions": "rotary", "embedding": table}
    model = {"encoder": {"kind": "attention", **layers}, "decoder": {"kind": "transformer", **layers}}
    return task_model("pronounce", model=model)


def test_what_reaches_the_inputs_of_transformer_layers_is_measured_like_finite_differences():
    bundle, value = small_transformers()
    (name, found, tokens), (other, written, _) = transformer_jacobians(bundle, value, "k a")
    assert (name, other) == ("encoder", "decoder")
    encoder = bundle.model.double().eval().encoder
    x = encoder.embed(batch_of(bundle, value, "k a")[0]).values.detach()
    everything, turn = torch.ones(1, x.size(1)) > 0, Rotation.at(torch.arange(x.size(1)), 6, x)

    def last(inputs):
        for layer in encoder.layers:
            inputs = layer(inputs, everything, turn, True)[0]
        return inputs[0, -1]

    assert len(found) == len(tokens) == x.size(1)
    for distance, jacobian in enumerate(found):
        for unit in range(6):
            step = torch.zeros_like(x)
            step[0, -1 - distance, unit] = 1e-6
            assert ((last(x + step) - last(x - step)) / 2e-6 - jacobian[:, unit]).abs().max() < 1e-6
    assert len(written) == 3  # the start mark, k and a
    assert all(jacobian.abs().max() > 1e-6 for jacobian in written)


def test_models_show_recurrent_and_transformer_layers_side_by_side():
    bundle, value = small_transformers()
    assert [flow.name for flow in gradients.model_distances(bundle, value).flows][:1] == ["encoder"]
    clipped = gradients.model_distances(bundle, value, "k a", clip=0.01)
    assert max(max(flow.output) for flow in clipped.flows) == 0.01
    with pytest.raises(WindlassError, match="--truncate 2 has no use: a transformer has no steps"):
        gradients.model_distances(bundle, value, truncate=2)
    table = {"kind": "learned", "size": 6}
    decoder = {"kind": "transformer", "size": 6, "heads": 1, "hidden": 5, "layers": 1, "embedding": table}
    bundle, value = task_model("text", model={"decoder": decoder})
    names = [flow.name for flow in gradients.model_distances(bundle, value, "k a").flows]
    assert names == ["encoder", "encoder, right to left", "decoder"]


@pytest.mark.parametrize("recurrent", [True, False])
def test_a_decoder_reads_the_output_also_where_the_input_is_as_long(recurrent):
    bundle, value = small_transformers()
    if recurrent:
        bundle, value = task_model("pronounce", model={"decoder": {"size": 8, "context": "summary"}})
    output = ["k", "a"] * 9
    flows = gradients.model_distances(bundle, value, " ".join(output[: len(value)])).flows
    assert flows[0].name.startswith("encoder")
    assert flows[0].tokens == (*value, "</s>")
    assert flows[-1].name.startswith("decoder")
    assert flows[-1].tokens == ("<s>", *output[: len(value)])
