"""What an encoder was made from: while none of it changes, it is known what the encoder is without loading it.

While an encoder is loaded, Python tells which files are opened and which folders listed. These, all code outside of
installed packages, the packages' versions and the environment must be as they were. What can read unseen (a network, a
hub's files, safetensors in code of one's own) is never taken for known: then the encoder is loaded, and compared.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from gate_data.readers.folders import cache_home
from gate_runner.encoders.named import is_at_hand, read_card, share_of
from gate_runner.encoders.spec import parse_spec
from gate_runner.errors import UsageError
from gate_runner.files import write
from gate_runner.machine import versions

_INSTALLED = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_CODE = (".py", ".pyc", ".so", ".pyd")
_SYSTEM = ("/proc", "/sys/", "/dev")
_PASSING = ("OMP_", "GOMP_", "KMP_", "SSH_", "XDG_", "TMUX", "DBUS_", "TERM", "GATE_RUNNER_", "PYTEST_")
_OF_A_SHELL = {"PWD", "OLDPWD", "SHLVL", "_", "COLUMNS", "LINES", "WINDOWID", "DISPLAY"}


class Origin(NamedTuple):
    """What was seen while an encoder was loaded."""

    paths: set[str]
    unseen: set[str]
    circumstances: list[str]  # before libraries change the environment

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take what Python says that it is about to do."""
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str | bytes | os.PathLike) and not flags & (os.O_WRONLY | os.O_RDWR):
                name = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - of a hundred thousand calls
                if not name.endswith(_CODE):
                    self.paths.update((name, os.path.dirname(name)))  # noqa: PTH120
        elif event in ("os.listdir", "os.scandir"):
            if not sys._getframe(2).f_code.co_filename.startswith("<frozen importlib"):
                self.paths.add(os.path.abspath(os.fsdecode(arguments[0] or ".")))  # noqa: PTH100
        elif event in ("socket.connect", "os.fork", "os.posix_spawn"):
            self.unseen.add(event)


_watching: list[Origin] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching:
        for origin in _watching:
            origin.note(event, arguments)


@contextmanager
def watched() -> Iterator[Origin]:
    """See what is read while a block runs."""
    if not _hook.__dict__.setdefault("added", False):
        sys.addaudithook(_hook)  # cannot be taken away again
        _hook.__dict__["added"] = True
    origin = Origin(set(), set(), _circumstances())
    _watching.append(origin)
    try:
        yield origin
    finally:
        _watching.remove(origin)


def remember(text: str, origin: Origin, about: Mapping[str, Any]) -> None:
    """Keep what is known of an encoder by its spec, where all that it was made from was seen."""
    paths = _all_paths(text, origin)
    if paths is None:
        return
    stamps = {path: _stamp(path) for path in sorted(paths)}
    card = {"spec": text, "stamps": stamps, "circumstances": origin.circumstances, "about": about}
    with suppress(OSError, TypeError, ValueError):  # a full disk costs the next start, not this one
        write(_card(text), json.dumps(card).encode())


def recalled(text: str) -> dict[str, Any] | None:
    """What was kept of an encoder, if nothing that it was made from has changed."""
    try:
        card = json.loads(_card(text).read_bytes())
        unchanged = card["spec"] == text and card["circumstances"] == _circumstances()
        if unchanged and all(_stamp(path) == stamp for path, stamp in card["stamps"].items()):
            about: dict[str, Any] = card["about"]
            return about
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass  # it is only a memory of what can be seen again
    return None


def _all_paths(text: str, origin: Origin) -> set[str] | None:
    """Files and folders that an encoder rests on; None where some may not be known."""
    spec = parse_spec(text)
    paths = {path for path in origin.paths if not path.startswith((*_SYSTEM, *_INSTALLED))}
    folders: list[Path] = []
    while spec.source == "tuned":
        name, _, start = spec.name.partition("=")
        folders.append(Path(share_of(name)[0]).expanduser())
        with suppress(UsageError):
            spec = parse_spec(start or str(read_card(folders[-1])["encoder"]["spec"]))
            continue
        return None
    own = spec.source not in ("micro-clip", "lite", "timm", "open_clip", "hf", "hf-detector", "hf-text", "hf-audio")
    if origin.unseen or ("safetensors" in sys.modules and own) or not (own or is_at_hand(spec)):
        return None
    if spec.source == "micro-clip":
        folders.append(Path(__file__).with_name("micro_clip_files"))
    named = [spec.weights] if spec.weights else [spec.name.partition("/random")[0]]
    folders += [Path(name).expanduser() for name in named if name and not own]
    for folder in folders:
        if folder.exists():
            paths |= {str(path.absolute()) for path in (folder, *(folder.iterdir() if folder.is_dir() else ()))}
    package = spec.name.partition(":")[0].partition(".")[0] if own else None
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and Path(file).is_absolute() and (not file.startswith(_INSTALLED) or name.partition(".")[0] == package):
            paths.add(_source(file))
    return paths


def _source(file: str) -> str:
    """The text that a module was compiled from."""
    with suppress(ValueError):
        return importlib.util.source_from_cache(file)
    return file


def _stamp(path: str) -> list[int] | None:
    try:
        about = os.stat(path)  # noqa: PTH116 - some hundreds
    except OSError:
        return None
    return [about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino]


def _circumstances() -> list[str]:
    """Versions, the working folder, and a digest of the environment without what any new terminal changes."""
    named = {
        name: value for name, value in os.environ.items() if name not in _OF_A_SHELL and not name.startswith(_PASSING)
    }
    digest = hashlib.sha256(json.dumps(named, sort_keys=True).encode("utf-8", "surrogateescape")).hexdigest()
    return [json.dumps(versions(), sort_keys=True), sys.version, str(Path.cwd()), digest]


def _card(text: str) -> Path:
    key = hashlib.sha256(f"{Path.cwd()} {text}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return cache_home() / "encoders" / f"{key}.json"
