"""Search: from a head that scores the next token to whole outputs."""
