"""Looking inside: attention, and pictures of it."""
