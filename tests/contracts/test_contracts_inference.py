"""The inference form of a head takes the steps that the head takes; in 8 bits, nearly the same."""

import copy
import gc
import weakref

import pytest
import torch
from contract_parts import SEARCHES, VARIANTS, V, batch, close, fresh, model

from windlass.core.marks import BOS
from windlass.core.records import Batch, Member, Padded
from windlass.decoding.options import Beam, Greedy, Sample
from windlass.decoding.search import SearchRequest, search
from windlass.nn import fast
from windlass.nn.fast import int8, onednn, packed
from windlass.nn.fast.int8 import Int8Weight, QuantisedMatrix
from windlass.nn.fast.packed import pack

every = pytest.mark.parametrize("name", VARIANTS)


@pytest.fixture(autouse=True)
def small_weights_too(monkeypatch):
    """Tiny models are multiplied in 8 bits here, as large ones are."""
    monkeypatch.setattr(int8, "SMALLEST", 1)


eight_bits = pytest.mark.skipif(not int8.levels(), reason="no 8-bit products on this machine")
TOKENS = [[BOS] * 6, [4, 5, 6, 7, 8, 1], [8, 8, 3, 4, 1, 6]]


def walk(head, memory, given, k=2):
    """Log probabilities, attention and states of three steps, with k hypotheses a row that change places."""
    source, state = head.begin(memory, given)
    state = state.repeat(k)
    outcomes = []
    for tokens in TOKENS:
        logprobs, state, weights = head.step(torch.tensor(tokens), state, source)
        outcomes.append((logprobs, weights))
        state = state.select(torch.tensor([1, 0, 2, 2, 5, 4]))
    keep = torch.tensor([0, 2])
    logprobs, _, weights = head.step(
        torch.tensor([4, 5, 6, 7]), state.select(torch.tensor([0, 1, 4, 5])), source.select(keep)
    )
    return [*outcomes, (logprobs, weights)]


@every
def test_the_inference_form_takes_the_same_steps(name):
    m = model(name)
    with torch.no_grad():
        for given in (batch(), batch(wider=1), batch(blank=True)):
            memory = m.encode(given)
            for (a, seen), (b, also) in zip(
                walk(m.head, memory, given), walk(fast.inference(m.head), memory, given), strict=True
            ):
                assert close(a, b)
                assert (seen is None) == (also is None)
                assert seen is None or close(seen, also)


@every
def test_the_inference_form_takes_the_same_steps_in_float32_with_one_row_and_with_many(name):
    m = fresh(name).float()
    with torch.no_grad():
        memory = m.encode(batch())
        for (a, _), (b, _) in zip(
            walk(m.head, memory, batch()), walk(fast.inference(m.head), memory, batch()), strict=True
        ):
            assert torch.allclose(a, b, atol=1e-4, rtol=1e-4)
        row = torch.tensor([1])
        one, given = memory.select(row), batch().select(row)
        steps = [h.step(torch.tensor([4]), *reversed(h.begin(one, given))) for h in (m.head, fast.inference(m.head))]
        assert torch.allclose(steps[0][0], steps[1][0], atol=1e-4, rtol=1e-4)


@eight_bits
def test_only_weights_that_gain_by_it_are_multiplied_in_8_bits(monkeypatch):
    monkeypatch.setattr(int8, "SMALLEST", 2**17)
    narrow, wide = torch.randn(384, 128), torch.randn(1024, 128)
    assert not isinstance(packed.pack(narrow, int8=True), Int8Weight)
    assert isinstance(packed.pack(wide, int8=True), Int8Weight)
    assert isinstance(packed.pack(narrow, int8=True, bounded=True), Int8Weight)  # no scale to find


@every
@eight_bits
def test_in_8_bits_the_distributions_are_nearly_the_same_and_not_quite(name):
    m = fresh(name).float()
    with torch.no_grad():
        memory = m.encode(batch())
        quantised = fast.inference(m.head, int8=True)
        pairs = list(zip(walk(m.head, memory, batch()), walk(quantised, memory, batch()), strict=True))
    assert all((a.exp() - b.exp()).abs().max() < 0.1 for (a, _), (b, _) in pairs)
    assert any(not torch.equal(a, b) for (a, _), (b, _) in pairs)


@every
@eight_bits
def test_in_8_bits_too_the_batch_matters_within_a_tolerance_only(name):
    m = fresh(name).float()
    head = fast.inference(m.head, int8=True)
    for options in SEARCHES.values():
        together = search([Member(head, m.encode(batch()), batch())], SearchRequest(options, keys=batch().keys))
        for row in range(3):
            given = batch((row,))
            (alone,) = search([Member(head, m.encode(given), given)], SearchRequest(options, keys=given.keys))
            assert alone[0].ids == together[row][0].ids
            assert alone[0].logprobs == pytest.approx(together[row][0].logprobs, rel=0.05, abs=0.05)


def test_weights_that_changed_are_seen_by_the_next_search():
    m, given = fresh("gru - attention"), batch()
    before = search([Member(m.head, m.encode(given), given)], SearchRequest(SEARCHES["greedy"]))
    with torch.no_grad():
        m.head.output.bias[4] += 50
    after = search([Member(m.head, m.encode(given), given)], SearchRequest(SEARCHES["greedy"]))
    assert {h[0].ids[0] for h in after} == {4} != {h[0].ids[:1] for h in before}


def test_a_copy_of_a_head_has_packed_weights_of_its_own():
    m, given = fresh("gru - attention"), batch()
    before = search([Member(m.head, m.encode(given), given)], SearchRequest(SEARCHES["greedy"]))
    again = copy.deepcopy(m)
    with torch.no_grad():
        again.head.output.bias[4] += 50
    assert search([Member(again.head, m.encode(given), given)], SearchRequest(SEARCHES["greedy"]))[0][0].ids[0] == 4
    assert [h[0].ids for h in search([Member(m.head, m.encode(given), given)], SearchRequest(SEARCHES["greedy"]))] == [
        h[0].ids for h in before
    ]


def test_packed_weights_go_with_their_head():
    m = fresh("gru - attention").eval()
    kept = weakref.ref(fast.inference(m.head).weights)
    assert fast.inference(m.head).weights is kept()
    assert fast.inference(m.head, int8=True).weights is not kept()
    with torch.no_grad():
        m.head.output.bias += 1
    assert fast.inference(m.head).weights is not kept()
    kept = weakref.ref(fast.inference(m.head).weights)
    fast.inference(m.encoder.stack)
    encoder = weakref.ref(m.encoder)
    del m
    gc.collect()
    assert kept() is None
    assert encoder() is None


def test_a_model_keeps_nothing_packed_in_what_is_copied_or_saved():
    m = fresh("gru - attention").eval()
    before = set(vars(m.head)), set(vars(m.encoder))
    fast.inference(m.head)
    m.infer(batch())
    assert (set(vars(m.head)), set(vars(m.encoder))) == before


def test_while_fast_paths_are_disabled_a_search_takes_the_steps_of_the_head(monkeypatch):
    m, given = fresh("gru - attention").eval(), batch()
    right = search([Member(m.head, m.infer(given), given)], SearchRequest(SEARCHES["beam"]))
    monkeypatch.setattr("windlass.heads.fast.inference.InferenceDecoder.step", None)
    monkeypatch.setattr("windlass.nn.fast.stack.InferenceStack.__call__", None)
    with fast.disabled():
        plain = search([Member(m.head, m.infer(given), given)], SearchRequest(SEARCHES["beam"]))
    assert [h[0].ids for h in plain] == [h[0].ids for h in right]


def test_where_a_table_of_all_tokens_would_be_too_large_the_steps_are_the_same(monkeypatch):
    m = fresh("deep - attention")
    memory = m.encode(batch())
    monkeypatch.setattr("windlass.heads.fast.inference.LARGEST_TABLE", 0)
    with torch.no_grad():
        decoder = fast.inference(m.head)
        assert decoder.weights.layer_tokens.table is None
        assert decoder.weights.readout_tokens.table is None
        for (a, _), (b, _) in zip(walk(m.head, memory, batch()), walk(decoder, memory, batch()), strict=True):
            assert close(a, b)


# -- the products themselves


@eight_bits
@pytest.mark.parametrize("bounded", [True, False])
def test_an_8_bit_product_is_that_of_the_rounded_weight_and_the_rounded_rows(bounded):
    torch.manual_seed(1)
    weight, bias, x = torch.randn(5, 40), torch.randn(5), torch.rand(7, 40) * 2 - 1
    product = pack(weight, bias, int8=True, bounded=bounded)
    assert isinstance(product, Int8Weight)
    scale = (torch.ones(7, 1) if bounded else x.abs().amax(1, keepdim=True)) / int8.levels()
    right = (x / scale).round() * scale @ QuantisedMatrix.of(weight).weight.t() + bias
    assert torch.allclose(product(x), right, atol=1e-4)


@eight_bits
def test_a_row_of_an_8_bit_product_is_the_same_alone_and_beside_a_far_larger_one():
    torch.manual_seed(1)
    product = pack(torch.randn(5, 40), torch.randn(5), int8=True)
    x = torch.randn(3, 40) * torch.tensor([[1e-3], [1.0], [1e3]])
    together = product(x)
    assert all(torch.equal(together[row], product(x[row : row + 1])[0]) for row in range(3))
    assert torch.equal(product(torch.zeros(1, 40))[0], product.bias)


def test_rounding_what_was_rounded_changes_nothing():
    rows = QuantisedMatrix.of(torch.randn(50, 30))
    again = QuantisedMatrix.of(rows.weight)
    assert torch.equal(rows.integers, again.integers)
    assert torch.allclose(rows.scale, again.scale, rtol=1e-6)


def test_without_8_bit_or_onednn_products_torch_multiplies(monkeypatch):
    monkeypatch.setattr(int8, "levels", lambda: 0)
    monkeypatch.setattr(onednn, "works", lambda: False)
    weight, x = torch.randn(5, 4), torch.randn(2, 4)
    product = pack(weight, int8=True)
    assert isinstance(product, packed.Transposed)
    assert torch.allclose(product(x), x @ weight.t(), atol=1e-6)


@pytest.mark.parametrize("name", ["additive previous", "bilinear current fed", "lstm - prefix", "mlp previous covered"])
def test_sentences_that_are_done_before_others_stay_or_leave_without_a_trace(name):
    """In a batch this large, those that are done wait until it pays to make it smaller."""
    m = fresh(name, seed=3)
    generator = torch.Generator().manual_seed(5)
    rows = [torch.randint(4, V, (1 + n % 9,), generator=generator).tolist() for n in range(24)]
    given = Batch({"source": Padded.of(rows)}, None, torch.arange(24))
    for way in (Greedy(length_factor=1), Beam(size=3, length_factor=1), Beam(size=2, block_ngrams=2), Sample(seed=2)):
        with torch.no_grad():
            together = search(
                [Member(m.head, m.encode(given), given)],
                SearchRequest(way, nbest=2 if way.kind == "beam" else 1, keys=given.keys),
            )
        assert len({len(h[0].logprobs) for h in together}) > 3  # or this would show nothing
        for row in range(24):
            one = given.select(torch.tensor([row]))
            with torch.no_grad():
                (alone,) = search(
                    [Member(m.head, m.encode(one), one)], SearchRequest(way, nbest=len(together[row]), keys=one.keys)
                )
            for a, b in zip(alone, together[row], strict=True):
                assert (a.ids, a.finished) == (b.ids, b.finished)
                assert a.logprobs == pytest.approx(b.logprobs, abs=1e-9)
                assert a.weights is None or close(a.weights, b.weights)
