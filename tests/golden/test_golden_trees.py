"""Trees against brute force and by hand: what the constraint allows, what a search finds under it, bracket F1."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from windlass.core.errors import DataError, RecipeError
from windlass.core.marks import EOS, MARKS
from windlass.core.records import Batch, Member, Memory, Padded
from windlass.data.trees import Tree, joined_tokens
from windlass.decoding.constraint import WellFormed
from windlass.decoding.options import Beam, Greedy, Sample
from windlass.decoding.search import SearchRequest, search
from windlass.heads.recurrent import RecurrentDecoder
from windlass.metrics.trees import bracket_f1

PLAIN = ("(S", "(N", ")", "_", "(T _)")
LABELLED = ("(S", "(N", ")S", ")N", "(T _)")


def is_tree(tokens: tuple[str, ...], words: int) -> bool:
    """By reading it, and, where closing tokens have labels, by these."""
    open_: list[str] = []
    for token in tokens:
        if token in ("(S", "(N"):
            open_.append(token[1:])
        elif token.startswith(")") and (not open_ or token[1:] not in ("", open_.pop())):
            return False
    try:
        return len(Tree.read(joined_tokens(tokens)).words) == words
    except DataError:
        return False


def allowed(symbols: tuple[str, ...], words: int, limit: int) -> set[tuple[str, ...]]:
    """Every output that the constraint lets through, by following all of them at once."""
    tree = WellFormed(symbols, [words])
    states, prefixes, found = tree.begin(torch.tensor([limit])), [()], set()
    for _ in range(limit):
        rows, tokens = tree.allowed(states).nonzero().unbind(1)
        assert set(rows.tolist()) == set(range(len(prefixes)))  # nobody is stuck
        longer = [(*prefixes[row], token) for row, token in zip(rows.tolist(), tokens.tolist(), strict=True)]
        found |= {p[:-1] for p in longer if p[-1] == EOS}
        going = torch.tensor([n for n, p in enumerate(longer) if p[-1] != EOS], dtype=torch.long)
        states = tree.step(states.select(rows[going]), tokens[going])
        prefixes = [longer[n] for n in going.tolist()]
    assert not prefixes  # everybody has ended within the limit
    return {tuple(symbols[token - len(MARKS)] for token in output) for output in found}


@pytest.mark.parametrize("symbols", [PLAIN, LABELLED], ids=["plain", "labelled"])
@pytest.mark.parametrize(("words", "limit"), [(1, 6), (2, 7), (3, 7)])
def test_the_constraint_allows_all_trees_of_the_words_and_nothing_else(symbols, words, limit):
    every = (tokens for n in range(1, limit) for tokens in product(symbols, repeat=n))
    right = {tokens for tokens in every if is_tree(tokens, words)}
    assert right
    assert allowed(symbols, words, limit) == right


def test_rows_do_not_matter_to_each_other():
    one, two = WellFormed(PLAIN, [2]), WellFormed(PLAIN, [5, 2, 1])
    a, b = one.begin(torch.tensor([9])), two.begin(torch.tensor([20, 9, 4]))
    for token in (4, 5, 8):
        a, b = one.step(a, torch.tensor([token])), two.step(b, torch.tensor([4, token, 8]))
        assert torch.equal(one.allowed(a)[0], two.allowed(b)[1])


# -- searches under the constraint

SYMBOLS = ("(S", "(N", ")S", ")N", "_", "(T _)", "(U _)")
COUNTS = [1, 2, 3, 5, 8, 2, 4, 1]


def a_head(seed: int) -> tuple[RecurrentDecoder, Memory]:
    torch.manual_seed(seed)
    context = {"kind": "attention", "score": {"kind": "additive", "size": 4}}
    head = RecurrentDecoder(RecurrentDecoder.Options(size=8, context=context), len(MARKS) + len(SYMBOLS), 6, ()).eval()
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter, std=0.7)  # sure of itself, and wrong
    S = max(COUNTS)
    mask = torch.arange(S) < torch.tensor(COUNTS)[:, None]
    return head, Memory(torch.randn(len(COUNTS), S, 6), mask, torch.randn(len(COUNTS), 6))


def well_formed(ids: tuple[int, ...], words: int) -> bool:
    return is_tree(tuple(SYMBOLS[n - len(MARKS)] for n in ids), words)


@pytest.mark.parametrize(
    ("options", "nbest"),
    [
        (Greedy(), 1),
        (Sample(seed=3), 4),
        (Sample(seed=3, top_k=2, temperature=2.0), 1),
        (Beam(size=1), 1),
        (Beam(size=4), 4),
        (Beam(size=3, length_penalty=0.0, length_factor=0.0, length_plus=1), 1),
    ],
    ids=["greedy", "sample", "top-k", "beam of 1", "n-best", "no room"],
)
@pytest.mark.parametrize("way", ["alone", "ensemble", "8 bits", "in training"])
def test_every_search_finds_trees_alone(options, nbest, way):
    heads = [a_head(seed) for seed in ((1, 2) if way == "ensemble" else (1,))]
    steps = [head.train(way == "in training") for head, _ in heads]
    members = [Member(head, memory, None, way == "8 bits") for head, (_, memory) in zip(steps, heads, strict=True)]
    found = search(members, SearchRequest(options, nbest, constraint=WellFormed(SYMBOLS, COUNTS)))
    assert all(h.finished and well_formed(h.ids, n) for row, n in zip(found, COUNTS, strict=True) for h in row)
    free = search(members, SearchRequest(options, nbest))
    assert not all(well_formed(h.ids, n) for row, n in zip(free, COUNTS, strict=True) for h in row)


def test_a_wide_beam_finds_the_best_of_all_trees_with_the_models_own_score():
    head, memory = a_head(5)
    row = memory.select(torch.tensor([1]))
    options = Beam(size=60, length_penalty=0.0, length_factor=0.0, length_plus=6)
    best = search([Member(head, row)], SearchRequest(options, constraint=WellFormed(SYMBOLS, [2])))[0][0]
    ids = {symbol: n for n, symbol in enumerate(SYMBOLS, len(MARKS))}
    trees = [[ids[t] for t in tokens] for tokens in allowed(SYMBOLS, 2, 6)]
    targets = [Batch({}, Padded.of([[*tree, EOS]]), torch.arange(1)) for tree in trees]
    scores = [head.force(row, target)[0].score for target in targets]
    assert best.score == pytest.approx(max(scores), abs=1e-5)
    assert list(best.ids) == trees[scores.index(max(scores))]
    assert best.weights is not None
    assert best.weights.shape[0] == len(best.ids) + 1


def test_blocked_runs_are_refused_under_a_constraint():
    head, memory = a_head(1)
    with pytest.raises(RecipeError, match="block_ngrams"):
        search([Member(head, memory)], SearchRequest(Greedy(block_ngrams=2), constraint=WellFormed(SYMBOLS, COUNTS)))


# -- bracket F1, by hand

GOLD = "(TOP (S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (NP (DT a) (NN dog)) (PP (IN near) (NP (PRP it)))))))"


def test_bracket_f1_counts_constituents_with_label_and_words():
    # gold: S 0-7, NP 0-2, VP 2-7, NP 3-7, NP 3-5, PP 5-7, NP 6-7: seven, as (NP (PRP it)) holds a tag and is one
    low = "(TOP (S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT a) (NN dog)) (PP (IN near) (NP (PRP it))))))"
    # found: S 0-7, NP 0-2, VP 2-7, NP 3-5, PP 5-7, NP 6-7: six, all right
    figures = bracket_f1([low], [[GOLD]])
    assert figures["bracket_precision"] == pytest.approx(100.0)
    assert figures["bracket_recall"] == pytest.approx(100 * 6 / 7)
    assert figures["bracket_f1"] == pytest.approx(100 * 12 / 13)


def test_a_wrong_label_is_wrong_and_a_wrong_tag_is_not_counted():
    assert bracket_f1(["(S (XP (A a) (B b)) (C c))"], [["(S (NP (D a) (E b)) (F c))"]])["bracket_f1"] == 50.0


def test_a_chain_of_one_label_counts_twice_only_where_it_is_there_twice():
    figures = bracket_f1(["(X (X (X (A a) (B b))))"], [["(X (X (A a) (B b)))"]])
    assert figures["bracket_precision"] == pytest.approx(100 * 2 / 3)
    assert figures["bracket_recall"] == 100.0


def test_an_output_that_is_no_tree_of_the_words_finds_nothing():
    gold = "(S (A a) (B b))"
    figures = bracket_f1(["(S (A a)", "(S (A a) (B c))", gold, gold], [[gold]] * 4)
    assert figures == {"bracket_f1": pytest.approx(200 * 2 / 6), "bracket_precision": 100.0, "bracket_recall": 50.0,
                       "well_formed": 50.0}  # fmt: skip
