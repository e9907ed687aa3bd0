"""Records, options and errors: what everything else is made of."""
