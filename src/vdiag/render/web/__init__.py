"""The parts of the page for a browser."""
