"""From files to batches. Reading order: examples, readers (over tables and files), tokenizer, sides, loader, corpus."""

from windlass.core.marks import BOS, EOS, PAD, UNK
from windlass.data.corpus import examine
from windlass.data.doctor import Report, survey
from windlass.data.encoded import Encoded
from windlass.data.examples import Alignment, Example, Place, expand, group, split
from windlass.data.findings import Finding
from windlass.data.loader import Loader
from windlass.data.readers import DataOptions, DataPath, ReadResult, read
from windlass.data.sides import SideOptions, Sides
from windlass.data.tokenizer import Tokenizer
from windlass.data.tokens import TextOptions, TokenOptions

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "UNK",
    "Alignment",
    "DataOptions",
    "DataPath",
    "Encoded",
    "Example",
    "Finding",
    "Loader",
    "Place",
    "ReadResult",
    "Report",
    "SideOptions",
    "Sides",
    "TextOptions",
    "TokenOptions",
    "Tokenizer",
    "examine",
    "expand",
    "group",
    "read",
    "split",
    "survey",
]
