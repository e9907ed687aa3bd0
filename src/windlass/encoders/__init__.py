"""Encoders: from the inputs of a batch to a memory."""
