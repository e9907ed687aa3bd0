"""How `train` and `evaluate` end: hints that fit the task, baselines in words, scores of every label; --quiet."""

from __future__ import annotations

import json
import random
import shlex
from pathlib import Path

import pytest

from command import TINY, refused, windlass
from windlass import load
from windlass.bundle import load_definition
from windlass.commands.outcome import like
from windlass.metrics.edit import edit_distance

ONE = [*TINY, "--epochs", "1"]
SMALL = [
    *("--epochs", "1", "--set", "model.encoder.size=8", "--set", "train.threads=1"),
    *("--set", "model.encoder.embedding.size=8", "--set", "train.evaluate_steps=null"),
]
GOOD, BAD, FILL = "great lovely superb".split(), "awful poor sad".split(), "the film was a story of people".split()


def next_of(text: str) -> list[str]:
    lines = text.split("; next:\n")[1].splitlines()
    return [line.strip() for line in lines]


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with reviews.csv, a table with a header, and tagged.tsv, sentences with tags that mark spans."""
    folder, chance = tmp_path_factory.mktemp("reviews"), random.Random(1)
    rows = ["review,stars"]
    for number in range(120):
        words = [*chance.choices(FILL, k=5), chance.choice(GOOD if number % 2 else BAD)]
        rows.append(f"{' '.join(words)},{'good' if number % 2 else 'bad'}")
    (folder / "reviews.csv").write_text("\n".join(rows) + "\n")
    names = [f"{chance.choice(['Ann', 'Bob'])} saw {chance.choice(['Rome', 'Oslo'])}" for _ in range(40)]
    (folder / "tagged.tsv").write_text("".join(f"{name} {n}\tB-PER O B-LOC O\n" for n, name in enumerate(names)))
    return folder


@pytest.fixture(scope="module")
def classifier(reviews: Path) -> tuple[Path, str]:
    """A classifier that has learned nothing, and what its training printed."""
    ran = windlass("train", reviews / "reviews.csv", "--out", reviews / "model", *SMALL)
    assert ran.code == 0, ran.err
    return reviews / "model", ran.err


def test_the_hints_of_a_classifier_fit_its_table(classifier):
    folder, err = classifier
    assert next_of(err) == [
        f"windlass predict {folder} new.csv",
        next_of(err)[1],
        f"windlass evaluate {folder} test.csv",
    ]
    assert next_of(err)[1].endswith("--out attention.png")
    assert "examples/s" in err
    assert "tokens/s" not in err


def test_a_classifier_without_attention_needs_no_picture(reviews, tmp_path):
    call = ("train", "--task", "classify", reviews / "reviews.csv", "--out", tmp_path / "m", *SMALL)
    ran = windlass(*call, "--set", "model.head.pool=mean")
    assert ran.code == 0, ran.err
    assert "explain" not in ran.err


def test_a_model_below_its_baseline_says_so_in_words(classifier, reviews):
    folder, err = classifier
    line = next(line for line in err.splitlines() if line.startswith("worse than its baseline: accuracy "))
    assert "bag of words" in line
    assert "has not learned more than counting words; try more epochs (--epochs " in line
    assert "pretrained vectors (--vectors FILE) or more data than 108 examples" in line
    out = windlass("evaluate", folder, reviews / "reviews.csv").out
    assert "worse than its baseline: accuracy" in out
    content = json.loads(windlass("evaluate", folder, reviews / "reviews.csv", "--json").out)
    assert (content["below_baseline"], content["standing"]) == (True, "worse")


def test_a_model_above_its_baseline_says_nothing(tiny_model, tiny_data):
    ran = windlass("evaluate", tiny_model, tiny_data / "test.tsv")
    assert "baseline:" in ran.out  # its name
    assert "than its baseline" not in ran.out
    content = json.loads(windlass("evaluate", tiny_model, tiny_data / "test.tsv", "--json").out)
    assert (content["below_baseline"], content["standing"]) == (False, "better")


def test_references_that_the_model_does_not_know_are_told(classifier, tmp_path):
    folder, test = classifier[0], tmp_path / "test.csv"
    test.write_text("review,stars\na great film,Good\na sad film,Bad\na poor film,Bad\n")
    told = "3 of 3 references have labels that this model does not know: Bad, Good; it knows bad, good"
    out = windlass("evaluate", folder, test).out
    assert told in out.splitlines()
    assert "than its baseline" not in out  # the scores say nothing
    content = json.loads(windlass("evaluate", folder, test, "--json").out)
    assert content["unknown_labels"]["labels"] == ["Bad", "Good"]
    assert content["standing"] is None
    with pytest.warns(UserWarning, match=told):
        assert load(folder).evaluate(test).unknown.count == 3


def test_labels_and_tags_of_a_dev_file_that_training_lacks_are_told(reviews, tmp_path):
    (tmp_path / "dev.csv").write_text("review,stars\na great film,good\na sad film,Bad\n")
    call = ("--task", "classify", "--dev", tmp_path / "dev.csv", "--out", tmp_path / "c", *SMALL)
    told = "1 of 2 references of dev has labels that this model does not know: Bad; it knows bad, good"
    assert told in windlass("train", reviews / "reviews.csv", *call).err.splitlines()
    (tmp_path / "dev.tsv").write_text("Ann saw Rome\tB-PER O B-ORG\n")
    call = ("--task", "tag", "--dev", tmp_path / "dev.tsv", "--out", tmp_path / "t", *SMALL)
    told = (
        "1 of 1 references of dev has tags that this model does not know: B-ORG; it knows B-LOC, B-PER, I-LOC, I-PER, O"
    )
    assert told in windlass("train", reviews / "tagged.tsv", *call).err.splitlines()


def test_evaluation_on_the_training_data_says_so(classifier, reviews, tmp_path):
    told = "the model was trained on these very examples"
    assert told in windlass("evaluate", classifier[0], reviews / "reviews.csv").out
    other = tmp_path / "other.csv"
    other.write_text((reviews / "reviews.csv").read_text() + "a new film,good\n")
    assert told not in windlass("evaluate", classifier[0], other).out
    assert json.loads(windlass("evaluate", classifier[0], other, "--json").out)["trained_on"] is False


def test_an_evaluation_is_shown_in_one_line(classifier, reviews):
    shown = repr(load(classifier[0]).evaluate(reviews / "reviews.csv"))
    assert shown.startswith("Evaluation(metrics={'accuracy': ")
    assert shown.endswith("examples=120)")


def test_a_hint_shows_a_whole_text(tmp_path):
    lines = [f"a film {n}\t{'good' if n % 2 else 'bad'}\n" for n in range(40)]
    (tmp_path / "texts.tsv").write_text("".join(lines))
    (tmp_path / "dev.tsv").write_text(f"{'waiting and waiting ' * 20}\tbad\na short film\tgood\n")
    call = ("--task", "classify", "--dev", tmp_path / "dev.tsv", "--out", tmp_path / "m", *SMALL)
    ran = windlass("train", tmp_path / "texts.tsv", *call)
    explain = next(line for line in next_of(ran.err) if " explain " in line)
    assert shlex.split(explain)[3] == "a short film"


def test_evaluate_scores_every_label(classifier, reviews):
    folder, _ = classifier
    ran = windlass("evaluate", folder, reviews / "reviews.csv")
    lines = ran.out.splitlines()
    at = next(n for n, line in enumerate(lines) if line.split() == ["label", "precision", "recall", "F1", "count"])
    assert [line.split()[0] for line in lines[at + 1 :]] == ["bad", "good"]
    assert len({len(line) for line in lines[at:]}) == 1
    labels = json.loads(windlass("evaluate", folder, reviews / "reviews.csv", "--json").out)["labels"]
    assert labels["bad"]["count"] == labels["good"]["count"] == 60
    assert set(labels["bad"]) == {"precision", "recall", "f1", "count"}


def test_tags_are_scored_by_the_label_of_their_spans(reviews, tmp_path):
    ran = windlass("train", "--task", "tag", reviews / "tagged.tsv", "--out", tmp_path / "m", *SMALL)
    assert ran.code == 0, ran.err
    echo, explain, evaluate = next_of(ran.err)
    assert echo.startswith("echo '")
    assert " saw " in echo
    assert explain.endswith("--out tags.png")
    assert evaluate.endswith("test.tsv")
    content = json.loads(windlass("evaluate", tmp_path / "m", reviews / "tagged.tsv", "--json").out)
    assert {label: scores["count"] for label, scores in content["labels"].items()} == {"LOC": 40, "PER": 40}


def test_one_example_is_one(classifier, tmp_path):
    (tmp_path / "one.csv").write_text("review,stars\na great film,good\n")
    assert "\n1 example, " in windlass("evaluate", classifier[0], tmp_path / "one.csv").out


def test_quiet_is_quiet(reviews, tiny_data, tmp_path):
    for name, file in (("c", reviews / "reviews.csv"), ("t", tiny_data / "pairs.tsv")):
        ran = windlass("train", file, "--out", tmp_path / name, *(SMALL if name == "c" else ONE), "--quiet")
        assert (ran.code, ran.out) == (0, "")
        assert all(line.startswith("worse than its baseline: ") for line in ran.err.splitlines())
        assert len(ran.err.splitlines()) == 1  # of one epoch, both are
        assert (tmp_path / name / "weights.safetensors").is_file()
    learned = ("--set", "train.optimiser.lr=0.01", "--epochs", "40")
    ran = windlass("train", reviews / "reviews.csv", "--out", tmp_path / "d", *SMALL, *learned, "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert "no such file" in refused("train", tmp_path / "nosuch.tsv", "--quiet", "--out", tmp_path / "m")


def test_verbose_shows_the_recipe_and_every_finding(tmp_path):
    rows = [f"a{n}\tb{n}\n" for n in range(20)] + ["\tblank\n"] * 8
    (tmp_path / "pairs.tsv").write_text("".join(rows))
    ran = windlass("train", tmp_path / "pairs.tsv", "--task", "text", "--out", tmp_path / "m", *ONE, "--verbose")
    assert ran.code == 0, ran.err
    assert ran.err.count("the source is blank -> skipped") == 8
    assert "task: text\nseed: 1\ndata:\n" in ran.err
    other = windlass("train", tmp_path / "pairs.tsv", "--task", "text", "--out", tmp_path / "n", *ONE)
    assert other.err.count("the source is blank -> skipped") == 5
    assert "choose one" in refused("train", tmp_path / "pairs.tsv", "--quiet", "--verbose", "--out", tmp_path / "o")


@pytest.mark.parametrize(
    ("file", "other"),
    [
        ("train.csv", "test.csv"),
        ("a.b/train.jsonl", "test.jsonl"),
        ("train.v2.tsv", "test.tsv"),
        ("train.tsv.gz", "test.tsv.gz"),
        ("train.en,train.de", "test.en,test.de"),
        ("train", "test"),
    ],
)
def test_another_file_has_the_same_ending(file, other):
    assert like("test", file) == other


def test_phonemes_without_spaces_are_written_letter_by_letter_and_words_if_asked_for_are_told(tmp_path):
    words = [f"{a}{b}{c}" for a in "bdfgl" for b in "aeiou" for c in "mn"]
    path = tmp_path / "words.tsv"
    path.write_text("".join(f"{word}\t/{word.replace('e', 'ɛ')}ː/\n" for word in words))
    adapted, told = "target: characters, as 100% are one word that never repeats; else: ", "which cannot be learned"
    done = windlass("train", path, "--task", "pronounce", "--out", tmp_path / "m", *SMALL)
    assert done.err.index(adapted) < done.err.index("an epoch of")
    assert told not in done.err
    assert "ɛ" in load_definition(tmp_path / "m")[1].tokenizer.symbols
    one = tmp_path / "one.tsv"
    one.write_text("bem\t/bɛmː/\n")
    found = json.loads(windlass("evaluate", tmp_path / "m", one, "--json").out)
    output = windlass("predict", tmp_path / "m", one).out.strip()
    assert found["metrics"]["per"] == pytest.approx(100 * edit_distance(output, "/bɛmː/") / 6, abs=0.01)
    assert found["baseline"]["per"] < found["baseline"]["wer"] == 100.0
    asked = [*SMALL, "--set", "target.tokens=words"]
    done = windlass("train", path, "--task", "pronounce", "--out", tmp_path / "n", *asked)
    assert done.err.index(told) < done.err.index("an epoch of")
    assert adapted not in done.err
    path.write_text("".join(f"{word}\t{' '.join(word)}\n" for word in words))
    spaced = windlass("train", path, "--task", "pronounce", "--out", tmp_path / "o", *SMALL).err
    assert told not in spaced
    assert adapted not in spaced
