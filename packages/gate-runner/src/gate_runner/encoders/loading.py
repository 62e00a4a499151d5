"""From a spec string to an encoder; of a built-in one, what it is without loading it while nothing of it changes.

That is its files, the packages' versions, code that lies outside of installed packages, and the environment. Code of
one's own can read anything, and what a hub holds can change: such encoders are loaded, and compared.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate_data.imports import named
from gate_data.readers.folders import cache_home
from gate_runner.encoders.named import FOLDER_SOURCES, HUB_SOURCES, is_at_hand, read_card, share_of, spec_of_file
from gate_runner.encoders.spec import ENTRY_POINTS, EncoderSpec, parse_spec
from gate_runner.errors import EncoderError, UsageError
from gate_runner.files import write
from gate_runner.machine import versions
from gate_runner.setting_values import device_in

if TYPE_CHECKING:
    from gate_runner.encoders.encoder import Encoder


_INSTALLED = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_LOADERS = {
    **{source: source.replace("-", "_") for source in ("micro-clip", "lite")},
    "open_clip": "open_clip_models",
    "timm": "timm_models",
    "hf": "hugging_face",
    "hf-detector": "detector",
    "hf-text": "shifted",
    "hf-audio": "shifted",
    "module": "own",
}
"""The module of each source."""
_PASSING = ("OMP_", "GOMP_", "KMP_", "SSH_", "XDG_", "TMUX", "DBUS_", "TERM", "GATE_RUNNER_", "PYTEST_")
_OF_A_SHELL = {"PWD", "OLDPWD", "SHLVL", "_", "COLUMNS", "LINES", "WINDOWID", "DISPLAY"}


def load_encoder(text: str, *, device: str = "cpu") -> Encoder:
    """Make an encoder from a spec string, and check what it gives on two small images before anything else runs.

    Args:
        text: the spec string, see `parse_spec`.
        device: a torch device, e.g. ``"cpu"`` or ``"cuda:0"``.

    Returns:
        The encoder, frozen and in evaluation mode.

    Raises:
        UsageError: the spec is wrong; the message shows the nearest.
        EncoderError: the device cannot hold it, weights are missing or do not fit, or the features have a wrong shape,
            NaN or infinity.

    Example:
        >>> load_encoder("micro-clip/random").image_size
        64
    """
    spec = parse_spec(text)
    encoder = _made(spec)
    from gate_runner.encoders.probe import probe

    try:
        encoder.to(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # as torch's parts say it, each its own way
        raise EncoderError(f"encoder {text!r} cannot be moved to {device}: {str(error).splitlines()[0]}") from error
    encoder.outputs = probe(encoder)
    return encoder


def load_named_encoder(named: str, file: Path, *, chosen: str | None = None, device: str = "cpu") -> Encoder:
    """The encoder that a file names, where a file may choose it, or the one that the user says in its place."""
    return load_encoder(chosen or spec_of_file(named, file), device=device)


def _made(spec: EncoderSpec) -> Encoder:
    """From what lies here, or from the hub where that answers; where it does not, from the hub's cache."""
    if spec.source not in HUB_SOURCES or is_at_hand(spec) or find_spec("huggingface_hub") is None:
        return _loaded(spec)
    from gate_data.hub.reaching import cache_alone, why_silent

    silent = why_silent()
    if not silent:
        return _loaded(spec)
    try:
        with cache_alone():
            return _loaded(spec)
    except EncoderError as error:
        causes: list[BaseException | None] = [error.__cause__]
        while (cause := causes[-1]) is not None:
            causes.append(cause.__cause__ or cause.__context__)
        if not any(isinstance(cause, OSError) for cause in causes):  # of the network, or of what the cache lacks
            raise
        local, form = (
            (f"there is no folder {spec.name} here, nor does the hub's cache hold it", "./FOLDER")
            if spec.source in FOLDER_SOURCES
            else ("the hub's cache does not hold its weights", f"{spec.name}/FILE")
        )
        raise EncoderError(
            f"encoder {spec.text!r}: {silent}, and {local}; fetch it where there is a network and name the copy, as "
            f"{spec.source}:{form}, or bring the hub's cache (HF_HOME), which HF_HUB_OFFLINE=1 takes without asking"
        ) from error


def _loaded(spec: EncoderSpec) -> Encoder:
    """By the loader of the spec's source, whose module is imported only now; what it raises becomes one line."""
    try:
        if spec.source in _LOADERS:
            encoder: Encoder = named(f"gate_runner.encoders.{_LOADERS[spec.source]}:load")(spec)
            return encoder
        if spec.source == "tuned":
            from gate_runner.encoders import tuned

            return tuned.load(spec, lambda base: _made(parse_spec(base)))
        from gate_runner.encoders import own

        (point,) = entry_points(group=ENTRY_POINTS, name=spec.source)
        return own.adopt(point.load()(spec.name), spec.text)
    except UsageError:
        raise
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "")
        raise EncoderError(f"encoder {spec.text!r} does not load: {type(error).__name__}: {reason}") from error


def device_for(device: str) -> str:
    """A torch device: ``"auto"`` is the first GPU where there is one.

    Example:
        >>> device_for("cpu")
        'cpu'
    """
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    device_in(device)
    if device.startswith("cuda"):
        count = torch.cuda.device_count()
        if int(device.partition(":")[2] or 0) >= count:
            available = f"{count} GPU{'s' * (count > 1)}: cuda:0 to cuda:{count - 1}" if count else "no GPU"
            raise UsageError(
                f"--device {device}: torch finds {available} on this machine; --device auto takes what is there"
            )
    return device


def remember(text: str, about: Mapping[str, Any], before: Sequence[str]) -> None:
    """Keep what is known of an encoder by its spec, where all that it was made from is known.

    Args:
        text: the spec.
        about: its description and outputs.
        before: `surroundings` before it was loaded, for libraries set variables as they are imported.
    """
    paths = _paths(text)
    if paths is None:
        return
    stamps = {path: _stamp(path) for path in sorted(paths)}
    card = {"spec": text, "stamps": stamps, "surroundings": list(before), "about": about}
    with suppress(OSError, TypeError, ValueError):  # a full disk costs the next start, not this one
        write(_card(text), json.dumps(card).encode())


def recalled(text: str) -> dict[str, Any] | None:
    """What was kept of an encoder, if nothing that it was made from has changed."""
    try:
        card = json.loads(_card(text).read_bytes())
        unchanged = card["spec"] == text and card["surroundings"] == surroundings()
        if unchanged and all(_stamp(path) == stamp for path, stamp in card["stamps"].items()):
            about: dict[str, Any] = card["about"]
            return about
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass  # it is only a memory of what can be seen again
    return None


def _paths(text: str) -> set[str] | None:
    """Files and folders that an encoder rests on; None where some may not be known."""
    spec = parse_spec(text)
    folders: list[Path] = []
    while spec.source == "tuned":
        name, _, start = spec.name.partition("=")
        folders.append(Path(share_of(name)[0]).expanduser())
        with suppress(UsageError):
            spec = parse_spec(start or str(read_card(folders[-1])["encoder"]["spec"]))
            continue
        return None
    if not is_at_hand(spec):
        return None
    if spec.source == "micro-clip":
        folders.append(Path(__file__).with_name("micro_clip_files"))
    folders += [Path(name).expanduser() for name in (spec.name, spec.weights) if name]
    paths: set[str] = set()
    for folder in folders:
        if folder.exists():
            paths |= {str(path.absolute()) for path in (folder, *(folder.iterdir() if folder.is_dir() else ()))}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and Path(file).is_absolute() and not file.startswith(_INSTALLED):
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


def surroundings() -> list[str]:
    """Versions, the working folder, and a digest of the environment without what any new terminal changes."""
    named = {
        name: value for name, value in os.environ.items() if name not in _OF_A_SHELL and not name.startswith(_PASSING)
    }
    digest = hashlib.sha256(json.dumps(named, sort_keys=True).encode("utf-8", "surrogateescape")).hexdigest()
    return [json.dumps(versions(), sort_keys=True), sys.version, str(Path.cwd()), digest]


def _card(text: str) -> Path:
    key = hashlib.sha256(f"{Path.cwd()} {text}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return cache_home() / "encoders" / f"{key}.json"
