"""Opening what people bring: named byte streams, decompressed, in blocks of whole lines."""

from vdiag.intake.blocks import Blocks
from vdiag.intake.sources import Source, SourceError, sources

__all__ = ["Blocks", "Source", "SourceError", "sources"]
