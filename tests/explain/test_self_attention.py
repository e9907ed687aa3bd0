"""The self-attention that is drawn is what the layers compute, in encoders, decoders and language models."""

from __future__ import annotations

import pytest
import torch

from task_models import task_model
from windlass.bundle import Bundle
from windlass.core.errors import WindlassError
from windlass.core.marks import EOS
from windlass.data.examples import Example, Place
from windlass.experiment.loaders import fit_sides
from windlass.explain.attention import explain
from windlass.explain.gates import traces
from windlass.explain.saliency import saliency
from windlass.explain.selfattention import self_attention
from windlass.explain.units import units
from windlass.nn.transformer import Cache, CausalAttention
from windlass.recipe import compose

TABLE = {"kind": "learned", "size": 8}
LAYERS = {"size": 8, "heads": 2, "hidden": 8, "layers": 2, "positions": "rotary", "embedding": TABLE}
DECODER = {"kind": "transformer", **LAYERS}


def weights(heats):
    return torch.tensor([heat.attention for heat in heats])


def test_a_decoder_follows_its_encoder_and_sees_no_token_after_its_own():
    bundle, value = task_model("text", model={"encoder": {"kind": "attention", **LAYERS}, "decoder": DECODER})
    heats = self_attention(bundle, value, "ab")
    titles = [heat.title for heat in heats]
    assert titles[0] == "encoder, layer 1, head 1"
    assert titles[4:] == [f"decoder, layer {n}, head {m}" for n in (1, 2) for m in (1, 2)]
    assert heats[4].columns == ("start", "a", "b")
    found = weights(heats[4:])
    assert torch.allclose(found.sum(-1), torch.ones(4, 3))
    assert not found.triu(1).any()
    assert (found.tril() > 0).sum() == 4 * 6


def test_a_recurrent_encoder_leaves_the_decoder_alone_and_a_recurrent_model_has_nothing_to_draw():
    bundle, value = task_model("text", model={"decoder": DECODER})
    assert {heat.title.split(",")[0] for heat in self_attention(bundle, value)} == {"decoder"}
    bundle, value = task_model("text")
    with pytest.raises(WindlassError, match="no self-attention in this model"):
        self_attention(bundle, value)
    with pytest.raises(WindlassError, match="reads a target"):
        self_attention(bundle, value, "ab")


def test_a_prefix_is_read_before_the_output():
    model = {"encoder": "prefix", "decoder": DECODER | {"context": "none"}, "tie": "none"}
    bundle, value = task_model("text", model=model, vocabulary="joint")
    heats = self_attention(bundle, value, "ab")
    assert heats[0].columns[-3:] == ("start", "a", "b")
    assert len(heats[0].columns) == len(value) + 1 + 3  # the end mark of the source, and the start mark
    assert not weights(heats).triu(1).any()
    assert torch.allclose(weights(heats).sum(-1), torch.ones(()))


def test_a_language_model_reads_the_text_through_its_window():
    decoder = DECODER | {"context": "none", "window": 2}
    bundle, _ = task_model("lm", model={"decoder": decoder})
    text = "".join(bundle.sides.tokenizer.symbols[:3]) * 2
    heats = self_attention(bundle, text)
    assert heats[0].columns == ("start", *text)
    seen = weights(heats) > 0
    assert torch.equal(seen[0], torch.ones(7, 7).tril().triu(-2) > 0)
    with pytest.raises(WindlassError, match="no recurrent layer"):
        units(bundle, [text * 50])


def test_what_is_drawn_is_what_the_layer_uses():
    torch.manual_seed(1)
    layer = CausalAttention(8, 2).double()
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    cache = Cache.empty(1, 3, 2, 4, x)
    for window in (None, 2):
        view = cache.view(5, window, x.device)
        out, (_, v) = layer(x, cache.layers[0], view, None)
        a = layer.weights(x, cache.layers[0], view, None)
        assert torch.allclose(layer.out((a @ v).transpose(1, 2).flatten(2)), out)


@pytest.mark.parametrize("decoder", [DECODER, {"size": 8}], ids=["transformer", "recurrent"])
def test_a_text_that_was_written_in_other_subwords_is_shown_in_those_that_are_read(decoder):
    tokens = {"tokens": {"kind": "bpe", "size": 30}}
    made = compose("text", None, [{"target": tokens, "model": {"decoder": decoder}, "search": {"kind": "greedy"}}])
    text = "low lower lowest"
    bundle = Bundle.new(made, fit_sides(made, [Example(text, (text,), None, Place("x", 1))]))
    tokenizer = bundle.sides.tokenizer
    bundle.model.head.output.bias.data[tokenizer.find("o")] = 1e3  # it writes nothing else, without the space before it
    own = explain(bundle, text).answer.tokens
    cut = tuple(map(tokenizer.token, tokenizer.encode("o" * len(own))))
    assert set(own) == {"o"}
    assert len(cut) > len(own)
    found = saliency(bundle, text, method="gradient")
    assert found.outputs == (*cut, "</s>")
    assert len(found.values) == len(found.outputs)
    if decoder is DECODER:
        heat = self_attention(bundle, text)[-1]
        assert heat.columns == ("start", *cut)
        assert weights([heat]).shape == (1, len(cut) + 1, len(cut) + 1)
    else:
        assert traces(bundle, text)[-1].tokens == ("<s>", *cut)


def test_what_a_model_leaves_blank_has_no_tokens_to_show():
    bundle, value = task_model("text", model={"decoder": DECODER})
    bundle.model.head.output.bias.data[EOS] = 1e3
    assert explain(bundle, value).text == ""
    assert self_attention(bundle, value)[-1].columns == ("start",)
    assert saliency(bundle, value, method="gradient").outputs == ("</s>",)
