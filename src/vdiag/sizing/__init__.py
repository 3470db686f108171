"""The arithmetic of a card's memory: what a model takes, what is left for the KV cache, and what would fit."""
