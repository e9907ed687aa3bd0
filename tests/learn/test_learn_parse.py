"""Parsing learns: from trees in a file to a model that brackets sentences it has not seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command import refused, windlass
from windlass.baseline import fit
from windlass.data.sides import SideOptions
from windlass.data.trees import Tree
from windlass.demo.grammar import grammar_trees

GRU = "{kind: gru, reset: after}"
SMALL = (
    "source.characters=false", "source.min_count=1", "model.encoder.spelling=null", "model.encoder.embedding.size=24",
    "model.encoder.embedding.dropout=0", "model.encoder.size=32", "model.encoder.dropout=0",
    f"model.encoder.cell={GRU}", f"model.decoder.cell={GRU}", "model.decoder.size=48", "model.decoder.dropout=0",
    "model.decoder.embedding.size=16", "model.decoder.embedding.dropout=0", "model.decoder.context.score.size=24",
    "model.decoder.readout.size=32", "model.decoder.readout.dropout=0", "loss.label_smoothing=0",
    "train.optimiser.lr=0.01", "train.batch_tokens=150", "train.schedule.warmup=10", "train.epochs=5",
    "train.average=none", "train.evaluate_steps=1000", "train.threads=1", "search=greedy",
)  # fmt: skip


@pytest.fixture(scope="module")
def parser(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Tree]]:
    folder = tmp_path_factory.mktemp("parse")
    trees = grammar_trees(440, longest=6)
    for name, part in (("train", trees[:380]), ("dev", trees[380:400]), ("test", trees[400:])):
        (folder / f"{name}.trees").write_text("".join(f"{tree}\n" for tree in part))
    settings = [argument for part in SMALL for argument in ("--set", part)]
    files = ("--train", folder / "train.trees", "--dev", folder / "dev.trees")
    ran = windlass("train", "--task", "parse", *files, "--out", folder / "model", *settings)
    assert ran.code == 0, ran.err
    assert "[baseline, " in ran.err
    return folder, trees[400:]


def test_a_small_grammar_is_learned_and_the_baselines_are_beaten(parser):
    folder, _ = parser
    content = json.loads(windlass("evaluate", folder / "model", folder / "test.trees", "--json").out)
    assert content["metrics"]["well_formed"] == 100.0
    assert content["metrics"]["bracket_f1"] > 85.0
    assert content["metrics"]["bracket_f1"] > content["baseline"]["bracket_f1"] + 10
    assert content["baseline_name"] in ("right-branching", "commonest tree of its length")


def test_a_sentence_comes_back_as_a_tree_of_its_words(parser):
    folder, trees = parser
    lines = [" ".join(tree.words) for tree in trees[:5]] + ["( zebra ) ?", ""]
    for search in ((), ("--beam", "3", "--nbest", "2"), ("--search", "sample", "--seed", "4")):
        ran = windlass("predict", folder / "model", *search, stdin="".join(f"{line}\n" for line in lines).encode())
        assert ran.code == 0, ran.err
        for line, found in zip(lines, ran.out.splitlines(), strict=True):
            for text in found.split("\t") if line else []:
                assert " ".join(Tree.read(text).words) == line
    assert "block_ngrams" in refused("predict", folder / "model", "--block-ngrams", "2", stdin=b"a b")


def test_explain_shows_brackets_against_words(parser, tmp_path: Path):
    folder, trees = parser
    sentence = " ".join(trees[0].words)
    ran = windlass("explain", folder / "model", sentence, "--out", tmp_path / "look.json")
    assert ran.code == 0, ran.err
    found = json.loads((tmp_path / "look.json").read_text())
    assert found["places"]["names"] == list(trees[0].words)
    assert found["answer"]["tokens"][0] == "(S"
    assert len(found["attention"]) == len(found["answer"]["tokens"]) + 1  # the end looks, too
    forced = windlass("explain", folder / "model", sentence, "--target", str(trees[0]), "--out", tmp_path / "look.png")
    assert forced.code == 0, forced.err
    assert "not a tree" in refused("explain", folder / "model", sentence, "--target", "(S", "--out", tmp_path / "x.png")


def test_score_says_how_likely_given_trees_are(parser):
    folder, trees = parser
    ran = windlass("score", folder / "model", folder / "test.trees")
    scores = [line.split("\t") for line in ran.out.splitlines()]
    assert [text for _, text in scores] == [str(tree) for tree in trees]
    assert all(float(score) < 0 for score, _ in scores)


def test_baselines_make_a_tree_of_any_sentence():
    pairs = [(tree.words, str(tree)) for tree in grammar_trees(30)]
    for guess in fit(pairs, SideOptions(target={"tokens": "tree"})):
        for length in (1, 2, 3, 60):
            words = tuple(f"w{n}" for n in range(length))
            assert Tree.read(guess.predict([words])[0]).words == words


def test_the_way_back_reads_trees(tmp_path: Path):
    (tmp_path / "a.trees").write_text("".join(f"{tree}\n" for tree in grammar_trees(12, longest=6)))
    small = ("model.encoder.size=8", "model.decoder.size=8", "train.epochs=1", "train.threads=1", "search=greedy")
    settings = [argument for part in small for argument in ("--set", part)]
    ran = windlass("train", "--task", "unparse", tmp_path / "a.trees", "--out", tmp_path / "model", *settings)
    assert ran.code == 0, ran.err
    ran = windlass("predict", tmp_path / "model", stdin=b"(S (NP (PRP she)) (VP (VBZ sings)) (. .))")
    assert ran.code == 0, ran.err
    assert "not a tree" in refused("predict", tmp_path / "model", stdin=b"(S (NP")
