"""Features, SpecAugment, the plain and the pyramidal encoder, against hand arithmetic and `torch.nn`."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from windlass.core.errors import RecipeError
from windlass.core.records import Batch, Padded
from windlass.encoders.plain import PlainEncoder
from windlass.encoders.pyramid import PyramidEncoder
from windlass.model import LossOptions, ModelOptions, build
from windlass.nn.features import FeatureOptions, Features, SpecAugmentOptions, spec_augment, stack_places


def given(lengths, numbers, seed=0):
    values = torch.randn(len(lengths), max(lengths), numbers, generator=torch.Generator().manual_seed(seed))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return Padded(values * mask[..., None], mask)


def batch(source):
    return Batch({"source": source}, None, torch.arange(len(source.mask)))


def test_places_are_stacked_in_order_and_the_last_is_filled_with_zeros():
    x = torch.tensor([[[1.0, 2], [3, 4], [5, 6]], [[7, 8], [0, 0], [0, 0]]])
    stacked, mask = stack_places(x, torch.tensor([[True, True, True], [True, False, False]]), 2)
    assert stacked.tolist() == [[[1, 2, 3, 4], [5, 6, 0, 0]], [[7, 8, 0, 0], [0, 0, 0, 0]]]
    assert mask.tolist() == [[True, True], [True, False]]


def test_features_are_stacked_normalised_and_projected():
    options = FeatureOptions(size=3, stack=2, norm=True, activation="tanh")
    features = Features(2, options)
    with torch.no_grad():
        for parameter in features.parameters():
            parameter.copy_(torch.randn_like(parameter))
    source = given([5, 2], 2)
    out = features(source)
    assert out.mask.tolist() == [[True, True, True], [True, False, False]]
    for row, places in ((0, 3), (1, 1)):
        for t in range(places):
            pair = [*source.values[row, 2 * t], *(source.values[row, 2 * t + 1] if 2 * t + 1 < 5 else [0.0, 0.0])]
            v = torch.tensor([float(n) for n in pair])
            z = (v - v.mean()) / (v.var(correction=0) + 1e-5).sqrt() * features.norm.weight + features.norm.bias
            assert torch.allclose(
                out.values[row, t], torch.tanh(features.projection.weight @ z + features.projection.bias), atol=1e-5
            )
    assert not out.values[1, 1:].any()  # padding is zero, not tanh(b)


def test_without_a_projection_features_are_the_numbers_themselves():
    source = given([4, 3], 5)
    features = Features(5, FeatureOptions(size=None))
    assert torch.equal(features(source).values, source.values)
    assert (features.size, list(features.parameters())) == (5, [])


def test_rubbish_on_padding_is_never_seen():
    source = given([4, 3], 2)
    rubbish = Padded(torch.where(source.mask[..., None], source.values, torch.nan), source.mask)
    features = Features(2, FeatureOptions(size=3, stack=3, norm=True))
    assert torch.equal(features(rubbish).values, features(source).values)


def test_blocks_of_times_and_bands_are_masked_as_often_and_as_wide_as_the_options_say():
    torch.manual_seed(0)
    x, mask = torch.ones(4000, 100, 40), torch.ones(4000, 100) > 0
    times = spec_augment(x, mask, SpecAugmentOptions(time_masks=1, times=10, band_masks=0))
    widths = (times[..., 0] == 0).sum(1)
    assert (times == times[..., :1]).all()  # whole places
    counts = torch.bincount(widths, minlength=11)
    assert len(counts) == 11
    assert (counts - 4000 / 11).abs().max() < 90  # uniform from 0 to 10
    starts = (times[widths > 0][..., 0] == 0).float().argmax(1)
    assert starts.min() == 0
    assert 85 < starts.max() <= 99
    assert abs(starts.float().mean() - 46.5) < 2  # anywhere
    bands = spec_augment(x, mask, SpecAugmentOptions(time_masks=0, band_masks=2, bands=5))
    gone = (bands[:, 0] == 0).sum(1)
    assert (bands == bands[:, :1]).all()
    assert gone.max() <= 10
    assert abs(gone.float().mean() - 4.85) < 0.2  # twice 2.5, less where both fall together


def test_at_most_a_fifth_of_a_sequence_and_half_of_the_bands_are_in_a_block():
    torch.manual_seed(0)
    x, mask = torch.ones(2000, 12, 4), torch.arange(12) < torch.tensor([12] * 1000 + [4] * 1000)[:, None]
    out = spec_augment(x, mask, SpecAugmentOptions(time_masks=1, times=20, band_masks=0))
    assert (out[:1000, :, 0] == 0).sum(1).max() == 2
    assert (out[1000:] == 1).all()
    out = spec_augment(x, mask, SpecAugmentOptions(time_masks=0, band_masks=1, bands=20))
    assert (out[:, 0] == 0).sum(1).max() == 2


def test_the_plain_encoder_is_the_embedded_places_and_their_mean():
    source = given([4, 2], 3)
    encoder = PlainEncoder.Options(embedding={"kind": "features", "size": 5, "activation": "relu"}).build(3)
    memory = encoder(batch(source))
    by_hand = torch.relu(encoder.embedding.projection(source.values))
    assert torch.allclose(memory.states, by_hand * source.mask[..., None])
    assert torch.allclose(memory.summary[1], by_hand[1, :2].mean(0), atol=1e-6)
    assert (memory.final, encoder.size) == ((), 5)


@pytest.mark.parametrize(("factor", "two"), [(2, True), (3, False)])
def test_a_pyramid_is_lstms_of_torch_over_pairs_of_states(factor, two):
    torch.manual_seed(1)
    lengths = [13, 5, 1]
    source = given(lengths, 4)
    options = {"cell": "lstm", "size": 6, "layers": 3, "factor": factor, "bidirectional": two}
    encoder = PyramidEncoder.Options(**options, embedding={"kind": "features", "size": None}).build(4)
    memory = encoder(batch(source))
    x, sizes = source.values, torch.tensor(lengths)
    for n, stack in enumerate(encoder.stacks):
        if n:
            x = nn.functional.pad(x, (0, 0, 0, -x.size(1) % factor)).reshape(3, -1, factor * x.size(2))
            sizes = -(-sizes // factor)
        theirs = nn.LSTM(x.size(2), 6, batch_first=True, bidirectional=two)
        for suffix, cell in zip(("", "_reverse"), (*stack.cells, *stack.backward_cells), strict=False):
            with torch.no_grad():
                for name, weight in (
                    ("weight_ih", cell.weight_x),
                    ("weight_hh", cell.state_weight),
                    ("bias_ih", cell.bias),
                ):
                    i, f, o, g = weight.chunk(4)
                    getattr(theirs, f"{name}_l0{suffix}").copy_(torch.cat([i, f, g, o]))
                getattr(theirs, f"bias_hh_l0{suffix}").zero_()
        packed, (h, _) = theirs(pack_padded_sequence(x, sizes, batch_first=True, enforce_sorted=False))
        x, _ = pad_packed_sequence(packed, batch_first=True)
        last = torch.cat([*h], dim=1)
        assert torch.allclose(memory.final[n][0], last, atol=1e-5)
    assert torch.allclose(memory.states, x, atol=1e-5)
    assert memory.mask.sum(1).tolist() == sizes.tolist()
    assert torch.allclose(memory.summary, last, atol=1e-5)


def test_what_joins_places_is_refused_where_each_place_has_a_tag():
    from windlass.recipe import default, parse

    usual = default("tag-numbers")
    for change in ({"kind": "pyramid"}, {"embedding": {"kind": "features", "stack": 2}}):
        kept = {key: value for key, value in usual["model"]["encoder"].items() if key != "start"}  # a pyramid has none
        encoder = {**kept, **change}
        with pytest.raises(RecipeError, match="joins places that have a tag each"):
            parse({**usual, "model": {**usual["model"], "encoder": encoder}})


def test_a_clip_is_classified_by_its_last_state():
    """The decks' h_t = RNN(h_{t-1}, CNN(x_t)), P(y) = softmax(V h_T + b)."""
    encoder = {"kind": "recurrent", "cell": "rnn", "size": 4, "bidirectional": False}
    encoder["embedding"] = {"kind": "features", "size": None}
    model = build(ModelOptions(encoder=encoder, head={"kind": "label", "pool": "summary"}), LossOptions(), 3, 2)
    cell, output = model.encoder.stack.first, model.head.output[0]
    source = given([4, 2], 3)
    with torch.no_grad():
        found, _ = model.head(model.encode(batch(source)))
        for row, length in enumerate([4, 2]):
            h = torch.zeros(4)
            for x in source.values[row, :length]:
                h = torch.tanh(cell.weight_x @ x + cell.weight_h @ h + cell.bias)
            right = torch.log_softmax(output.weight @ h + output.bias, 0)
            assert torch.allclose(found[row], right, atol=1e-6)
