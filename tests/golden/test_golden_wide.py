"""N-grams beside the network: the equation, what is refused, and that it learns what only a word decides."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from windlass import api
from windlass.core.errors import RecipeError
from windlass.core.records import Padded
from windlass.data.sides.text import TextSource, hashed_ngrams
from windlass.data.tokens import TextOptions
from windlass.heads.pooled import Wide, WideOptions
from windlass.recipe import compose, setting

WIDE = {"source.ngrams": 2, "model.head.wide": {"dropout": 0.0}}


def test_the_sum_over_ngrams_by_hand():
    wide = Wide(WideOptions(gain=3.0, dropout=0.0), outputs=2).double()
    torch.manual_seed(1)
    torch.nn.init.normal_(wide.table)
    found = wide(Padded.of([[7, 9, 11], [8]])).detach().numpy()
    table = wide.table.detach().numpy()
    by_hand = np.stack([3 / math.sqrt(3) * (table[7] + table[9] + table[11]), 3 * table[8]])
    np.testing.assert_allclose(found, by_hand, atol=1e-14)


def test_every_ngram_counts_once_and_padding_never():
    assert hashed_ngrams(["a", "b", "a", "b"], 2) == sorted(
        set(hashed_ngrams(["a", "b"], 2) + hashed_ngrams(["b", "a"], 2))
    )
    side = TextSource.fit(TextOptions(tokens="words", ngrams=2), ["a b c", "a"])
    batch = side.collate([side.encode("a b c"), side.encode("a")])["ngrams"]
    assert batch.mask.sum(1).tolist() == [5, 1]


@pytest.mark.parametrize(
    ("task", "change", "said"),
    [
        ("classify", "model.head.wide={}", "set source.ngrams: 2"),
        ("text", "source.ngrams=2", "are read by model.head.wide"),
        ("entail", "model.head.wide={}", "set source.ngrams: 2"),
    ],
)
def test_what_does_not_fit_is_told(task, change, said):
    plain = [{"source": {"ngrams": 0}}] if task == "classify" else []
    with pytest.raises(RecipeError, match=said):
        compose(task, None, [*plain, setting(change)])


def test_words_that_are_seen_once_decide(tmp_path):
    """Every second word of the label is new to the network, whose vocabulary keeps frequent words only."""
    rows = [(f"it was {word}{n % 12} again", word) for n in range(48) for word in ("fine", "dull")]
    sizes = {"model.encoder.size": 8, "model.encoder.embedding.size": 8, "train.epochs": 4, "train.batch_tokens": 60}
    small = {**sizes, "source.tokens.min_count": 99, "train.schedule.warmup": 5, "train.average": "none"}
    model = api.fit(rows, rows[:24], "classify", settings={**small, **WIDE}, quiet=True)
    assert model.dev.metrics["accuracy"] == 100
    model.save(tmp_path / "m")
    again = api.load(tmp_path / "m")
    assert [p.text for p in again.predict(["it was dull3 again", "it was fine7 again"])] == ["dull", "fine"]
    assert again.score([rows[0]])[0].score == pytest.approx(model.score([rows[0]])[0].score)
