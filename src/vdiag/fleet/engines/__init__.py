"""Ways to run the one function over all tasks. Each module has `run`, with the signature of `local.run`.

Order means nothing: folding sorts, so that what comes out is the same byte for byte whichever engine ran.
"""


class EngineError(Exception):
    """An engine cannot run, or not go on; the text says why and what to do."""
