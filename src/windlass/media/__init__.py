"""Pictures, clips and sound: reading files, and the CNNs that turn pictures into vectors."""
