"""Special tokens: the first four ids of every vocabulary. No text is tokenised into them."""

PAD, UNK, BOS, EOS = 0, 1, 2, 3
MARKS = ("<pad>", "<unk>", "<s>", "</s>")
"""Their names: padding, unknown token, beginning and end of sequence."""

BUCKETS = 2**15
"""Buckets that n-grams are hashed into."""

FEATURES = 2**18
"""Buckets that sparse features are hashed into."""
