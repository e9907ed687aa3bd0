"""A recipe: the whole experiment as typed data, in YAML."""

from windlass.recipe.recipe import (
    FilesOptions,
    Recipe,
    compose,
    default,
    merge,
    override,
    parse,
    read_yaml,
    setting,
)

__all__ = [
    "FilesOptions",
    "Recipe",
    "compose",
    "default",
    "merge",
    "override",
    "parse",
    "read_yaml",
    "setting",
]
