"""Runs the pages of docs/lectures and writes each as a Jupyter notebook with its output.

    python docs/make_notebooks.py             all pages
    python docs/make_notebooks.py attention   one of them
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "lectures"
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def cells(page: str) -> list[tuple[str, str]]:
    """The text and the code of a page, in order.

    >>> cells("# A\\n```python\\nx = 1\\n```\\n")
    [('markdown', '# A'), ('code', 'x = 1')]
    """
    found, end = [], 0
    for match in FENCE.finditer(page):
        found += [("markdown", page[end : match.start()].strip()), ("code", match[1].strip())]
        end = match.end()
    return [(kind, text) for kind, text in [*found, ("markdown", page[end:].strip())] if text]


def run(codes: list[str]) -> list[str]:
    """What each piece of code prints, run one after another in an empty folder."""
    space: dict[str, object] = {"__name__": "page"}
    printed, here = [], Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for code in codes:
                out = io.StringIO()
                with contextlib.redirect_stdout(out):
                    exec(compile(code, "page", "exec"), space)
                printed.append(out.getvalue())
        finally:
            os.chdir(here)
    return printed


def notebook(page: str) -> dict[str, Any]:
    """A page as a notebook (nbformat 4)."""
    parts = cells(page)
    outputs = iter(run([text for kind, text in parts if kind == "code"]))
    made: list[dict[str, Any]] = []
    for number, (kind, text) in enumerate(parts):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": text}
        if kind == "code":
            printed = next(outputs)
            shown = [{"output_type": "stream", "name": "stdout", "text": printed}] if printed else []
            cell |= {"execution_count": None, "outputs": shown}
        made.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def main() -> None:
    """Write the notebooks of all pages, or of those that are named."""
    pages = [FOLDER / f"{name}.md" for name in sys.argv[1:]] or sorted(FOLDER.glob("*.md"))
    for page in pages:
        if page.stem != "README":
            made = notebook(page.read_text(encoding="utf-8"))
            page.with_suffix(".ipynb").write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", "utf-8")
            print(page.with_suffix(".ipynb").name)


if __name__ == "__main__":
    main()
