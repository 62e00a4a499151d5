"""The names of data sets: short ones, those with their collection, and what somebody may write instead of them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gate_data.cards import ICINW, SHEETS
from gate_data.errors import DataError, UsageError, unknown
from gate_data.originals_by_name import ORIGINALS, PACKAGED

_ODINW, _COOP = "odinw-", "coop-"


def data_sets(*, qualified: bool = False) -> tuple[str, ...]:
    """Return the ids that `load` knows.

    Args:
        qualified: with the collection before each: one data set may be in two of them, with other splits.

    Example:
        >>> {"ade20k", "cifar-10", "digits", "odinw-aquarium"} <= set(data_sets())
        True
        >>> {"gate/cifar100", "elevater/cifar-100", "odinw/aquarium"} <= set(data_sets(qualified=True))
        True
    """
    names = (*ORIGINALS, *PACKAGED)
    return tuple(map(_qualified, names)) if qualified else names


def _qualified(name: str) -> str:
    if name in PACKAGED:
        return f"packaged/{name}"
    if name in ICINW and name not in SHEETS:
        return f"elevater/{name}"
    if name.startswith(_COOP):
        return f"coop/{name.removeprefix(_COOP)}"
    return f"odinw/{name.removeprefix(_ODINW)}" if name.startswith(_ODINW) else f"gate/{name}"


def resolve(name: str) -> str | None:
    """Find the id that a name means, whatever its case; None where it is a path.

    Raises:
        UsageError: it means none, or several.
        DataError: it is a path, and nothing is there.

    Example:
        >>> resolve("CIFAR100"), resolve("elevater/CIFAR-100"), resolve("ODinW/Aquarium")
        ('cifar100', 'cifar-100', 'odinw-aquarium')
    """
    names = data_sets()
    if name in names:
        return name
    wanted = name.casefold()
    by_id = {_qualified(known).casefold(): known for known in names} | {known.casefold(): known for known in names}
    if wanted in by_id:
        return by_id[wanted]
    if Path(name).expanduser().exists():
        return None
    if os.sep in name or "/" in name or name.startswith((".", "~")) or Path(name).suffix == ".toml":
        collection = wanted.partition("/")[0]
        inside = [known for known in data_sets(qualified=True) if known.startswith(f"{collection}/")]
        if inside and name.count("/") == 1:
            raise unknown("data set", name, inside)
        raise DataError(f"no such folder or file: {name}")
    alike = [known for known in names if _plain(known) == _plain(wanted)]
    if len(alike) > 1:
        raise UsageError(f"data set {name!r} may be {' or '.join(map(_qualified, alike))}: say which")
    if not alike:
        raise unknown("data set", name, names)
    return alike[0]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())
