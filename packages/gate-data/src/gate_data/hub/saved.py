"""What `datasets` wrote with `save_to_disk`: its files are looked at before the library opens them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePath

from gate_data.errors import DataError
from gate_data.readers.tables import objects, read_json


def split_folder(folder: Path, split: str) -> Path:
    """Return where a split's tables lie: in a folder of its name, or in the folder itself where it is one split."""
    about = folder / "dataset_dict.json"
    if not about.is_file():
        return folder
    content = read_json(about)
    listed = content.get("splits") if isinstance(content, dict) else None
    if not isinstance(listed, list) or split not in listed:
        names = ", ".join(map(str, listed))[:200] if isinstance(listed, list) else "none"
        raise DataError(f"{about}: no split {split!r}; it names {names}")
    if split in ("", ".") or PurePath(split).name != split:
        raise DataError(f"{about}: the split {split!r}, expected the name of a folder in it")
    return folder / split


def refuse_missing_tables(folder: Path, splits: Iterable[str]) -> None:
    """Refuse splits whose tables are not all there, or lie elsewhere: the library would open what a list names."""
    for split in splits:
        inner = split_folder(folder, split)
        state = inner / "state.json"
        for row in objects(state, read_json(state), "_data_files", 1):
            table = inner / row.path("filename")
            if not table.is_file():
                raise DataError(
                    f"the split {split!r}: {table} is not there, which {state.name} names: copy the folder once more"
                )
