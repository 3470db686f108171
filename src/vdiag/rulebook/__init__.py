"""The rulebook: what a rule is, how rules are read and compiled, and the ones that are shipped.

Knows nothing of scanning or matching. Importing this package reads no YAML and compiles no regex; `load`, `lint`
and `examples` bring in what they need when they are asked.
"""

from vdiag.rulebook.captures import capture_value
from vdiag.rulebook.compile import CompiledPattern, Rulebook
from vdiag.rulebook.schema import Rule

__all__ = ["CompiledPattern", "Rule", "Rulebook", "capture_value"]
