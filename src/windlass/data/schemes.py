"""Tags that mark spans: BIO and BIOES, read as the field's own scorer (conlleval) reads them.

BIO    B-x begins a span of x, I-x goes on with it, O is outside
BIOES  E-x ends a span, S-x is one of a single token
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

Scheme = Literal["none", "BIO", "BIOES"]
Found = tuple[int, int, str]
"""A span: its first token, the first token after it, its label."""

_TAG = re.compile(r"O|[BIES]-\S+")
_ENDS = "ES"


def _parts(tag: str) -> tuple[str, str]:
    """Prefix and label."""
    prefix, _, label = tag.partition("-")
    return prefix, label


def spans(tags: Sequence[str]) -> list[Found]:
    """The spans of a tag sequence, ill-formed ones read as conlleval does: an I-x that nothing goes before begins one.

    >>> spans(["B-x", "I-x", "O", "I-y", "B-y"])
    [(0, 2, 'x'), (3, 4, 'y'), (4, 5, 'y')]
    """
    found: list[Found] = []
    begin = -1  # of the open span
    before, label = "O", ""
    for place, tag in enumerate([*tags, "O"]):
        prefix, own = _parts(tag)
        new = prefix != "O" and (prefix in "BS" or before == "O" or before in _ENDS or own != label)
        if begin >= 0 and (new or prefix == "O" or before in _ENDS):
            found.append((begin, place, label))
            begin = -1
        if new:
            begin = place
        before, label = prefix, own
    return found


def marked(tags: Iterable[str]) -> bool:
    """Whether tags mark spans: each is O or a prefix and a label, and not all are O.

    >>> marked(["O", "B-x"]), marked(["NOUN", "VERB"])
    (True, False)
    """
    seen = set(tags)
    return seen != {"O"} and bool(seen) and all(_TAG.fullmatch(tag) for tag in seen)


def told(tags: Iterable[str]) -> Scheme:
    """The scheme that tags are written in.

    >>> told(["O", "B-x", "I-x"]), told(["S-x", "O"]), told(["NOUN"])
    ('BIO', 'BIOES', 'none')
    """
    seen = set(tags)
    if not marked(seen):
        return "none"
    return "BIOES" if any(tag[0] in _ENDS for tag in seen) else "BIO"


def follows(scheme: Scheme, before: str | None, tag: str | None) -> bool:
    """Whether a tag may follow another; None is the start, or the end.

    >>> follows("BIO", "O", "I-x"), follows("BIO", "B-x", "I-x"), follows("BIOES", "B-x", None)
    (False, True, False)
    """
    if scheme == "none":
        return True
    old, label = _parts(before) if before is not None else ("O", "")
    new, own = _parts(tag) if tag is not None else ("O", "")
    if scheme == "BIO":
        return new != "I" or (old in ("B", "I") and label == own)
    if old in ("B", "I"):
        return new in ("I", "E") and label == own
    return new not in ("I", "E")


def fault(scheme: Scheme, tags: Sequence[str]) -> str | None:
    """What is ill-formed in a sequence, or None.

    >>> fault("BIO", ["O", "I-x"])
    "tag 2, 'I-x', does not follow 'O'"
    """
    known = {"none": "", "BIO": "OBI", "BIOES": "OBIES"}[scheme]
    for place, (before, tag) in enumerate(zip([None, *tags], [*tags, None], strict=True), 1):
        if tag is not None and known and (not _TAG.fullmatch(tag) or tag[0] not in known):
            return f"tag {place}, {tag!r}, is none of {scheme}"
        if not follows(scheme, before, tag):
            what = f"tag {place}, {tag!r}," if tag is not None else "the end"
            return f"{what} does not follow {before!r}" if before is not None else f"{what} cannot be the first"
    return None


def convert(tags: Sequence[str], scheme: Scheme) -> list[str]:
    """Write the spans of a sequence in a scheme; what was ill-formed is well-formed then.

    >>> convert(["I-x", "I-x", "O", "B-y"], "BIOES")
    ['B-x', 'E-x', 'O', 'S-y']
    >>> convert(["B-x", "E-x", "S-x"], "BIO")
    ['B-x', 'I-x', 'B-x']
    """
    if scheme == "none":
        return list(tags)
    out = ["O"] * len(tags)
    for begin, end, label in spans(tags):
        out[begin:end] = [f"B-{label}", *[f"I-{label}"] * (end - begin - 1)]
        if scheme == "BIOES":
            out[end - 1] = f"{'S' if end - begin == 1 else 'E'}-{label}"
    return out
