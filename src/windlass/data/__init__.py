"""From files to batches. Reading order: examples, readers (over tables and files), codecs, loader, doctor."""

from windlass.core.marks import BOS, EOS, PAD, UNK
from windlass.data.codecs import TextCodec
from windlass.data.doctor import Report, examine, survey
from windlass.data.examples import Alignment, Example, Place, expand, group, split
from windlass.data.findings import Finding
from windlass.data.loader import Encoded, Loader, collate
from windlass.data.readers import DataOptions, DataPath, ReadResult, read
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
    "TextCodec",
    "TextOptions",
    "TokenOptions",
    "collate",
    "examine",
    "expand",
    "group",
    "read",
    "split",
    "survey",
]
