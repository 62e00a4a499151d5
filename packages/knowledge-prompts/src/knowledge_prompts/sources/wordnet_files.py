"""WordNet's database files, read in place: binary search in the sorted index, one line of data per synset."""

from __future__ import annotations

import mmap
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTS_OF_SPEECH = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
NEEDED = ("index.noun", "data.noun", "index.verb", "data.verb", "index.adj", "data.adj", "index.adv", "data.adv")


class WordNetMissingError(FileNotFoundError):
    """No folder with WordNet's database files was found.

    Example:
        >>> from knowledge_prompts import WordNet
        >>> WordNet("nowhere")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        knowledge_prompts.sources.wordnet_files.WordNetMissingError: ...
    """


class Synset(NamedTuple):
    """One line of a data file: words that share a meaning.

    Args:
        part_of_speech: ``n``, ``v``, ``a`` or ``r``; a satellite adjective is ``a``.
        offset: Byte at which its line starts.
        words: Its words, most usual first, as written (``Great_Dane``).
        pointers: ``(symbol, part of speech, offset)`` of each relation; ``@`` is "is a kind of", ``@i`` "is one of".
        gloss: Definition and examples, as the file has them.
    """

    part_of_speech: str
    offset: int
    words: tuple[str, ...]
    pointers: tuple[tuple[str, str, int], ...]
    gloss: str


class WordNetFiles:
    """WordNet's 3.0 or 3.1 database in its own format.

    Args:
        folder: Where ``index.noun``, ``data.noun`` and so on lie; None to search the usual places (`wordnet_folders`).

    Raises:
        WordNetMissingError: The folder lacks the files; the message says which package brings them.

    Numerics: Files are mapped, not loaded: a look-up touches about 17 pages of an index and one of a data file.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = find_wordnet(folder)
        self._maps: dict[str, mmap.mmap] = {}

    def offsets(self, lemma: str, part_of_speech: str) -> tuple[int, ...]:
        """Offsets of a lemma's synsets, most frequent meaning first; empty where the index lacks it."""
        name = f"index.{PARTS_OF_SPEECH[part_of_speech]}"
        line = self._line_of(name, lemma)
        if line is None:
            return ()
        fields = line.split()
        try:
            count = int(fields[2])
            offsets = tuple(int(field) for field in fields[-count:])
        except (IndexError, ValueError):
            count, offsets = 0, ()
        if count < 1 or len(offsets) != count or min(offsets) < 0 or len(fields) < 6 + count:
            raise ValueError(
                f"{self.folder / name}: the line of {lemma!r} is damaged: {line[:60]!r}; unpack WordNet again"
            )
        return offsets

    def base_forms(self, form: str, part_of_speech: str) -> tuple[str, ...]:
        """Base forms of an irregular form, from the exception list; empty where the list lacks it or there is none."""
        name = f"{PARTS_OF_SPEECH[part_of_speech]}.exc"
        if not (self.folder / name).is_file():
            return ()
        line = self._line_of(name, form)
        return tuple(line.split()[1:]) if line else ()

    def synset(self, part_of_speech: str, offset: int) -> Synset:
        """Read the synset whose line starts at a byte."""
        name = f"data.{PARTS_OF_SPEECH[part_of_speech]}"
        data = self._map(name)
        end = data.find(b"\n", offset)
        line = data[offset : end if end >= 0 else len(data)].decode("latin-1")
        if not line.startswith(f"{offset:08d} "):
            raise ValueError(
                f"{self.folder / name}, byte {offset}: no synset starts here; index and data files are of different "
                f"versions, or were edited"
            )
        try:
            synset = _parse(line, part_of_speech, offset)
        except (IndexError, ValueError):
            synset = None
        if synset is None or not synset.words or any(part not in PARTS_OF_SPEECH for _, part, _ in synset.pointers):
            raise ValueError(
                f"{self.folder / name}, byte {offset}: a damaged synset: {line[:60]!r}; unpack WordNet again"
            )
        return synset

    def _map(self, name: str) -> mmap.mmap:
        mapped = self._maps.get(name)
        if mapped is None:
            with (self.folder / name).open("rb") as file:
                if not file.seek(0, 2):
                    raise ValueError(f"{self.folder / name} is empty; unpack WordNet again")
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._maps[name] = mapped
        return mapped

    def _line_of(self, name: str, key: str) -> str | None:
        data = self._map(name)
        target = key.encode("utf-8")
        low, high = 0, len(data)
        while low < high:
            start = data.rfind(b"\n", low, (low + high) // 2) + 1 or low
            end = data.find(b"\n", start)
            end = len(data) if end < 0 else end
            # The licence at the top is indented, so that it sorts before every word.
            current = data[start:end].split(b" ", 1)[0]
            if current == target and target:
                return data[start:end].decode("latin-1")
            if current < target:
                low = end + 1
            else:
                high = start
        return None


def wordnet_folders() -> Iterator[Path]:
    """Places where the database files usually lie: WordNet's own variables, Debian's, and NLTK's corpus folders."""
    if value := os.environ.get("WNSEARCHDIR"):
        yield Path(value)
    if value := os.environ.get("WNHOME"):
        yield Path(value) / "dict"
    yield Path("/usr/share/wordnet")
    yield from (Path("/usr/local") / name / "dict" for name in ("WordNet-3.1", "WordNet-3.0"))
    roots = [Path(part) for part in os.environ.get("NLTK_DATA", "").split(os.pathsep) if part]
    roots += [Path.home() / "nltk_data", Path(sys.prefix) / "nltk_data", Path(sys.prefix) / "share" / "nltk_data"]
    roots += [Path(root) / "nltk_data" for root in ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib")]
    yield from (root / "corpora" / name for root in roots for name in ("wordnet", "wordnet31"))


def find_wordnet(folder: str | Path | None = None) -> Path:
    """Folder with WordNet's database files: the given one (or its ``dict``), or the first usual place that has them."""
    folders = list(wordnet_folders()) if folder is None else [Path(folder), Path(folder) / "dict"]
    for directory in folders:
        if all((directory / name).is_file() for name in NEEDED):
            return directory
    how = "install Debian's wordnet-base (apt-get install wordnet-base) or NLTK's corpus (nltk.download('wordnet'), "
    how += "unpacked), or give the folder that holds index.noun and data.noun"
    if folder is None:
        raise WordNetMissingError(f"WordNet's database files were found in none of {len(folders)} usual places; {how}")
    lacking = [name for name in NEEDED if not (Path(folder) / name).is_file()]
    raise WordNetMissingError(f"{str(folder)!r} lacks {', '.join(lacking[:3])} of WordNet's database; {how}")


def _parse(line: str, part_of_speech: str, offset: int) -> Synset:
    head, _, gloss = line.partition("|")
    fields = head.split()
    word_count = int(fields[3], 16)
    # Adjectives may carry a syntactic marker, such as galore(ip), which is not part of the word.
    words = tuple(word.partition("(")[0] for word in fields[4 : 4 + 2 * word_count : 2])
    position = 4 + 2 * word_count
    pointer_count = int(fields[position])
    pointers = tuple(
        (fields[at], "a" if fields[at + 2] == "s" else fields[at + 2], int(fields[at + 1]))
        for at in range(position + 1, position + 1 + 4 * pointer_count, 4)
    )
    return Synset(part_of_speech, offset, words, pointers, gloss.strip())
