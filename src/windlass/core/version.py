"""The version of Windlass, which bundles and checkpoints carry."""

__version__ = "0.1.0"
