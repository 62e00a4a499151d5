"""The one rule for encoders that files name: a file chooses no code, no plug-in and no network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vision_features.encoders.spec import FILE_SOURCES, FOLDER_SOURCES, EncoderSpec, parse_spec
from vision_features.errors import EncoderError
from wary_files.errors import DataError, UsageError
from wary_files.limits import refuse_special

CARD_SCHEMA = "gate-runner/encoder/1"
"""Of a trained encoder's card; changes whenever one of its fields does."""
_BUILT_IN = ("micro-clip", "micro-dense", "lite")
_DEEPEST = 20
HUB_SOURCES = (*FOLDER_SOURCES, "open_clip", "timm")


def spec_of_file(named: object, file: Path, *, say: str = "--encoder {}") -> str:
    """A spec string out of a file, if what it makes is built in and needs no network, at any depth of ``tuned:``."""
    folders: set[str] = set()
    inner = named
    while True:
        try:
            spec = parse_spec(inner) if isinstance(inner, str) else None
        except UsageError:
            spec = None
        if spec is None:
            raise EncoderError(
                f"{file} names the encoder {inner!r}, an object that no spec makes: in Python, load_head(folder, "
                f"encoder=it) and load_tuned(folder, it) take it; or say {say.format('SPEC')}"
            )
        if spec.source != "tuned":
            break
        folder, _ = share_of(spec.name.partition("=")[0])
        if folder in folders:
            raise EncoderError(f"{file}: tuned:{folder} was trained from itself, says its card")
        if len(folders) == _DEEPEST:
            raise EncoderError(f"{file}: trained encoders from trained encoders, over {_DEEPEST} deep")
        folders.add(folder)
        inner = start_of(spec)
    if not is_at_hand(spec):
        raise EncoderError(
            f"{file} names the encoder {named!r}, which runs code or is fetched: a file does not choose that; "
            f"say {say.format(named)} if you trust it"
        )
    return str(named)


def start_of(spec: EncoderSpec) -> str:
    """The spec of what ``tuned:FOLDER=SPEC`` was trained from, or without one the spec that its card names."""
    folder, _, start = spec.name.partition("=")
    return start or str(read_card(Path(share_of(folder)[0]).expanduser())["encoder"]["spec"])


def share_of(folder: str) -> tuple[str, float]:
    """Split ``FOLDER@SHARE``; a folder without a share has all of the trained weights."""
    path, at, number = folder.rpartition("@")
    try:
        share = float(number)
    except ValueError:
        return folder, 1.0
    if not at:
        return folder, 1.0
    if not 0 <= share <= 1:
        raise EncoderError(f"tuned:{folder}: a share of the trained weights lies between 0 and 1, not at {number}")
    return path, share


def read_card(folder: Path) -> dict[str, Any]:
    """What is known of a trained encoder."""
    path = folder / "card.json"
    try:
        refuse_special(path)
        card: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        about = card["encoder"]
        if card["schema"] != CARD_SCHEMA:
            raise DataError(f"{path}: schema is {card['schema']!r}, expected {CARD_SCHEMA!r}")
        if not all(isinstance(about[name], str) for name in ("start", "fingerprint")):
            raise DataError(f"{path}: start and fingerprint are no texts")
        _ = about["spec"]
    except OSError as error:
        raise EncoderError(f"{folder} holds no trained encoder: {path}: {error.strerror or error}") from error
    except DataError as error:
        raise EncoderError(str(error)) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise EncoderError(f"{path} is not an encoder's card: {type(error).__name__}: {error}") from error
    return card


def is_at_hand(spec: EncoderSpec) -> bool:
    """Whether it is built in, with weights that lie here or are drawn."""
    if spec.source in _BUILT_IN:
        return True
    if spec.source in FILE_SOURCES:
        return Path(spec.name).expanduser().is_file()
    if spec.source in FOLDER_SOURCES:
        return Path(spec.name).expanduser().is_dir()
    if spec.source not in ("open_clip", "timm") or spec.weights is None or ":" in spec.name:  # hf-hub:, local-dir:
        return False
    drawn = spec.weights == "random" or spec.weights.startswith("random:")
    return (drawn or Path(spec.weights).is_file()) and not (spec.source == "open_clip" and _has_text_of_hub(spec.name))


def _has_text_of_hub(name: str) -> bool:
    """Whether an open_clip model's text side takes its tokens or its shape from a hub."""
    import open_clip

    config = open_clip.get_model_config(name) or {}
    return any(key in config.get("text_cfg", {}) for key in ("hf_model_name", "hf_tokenizer_name"))
