"""Parts of networks: cells, recurrences, attention, embeddings, losses."""
