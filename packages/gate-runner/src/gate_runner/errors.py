"""Errors that a user can mend: one line, the value that is wrong, what was expected."""

from __future__ import annotations

from gate_data.errors import DataError as DataError
from gate_data.errors import MissingExtraError as MissingExtraError
from gate_data.errors import StorageError as StorageError
from gate_data.errors import UsageError as UsageError
from gate_data.errors import printable as printable
from gate_data.errors import unknown as unknown
from vision_features.errors import EncoderError as EncoderError
from vision_features.errors import MissingCapabilityError as MissingCapabilityError
from vision_features.errors import NotApplicableError as NotApplicableError
