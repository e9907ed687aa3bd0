"""Convolutions, self-attention and pairs, against torch.nn and hand arithmetic."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from windlass.core.errors import DataError
from windlass.core.records import Batch, Memory, Padded
from windlass.encoders.attention import AttentionEncoder
from windlass.encoders.convolution import ConvolutionEncoder
from windlass.encoders.pair import PairEncoder
from windlass.heads.label import LabelHead, LabelHeadOptions
from windlass.nn.cells import Convolution
from windlass.nn.convolution import ConvolutionOptions, Convolutions
from windlass.nn.pooling import MeanMax
from windlass.nn.positions import LearnedPositions, sinusoids
from windlass.nn.recurrence import run, stepwise
from windlass.nn.selfattention import AttentionLayer, SelfAttention

MASK = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


def drawn(module):
    module = module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module


# -- the causal convolution


@pytest.mark.parametrize("activation", ["gated", "relu", "tanh"])
@pytest.mark.parametrize("width", [2, 4])
def test_a_causal_cell_is_a_convolution_with_nothing_before_its_first_input(width, activation):
    torch.manual_seed(1)
    cell = drawn(Convolution.Options(width=width, activation=activation).build(3, 4))
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    # W_k is for the input k places back; torch's filter has the one furthest back first.
    filters = cell.weight_x.view(width, -1, 3).flip(0).permute(1, 2, 0)
    sums = F.conv1d(F.pad(x.transpose(1, 2), (width - 1, 0)), filters, cell.constant)
    right = {"gated": lambda a: F.glu(a, 1), "relu": torch.relu, "tanh": torch.tanh}[activation](sums).transpose(1, 2)
    outputs, _ = run(cell, x)
    assert torch.allclose(outputs, right)
    steps, _ = stepwise(cell, x.transpose(0, 1), None, None, reverse=False)
    assert torch.allclose(steps.transpose(0, 1), right)


def test_a_gap_in_a_mask_leaves_the_state_as_it_was():
    torch.manual_seed(1)
    cell = drawn(Convolution.Options(width=3).build(3, 4))
    x = torch.randn(1, 4, 3, dtype=torch.float64)
    gap, _ = run(cell, x, torch.tensor([[True, False, True, True]]))
    without, _ = run(cell, x[:, [0, 2, 3]])
    assert torch.allclose(gap[:, [0, 2, 3]], without)


# -- convolutions that see both sides


@pytest.mark.parametrize("activation", ["relu", "tanh", "gated"])
def test_filters_see_what_stands_around_a_place(activation):
    torch.manual_seed(1)
    layer = drawn(Convolutions(3, ConvolutionOptions(size=2, widths=(2, 3), activation=activation)))
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    found = layer(x, MASK)
    act = {"relu": torch.relu, "tanh": torch.tanh, "gated": lambda a: a[:2] * torch.sigmoid(a[2:])}[activation]
    for row, length in enumerate((5, 3)):
        for t in range(length):
            parts = []
            for filters, before in zip(
                layer.layers[0], (0, 1), strict=True
            ):  # an even width sees one more to the right
                total = filters.bias.clone()
                for k in range(filters.kernel_size[0]):
                    place = t - before + k
                    if 0 <= place < length:
                        total = total + filters.weight[:, :, k] @ x[row, place]
                parts.append(act(total))
            assert torch.allclose(found[row, t], torch.cat(parts))
    assert not found[1, 3:].any()


def test_a_residual_layer_adds_what_it_was_given():
    torch.manual_seed(1)
    plain = drawn(Convolutions(3, ConvolutionOptions(size=4, layers=2)))
    residual = Convolutions(3, ConvolutionOptions(size=4, layers=2, connect="residual")).double()
    residual.load_state_dict(plain.state_dict())
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    one = Convolutions(3, ConvolutionOptions(size=4)).double()
    one.load_state_dict({name: t for name, t in plain.state_dict().items() if name.startswith("layers.0")})
    assert torch.allclose(residual(x, MASK), plain(x, MASK) + one(x, MASK))


def test_what_a_residual_convolution_is_given_is_not_dropped():
    torch.manual_seed(1)
    layers = drawn(Convolutions(3, ConvolutionOptions(size=4, layers=2, connect="residual", dropout=0.5))).train()
    one = Convolutions(3, ConvolutionOptions(size=4, dropout=0.5)).double().train()
    one.load_state_dict({name: t for name, t in layers.state_dict().items() if name.startswith("layers.0")})
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    torch.manual_seed(2)
    below = one(x, MASK)
    torch.manual_seed(2)
    added = layers(x, MASK) - below  # 0 where the second layer's output was dropped or is not above 0
    with torch.no_grad():
        y = torch.relu(layers._convolve(layers.layers[1][0], below.transpose(1, 2)).transpose(1, 2)) * MASK[..., None]
    kept = added != 0
    assert kept.any()
    assert (~kept & (y > 0)).any()
    assert torch.allclose(added[kept], 2 * y[kept])


def test_the_summary_of_a_convolution_is_the_strongest_answer_of_every_filter():
    torch.manual_seed(1)
    encoder = ConvolutionEncoder.Options(size=4).build(10)
    memory = encoder(Batch({"source": Padded.of([[5, 6, 7], [8]])}, None, torch.arange(2)))
    assert torch.equal(memory.summary[0], memory.states[0].max(0).values)
    assert torch.equal(memory.summary[1], memory.states[1, 0])


# -- self-attention


def copied(layer: SelfAttention, other: nn.MultiheadAttention) -> None:
    """Give torch's attention our weights; it has biases that we have not."""
    other.in_proj_weight.copy_(layer.project.weight)
    other.in_proj_bias.zero_()
    other.out_proj.weight.copy_(layer.out.weight)
    other.out_proj.bias.copy_(layer.out.bias)


@pytest.mark.parametrize("heads", [1, 2, 4])
@torch.no_grad()
def test_self_attention_is_torchs_own(heads):
    torch.manual_seed(1)
    layer = drawn(SelfAttention(8, heads))
    other = nn.MultiheadAttention(8, heads, batch_first=True).double().eval()
    copied(layer, other)
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    found, weights = layer(x, MASK)
    right, seen = other(x, x, x, key_padding_mask=~MASK, average_attn_weights=False)
    assert torch.allclose(found, right)
    assert torch.allclose(weights, seen)
    assert not weights[1, :, :, 3:].any()


@torch.no_grad()
def test_one_head_is_the_matrix_form_of_the_decks():
    torch.manual_seed(1)
    layer = drawn(SelfAttention(4, 1))
    x = torch.randn(1, 3, 4, dtype=torch.float64)
    q, k, v = (x[0] @ w.t() for w in layer.project.weight.chunk(3))
    weights = torch.softmax(q @ k.t() / math.sqrt(4), dim=1)
    found, own = layer(x, torch.ones(1, 3) > 0)
    assert torch.allclose(own[0, 0], weights)
    assert torch.allclose(found[0], weights @ v @ layer.out.weight.t() + layer.out.bias)


@pytest.mark.parametrize("norm", ["before", "after"])
@torch.no_grad()
def test_a_layer_is_that_of_torchs_transformer(norm):
    torch.manual_seed(1)
    layer = drawn(AttentionLayer(8, 2, 12, norm))
    other = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, norm_first=norm == "before").double().eval()
    copied(layer.attend, other.self_attn)
    pairs = [(other.linear1, layer.enter), (other.linear2, layer.leave)]
    for theirs, ours in [*pairs, *zip((other.norm1, other.norm2), layer.norms, strict=True)]:
        theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    found, _ = layer(x, MASK)
    right = other(x, src_key_padding_mask=~MASK)
    assert torch.allclose(found[MASK], right[MASK])
    elsewhere = AttentionLayer(8, 2, 12, "after" if norm == "before" else "before").double()
    elsewhere.load_state_dict(layer.state_dict())
    assert not torch.allclose(elsewhere(x, MASK)[0][MASK], right[MASK])


def test_positions_are_waves_of_growing_length():
    found = sinusoids(50, 6, torch.zeros(1, dtype=torch.float64))
    for t, i in ((0, 0), (1, 0), (7, 1), (49, 2)):
        rate = 1 / 10000 ** (2 * i / 6)
        assert found[t, 2 * i].item() == pytest.approx(math.sin(t * rate))
        assert found[t, 2 * i + 1].item() == pytest.approx(math.cos(t * rate))
    assert sinusoids(3, 5, torch.zeros(1)).shape == (3, 5)


def states(positions, ids, **more):
    torch.manual_seed(1)
    options = AttentionEncoder.Options(size=8, heads=2, hidden=8, layers=1, positions=positions, **more)
    encoder = options.build(10).double().eval()
    return encoder(Batch({"source": Padded.of([ids])}, None, torch.arange(1))).states[0]


def test_without_positions_the_order_is_not_seen_and_with_any_it_is():
    turn = [2, 0, 1]
    ids = [5, 6, 7]
    turned = [ids[n] for n in turn]
    assert torch.allclose(states("none", turned), states("none", ids)[turn])
    for positions in ("sinusoidal", "learned", "rotary"):
        assert not torch.allclose(states(positions, turned), states(positions, ids)[turn])
    below = {"below": {"cell": "gru", "size": 4}}
    assert not torch.allclose(states("none", turned, **below), states("none", ids, **below)[turn])


def test_learned_positions_say_when_a_text_is_too_long():
    with pytest.raises(DataError, match=r"the source has 4 tokens, but model\.encoder\.longest is 3"):
        LearnedPositions(3, 2)(4)


# -- pairs


def test_a_word_is_compared_with_what_it_finds_in_the_other_text():
    torch.manual_seed(1)
    options = PairEncoder.Options(
        reader={"kind": "convolution", "size": 3, "widths": [1], "embedding": {"kind": "learned", "size": 3}},
        attention={"score": "dot", "size": 4},
    )
    encoder = drawn(options.build({"source": 10}))
    first, second = [5, 6, 7], [6, 8]
    batch = Batch({"source": Padded.of([first]), "second": Padded.of([second])}, None, torch.arange(1))
    memory = encoder(batch)
    read = lambda ids: encoder.reader(Batch({"source": Padded.of([ids])}, None, torch.arange(1))).states[0]  # noqa: E731
    a, b = read(first), read(second)
    weights = torch.softmax(b @ a.t(), dim=1)
    assert torch.allclose(memory.parts["cross_attention"].states[0], weights)

    def compared(own, found):
        return torch.relu(encoder.compare.layer(torch.cat([own, found, own - found, own * found], dim=1)))

    assert torch.allclose(memory.parts["second"].states[0], compared(b, weights @ a))
    assert torch.allclose(memory.states[0], compared(a, torch.softmax(a @ b.t(), dim=1) @ b))


def test_without_attention_neither_text_knows_of_the_other_and_not_shared_each_has_its_own_network():
    for shared in (True, False):
        torch.manual_seed(1)
        options = PairEncoder.Options(reader={"kind": "recurrent", "size": 3}, shared=shared)
        encoder = drawn(options.build({"source": 10}))
        one = encoder(Batch({"source": Padded.of([[5, 6]]), "second": Padded.of([[5, 6]])}, None, torch.arange(1)))
        other = encoder(Batch({"source": Padded.of([[5, 6]]), "second": Padded.of([[9]])}, None, torch.arange(1)))
        assert torch.equal(one.states, other.states)
        assert "cross_attention" not in one.parts
        assert torch.equal(one.states, one.parts["second"].states) == shared


def test_a_pair_is_judged_by_both_vectors_their_difference_and_their_product():
    head = LabelHead(LabelHeadOptions(pool="mean"), labels=2, memory_size=2, pair=True)
    u, v = torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 0.5]])
    real = torch.ones(1, 1) > 0
    memory = Memory(u[:, None], real, u, parts={"second": Memory(v[:, None], real, v)})
    (layer,) = head.output
    seen = torch.tensor([[1.0, -2.0, 3.0, 0.5, 2.0, 2.5, 3.0, -1.0]])
    assert torch.allclose(head(memory)[0], torch.log_softmax(layer(seen), -1))


def test_mean_and_maximum_stand_side_by_side():
    memory = Memory(torch.tensor([[[1.0, 5.0], [2.0, 3.0], [9.0, 9.0]]]), MASK[1:, 1:4], torch.zeros(1, 2))
    assert MeanMax(2)(memory)[0].tolist() == [[1.5, 4.0, 2.0, 5.0]]
