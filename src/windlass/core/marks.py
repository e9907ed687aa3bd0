"""The four ids that every vocabulary begins with; no text can spell them."""

PAD, UNK, BOS, EOS = 0, 1, 2, 3
MARKS = ("<pad>", "<unk>", "<s>", "</s>")
"""How they are shown: padding, an unknown token, the start and the end of a text."""
