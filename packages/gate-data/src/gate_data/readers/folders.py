"""Folders: where a data set lies under the data root, and folders of classes, a million files at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from PIL import features

from gate_data.errors import DataError
from gate_data.readers.clips import VIDEOS
from gate_data.readers.scanning import endings_in, inner_folders, once, scanned
from gate_data.readers.source import Member, readable
from wary_files import archives
from wary_files.limits import reading

SPLIT_WORDS: dict[str, str] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "validation"),
    **dict.fromkeys(("test", "testing", "eval"), "test"),
}
"""Names of folders, and of values in tables, that mean a split, in lower case."""
_AVIF = (".avif",) if features.check("avif") else ()
_HEIC = (".heic", ".heif") if find_spec("pillow_heif") is not None else ()
_DICOM = (".dcm", ".dicom") if find_spec("pydicom") is not None else ()
PICTURES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", *_AVIF, *_HEIC, *_DICOM)
"""Endings of image files, in lower case; AVIF where Pillow reads it, HEIC and DICOM with extras."""
_RUNS = "runs"
_NO_CLASS = (".dist-info", ".egg-info")
_NO_CLASSES = frozenset(
    {"__macosx", "__pycache__", "@eadir", "lost+found", "$recycle.bin", "system volume information"}
)
"""Folders that systems and tools leave among those of classes, some with images in them; and so are hidden ones."""
_WRITTEN = ("manifest.json", "card.json")
"""What a run, a choice, a kept head and a trained encoder have at the top, or one folder below."""


def place(
    expected: str, names: Sequence[str] | Callable[[Path], Any], *inside: str | Sequence[str]
) -> Callable[[Path], Any]:
    """A function that finds a data set's folder: one of several names under the data root, or the root itself.

    Args:
        expected: in words, for the error.
        names: what the folder may be called, or a path to it; or a function from the data root to where the files lie,
            None where they do not.
        inside: what must lie in it, one of these; of several names in one, all.

    Example:
        >>> place("CIFAR-100's folder", ["cifar-100-python"], "train")(Path("data"))  # doctest: +SKIP
        PosixPath('data/cifar-100-python')
    """
    forms = [(form,) if isinstance(form, str) else tuple(form) for form in inside]

    def folder_in(root: Path) -> Path | None:
        assert not callable(names)
        for folder in (*(root / name for name in names), root):
            if any(all((folder / name).exists() for name in form) for form in forms):
                return folder
        return None

    def find(root: Path) -> Any:
        location = (names if callable(names) else folder_in)(root)
        if location is None:
            raise DataError(f"{root} does not hold its files ({expected})")
        return location

    return find


def first_of(folder: Path, names: Iterable[str]) -> Path:
    """The first of several files or folders that is there.

    Example:
        >>> str(first_of(Path(), ["not there", "."]))
        '.'
    """
    tried = list(names)
    for name in tried:
        if (folder / name).exists():
            return folder / name
    raise DataError(f"{folder} holds none of {', '.join(tried)}")


def is_saved(folder: Path) -> bool:
    """Whether a folder is what ``datasets`` wrote with ``save_to_disk``."""
    return (folder / "dataset_dict.json").is_file() or (
        (folder / "state.json").is_file() and (folder / "dataset_info.json").is_file()
    )


def classes_in(folder: Path) -> list[str]:
    """Names of the folders in a folder, sorted, without hidden ones and what commands that ran in it left.

    Results go into ``runs`` of the working folder, which may be the images' own: without an image it is no class.

    Example:
        >>> classes_in(Path("photographs"))  # doctest: +SKIP
        ['owl', 'wren']
    """
    with reading(str(folder)):
        folders = [entry.name for entry in inner_folders(folder) if not is_loop(entry)]
    names = sorted(name for name in folders if may_be_class(name))
    names = [name for name in names if not (_is_output(folder / name) and not _holds_any(folder / name))]
    if not names:
        raise DataError(f"{folder} holds no folders of classes")
    return names


def is_loop(entry: os.DirEntry[str]) -> bool:
    """Whether a folder's entry is a link to the folder itself or to one that holds it: it is not followed."""
    if not entry.is_symlink():
        return False
    target, here = os.path.realpath(entry.path), os.path.realpath(os.path.dirname(entry.path))  # noqa: PTH120 - text
    return here == target or here.startswith(target.rstrip(os.sep) + os.sep)


def may_be_class(name: str) -> bool:
    """Whether a folder is called as no system or tool calls its own."""
    return not name.startswith(".") and name.casefold() not in _NO_CLASSES and not name.endswith(_NO_CLASS)


def _is_output(folder: Path) -> bool:
    """Whether a command wrote a folder: the one that is called so by default, or one with a run's or a head's file."""
    if folder.name == _RUNS:
        return True
    with reading(str(folder)):
        if ".json" in endings_in(folder) and any(entry.name in _WRITTEN for entry in scanned(folder)):
            return True
        inner = inner_folders(folder)
    if len(ending_in(folder, PICTURES)) > sum(_ends(entry.name, PICTURES) for entry in inner):
        return False
    return any(os.path.lexists(f"{entry.path}/{name}") for entry in inner for name in _WRITTEN)


def _holds_any(folder: Path) -> bool:
    """Whether an image or a video lies in a folder, at any depth."""
    return any(_ends(name, (*PICTURES, *VIDEOS)) for _, _, names in os.walk(folder) for name in names)


def files_of_classes(folder: Path, endings: Sequence[str] = PICTURES) -> dict[str, list[str]]:
    """Class to its files, both sorted, for a folder with a folder for each class, or for groups of classes.

    A folder without files but with folders is a group: the classes in it are called ``GROUP/CLASS``, at any depth.

    Args:
        folder: the folder of folders.
        endings: of files that count, in lower case; others are passed over.

    Returns:
        Class name to paths.

    Raises:
        DataError: a folder that cannot be read, or a class without such a file; the message names it.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> (folder / "cat").mkdir()
        >>> (folder / "cat" / "a.jpg").touch()
        >>> [(name, len(files)) for name, files in files_of_classes(folder).items()]
        [('cat', 1)]
    """
    return dict(once(("classes", str(folder), tuple(endings)), lambda: _files_of_classes(folder, endings)))


def _files_of_classes(folder: Path, endings: Sequence[str]) -> dict[str, list[str]]:
    by_class = {}
    below = classes_in(folder)
    while below:
        name = below.pop(0)
        with reading(str(folder / name)):
            files = ending_in(folder / name, endings)
        if not files:  # a group of classes, or none
            inner = [
                entry.name for entry in inner_folders(folder / name) if may_be_class(entry.name) and not is_loop(entry)
            ]
            if not inner or any(word.casefold() in SPLIT_WORDS for word in inner):
                raise DataError(f"{folder / name} holds no {' '.join(endings)} file")
            below[:0] = [f"{name}/{deeper}" for deeper in sorted(inner)]
            continue
        start = f"{folder}{os.sep}{name.replace('/', os.sep)}{os.sep}"
        if readable(name) in by_class:
            raise DataError(f"{folder / name} and another folder are both called {readable(name)}: rename one")
        by_class[readable(name)] = [start + file for file in files]
    return by_class


def files_in(where: Path, endings: Sequence[str] = PICTURES) -> list[str | Member]:
    """Files of a folder, or members of a zip or tar archive, with certain endings, sorted by name.

    Example:
        >>> files_in(Path("photographs/owl"))[0]  # doctest: +SKIP
        'photographs/owl/1.jpg'
    """
    files: list[str | Member]
    if where.is_file() and archives.is_archive(where):
        files = [Member(str(where), name) for name in sorted(archives.members(where)) if _ends(name, endings)]
    else:
        with reading(str(where)):
            names = ending_in(where, endings)
        files = [f"{where}{os.sep}{name}" for name in names]
    if not files:
        raise DataError(f"{where} holds no {' '.join(endings)} file")
    return files


def by_stem(folders: Iterable[Path], endings: Sequence[str] = PICTURES) -> dict[str, str | Member]:
    """File name without its ending to file, over several folders or archives; what is not there is passed over.

    Example:
        >>> by_stem([Path("not there")])
        {}
    """
    files: dict[str, str | Member] = {}
    for folder in folders:
        if folder.exists():
            for file in files_in(folder, endings):
                name = file if isinstance(file, str) else file.name
                files.setdefault(os.path.splitext(os.path.basename(name))[0], file)  # noqa: PTH119, PTH122 - text paths
    return files


def ending_in(folder: Path, endings: Sequence[str]) -> list[str]:
    """Names in a folder with certain endings, sorted; no function is called for each of a million."""
    known = tuple(endings)

    def listed() -> list[str]:
        names = [entry.name for entry in scanned(folder)]
        held = endings_in(folder)
        if held.isdisjoint(known):
            return []
        if not held.issubset(known):
            names = [name for name in names if name.endswith(known) or name.lower().endswith(known)]
        return sorted([name for name in names if name[:2] != "._"])

    return once(("names", str(folder), known), listed)


def _ends(name: str, endings: Sequence[str]) -> bool:
    return name.lower().endswith(tuple(endings)) and not (name.startswith("._") or "/._" in name)


def cache_home() -> Path:
    """The folder of what can be made again, in what ``GATE_RUNNER_CACHE`` names or in the user's cache folder.

    ``GATE_RUNNER_SHARED_CACHE`` comes first, and says that its other writers are trusted: see `caches.own_cache`.
    """
    variables = ("GATE_RUNNER_SHARED_CACHE", "GATE_RUNNER_CACHE", "XDG_CACHE_HOME")
    home = next(filter(None, map(os.environ.get, variables)), None) or str(Path.home() / ".cache")
    return Path(home).absolute() / "gate-runner"


class Files:
    """Which files lie under a folder, or in a zip or tar archive; each directory is listed once, when it is asked for.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> (folder / "a.png").touch()
        >>> "a.png" in Files(folder), "b.png" in Files(folder)
        (True, False)
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.packed = root.is_file() and archives.is_archive(root)
        self._seen: dict[str, set[str]] = {}

    @cached_property
    def _members(self) -> Mapping[str, archives.Entry]:
        return archives.members(self.root)

    def __contains__(self, name: str) -> bool:
        if self.packed:
            return name in self._members
        folder, _, last = name.rpartition("/")
        if folder not in self._seen:
            try:
                self._seen[folder] = set(os.listdir(self.root / folder))  # noqa: PTH208 - names alone are wanted
            except (OSError, ValueError):  # the last of a name that no folder can have
                self._seen[folder] = set()
        return last in self._seen[folder]

    def get(self, name: str, where: str) -> str | Member:
        """A file by its path from the root."""
        if name.startswith("/") or ".." in name.split("/"):
            raise DataError(f"{where}: {name!r} leads out of {self.root}")
        if name not in self:
            raise DataError(f"{where}: {self.root / name} is not there")
        return Member(str(self.root), name) if self.packed else f"{self.root}{os.sep}{name}"
