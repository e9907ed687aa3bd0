"""The long-distance test: its problems are what they say, cells learn them, and the command reports them."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from random import Random

import pytest
import torch

from command import refused, windlass
from windlass import distance
from windlass.core.options import members
from windlass.distance import PROBLEMS, Training
from windlass.nn.cells import GRU, CellOptions

TINY = ("--size", "4", "--updates", "2", "--gaps", "0,2", "--further", "4")


def rows(name, gap, seed=1):
    """Twenty drawn rows as texts, with their answers."""
    problem = PROBLEMS[name]
    for n in range(20):
        sample = problem.draw(gap, 1, Random(f"{seed} {n}"))
        yield problem.show(sample.inputs[0].tolist()).split(), sample.answers[0].tolist()


@pytest.mark.parametrize("gap", [0, 2, 10])
def test_copying_asks_for_the_symbols_in_order(gap):
    for row, answers in rows("copying", gap):
        assert row[3:] == ["."] * gap + ["?"] * 3
        assert row[:3] == ["abcdefgh"[n] for n in answers]


@pytest.mark.parametrize("gap", [0, 2, 10])
def test_adding_asks_for_the_sum_of_the_two_marked_numbers(gap):
    for row, answers in rows("adding", gap):
        marked = [float(x.strip("[]")) for x in row if "[" in x]
        assert len(row) == gap + 2
        assert sum(marked) == pytest.approx(answers[0], abs=0.011)


@pytest.mark.parametrize("gap", [0, 2, 10, 30])
def test_brackets_asks_for_the_innermost_that_is_open(gap):
    pairs, depths = dict(zip("([{<", ")]}>", strict=True)), set()
    for row, answers in rows("brackets", gap):
        stack, opened = [], []
        for n, bracket in enumerate(row):
            if bracket in pairs:
                stack.append(pairs[bracket])
                opened.append(n)
            else:
                assert stack.pop() == bracket
                opened.pop()
        assert stack[-1] == ")]}>"[answers[0]]
        assert opened[-1] == len(row) - 1 - gap  # what must be remembered is `gap` brackets back
        depths.add(len(stack))
    assert depths == {1, 2, 3}


@pytest.mark.parametrize("gap", [0, 1, 4, 9, 30])
def test_agreement_asks_for_the_number_of_the_subject(gap):
    misled = 0
    for row, answers in rows("agreement", gap):
        subject = row[len(row) - gap - 1]
        assert subject.endswith("s") == bool(answers[0])
        assert row[len(row) - gap - 2] == "the"
        for before, verb in pairwise(row):  # verbs in between agree with their own subjects
            if verb in ("was", "were"):
                assert before.endswith("s") == (verb == "were")
        nouns = [word for n, word in enumerate(row) if n and row[n - 1] == "the"]
        misled += nouns[-1].endswith("s") != subject.endswith("s")
    assert misled > 3 or gap < 4  # the last noun does not tell


def test_sentences_like_that_of_the_decks_are_drawn():
    problem = PROBLEMS["agreement"]
    assert set("the flights the airline was canceling were".split()) <= set(problem.words)
    drawn = (problem.show(problem.draw(4, 1, Random(n)).inputs[0].tolist()) for n in range(100))
    assert any(re.fullmatch(r"the \w+ the \w+ (was|were) \w+ing", row) for row in drawn)


@pytest.mark.parametrize("kind", sorted(members(CellOptions)))
@pytest.mark.parametrize("attention", [False, True])
def test_every_cell_can_be_put_through_every_problem(kind, attention):
    training = Training(size=8, updates=1, gaps=(0,), further=(2,), tested=4)
    report = distance.measure({kind: members(CellOptions)[kind]()}, attention=[attention], training=training)
    assert [one.problem for one in report.outcomes] == list(PROBLEMS)
    assert all(sorted(one.accuracy) == [0, 2] for one in report.outcomes)


def test_a_cell_learns_a_short_gap_and_the_same_seed_gives_the_same_figures():
    training = Training(size=16, updates=150, gaps=(0, 2), further=(), tested=64)
    first, again = (distance.probe(PROBLEMS["agreement"], "gru", GRU.Options(), False, 1, training) for _ in range(2))
    assert min(first.accuracy.values()) > 0.9
    assert first.falls() is None
    assert first.accuracy == again.accuracy


def test_attention_reads_no_answer_ahead():
    torch.manual_seed(1)
    network = distance.Network(PROBLEMS["copying"], GRU.Options(), 6, attention=True)
    sample = PROBLEMS["copying"].draw(3, 2, Random(1))
    before = network(sample.inputs, 3)
    changed = sample.inputs.clone()
    changed[:, -1] = 0  # the last question
    assert torch.allclose(network(changed, 3)[:, :2], before[:, :2])


def test_the_command_prints_draws_and_writes_json(tmp_path):
    ran = windlass("distance", *TINY, "--cell", "rnn", "--cell", "{kind: lstm, forget_bias: 3}", "--seeds", "2",
                   "--problem", "agreement", "--problem", "copying", "--out", tmp_path / "a.svg")  # fmt: skip
    assert ran.code == 0, ran.err
    assert "agreement of subject and verb: accuracy in % at every gap, mean of 2 seeds" in ran.out
    assert "lstm, forget_bias: 3 + attention" in ran.out
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").count("<path") > 10
    ran = windlass("distance", *TINY, "--cell", "rnn", "--attention", "no", "--json", "--quiet")
    assert ran.err == ""
    runs = json.loads(ran.out)["runs"]
    assert [run["problem"] for run in runs] == list(PROBLEMS)
    assert list(runs[0]["accuracy"]) == ["0", "2", "4"]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--problem", "copy"], "did you mean 'copying'?"),
        (["--attention", "some"], "say yes, no or both"),
        (["--gaps", "a"], "give numbers of steps"),
        (["--gaps", "0,200"], "must be longer"),
        (["--cell", "lsmt"], "did you mean 'lstm'?"),
        (["--out", "a.gif"], "name it .png, .svg or .json"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(flags, says):
    assert says in refused("distance", *flags)
