"""Errors of encoders: one line, the value that is wrong, what was expected."""

from __future__ import annotations

from wary_files.errors import UsageError


class EncoderError(UsageError):
    """The encoder cannot be made, or what it returns is not usable."""


class MissingCapabilityError(EncoderError):
    """A benchmark needs something (patch features, a text side) that this encoder does not give."""


class NotApplicableError(UsageError):
    """A unit of a sweep that cannot be computed, for a reason in the data or the encoder; its others can."""
