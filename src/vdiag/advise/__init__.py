"""From a matched rule to advice: facts derived from captures, fixes filled in and printed as the user runs vLLM."""

from vdiag.advise.fixes import facts_of, fill, placeholders

__all__ = ["facts_of", "fill", "placeholders"]
