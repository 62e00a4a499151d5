"""Errors that a user can mend: one line, the value that is wrong, what was expected."""

from __future__ import annotations

from gate_data.errors import DataError as DataError
from gate_data.errors import MissingExtraError as MissingExtraError
from gate_data.errors import StorageError as StorageError
from gate_data.errors import UsageError as UsageError
from gate_data.errors import printable as printable
from gate_data.errors import unknown as unknown


class EncoderError(UsageError):
    """The encoder cannot be made, or what it returns is not usable."""


class MissingCapabilityError(EncoderError):
    """A benchmark needs something (patch features, a text side) that this encoder does not give."""


class NotApplicableError(UsageError):
    """A unit of a sweep that cannot be computed, for a reason in the data or the encoder; its others can."""
