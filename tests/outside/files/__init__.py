"""Net 1: random tables, written by every writer, read by every reader."""
