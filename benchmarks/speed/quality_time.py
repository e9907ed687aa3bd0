"""Minutes to a quality: lowercased BLEU of 30 and 34 on Multi30k English to German, dev, ours against JoeyNMT.

    python benchmarks/speed/quality_time.py --runs runs/quality                    all, at most 120 minutes each
    python benchmarks/speed/quality_time.py --runs runs/quality --only JoeyNMT     what was run before is kept

Each is trained through its own command line on the same text and two cores, with as many pieces, layers of the same
sizes and the same dropout; all else is what its makers advise. Dev is judged once an epoch with sacreBLEU (13a,
lowercased). JoeyNMT does this with greedy search, and knows no other way while it trains: its checkpoints are judged
with a beam of 5 after the run, at no cost. Windlass is run once with its own search, a beam of 5, and once with greedy
search. The clock is the wall's, from the start of the command, so that reading and judging count. A run ends when it
reaches the higher goal, or at the cap. One after the other, never together.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `common`, which all benchmarks share

from common import data, load, once, report
from environments import PEERS

GOALS = (30.0, 34.0)
PIECES, EMBEDDING, ENCODER, DECODER, DROPOUT, SMOOTHING = 6000, 256, 256, 512, 0.3, 0.1
BATCHES = 453  # of 64 sentences in an epoch


def watched(
    command: list[str], output: Path, log: Path, scores: Callable[[str], float | None], minutes: float
) -> dict[str, Any]:
    """Run a command and read the file it writes its dev scores to, until the last goal or the cap."""
    output.parent.mkdir(parents=True, exist_ok=True)
    before, began = load(), time.monotonic()
    curve: list[dict[str, float]] = []
    with output.open("w") as said:
        env = {**os.environ, "OMP_NUM_THREADS": "2"}
        process = subprocess.Popen(command, env=env, stdout=said, stderr=subprocess.STDOUT)
        try:
            while process.poll() is None and time.monotonic() - began < 60 * minutes:
                time.sleep(1)
                lines = log.read_text(encoding="utf-8").split("\n")[:-1] if log.exists() else []
                for line in lines[len(curve) :]:
                    score = scores(line)
                    if score is not None:
                        curve.append({"minutes": round((time.monotonic() - began) / 60, 2), "bleu_lc": score})
                        print(command[0], curve[-1], flush=True)
                if curve and curve[-1]["bleu_lc"] >= GOALS[-1]:
                    break
        finally:
            ended = process.poll()  # by itself; what it says when it is told to end is no failure
            process.terminate()
            process.wait()
    return {"minutes_to": reached(curve), "curve": curve, "load": before, "cap": minutes, "failed_with": ended or None}


def reached(curve: list[dict[str, float]], by: str = "bleu_lc") -> dict[str, float | None]:
    """Minutes to every goal."""
    return {str(goal): next((point["minutes"] for point in curve if point[by] >= goal), None) for goal in GOALS}


def windlass(runs: Path, minutes: float, name: str = "windlass", *search: str) -> dict[str, Any]:
    root = data("translation/multi30k-en-de")
    files = [f"{root / (part + '.en.gz')},{root / (part + '.de.gz')}" for part in ("train", "val")]
    settings = [
        f"source.tokens.size={PIECES}", f"target.tokens.size={PIECES}", "model.decoder=recurrent",
        f"model.encoder.size={ENCODER}", f"model.decoder.size={DECODER}", f"loss.label_smoothing={SMOOTHING}", *search,
    ]  # fmt: skip
    command = [str(Path(sys.executable).with_name("windlass")), "train", "--task", "translate", "--train", files[0]]
    command += ["--dev", files[1], "--out", str(runs / name), *(x for s in settings for x in ("--set", s))]

    def scores(line: str) -> float | None:
        score = json.loads(line)["dev"]["bleu_lc"]
        return float(score)

    return watched(command, runs / f"{name}.txt", runs / name / "training" / "metrics.jsonl", scores, minutes)


def greedy(runs: Path, minutes: float) -> dict[str, Any]:
    return windlass(runs, minutes, "windlass-greedy", "search.kind=greedy")


def joeynmt(runs: Path, minutes: float) -> dict[str, Any]:
    folder, python = runs / "joeynmt", str(PEERS / "joeynmt" / "bin" / "python")
    folder.mkdir(parents=True, exist_ok=True)
    root = data("translation/multi30k-en-de")
    for part in ("train", "val"):
        for language in ("en", "de"):
            with gzip.open(root / f"{part}.{language}.gz", "rt", encoding="utf-8") as text:
                (folder / f"{part}.{language}").write_text(text.read(), encoding="utf-8")
    began = time.monotonic()
    pieces = (
        "import sentencepiece as s; "
        "s.SentencePieceTrainer.train(input=['train.en', 'train.de'], model_prefix='pieces', model_type='bpe', "
        f"vocab_size={PIECES}, unk_id=0, pad_id=1, bos_id=2, eos_id=3, character_coverage=1.0); "
        "p = s.SentencePieceProcessor(model_file='pieces.model'); "
        "open('pieces.txt', 'w').write('\\n'.join(p.id_to_piece(i) for i in range(4, len(p))) + '\\n')"
    )
    subprocess.run([python, "-c", pieces], cwd=folder, check=True, capture_output=True)
    cutting = (time.monotonic() - began) / 60
    (folder / "config.yaml").write_text(yaml.safe_dump(joey_config(folder)))

    def scores(line: str) -> float | None:
        found = re.search(r"bleu: ([\d.]+)", line)
        return float(found.group(1)) if found else None

    cli = [python, str(Path(__file__).parent / "contestants" / "joey_cli.py")]
    command = [*cli, "train", str(folder / "config.yaml"), "--skip-test"]
    found = watched(command, runs / "joeynmt.txt", folder / "model" / "validations.txt", scores, minutes)
    for epoch, point in enumerate(found["curve"], 1):
        point |= {"greedy": point["bleu_lc"], "bleu_lc": joey_beam(cli, folder, epoch)}
    by_beam, by_greedy = reached(found["curve"]), reached(found["curve"], "greedy")
    # Cutting: ours does it within its run.
    return {**found, "minutes_to": by_beam, "minutes_to_greedy": by_greedy, "minutes_of_cutting": round(cutting, 2)}


def joey_beam(cli: list[str], folder: Path, epoch: int) -> float:
    """BLEU of dev with a beam of 5, of the checkpoint after an epoch."""
    config = joey_config(folder)
    checkpoint = str(folder / "model" / f"{epoch * BATCHES}.ckpt")
    config["testing"] |= {"beam_size": 5, "beam_alpha": 1.0, "load_model": checkpoint}
    (folder / "beam.yaml").write_text(yaml.safe_dump(config))
    done = subprocess.run([*cli, "test", str(folder / "beam.yaml")], capture_output=True, text=True, check=True)
    (score,) = re.findall(r"\(beam search\): bleu: *([\d.]+)", done.stdout + done.stderr)
    return float(score)


def joey_config(folder: Path) -> dict[str, Any]:
    """After the recurrent configurations that come with JoeyNMT; the sizes, dropout and batch are ours."""

    def side(language: str) -> dict[str, Any]:
        return {
            "lang": language, "level": "bpe", "max_length": 100, "voc_file": str(folder / "pieces.txt"),
            "tokenizer_type": "sentencepiece", "tokenizer_cfg": {"model_file": str(folder / "pieces.model")},
        }  # fmt: skip

    part = {"type": "recurrent", "rnn_type": "gru", "num_layers": 1, "dropout": DROPOUT}
    part["embeddings"] = {"embedding_dim": EMBEDDING, "dropout": DROPOUT}
    return {
        "name": "multi30k", "joeynmt_version": "2.3.0", "model_dir": str(folder / "model"), "use_cuda": False,
        "random_seed": 1,
        "data": {
            "train": str(folder / "train"), "dev": str(folder / "val"), "dataset_type": "plain",
            "src": side("en"), "trg": side("de"),
        },
        "testing": {
            "beam_size": 1, "batch_size": 64, "batch_type": "sentence", "max_output_length": 60,
            "eval_metrics": ["bleu"], "sacrebleu_cfg": {"tokenize": "13a", "lowercase": True},
        },
        "training": {
            "optimizer": "adam", "learning_rate": 0.001, "learning_rate_min": 1e-5, "clip_grad_norm": 1.0,
            "scheduling": "plateau", "patience": 3, "decrease_factor": 0.5, "normalization": "tokens",
            "batch_size": 64, "batch_type": "sentence", "epochs": 100, "validation_freq": BATCHES,
            "logging_freq": BATCHES, "early_stopping_metric": "bleu", "loss": "crossentropy",
            "label_smoothing": SMOOTHING, "keep_best_ckpts": -1, "overwrite": True, "shuffle": True,
        },
        "model": {
            "initializer": "xavier_uniform", "embed_initializer": "normal", "embed_init_weight": 0.1,
            "bias_initializer": "zeros", "init_rnn_orthogonal": True, "lstm_forget_gate": 0.0, "tied_embeddings": True,
            "encoder": {**part, "hidden_size": ENCODER, "bidirectional": True},
            "decoder": {
                **part, "hidden_size": DECODER, "hidden_dropout": DROPOUT, "attention": "bahdanau",
                "init_hidden": "bridge", "input_feeding": True,
            },
        },
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = {"windlass": windlass, "windlass-greedy": greedy, "JoeyNMT": joeynmt}
    parser.add_argument("--runs", type=Path, required=True, help="a folder for the models, and for what has been run")
    parser.add_argument("--minutes", type=float, default=120, help="the cap of each run")
    parser.add_argument("--only", nargs="+", default=list(kinds), choices=list(kinds))
    parser.add_argument("--name", default="quality-time", help="of the result in benchmarks/results")
    options = parser.parse_args()
    found, runs = {}, options.runs.resolve()
    runs.mkdir(parents=True, exist_ok=True)
    for name, train in kinds.items():
        if name in options.only or (runs / f"{name}.row.json").exists():
            found[name] = once(runs / name, partial(train, runs, options.minutes))
            failed = f"; ended with {found[name]['failed_with']}" if found[name]["failed_with"] else ""
            print(f"{name}: {found[name]['minutes_to']}{failed}", flush=True)
    report(options.name, found)


if __name__ == "__main__":
    main()
