"""A file imports only from its own level and the levels above it in this list."""

import ast
from pathlib import Path

import pytest

import windlass

ROOT = Path(windlass.__file__).parent
ORDER = """
core media data nn decoding metrics encoders heads model tasks recipe bundle inference training baseline explain
gradients distance experiment comparing demo commands api __init__ sklearn cli __main__
"""
LEVELS = ORDER.split()
FILES = sorted(path for path in ROOT.rglob("*.py"))


def level(module):
    """The place in the list of `windlass.nn.cells`, or of the package itself."""
    parts = module.split(".")
    return LEVELS.index(parts[1] if len(parts) > 1 else "__init__")


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "windlass":
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if (ROOT.parent / whole.replace(".", "/")).with_suffix(".py").exists() else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "windlass")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_up_only(path):
    own = LEVELS.index(path.relative_to(ROOT).parts[0].removesuffix(".py"))
    lower = [module for module in imported(path) if level(module) > own]
    assert not lower


def test_every_file_has_a_level():
    assert {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in FILES} <= set(LEVELS)
