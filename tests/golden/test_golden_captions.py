"""The three captioning decoders of the decks, in numpy, with v the vector of the picture (the memory's summary).

image at s_0           s_0 = v       s_t = RNN(s_{t-1}, e(y_{t-1}))
image at every step                  s_t = RNN(s_{t-1}, [e(y_{t-1}), v])
a term of its own                    h_t = tanh(W_xh x_t + W_hh h_{t-1} + W_ih v)

and P(y_t) = softmax(V s_t + b) for all of them.
"""

import numpy as np
import pytest
import torch

from windlass.core.marks import BOS, EOS
from windlass.core.records import Batch, Memory, Padded
from windlass.heads.recurrent import RecurrentDecoder
from windlass.nn import fast

H, E, D, V = 6, 4, 5, 9
CAPTIONS = [[6, 5, 7, EOS], [8, 4, EOS]]
BATCH = Batch({}, Padded.of(CAPTIONS), torch.arange(2))
SIGMOID = {"kind": "rnn", "activation": "sigmoid"}


def made(vector_size=D, **decoder):
    """A decoder, the memory of two pictures with `vector_size` features, and their vectors."""
    torch.manual_seed(1)
    embedding = {"kind": "learned", "size": E}
    options = RecurrentDecoder.Options.model_validate(
        {"size": H, "embedding": embedding, "readout": "state", **decoder}
    )
    head = RecurrentDecoder(options, V, vector_size, final_sizes=()).double().eval()
    for parameter in head.parameters():
        parameter.data.normal_(std=0.7)
    places = torch.randn(2, 3, vector_size, dtype=torch.float64)
    return head, Memory(places, torch.ones(2, 3) > 0, places.mean(1), places="grid"), places.mean(1).numpy()


def n(tensor):
    return tensor.detach().numpy()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rnn(cell, state, x, activation=sigmoid):
    """s_t = sigma(U x_t + W s_{t-1} + b)."""
    return (activation(n(cell.weight_x) @ x + n(cell.weight_h) @ state[0] + n(cell.bias)),)


def lstm(cell, state, x):
    """The gates in our order: i, f, o, and the candidate."""
    i, f, o, g = np.split(n(cell.weight_x) @ x + n(cell.weight_h) @ state[0] + n(cell.bias), 4)
    c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def log_probs(head, caption, start, step):
    """log P of every token of a caption: step(s_{t-1}, e) takes the embedded last token."""
    state, found = start, []
    for last, y in zip([BOS, *caption], caption, strict=False):
        state = step(state, n(head.embedding.table)[last])
        logits = n(head.output.weight) @ state[0] + n(head.output.bias)
        found.append(logits[y] - np.log(np.exp(logits).sum()))
    return np.array(found)


def assert_agrees(head, memory, by_hand):
    """The decoder gives the log probabilities by hand: in training, step by step, and packed for search."""
    with torch.no_grad():
        forced = n(head.reference_logprobs(memory, BATCH)[0])
        assert -n(head.score(memory, BATCH).loss_sum) == pytest.approx(sum(row.sum() for row in by_hand))
        for decoder in (head, fast.inference(head)):
            source, state = decoder.begin(memory, BATCH)
            tokens, steps = torch.full((2,), BOS), []
            for t in range(4):
                logprobs, state, _ = decoder.step(tokens, state, source)
                tokens = BATCH.target.values[:, t]
                steps.append(n(logprobs.gather(1, tokens[:, None]).squeeze(1)))
            for row, right in enumerate(by_hand):
                assert np.allclose(forced[row, : len(right)], right)
                assert np.allclose(np.stack(steps, 1)[row, : len(right)], right)


@pytest.mark.parametrize(("kind", "step"), [(SIGMOID, rnn), ("lstm", lstm)], ids=["rnn", "lstm"])
def test_an_image_at_s_0_is_context_none_with_start_summary(kind, step):
    head, memory, pictures = made(H, cell=kind, context="none", start="summary")
    cell = head.stack.first
    assert cell.weight_x.shape[1] == E  # the picture is no input of a step
    by_hand = [
        log_probs(head, caption, (v, np.zeros(H)), lambda state, e: step(cell, state, e))
        for caption, v in zip(CAPTIONS, pictures, strict=True)
    ]
    assert_agrees(head, memory, by_hand)


def test_an_image_of_another_size_reaches_s_0_through_a_layer_with_tanh():
    head, memory, pictures = made(D, cell=SIGMOID, context="none", start="summary")
    (layer, _), cell = head.start.bridges[0], head.stack.first
    starts = [np.tanh(n(layer.weight) @ v + n(layer.bias)) for v in pictures]
    by_hand = [
        log_probs(head, caption, (s_0,), lambda state, e: rnn(cell, state, e))
        for caption, s_0 in zip(CAPTIONS, starts, strict=True)
    ]
    assert_agrees(head, memory, by_hand)


@pytest.mark.parametrize(("kind", "step"), [(SIGMOID, rnn), ("lstm", lstm)], ids=["rnn", "lstm"])
def test_an_image_at_every_step_is_context_summary_with_start_zeros(kind, step):
    head, memory, pictures = made(cell=kind, context="summary", start="zeros")
    cell = head.stack.first
    by_hand = [
        log_probs(
            head, caption, (np.zeros(H), np.zeros(H)), lambda state, e, v=v: step(cell, state, np.concatenate([e, v]))
        )
        for caption, v in zip(CAPTIONS, pictures, strict=True)
    ]
    assert_agrees(head, memory, by_hand)


def test_a_term_of_the_image_is_context_summary_too():
    """W_xh x + W_ih v = [W_xh W_ih] [x; v]: the two weights are columns of one matrix."""
    head, memory, pictures = made(cell={"kind": "rnn", "bias": False}, context="summary", start="zeros")
    cell = head.stack.first
    assert cell.bias is None
    W_xh, W_ih, W_hh = n(cell.weight_x)[:, :E], n(cell.weight_x)[:, E:], n(cell.weight_h)

    def by_equation(image):
        return [
            log_probs(
                head, caption, (np.zeros(H),), lambda h, x, v=v: (np.tanh(W_xh @ x + W_hh @ h[0] + image * W_ih @ v),)
            )
            for caption, v in zip(CAPTIONS, pictures, strict=True)
        ]

    assert_agrees(head, memory, by_equation(1))
    with pytest.raises(AssertionError):
        assert_agrees(head, memory, by_equation(0))
