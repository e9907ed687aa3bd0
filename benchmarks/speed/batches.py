"""The same ids for everyone: Multi30k, English to German, cut once by one BPE vocabulary and written as JSON.

Sentences are sorted by length (target, then source) and cut into batches of 64, in an order of chance. Decoding takes
sentences of one length. The language model reads the German and English text as one stream of words.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

from shapes import EOS, LM_STEPS, SHAPES

from windlass.data.tokenizer import Tokenizer
from windlass.data.tokens import BpeTokens, TextOptions, WordTokens

DECODED = 15  # the length of the sentences to decode, EOS included: the mean


def make(folder: Path, out: Path) -> dict[str, Path]:
    """Write a file of batches a model; return where they are."""
    files = {model: out / f"{model}.json" for model in SHAPES}
    if all(file.exists() for file in files.values()):
        return files
    out.mkdir(parents=True, exist_ok=True)
    english, german = (_lines(folder / f"train.{language}.gz") for language in ("en", "de"))
    shape = SHAPES["S"]
    pieces = Tokenizer.fit(TextOptions(tokens=BpeTokens(size=shape.vocabulary)), [*english, *german])
    pairs = [([*pieces.encode(e), EOS], [*pieces.encode(d), EOS]) for e, d in zip(english, german, strict=True)]
    found = {
        "train": [{"source": [s for s, _ in b], "target": [t for _, t in b]} for b in _sorted(pairs, shape.batch)],
        "decode": [source for source, _ in pairs if len(source) == DECODED][:256],
    }
    for model in ("S", "M"):
        files[model].write_text(json.dumps(found))
    files["LM"].write_text(json.dumps({"train": _stream([*german, *english])}))
    return files


def _lines(file: Path) -> list[str]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return lines.read().splitlines()


def _sorted(pairs: list[tuple[list[int], list[int]]], size: int) -> list[list[tuple[list[int], list[int]]]]:
    pairs = sorted(pairs, key=lambda pair: (len(pair[1]), len(pair[0])))
    found = [pairs[i : i + size] for i in range(0, len(pairs) - size + 1, size)]
    random.Random(1).shuffle(found)
    return found


def _stream(lines: list[str]) -> list[dict[str, list[list[int]]]]:
    """Rows of running text, LM_STEPS words at a time; the target is the next word."""
    shape = SHAPES["LM"]
    codec = Tokenizer.fit(TextOptions(tokens=WordTokens(size=shape.vocabulary)), lines)
    ids = [i for line in lines[:8000] for i in [*codec.encode(line), EOS]]
    length = len(ids) // shape.batch
    rows = [ids[r * length : (r + 1) * length] for r in range(shape.batch)]
    return [
        {"source": [row[t : t + LM_STEPS] for row in rows], "target": [row[t + 1 : t + 1 + LM_STEPS] for row in rows]}
        for t in range(0, length - LM_STEPS - 1, LM_STEPS)
    ]
