"""Secrets and personal details out of a text, a log or a report; the same value gets the same pseudonym everywhere."""

from vdiag.redact.redactor import Redactor

__all__ = ["Redactor"]
