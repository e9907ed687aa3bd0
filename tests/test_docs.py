"""The documentation is true: its code runs, its links lead somewhere, its commands exist, its lists are complete."""

from __future__ import annotations

import json
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import typer
import yaml

from windlass.cli import app
from windlass.recipe import compose

ROOT = Path(__file__).parent.parent
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "lectures").glob("*.md"))]
PAGES = [*GUIDES, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs" / "decisions").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """The blocks in a language, each with as many blank lines before it as make its line numbers those of the page."""
    text = page.read_text(encoding="utf-8")
    return ["\n" * text[: m.start(2)].count("\n") + m[2] for m in FENCE.finditer(text) if m[1] == language]


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The names that a page's headings get."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(page: Path) -> Iterator[list[str]]:
    """The words of every `windlass` command that a page shows, pipes and redirections cut off."""
    for line in "\n".join(blocks(page, "sh")).replace("\\\n", " ").splitlines():
        for piece in line.split("|"):
            words = shlex.split(re.split(r" [<>] ", piece)[0], comments=True)
            if words[:1] == ["windlass"]:
                yield words[1:]


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # models this small are slower on many threads than on one
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("page", [p for p in GUIDES if blocks(p, "python")], ids=name)
@pytest.mark.usefixtures("one_thread")
def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.fsync", lambda _: None)  # a page need not survive a power cut, and a busy disk is slow
    syllables = ("ka", "be", "ti", "mo")
    pairs = [(a + b, " ".join(a + b)) for a in syllables for b in syllables[:3]]
    Path("pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    space: dict[str, object] = {"__name__": "page"}
    for block in blocks(page, "python"):
        exec(compile(block, name(page), "exec"), space)


@pytest.mark.parametrize("page", [p for p in GUIDES if p.parent.name == "lectures" and p.stem != "README"], ids=name)
def test_a_notebook_is_its_page(page: Path) -> None:
    cells = runpy.run_path(str(ROOT / "docs" / "make_notebooks.py"))["cells"]
    held = json.loads(page.with_suffix(".ipynb").read_text(encoding="utf-8"))["cells"]
    assert [(c["cell_type"], c["source"]) for c in held] == cells(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(prose(page)):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_every_command_shown_can_be_typed(page: Path) -> None:
    for command, *words in commands(page):
        COMMANDS[command].make_context(command, words)  # an error where an option is unknown or wrong


def test_the_readme_shows_every_command() -> None:
    assert {command for command, *_ in commands(ROOT / "README.md")} == set(COMMANDS)


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_every_recipe_shown_is_one(page: Path, tmp_path: Path) -> None:
    for number, block in enumerate(blocks(page, "yaml")):
        file = tmp_path / f"{number}.yaml"
        file.write_text(block, encoding="utf-8")
        compose(yaml.safe_load(block).get("task", "text"), file)


def test_the_list_of_options_is_that_of_the_code() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_recipes.py"))["page"]()
    written = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    assert written == made, "docs/recipes.md is out of date: run python docs/make_recipes.py"


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_commands_of_benchmarks_have_the_options_that_they_require(page):
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for script, given in re.findall(r"python (benchmarks/[\w/]+\.py)([^`\n#]*)", text):
        code = (ROOT / script).read_text(encoding="utf-8")
        required = re.findall(r'add_argument\("(--\w+)"[^)]*required=True', code)
        assert [option for option in required if option not in given.split()] == [], f"{script}{given}"
