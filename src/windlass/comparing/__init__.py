"""Comparison of recipes, each trained with several seeds on the same data: size, time and score."""
