"""A recipe: the whole experiment as typed data, in YAML."""

from windlass.recipe.compose import compose, default, merge, override, recompose, setting, small_parts
from windlass.recipe.recipe import FilesOptions, Recipe, parse, read_yaml

__all__ = [
    "FilesOptions",
    "Recipe",
    "compose",
    "default",
    "merge",
    "override",
    "parse",
    "read_yaml",
    "recompose",
    "setting",
    "small_parts",
]
