"""BPE and unigram pieces: training and applying them through the library `tokenizers`.

The library sees a text with one space put before it, split before every space and around punctuation. The
space is part of the piece that follows it, so joining the pieces and dropping the first space gives the text
back, whatever it holds. (The customary U+2581 in the place of the space would lose a U+2581 that is in the
text; here it is only shown.)
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

UNKNOWN = "<unk>"  # id 0 inside the library. Punctuation stands alone, so no text can spell this as one piece


def train(kind: Literal["bpe", "unigram"], size: int, texts: Iterable[str]) -> str:
    """Learn at most `size` pieces (more only if there are more different characters) and return them as JSON.

    >>> "merges" in json.loads(train("bpe", 50, ["low lower lowest"]))["model"]
    True
    """
    options: dict[str, Any] = {
        "vocab_size": size,
        "special_tokens": [UNKNOWN],
        "initial_alphabet": [" "],
        "show_progress": False,
    }
    if kind == "bpe":
        tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
        trainer: Any = trainers.BpeTrainer(**options)
    else:
        tokenizer = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(**options, unk_token=UNKNOWN)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(" ", "merged_with_next"), pre_tokenizers.Punctuation("isolated")]
    )
    tokenizer.train_from_iterator((" " + text for text in texts), trainer)
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = []  # or a text that spells "<unk>" would be taken for the mark
    if kind == "unigram":
        state["model"]["vocab"] = _canonical(state["model"]["vocab"])
    return json.dumps(state, ensure_ascii=False)


def _canonical(vocab: list[tuple[str, float | None]]) -> list[tuple[str, float | None]]:
    """Make a fit repeatable.

    The library's scores differ by rounding from run to run, and letters too rare for a piece of their own get
    scores in random order just above the lowest: round the first and level the second.
    """
    unknown = vocab[0]
    pieces = [(piece, score or 0.0) for piece, score in vocab[1:]]  # trained on nothing, it has no scores
    floor = min((score for _, score in pieces), default=0.0)
    rare = floor + 0.0001 * (1 + sum(len(piece) == 1 for piece, _ in pieces))
    level = [(p, round(floor if len(p) == 1 and s < rare else s, 4)) for p, s in pieces]
    return [unknown, *sorted(level, key=lambda pair: (-pair[1], pair[0]))]


def pieces(model: str) -> list[str]:
    """The pieces of a trained model, in the order of the library's ids without the unknown one.

    >>> sorted(pieces(train("bpe", 50, ["aa"])))
    [' ', ' a', ' aa', 'a']
    """
    vocab = json.loads(model)["model"]["vocab"]
    if isinstance(vocab, dict):
        return sorted(vocab, key=lambda piece: int(vocab[piece]))[1:]
    return [piece for piece, _ in vocab[1:]]


def check(state: dict[str, Any]) -> None:
    """Refuse the JSON of a model that `train` cannot have written: its ids must be those of its pieces.

    >>> check(json.loads(train("bpe", 50, ["aa"])) | {"padding": {"pad_id": 1000}})
    Traceback (most recent call last):
    ValueError: a table of subwords has no padding
    """
    for part in ("truncation", "padding", "normalizer", "post_processor", "decoder", "added_tokens"):
        if state.get(part):
            raise ValueError(f"a table of subwords has no {part}")
    model = state["model"]
    vocab = model["vocab"]
    if isinstance(vocab, dict):
        if sorted(vocab.values()) != list(range(len(vocab))) or vocab.get(UNKNOWN) != 0 or model.get("dropout"):
            raise ValueError("the ids of subwords do not count up from the unknown one")
    elif not vocab or not all(isinstance(p, str) and isinstance(s, int | float) for p, s in vocab) or model["unk_id"]:
        raise ValueError("subwords are not pairs of a text and a score")


def add_characters(model: str, characters: Iterable[str]) -> str:
    """Append single characters as pieces. No old id moves, and no old text is cut differently.

    >>> pieces(add_characters(train("bpe", 50, ["a"]), ["b"]))[-1]
    'b'
    """
    state = json.loads(model)
    vocab = state["model"]["vocab"]
    for character in characters:
        if isinstance(vocab, dict):
            vocab[character] = len(vocab)
        else:
            vocab.append((character, 0.0))  # any score will do: there is but one way to cut it
    return json.dumps(state, ensure_ascii=False)
