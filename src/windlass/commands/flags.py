"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="model directory", show_default=False)]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="override an option of the recipe; repeatable")
]
Source = Annotated[
    str | None, typer.Option("--source", metavar="COLUMN", help="source column, by number or name; several: a,b or 2-5")
]
Target = Annotated[str | None, typer.Option("--target", metavar="COLUMN", help="target column, by number or name")]
Second = Annotated[
    str | None, typer.Option("--second", metavar="COLUMN", help="column of a pair's second text, by number or name")
]
AlignmentColumn = Annotated[
    str | None, typer.Option("--alignment", metavar="COLUMN", help="column of gold alignments such as '0-0 1-2'")
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="tsv, csv, jsonl, parquet, parallel, labelled, conll, conllu or trees; default: by file name",
    ),
]
Header = Annotated[
    str | None,
    typer.Option("--header", metavar="yes|no", help="whether the first row names the columns"),
]
Separator = Annotated[
    str | None,
    typer.Option("--separator", metavar="NAME", help="of columns: tab, comma, semicolon, pipe or any character"),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        metavar="NAME",
        help="of the file, such as cp1252; default: UTF-8 or, if it is not, that of the model's training data",
    ),
]
Also = Annotated[list[Path] | None, typer.Option("--also", metavar="DIR", help="ensemble with this model; repeatable")]
BeamSize = Annotated[int | None, typer.Option("--beam", metavar="N", min=1, help="beam size")]
Search = Annotated[
    str | None, typer.Option("--search", metavar="NAME", help="greedy, beam or sample; default: the recipe's")
]
LengthPenalty = Annotated[
    float | None, typer.Option("--length-penalty", metavar="X", help="beam: rank by log p / length ** X")
]
Temperature = Annotated[
    float | None, typer.Option("--temperature", metavar="X", help="sample: temperature; below 1 sharpens")
]
TopK = Annotated[int | None, typer.Option("--top-k", metavar="N", help="sample: from the N most probable tokens")]
TopP = Annotated[
    float | None, typer.Option("--top-p", metavar="X", help="sample: from the smallest set of probability X (nucleus)")
]
SampleSeed = Annotated[int | None, typer.Option("--seed", metavar="N", help="sample: random seed")]
BlockNgrams = Annotated[
    int | None, typer.Option("--block-ngrams", metavar="N", help="never repeat an n-gram of N tokens")
]
Device = Annotated[str, typer.Option("--device", metavar="NAME", help="cpu, cuda ...; auto: cuda if there is one")]
Json = Annotated[bool, typer.Option("--json", help="print JSON only")]
Quiet = Annotated[bool, typer.Option("--quiet", help="print nothing on stderr but errors")]
