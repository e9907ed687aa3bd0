"""What 8 bits cost in quality: BLEU of trained models on Multi30k English to German, dev, as they are and in 8 bits.

    python benchmarks/speed/eight_bits.py runs/quality/windlass

The other half of the decoding figures of `run.py`, which times both with weights as they come: a speed in 8 bits counts
only beside what is lost by it. Greedy search and a beam of 5, every model by both, the same sentences.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `common`, which all benchmarks share

from common import data, load, report

from windlass.bundle import Bundle
from windlass.decoding.options import Beam, Greedy
from windlass.experiment.data import read_examples
from windlass.inference.evaluate import evaluate
from windlass.inference.quantise import quantise

SEARCHES = {"greedy": Greedy(), "beam 5": Beam(size=5)}


def compared(folder: Path) -> list[dict[str, Any]]:
    """A row for every search: BLEU in 32 bits, in 8, and what is lost."""
    root = data("translation/multi30k-en-de")
    bundle = Bundle.load(folder)
    examples = read_examples(bundle.recipe, f"{root / 'val.en.gz'},{root / 'val.de.gz'}").examples
    rows = []
    for name, how in SEARCHES.items():
        scores = {}
        for bits, model in (("32", bundle), ("8", quantise(bundle))):
            metrics = evaluate([model], examples, how).metrics
            scores |= {f"bleu_{bits}": metrics["bleu"], f"bleu_lc_{bits}": metrics["bleu_lc"]}
        lost = scores["bleu_32"] - scores["bleu_8"]
        rows.append(
            {"model": folder.name, "search": name, **scores, "lost": round(lost, 3), "sentences": len(examples)}
        )
        print(
            f"{folder.name}, {name}: BLEU {scores['bleu_32']:.2f} in 32 bits, {scores['bleu_8']:.2f} in 8", flush=True
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, help="bundles of the task translate, English to German")
    parser.add_argument("--name", default="eight-bits", help="of the result in benchmarks/results")
    options = parser.parse_args()
    before = load()
    report(options.name, {"rows": [row for folder in options.models for row in compared(folder)], "load": before})


if __name__ == "__main__":
    main()
