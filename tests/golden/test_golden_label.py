"""Pooling, labels and tags against hand arithmetic."""

from __future__ import annotations

import pytest
import torch

from chain_path import path_score
from windlass.core.errors import RecipeError
from windlass.core.records import Batch, Member, Memory, Padded
from windlass.decoding.search import SearchRequest
from windlass.heads.base import Wiring
from windlass.heads.label import LabelHead, LabelHeadOptions
from windlass.heads.tags import TagsHead, TagsHeadOptions
from windlass.nn.character_encoder import CharacterCNN, CharacterRNN
from windlass.nn.pooling import AttentionPooling, Ends, Last, Max, Mean

STATES = torch.tensor([[[1.0, -4.0], [3.0, -2.0], [7.0, 7.0]], [[5.0, 0.0], [9.0, 9.0], [9.0, 9.0]]])
MASK = torch.tensor([[True, True, False], [True, False, False]])
MEMORY = Memory(STATES, MASK, summary=torch.tensor([[0.5, 0.25], [0.125, 2.0]]))


def aimed(rows):
    return Batch({}, Padded.of(rows), torch.arange(len(rows)))


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        (Last(2), [[3.0, -2.0], [5.0, 0.0]]),
        (Mean(2), [[2.0, -3.0], [5.0, 0.0]]),
        (Max(2), [[3.0, -2.0], [5.0, 0.0]]),
        (Ends(2), [[0.5, 0.25], [0.125, 2.0]]),
    ],
)
def test_a_pool_takes_what_its_name_says(pool, expected):
    assert pool(MEMORY)[0].tolist() == expected


def test_the_maximum_is_taken_unit_by_unit():
    states = torch.tensor([[[1.0, 5.0], [2.0, 3.0]]])
    assert Max(2)(Memory(states, torch.ones(1, 2) > 0, torch.zeros(1, 2)))[0].tolist() == [[2.0, 5.0]]


def test_attention_with_a_learned_query_is_a_softmax_of_its_products():
    pool = AttentionPooling.Options(score={"kind": "dot"}).build(2)
    with torch.no_grad():
        pool.query.copy_(torch.tensor([0.5, 0.25]))
    vector, weights = pool(MEMORY)
    scores = torch.tensor([0.5 * 1 - 0.25 * 4, 0.5 * 3 - 0.25 * 2])
    expected = scores.softmax(0)
    assert torch.allclose(weights[0, :2], expected)
    assert not weights[0, 2]
    assert weights[1].tolist() == [1.0, 0.0, 0.0]
    assert torch.allclose(vector[0], expected @ STATES[0, :2])


@pytest.mark.parametrize("hidden", [(), (3,), (3, 2)])
def test_the_loss_of_a_label_is_minus_its_log_probability(hidden):
    torch.manual_seed(1)
    head = LabelHead(LabelHeadOptions(pool="mean", hidden=hidden), labels=4, memory_size=2)
    x = Mean(2)(MEMORY)[0]
    linear = [layer for layer in head.output if isinstance(layer, torch.nn.Linear)]
    assert [layer.out_features for layer in linear] == [*hidden, 4]
    for layer in linear[:-1]:
        x = torch.tanh(x @ layer.weight.t() + layer.bias)
    logp = (x @ linear[-1].weight.t() + linear[-1].bias).log_softmax(-1)
    batch = aimed([[2], [0]])
    scored = head.score(MEMORY, batch)
    assert torch.isclose(scored.loss_sum, -(logp[0, 2] + logp[1, 0]))
    assert int(scored.count) == 2
    assert torch.allclose(head(MEMORY)[0].gather(1, batch.target.values)[:, 0], torch.stack([logp[0, 2], logp[1, 0]]))
    assert [h.score for h in head.force(MEMORY, batch)] == pytest.approx([logp[0, 2].item(), logp[1, 0].item()])


def test_the_loss_of_tags_by_themselves_is_the_sum_over_places():
    torch.manual_seed(1)
    head = TagsHead(TagsHeadOptions(), tags=3, memory_size=2)
    (layer,) = head.output
    logp = (STATES @ layer.weight.t() + layer.bias).log_softmax(-1)
    scored = head.score(Memory(STATES[:, :2], MASK[:, :2], MEMORY.summary), aimed([[2, 1], [0]]))
    assert torch.isclose(scored.loss_sum, -(logp[0, 0, 2] + logp[0, 1, 1] + logp[1, 0, 0]))
    assert int(scored.count) == 3


def test_the_loss_of_tags_together_is_that_of_the_whole_sequence():
    torch.manual_seed(1)
    head = TagsHead(TagsHeadOptions(output="crf"), tags=3, memory_size=2)
    memory, target = Memory(STATES[:, :2], MASK[:, :2], MEMORY.summary), Padded.of([[2, 1], [0]])
    batch = aimed([[2, 1], [0]])
    emissions = head.output(memory.states)
    chain = head.crf(head.scheme)
    by_hand = chain.log_partition(emissions, memory.mask) - path_score(chain, emissions, target.values, target.mask)
    assert torch.isclose(head.score(memory, batch).loss_sum, by_hand.sum())
    assert torch.allclose(head.sequence_logprob(memory, target), -by_hand)
    assert [h.score for h in head.force(memory, batch)] == pytest.approx((-by_hand).tolist())


def test_a_scheme_keeps_the_best_tags_well_formed_even_one_by_one():
    head = TagsHead(TagsHeadOptions(), 2, 2, ([True, False], [[True, False], [True, True]], [True, True]))
    with torch.no_grad():
        head.output[0].weight.zero_()
        head.output[0].bias.copy_(torch.tensor([0.0, 5.0]))  # the second tag is always likelier, but cannot begin
    assert head.best_tags(MEMORY)[0, :2].tolist() == [0, 0]


def test_a_factor_on_the_probability_of_outside_finds_more_spans():
    torch.manual_seed(1)
    for output in ("softmax", "crf"):
        wiring = Wiring(outputs=3, memory_size=2, outside=1)
        plain, eager = (TagsHeadOptions(output=output, outside=n).build(wiring) for n in (1.0, 0.2))
        eager.load_state_dict(plain.state_dict())
        with torch.no_grad():
            for head in (plain, eager):
                head.output[0].weight.zero_()
                head.output[0].bias.copy_(torch.tensor([0.0, 1.0, -1.0]))  # O is e times as probable
                if head.crf is not None:
                    head.crf.load_state_dict({name: value * 0 for name, value in head.crf.state_dict().items()})
        tags = [head.predict([Member(head, MEMORY)], SearchRequest())[0][0].ids for head in (plain, eager)]
        assert [set(row) for row in tags] == [{1}, {0}]


def test_a_factor_on_outside_is_refused_where_tags_mark_no_spans():
    with pytest.raises(RecipeError, match=r"model\.head\.outside is for tags that mark spans"):
        TagsHeadOptions(outside=0.2).build(Wiring(outputs=3, memory_size=2))


def test_letters_are_read_from_both_ends():
    torch.manual_seed(1)
    spelling = CharacterRNN.Options(size=3, embedding=2, cell="rnn").build(characters=9)
    letters = Padded.nested([[[4, 5, 6], [7]], [[6, 5]]])
    found = spelling(letters)
    for place, word in (((0, 0), [4, 5, 6]), ((0, 1), [7]), ((1, 0), [6, 5])):
        x = spelling.table[torch.tensor([word])]
        _, final = spelling.stack(x)
        assert torch.allclose(found[place], final[0][0][0], atol=1e-6)
    assert not found[1, 1].any()


def test_a_filter_answers_where_it_fits_best():
    spelling = CharacterCNN.Options(size=1, embedding=1, width=2).build(characters=9)
    with torch.no_grad():
        spelling.table.copy_(torch.arange(9.0)[:, None])
        spelling.filters.weight.copy_(torch.tensor([[[1.0, -1.0]]]))
        spelling.filters.bias.zero_()
    found = spelling(Padded.nested([[[5, 8], [4, 1, 3]], [[2]]]))
    assert found[0, 0].item() == 8.0  # the last letter against nothing
    assert found[0, 1].item() == 3.0  # 4 - 1, or 3 against nothing
    assert found[1, 0].item() == 2.0
