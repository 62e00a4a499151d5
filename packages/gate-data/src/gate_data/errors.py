"""Errors that a user can mend: one line, the value that is wrong, what was expected."""

from wary_files.errors import DataError as DataError
from wary_files.errors import MissingExtraError as MissingExtraError
from wary_files.errors import StorageError as StorageError
from wary_files.errors import UsageError as UsageError
from wary_files.errors import unknown as unknown
from wary_files.text import printable as printable
