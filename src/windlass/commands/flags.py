"""Arguments and options that several commands share, each with its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="a model's folder", show_default=False)]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="override anything a recipe holds")
]
Source = Annotated[
    str | None, typer.Option("--source", metavar="COLUMN", help="column of the input, by number or name")
]
Target = Annotated[
    str | None, typer.Option("--target", metavar="COLUMN", help="column of the output, by number or name")
]
Second = Annotated[
    str | None, typer.Option("--second", metavar="COLUMN", help="column of a pair's second text, by number or name")
]
AlignmentColumn = Annotated[
    str | None, typer.Option("--alignment", metavar="COLUMN", help="column of gold links such as '0-0 1-2'")
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="tsv, csv, jsonl, parquet, parallel, labelled, conll, conllu, trees; else by name",
    ),
]
Also = Annotated[list[Path] | None, typer.Option("--also", metavar="DIR", help="another model of an ensemble")]
BeamSize = Annotated[int | None, typer.Option("--beam", metavar="N", min=1, help="beam size")]
Kind = Annotated[
    str | None, typer.Option("--search", metavar="NAME", help="greedy, beam or sample; else as the recipe says")
]
LengthPenalty = Annotated[
    float | None, typer.Option("--length-penalty", metavar="X", help="beam: rank by log p / length ** this")
]
Temperature = Annotated[float | None, typer.Option("--temperature", metavar="X", help="sample: below 1 is safer")]
TopK = Annotated[int | None, typer.Option("--top-k", metavar="N", help="sample: from the k likeliest tokens")]
TopP = Annotated[
    float | None, typer.Option("--top-p", metavar="X", help="sample: from the tokens that hold this probability")
]
SampleSeed = Annotated[int | None, typer.Option("--seed", metavar="N", help="sample: the same seed, the same draws")]
BlockNgrams = Annotated[
    int | None, typer.Option("--block-ngrams", metavar="N", help="never repeat a run of so many tokens")
]
Device = Annotated[str, typer.Option("--device", metavar="NAME", help="cpu, cuda, mps ...")]
Json = Annotated[bool, typer.Option("--json", help="print JSON and nothing else")]
