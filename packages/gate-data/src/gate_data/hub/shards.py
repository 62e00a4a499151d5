"""CLIP_benchmark's WebDataset sets on the Hugging Face hub: `wds/NAME` is a repository of shards and lists."""

from __future__ import annotations

import re
from pathlib import Path

from gate_data.errors import DataError, MissingExtraError, StorageError, UsageError
from gate_data.hub.reaching import why_silent

OWNER = "clip-benchmark"
_NAME = re.compile(r"wds/[A-Za-z0-9][A-Za-z0-9._/-]*")
_FILES = ("*.txt", "train/*", "test/*", "validation/*", "val/*")


def repository_of(name: str) -> str:
    """Return the repository of a set.

    Raises:
        UsageError: another name than ``wds/NAME``.

    Example:
        >>> repository_of("wds/vtab/cifar10")
        'clip-benchmark/wds_vtab-cifar10'
    """
    if not _NAME.fullmatch(name) or ".." in name or name.endswith("/"):
        raise UsageError(f"{name!r} is not a set of CLIP_benchmark: expected wds/NAME, e.g. wds/vtab/cifar10")
    return f"{OWNER}/wds_{name.removeprefix('wds/').replace('/', '-')}"


def fetch_shards(name: str, folder: Path) -> Path:
    """Fetch a set's shards and lists into a folder; what is there already is not fetched again.

    Args:
        name: ``wds/NAME``.
        folder: the set comes into.

    Returns:
        The folder.

    Raises:
        UsageError: another name.
        MissingExtraError: without huggingface_hub (extra hub).
        DataError: the hub does not answer, or has no such set.
        StorageError: the folder cannot be written.
    """
    repository = repository_of(name)
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError as error:
        raise MissingExtraError(f"{name} is fetched through huggingface_hub: pip install 'gate-data[hub]'") from error
    if reason := why_silent():
        raise DataError(f"{name}: {reason}")
    try:
        snapshot_download(repository, repo_type="dataset", local_dir=folder, allow_patterns=list(_FILES))
    except (HfHubHTTPError, LocalEntryNotFoundError) as error:
        raise DataError(f"{name}: {repository} cannot be fetched: {' '.join(str(error).split())[:200]}") from error
    except OSError as error:
        raise StorageError.about(folder, error) from error
    return folder
