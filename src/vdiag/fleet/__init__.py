"""Many logs at once: each is read for itself, and the rows fold into one answer. Knows nothing of output."""
