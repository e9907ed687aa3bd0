"""Experiments: from data files to a trained bundle."""
