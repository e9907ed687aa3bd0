"""The tasks, in little: digraphs, a toy language with its own word order, and gold alignments."""

from __future__ import annotations

import json
import random
from pathlib import Path

import windlass
from toy import SMALL, Pairs, accuracy, learn, strings
from windlass.data.readers import read
from windlass.inference.evaluate import alignment_metrics

PHONES = {"sh": "ʃ", "ch": "tʃ", "th": "θ", "s": "s", "t": "t", "c": "k", "a": "a", "e": "e", "ee": "iː"}


def spelled() -> Pairs:
    """A spelling with digraphs: what an s is, the next letter decides."""
    chance = random.Random(2)
    found: dict[str, str] = {}
    while len(found) < 270:  # of 324
        units = [chance.choice(["sh", "ch", "th", "s", "t", "c"] if n % 2 == 0 else ["a", "e", "ee"]) for n in range(4)]
        found["".join(units)] = " ".join(PHONES[unit] for unit in units)
    return list(found.items())


def test_pronounce_learns_digraphs():
    pairs = spelled()
    model = learn(pairs, task="pronounce", train__epochs=12)
    assert model.dev is not None
    assert model.dev.metrics["wer"] <= 5
    assert model.predict("sheecha")[0].text == "ʃ iː tʃ a"
    assert model.predict("sheecha")[0].answer.tokens == ("ʃ", "iː", "tʃ", "a")


NOUNS = {"house": "maison", "garden": "jardin", "river": "fleuve", "bread": "pain", "window": "fenetre"}
COLOURS = {"red": "rouge", "green": "vert", "white": "blanc", "black": "noir"}
VERBS = {"sees": "voit", "takes": "prend", "wants": "veut"}


def sentences() -> Pairs:
    """Colours go before nouns in the source and after them in the target."""
    chance = random.Random(3)
    found: dict[str, str] = {}
    while len(found) < 330:
        (c1, c2), (n1, n2), v = (
            chance.choices(list(COLOURS), k=2),
            chance.choices(list(NOUNS), k=2),
            chance.choice(list(VERBS)),
        )
        found[f"{c1} {n1} {v} {c2} {n2}"] = f"{NOUNS[n1]} {COLOURS[c1]} {VERBS[v]} {NOUNS[n2]} {COLOURS[c2]}"
    return list(found.items())


def test_translate_learns_words_and_their_order_from_pieces():
    pairs = sentences()
    tokens = {"kind": "bpe", "size": 60}
    model = learn(pairs, task="translate", source__tokens=tokens, target__tokens=tokens, train__epochs=14)
    assert model.dev is not None
    assert model.dev.metrics["bleu"] >= 90
    assert accuracy(model, pairs[:50]) >= 80
    assert any(
        len(token.strip("▁")) > 1 for token in model.predict(pairs[0][0])[0].answer.tokens
    )  # pieces, not letters


def aligned(path: Path) -> Path:
    """Reversed words with their links."""
    rows = []
    for word in strings("abcd", 2, 4):
        links = [[len(word) - 1 - place, place] for place in range(len(word))]
        rows.append({"source": word, "target": word[::-1], "links": links})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_gold_alignments_teach_the_attention_where_to_look(tmp_path):
    file = aligned(tmp_path / "links.jsonl")
    reading = {"data.source": "source", "data.target": "target", "data.alignment": "links"}
    rates = {}
    for weight in (0.0, 1.0):
        settings = SMALL | reading | {"loss.alignment": weight, "train.epochs": 10}
        model = windlass.fit(file, task="text", settings=settings, quiet=True)
        held = read(file, model.bundle.recipe.data).examples[:60]
        figures, diagonal = alignment_metrics(model.bundle, held)
        rates[weight] = figures["aer"]
    assert rates[1.0] <= 2
    assert rates[0.0] >= rates[1.0] + 5
    assert diagonal["aer"] > 30  # to follow the diagonal is no way to reverse
