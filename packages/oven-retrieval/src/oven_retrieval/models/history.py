"""The looks at the validation questions that a training keeps in its folder."""

from __future__ import annotations

from pathlib import Path

from oven_retrieval.folder import FolderError
from wary_files.json_files import read_json

FILES = ("model.json", "training.json")
"""Of `train_model` and of `train_generator`."""
Look = tuple[int, float, float, float]
"""Step, accuracy in percent on seen and on unseen entities, their harmonic mean."""


def read_history(folder: str | Path) -> list[Look]:
    """Read the looks of a training, the first before it began.

    Raises:
        FolderError: no folder of a training, or one that kept no looks.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "training.json").write_text('{"training": {"history": [[0, 10.0, 5.0, 6.7]]}}')
        >>> read_history(folder)
        [(0, 10.0, 5.0, 6.7)]
    """
    for name in FILES:
        file = Path(folder) / name
        if not file.is_file():
            continue
        try:
            content = read_json(file)
            report = content.get("report", content)
            looks = [(int(step), float(a), float(b), float(mean)) for step, a, b, mean in report["training"]["history"]]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FolderError(f"{file}: holds no history of a training ({error!r:.80}); train again") from None
        if not looks:
            raise FolderError(f"{file}: its history is empty; train again")
        return looks
    raise FolderError(f"{folder}: expected a folder of `train` with {' or '.join(FILES)}; there is none")
