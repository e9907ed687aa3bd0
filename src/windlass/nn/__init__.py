"""Neural network modules: cells, recurrent layers, attention, embeddings, losses."""
