"""Where the shards of a knowledge base lie, and which rows each holds."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from oven_retrieval.durable import own_file
from oven_retrieval.text_files import read_json

KIND, MANIFEST = "oven-shards", "shards.json"


class ShardError(RuntimeError):
    """A shard that cannot be opened or does not answer.

    Example:
        >>> import tempfile
        >>> try:
        ...     ShardLayout.read(tempfile.mkdtemp())
        ... except ShardError as error:
        ...     print(str(error).partition(": ")[2])
        expected a folder of `build_shards` with shards.json; there is none
    """


@dataclass(frozen=True)
class ShardLayout:
    """What `shards.json` says.

    `path` of the folder; `kb` hash of the whole knowledge base; `firsts` first row of each shard, and at the end the
    number of rows; `hashes` of the shards' own knowledge bases; `encoder` of the vectors, None without any.

    Example:
        >>> layout = ShardLayout(Path("shards"), "k", (0, 3, 6), ("a", "b"), None)
        >>> len(layout), layout.folder(1).name
        (2, 'shard-00001')
    """

    path: Path
    kb: str
    firsts: tuple[int, ...]
    hashes: tuple[str, ...]
    encoder: str | None

    def __len__(self) -> int:
        return len(self.hashes)

    def folder(self, shard: int) -> Path:
        """Folder of one shard: a project with `kb/`, `names/` and, with vectors, `vectors/` and `index/`."""
        return self.path / f"shard-{shard:05d}"

    def write(self) -> None:
        """Write the manifest: from now on the shards are there."""
        record = {"kind": KIND, **{name: value for name, value in asdict(self).items() if name != "path"}}
        partial = own_file(self.path / f"{MANIFEST}.partial")
        partial.write_text(json.dumps(record, indent=1), encoding="utf-8")
        partial.replace(self.path / MANIFEST)

    @classmethod
    def read(cls, path: str | Path) -> ShardLayout:
        """Open a folder of `build_shards`.

        Raises:
            ShardError: it is none, or unfinished.
        """
        file = Path(path) / MANIFEST
        try:
            record: dict[str, Any] = read_json(file)
            if record["kind"] != KIND:
                raise KeyError("kind")
            firsts, hashes = tuple(record["firsts"]), tuple(record["hashes"])
            texts = (record["kb"], *hashes, record["encoder"] or "")
            if len(firsts) != len(hashes) + 1 or {*map(type, firsts)} != {int} or {*map(type, texts)} != {str}:
                raise TypeError("kb, firsts, hashes, encoder")
            return cls(Path(path), record["kb"], firsts, hashes, record["encoder"])
        except FileNotFoundError:
            raise ShardError(f"{path}: expected a folder of `build_shards` with {MANIFEST}; there is none") from None
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ShardError(f"{file}: not a list of shards: {error!r}") from None


def shard_firsts(rows: int, shards: int) -> tuple[int, ...]:
    """First row of each of `shards` runs of rows whose sizes differ by at most one, and the number of rows."""
    if shards < 1 or shards > rows:
        raise ValueError(f"shards: expected 1 to {rows}, the number of entities, got {shards}")
    size, longer = divmod(rows, shards)
    return tuple(shard * size + min(shard, longer) for shard in range(shards + 1))
