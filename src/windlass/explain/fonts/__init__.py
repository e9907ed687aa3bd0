"""Fonts for labels in any script: parts of Noto (licence: OFL.txt), then those of matplotlib and the machine.

matplotlib brings DejaVu Sans: Latin, phonetic letters, Greek, Cyrillic, Armenian, Georgian, Hebrew, Arabic.
The files here add the other scripts of the demo, each under a name of its own, so that it never stands in for
a full font.
"""

from __future__ import annotations

import base64
import io
import unicodedata
import warnings
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
BASE = "DejaVu Sans"
INSTALL = "install a font that has it (Debian and Ubuntu: apt-get install fonts-noto-core fonts-noto-cjk)"


@cache
def bundled() -> dict[str, Path]:
    """Return the fonts that come with the package by family, known to matplotlib from now on.

    >>> sorted(bundled())[:2]
    ['Windlass Bengali', 'Windlass Devanagari']
    """
    from matplotlib import font_manager

    found = {}
    for path in sorted(FOLDER.glob("*.?tf")):
        font_manager.fontManager.addfont(path)
        found[f"Windlass {path.stem}"] = path
    return found


@cache
def _characters(path: str) -> frozenset[int]:
    from fontTools.ttLib import TTFont

    with TTFont(path, fontNumber=0, lazy=True) as font:
        return frozenset(font.getBestCmap() or ())


@cache
def _installed(character: str) -> str:
    """The family of a font on this machine that has a character, or "". Placeholders do not count."""
    from matplotlib import font_manager

    for entry in font_manager.fontManager.ttflist:
        try:
            if "LastResort" not in entry.fname and ord(character) in _characters(entry.fname):
                return str(entry.name)
        except Exception:  # whatever is wrong with a font of the machine's, the next one may do
            continue
    return ""


def _has(family: str, character: str) -> bool:
    """Say whether the base font or a bundled one has a character; a Hangul syllable is built from its jamo."""
    from matplotlib import font_manager

    path = bundled().get(family) or font_manager.findfont(family)
    known = _characters(str(path))
    return ord(character) in known or (
        "\uac00" <= character <= "\ud7a3"
        and all(ord(jamo) in known for jamo in unicodedata.normalize("NFD", character))
    )


def families(text: str) -> list[str]:
    """Return the families to draw a text with, best first. Warns of what no font _has, by script.

    >>> families("kan"), families("◌ि"), families("kaक")
    (['DejaVu Sans'], ['Windlass Devanagari', 'DejaVu Sans'], ['DejaVu Sans', 'Windlass Devanagari'])
    """
    needed = [c for c in text if not c.isspace() and unicodedata.category(c) not in ("Cc", "Cf")]
    known = [BASE, *bundled()]
    for family in known:  # a mark must come from the same font as what it stands on
        if all(_has(family, c) for c in needed):
            return list(dict.fromkeys([family, BASE]))
    chosen, missing = [BASE], set()
    for character in needed:
        if not any(_has(family, character) for family in chosen if family in known):
            family = next((f for f in known if _has(f, character)), "") or _installed(character)
            if not family:
                missing.add(unicodedata.name(character, "unnamed").split()[0])
            elif family not in chosen:
                chosen.append(family)
    for script in sorted(missing):
        warnings.warn(f"no font here has {script} characters, as in {text!r}: {INSTALL}", stacklevel=2)
    return chosen


def embedded(text: str) -> dict[str, str]:
    """Return the bundled fonts a page needs, cut down to its text, as data addresses by family.

    >>> embedded("kan"), list(embedded("क"))
    ({}, ['Windlass Devanagari'])
    """
    from fontTools.subset import Options as SubsetOptions
    from fontTools.subset import Subsetter
    from fontTools.ttLib import TTFont

    wanted: dict[str, str] = {}
    text = "".join(sorted(set(text + unicodedata.normalize("NFD", text))))  # with the jamo of Hangul
    for family, path in bundled().items():
        own = "".join(c for c in text if not _has(BASE, c) and _has(family, c))
        if own:
            buffer = io.BytesIO()
            with TTFont(path) as font:
                subsetter = Subsetter(SubsetOptions(layout_features=["*"], notdef_outline=True))
                subsetter.populate(text=own + "◌\u200c\u200d")
                subsetter.subset(font)
                font.save(buffer)
            wanted[family] = f"data:font/{path.suffix[1:]};base64,{base64.b64encode(buffer.getvalue()).decode()}"
    return wanted
