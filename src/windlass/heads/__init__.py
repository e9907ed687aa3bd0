"""Heads: the probability of a target, given a memory."""
