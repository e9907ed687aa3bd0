"""From a bundle and inputs to predictions, scores, generated text and figures."""
