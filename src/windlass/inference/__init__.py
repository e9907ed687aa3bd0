"""Inference with trained bundles: predict, score, generate, evaluate, quantise, benchmark."""
