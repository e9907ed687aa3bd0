"""The text head's fast paths: its parts put together for the kernels and layouts of `nn/fast`."""
