"""The version of Windlass. Bundles and checkpoints record it."""

__version__ = "0.1.0"
