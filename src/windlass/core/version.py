"""The version of Windlass, which bundles and checkpoints carry."""

VERSION = "0.1.0"
