"""Pages that are whole in themselves: HTML templates, filled with values that are escaped.

A template is a file of `templates`, or a section of one, which a comment with its name begins. `$name` stands for a
value (`string.Template`).
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from re import MULTILINE, compile
from string import Template

from windlass.explain import fonts

FOLDER = Path(__file__).parent / "templates"
_SECTION = compile(r"^<!-- (\w+) -->\n", MULTILINE)


class Html(str):
    """Text that is HTML already, and is not escaped.

    >>> fill("heat.column", mark=Html(' class="mark"'), text="<s>")
    '<th scope="col" dir="auto" class="mark">&lt;s&gt;</th>'
    """

    __slots__ = ()

    @classmethod
    def joined(cls, parts: Iterable[str], between: str = "") -> Html:
        """Several pieces of HTML as one."""
        return cls(between.join(parts))


@cache
def _templates(file: str) -> dict[str, Template]:
    """The sections of a file by name; "" is what stands before the first."""
    first, *rest = _SECTION.split((FOLDER / f"{file}.html").read_text(encoding="utf-8"))
    pairs = zip(rest[::2], rest[1::2], strict=True)
    return {"": Template(first)} | {name: Template(text.removesuffix("\n")) for name, text in pairs}


def fill(template: str, **values: object) -> Html:
    """Fill a template, "file" or "file.section", with values.

    >>> fill("heat.heading", mark="", text="a & b")
    '<th scope="row" dir="auto">a &amp; b</th>'
    """
    file, _, section = template.partition(".")
    known = {name: v if isinstance(v, Html) else html.escape(str(v)) for name, v in values.items()}
    return Html(_templates(file)[section].substitute(known))


def page(heading: str, body: Html, *kinds: str) -> str:
    """A page with the styles of these kinds of content, and the fonts that its text needs.

    >>> made = page("Attention to <b>", Html("<p>"), "heat")
    >>> "Attention to &lt;b&gt;" in made, "$" in made
    (True, False)
    """
    faces = fonts.embedded(heading + body)
    families = ", ".join([*(f'"{family}"' for family in faces), "system-ui", "sans-serif"])
    embedded = "".join(
        f'@font-face {{ font-family: "{family}"; src: url({data}); font-display: block; }}\n'
        for family, data in faces.items()
    )
    style = Html.joined((_templates(kind)["style"].template for kind in kinds), "\n")
    return fill("page", heading=heading, families=Html(families), style=style, faces=Html(embedded), body=body)
