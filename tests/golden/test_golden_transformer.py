"""The transformer decoder against torch.nn, and its positions against their definition."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from windlass.core.errors import DataError
from windlass.core.marks import BOS, EOS
from windlass.core.records import Batch, Member, Memory, Padded
from windlass.data.running import chunk_of
from windlass.decoding.options import Beam, Greedy, Sample
from windlass.decoding.search import SearchRequest, search, stream
from windlass.heads.base import LossOptions
from windlass.heads.transformer import TransformerDecoder
from windlass.nn.positions import LearnedPositions, Rotation, sinusoids
from windlass.nn.transformer import Cache, CausalAttention, CrossAttention, DecoderLayer

D, M, H, V = 8, 6, 2, 11
MASK = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


def drawn(module: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    for parameter in module.double().eval().parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return module


def nothing(rows: int, layers: int = 1) -> Cache:
    return Cache.empty(layers, rows, H, D // H, torch.zeros(1, dtype=torch.float64))


def given(ours: CausalAttention | CrossAttention, theirs: nn.MultiheadAttention) -> None:
    """Give torch's attention our weights; it has biases that ours has not."""
    if isinstance(ours, CausalAttention):
        theirs.in_proj_weight.copy_(ours.project.weight)
    else:
        keys, values = ours.memory.weight.chunk(2)
        if theirs.in_proj_weight is not None:
            theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, keys, values]))
        else:
            theirs.q_proj_weight.copy_(ours.query.weight)
            theirs.k_proj_weight.copy_(keys)
            theirs.v_proj_weight.copy_(values)
    theirs.in_proj_bias.zero_()
    theirs.out_proj.load_state_dict(ours.out.state_dict())


def torchs(layer: DecoderLayer, norm: str) -> nn.TransformerDecoderLayer:
    other = nn.TransformerDecoderLayer(D, H, 12, batch_first=True, norm_first=norm == "before").double().eval()
    given(layer.attend, other.self_attn)
    given(layer.cross, other.multihead_attn)
    norms = zip((other.norm1, other.norm2, other.norm3), layer.norms, strict=True)
    for theirs, ours in [(other.linear1, layer.enter), (other.linear2, layer.leave), *norms]:
        theirs.load_state_dict(ours.state_dict())
    return other


def ran(layer: DecoderLayer, x: Tensor, memory: Tensor, look: bool = False) -> tuple[Tensor, Tensor | None]:
    cache = nothing(len(x))
    view = cache.view(x.size(1), None, x.device)
    found, _, weights = layer(x, cache.layers[0], view, None, layer.cross.prepare(memory), MASK, look)
    return found, weights


@pytest.mark.parametrize("norm", ["before", "after"])
@torch.no_grad()
def test_a_layer_is_that_of_torchs_transformer_decoder(norm):
    layer = drawn(DecoderLayer(D, H, 12, D, norm))
    x, memory = torch.randn(2, 4, D, dtype=torch.float64), torch.randn(2, 5, D, dtype=torch.float64)
    causal = torch.ones(4, 4, dtype=torch.bool).triu(1)
    right = torchs(layer, norm)(x, memory, tgt_mask=causal, memory_key_padding_mask=~MASK)
    assert torch.allclose(ran(layer, x, memory)[0], right)
    assert torch.allclose(ran(layer, x, memory, look=True)[0], right)
    elsewhere = DecoderLayer(D, H, 12, D, "after" if norm == "before" else "before").double()
    elsewhere.load_state_dict(layer.state_dict())
    assert not torch.allclose(ran(elsewhere, x, memory)[0], right)


@torch.no_grad()
def test_attention_over_a_memory_of_another_size_is_torchs_own_with_its_weights():
    layer = drawn(CrossAttention(D, M, H))
    other = nn.MultiheadAttention(D, H, kdim=M, vdim=M, batch_first=True).double().eval()
    given(layer, other)
    x, memory = torch.randn(2, 4, D, dtype=torch.float64), torch.randn(2, 5, M, dtype=torch.float64)
    found, weights = layer(x, layer.prepare(memory), MASK, look=True)
    right, seen = other(x, memory, memory, key_padding_mask=~MASK, average_attn_weights=False)
    assert torch.allclose(found, right)
    assert torch.allclose(weights, seen)


@pytest.mark.parametrize("norm", ["before", "after"])
@torch.no_grad()
def test_the_decoder_is_torchs_between_embedding_with_waves_and_softmax(norm):
    options = TransformerDecoder.Options(
        size=D, heads=H, hidden=12, norm=norm, embedding={"kind": "learned", "size": D}
    )
    head = drawn(TransformerDecoder(options, V, D))
    memory = Memory(torch.randn(2, 5, D, dtype=torch.float64), MASK, torch.zeros(2, D))
    target = Padded.of([[5, 6, 7, 3], [8, 9, 4, 3]])
    read = torch.cat([torch.full((2, 1), BOS), target.values[:, :-1]], 1)
    x = head.embedding.table[read] + sinusoids(4, D, memory.states)
    causal = torch.ones(4, 4, dtype=torch.bool).triu(1)
    for layer in head.layers:
        x = torchs(layer, norm)(x, memory.states, tgt_mask=causal, memory_key_padding_mask=~MASK)
    if norm == "before":
        x = nn.functional.layer_norm(x, (D,), head.last.weight, head.last.bias)
    logp = torch.log_softmax(head.output(x), -1).gather(2, target.values[..., None]).squeeze(2)
    found, _ = head.reference_logprobs(memory, Batch({}, target, torch.arange(2)))
    assert torch.allclose(found, logp)


@torch.no_grad()
def test_the_attention_that_is_returned_is_the_mean_over_the_heads_of_the_last_layer():
    head = drawn(TransformerDecoder(TransformerDecoder.Options(size=D, heads=H, hidden=12), V, M))
    memory = Memory(torch.randn(2, 5, M, dtype=torch.float64), MASK, torch.zeros(2, M))
    batch = Batch({}, Padded.of([[5, 6, 3], [8, 9, 3]]), torch.arange(2))
    seen: list[Tensor] = []
    head.layers[-1].cross.register_forward_hook(lambda _, __, out: seen.append(out[1]))
    _, weights = head.reference_logprobs(memory, batch)
    assert weights.shape == (2, 3, 5)
    assert torch.allclose(weights, seen[0].mean(1))


def test_the_loss_of_the_attention_is_that_of_what_is_returned():
    head = drawn(TransformerDecoder(TransformerDecoder.Options(size=D, heads=H, hidden=12), V, M))
    memory = Memory(torch.randn(2, 5, M, dtype=torch.float64), MASK, torch.zeros(2, M))
    links = torch.rand(2, 3, 5, dtype=torch.float64) * MASK[:, None]
    batch = Batch({}, Padded.of([[5, 6, 3], [8, 9, 3]]), torch.arange(2), links)
    _, weights = head.reference_logprobs(memory, batch)
    first, second, third = weights.unbind(1)
    plain = head.score(memory, batch)
    for name, right in {
        "alignment": -(links * weights.clamp(min=1e-8).log()).sum(),
        "coverage": torch.minimum(second, first).sum() + torch.minimum(third, first + second).sum(),
    }.items():
        for sampling in (0.0, 1e-9):  # at once, and token by token
            scored = head.score(memory, batch, LossOptions.model_validate({name: 2.0}), sampling_prob=sampling)
            assert torch.allclose(scored.terms[name], right)
            assert torch.allclose(scored.loss_sum, plain.loss_sum + 2 * right)
            extra = scored.loss_sum - head.score(memory, batch).loss_sum
            (slope,) = torch.autograd.grad(extra, head.layers[-1].cross.query.weight)
            assert slope.abs().max() > 1e-6


def test_rotary_positions_turn_every_pair_by_its_angle():
    torch.manual_seed(1)
    x, places = torch.randn(3, 6, dtype=torch.float64), torch.tensor([0, 1, 1000])
    found = Rotation.at(places, 6, x)(x)
    for t, place in enumerate(places.tolist()):
        for i in range(3):
            angle = place / 10000 ** (2 * i / 6)
            turned = complex(x[t, 2 * i], x[t, 2 * i + 1]) * complex(math.cos(angle), math.sin(angle))
            assert found[t, 2 * i].item() == pytest.approx(turned.real)
            assert found[t, 2 * i + 1].item() == pytest.approx(turned.imag)


def test_under_rotary_positions_a_product_depends_on_the_distance_alone():
    torch.manual_seed(1)
    q, k = torch.randn(2, 1, 6, dtype=torch.float64)

    def product(t: int, s: int) -> float:
        at = (Rotation.at(torch.tensor([place]), 6, q) for place in (t, s))
        return ((next(at)(q)) * (next(at)(k))).sum().item()

    assert product(7, 3) == pytest.approx(product(100_007, 100_003), abs=1e-9)
    assert product(7, 3) != pytest.approx(product(7, 4), abs=1e-3)


@pytest.mark.parametrize("window", [1, 3])
def test_a_token_sees_as_many_before_it_as_the_window_has(window):
    more = {"positions": "rotary", "context": "none", "layers": 1}
    head = drawn(TransformerDecoder(TransformerDecoder.Options(size=D, heads=H, window=window, **more), V, 0))
    e = torch.randn(1, 8, 256, dtype=torch.float64, requires_grad=True)
    source, state = head.begin(Memory.empty(1))
    x = head.unroll(e, state, source, weights=False).s
    (slope,) = torch.autograd.grad(x[0, 6].square().sum(), e)
    assert [bool(row.any()) for row in slope[0]] == [6 - window <= t <= 6 for t in range(8)]


@pytest.mark.parametrize("kind", ["dropout", "attention_dropout"])
@torch.no_grad()
def test_dropout_is_of_training_alone(kind):
    head = drawn(TransformerDecoder(TransformerDecoder.Options(size=D, heads=H, hidden=12, **{kind: 0.5}), V, M))
    memory = Memory(torch.randn(2, 5, M, dtype=torch.float64), MASK, torch.zeros(2, M))
    batch = Batch({}, Padded.of([[5, 6, 3], [8, 9, 3]]), torch.arange(2))
    calm, again, wild, wilder = (head.train(n > 1).score(memory, batch).loss_sum for n in range(4))
    assert calm == again
    assert len({calm.item(), wild.item(), wilder.item()}) == 3


def test_dropout_is_on_the_inputs_too():
    head = decoder(dropout=0.5, context="none", positions="none", layers=1)
    seen: list[Tensor] = []
    head.layers[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    for mode in (False, True):
        head.train(mode).score(Memory.empty(1), Batch({}, Padded.of([[5] * 99 + [EOS]]), torch.arange(1)))
    calm, wild = seen
    dropped = wild == 0
    assert 0.4 < dropped.double().mean() < 0.6
    assert torch.allclose(wild, (2 * calm).masked_fill(dropped, 0))


def test_learned_positions_say_when_a_target_is_too_long():
    table = LearnedPositions(3, 2, "target", "model.decoder")
    assert table.at(torch.tensor([[2]])).shape == (1, 1, 2)
    with pytest.raises(DataError, match=r"the target has 4 tokens, but model\.decoder\.longest is 3: train with a"):
        table.at(torch.tensor([1, 3]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"size": 8, "heads": 3}, "size 8 cannot be shared among 3 heads"),
        ({"size": 6, "heads": 2, "positions": "rotary"}, "rotary needs heads of an even size, not 3"),
        ({"longest": 9}, "longest is for positions: learned"),
        ({"window": 9}, "a window moves on without end, which positions: sinusoidal cannot: use rotary"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        TransformerDecoder.Options(**options)


@pytest.mark.parametrize("options", [Greedy(), Beam(size=3), Sample()], ids=lambda options: options.kind)
def test_a_search_ends_at_the_last_learned_position(options):
    head = decoder(positions="learned", longest=4)
    head.output.bias.data[EOS] = -1e4  # it never ends by itself
    short = decoder(positions="learned", longest=3)
    free = decoder(positions="sinusoidal")
    memory = Memory(torch.randn(2, 5, M, dtype=torch.float64), MASK, torch.randn(2, M, dtype=torch.float64))
    for members, length in (([head], 4), ([free, head], 4), ([head, short], 3)):
        found = search([Member(one, memory) for one in members], SearchRequest(options))
        cut = [hypothesis for (hypothesis, *_) in found if not hypothesis.finished]
        assert all(len(one.ids) == length for one in cut)
        assert all(len(one.ids) < length for (one, *_) in found if one.finished)
        assert len(cut) == 2 or len(members) == 2
    with pytest.raises(DataError, match="needs 5 places of the decoder, and there are 4"):
        search([Member(head, memory)], SearchRequest(options, prefix=(5, 6, 7, 8, 9)))


def test_a_language_model_writes_up_to_its_last_learned_position():
    head = decoder(positions="learned", longest=6, context="none")
    head.output.bias.data[EOS] = -1e4
    found = list(stream([Member(head, Memory.empty(1))], SearchRequest(Sample()), prompt=[5, 6]))
    assert len(found) == 4


def test_an_output_beyond_the_last_learned_position_is_too_long():
    head = decoder(positions="learned", longest=3)
    batch = Batch({}, Padded.of([[5, 6, EOS], [5, 6, 7, EOS]]), torch.arange(2))
    assert head.too_long(batch, torch.tensor([5, 5])).tolist() == [False, True]


@pytest.mark.parametrize("options", [Greedy(), Beam(size=3), Sample()], ids=lambda options: options.kind)
def test_each_row_writes_from_its_prefix_up_to_the_last_learned_position_whatever_the_others_have_left(options):
    head = decoder(prefix="source", positions="learned", longest=12, context="none")
    head.output.bias.data[EOS] = -1e4
    source = Padded.of([[5] * 9, *[[5, 6]] * 15])  # one of 16 leaves the batch late
    batch = Batch({"source": source}, None, torch.arange(16))
    found = search([Member(head, Memory.empty(16), batch)], SearchRequest(options))
    assert [len(one.ids) for (one, *_) in found] == [3, *[10] * 15]
    full = Batch({"source": Padded.of([[5] * 12])}, None, torch.arange(1))
    with pytest.raises(DataError, match="needs 1 place of the decoder, and there are 0"):
        search([Member(head, Memory.empty(1), full)], SearchRequest(options))


@torch.no_grad()
def test_a_target_after_its_prefix_is_scored_alike_beside_longer_ones_and_refused_beyond_the_last_position():
    head = decoder(prefix="source", positions="learned", longest=12, context="none")
    rows = [([5] * 9, [6, 7, EOS]), ([5, 6], [7, 8, 9, 4, 5, 6, 7, 8, 9, EOS])]

    def forced(rows: list[tuple[list[int], list[int]]]) -> list[float]:
        source, target = (Padded.of(list(side)) for side in zip(*rows, strict=True))
        batch = Batch({"source": source}, target, torch.arange(len(rows)))
        return [hypothesis.score for hypothesis in head.force(Memory.empty(len(rows)), batch)]

    assert forced(rows) == pytest.approx([score for row in rows for score in forced([row])])
    with pytest.raises(DataError, match="the source with its target has 13 tokens"):
        forced([rows[1], ([5] * 9, [6, 7, 8, EOS])])


def test_rows_of_a_text_that_is_read_in_parts_end_at_the_last_position_and_their_padding_may_not():
    head = decoder(positions="learned", longest=6, context="none")

    def read(*lengths: int) -> None:
        values, mask, carry = torch.full((2, 8), 5), torch.arange(8) < torch.tensor(lengths)[:, None], None
        for begin in (0, 4):
            _, carry = head.run_chunk(chunk_of(values, mask, begin, begin + 4), carry)

    read(6, 3)
    with pytest.raises(DataError, match="the target has 7 tokens"):
        read(7, 3)


def decoder(prefix: str | None = None, **options) -> TransformerDecoder:
    settings = TransformerDecoder.Options(size=D, heads=H, hidden=12, **options)
    return drawn(TransformerDecoder(settings, V, 0 if options.get("context") == "none" else M, prefix=prefix))


def test_attention_dropout_is_on_the_memory_too():
    layer, x = CrossAttention(size=8, memory_size=6, heads=2, dropout=0.5), torch.randn(3, 5, 8)
    prepared = layer.prepare(torch.randn(3, 7, 6))
    for look in (True, False):
        first, second = (layer.train()(x, prepared, None, look)[0] for _ in range(2))
        assert not torch.allclose(first, second)
        assert torch.equal(*(layer.eval()(x, prepared, None, look)[0] for _ in range(2)))


@pytest.mark.parametrize("options", [Greedy, Beam])
def test_the_length_limit_counts_what_follows_the_prefix(options):
    head = drawn(TransformerDecoder(TransformerDecoder.Options(size=8, heads=2), vocabulary=10, memory_size=6))
    memory = Memory(torch.randn(1, 5, 6).double(), torch.ones(1, 5) > 0, torch.randn(1, 6).double())
    limited = options(length_factor=0, length_plus=2)
    ((found,),) = search([Member(head, memory)], SearchRequest(limited, forbidden=(EOS,), prefix=(5, 6, 7)))
    assert found.ids[:3] == (5, 6, 7)
    assert len(found.ids) == 5
