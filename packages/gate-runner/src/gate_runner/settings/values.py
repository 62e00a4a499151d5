"""How the value of a setting is read from what a person says: a text, a list, a path or the value itself."""

from __future__ import annotations

import hashlib
import operator
import re
import tomllib
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from gate_runner.errors import DataError, UsageError, unknown
from wary_files.limits import refuse_special

TUNES = ("frozen", "bias", "norm", "last-block", "lora", "full", "linear", "prompt")
"""Which weights of an encoder can learn with a head; ``linear`` is of detectors."""
RECIPES = ("quick", "gate")


def seconds_in(duration: float | str | None) -> float | None:
    """A duration in seconds."""
    if not isinstance(duration, str):
        return duration
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", duration.strip())
    if match is None or float(match[1]) == 0:
        raise UsageError(f"{duration!r} is no duration; expected a number with s, m, h or d, e.g. 20m")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]


def bytes_in(size: int | str) -> int:
    """A number of bytes."""
    if not isinstance(size, str):
        return size
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)b?", size.strip().lower())
    if match is None:
        raise UsageError(f"{size!r} is no number of bytes; expected a number with kB, MB, GB or TB, e.g. 20GB")
    thousands = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}[match[2]]
    return round(float(match[1]) * float(10 ** (3 * thousands)))


def pairs_in(pairs: Mapping[str, str] | Iterable[str] | None) -> dict[str, str]:
    """A mapping from texts ``KEY=VALUE``."""
    if isinstance(pairs, Mapping):
        return dict(pairs)
    split = [(text, *text.partition("=")) for text in pairs or ()]
    for text, key, sign, _ in split:
        if not key or not sign:
            raise UsageError(f"executor option {text!r}: expected KEY=VALUE")
    return {key: value for _, key, _, value in split}


def words_in(text: str | Iterable[str]) -> tuple[str, ...]:
    """Words, each once, from a text with commas or several."""
    texts = [text] if isinstance(text, str) else text
    words = [word.strip() for text in texts or () for word in text.split(",")]
    return tuple(dict.fromkeys(word for word in words if word))


def shots_in(numbers: str | int | Iterable[str | int]) -> tuple[str, ...]:
    """Numbers of shots, in order, each once, from a text such as ``"0,5,full"`` or several."""
    words = words_in([str(number) for number in ([numbers] if isinstance(numbers, str | int) else numbers)])
    for word in words:
        if word != "full" and not word.isdecimal():
            raise UsageError(f"--shots is a list of numbers and full, e.g. 0,5,full, not {word!r}")
    return tuple(word if word == "full" else str(int(word)) for word in words)


def tune_in(text: str | Iterable[str]) -> str:
    """What learns; of a sweep several, with commas."""
    tunes = words_in(text)
    for tune in tunes or (str(text),):
        if tune not in TUNES:
            raise unknown("mode --tune", tune, TUNES)
    return ",".join(tunes)


def seeds_in(numbers: Iterable[int]) -> tuple[int, ...]:
    """Seeds, each once; 0 where there are none."""
    if isinstance(numbers, str) or not isinstance(numbers, Iterable):
        raise UsageError(f"seeds must be a list of numbers, such as [0, 1], not {numbers!r:.60}")
    try:
        seeds = tuple(dict.fromkeys(operator.index(seed) for seed in numbers)) or (0,)
    except TypeError as error:
        raise UsageError(f"--seed must be a whole number: {error}") from None
    for seed in seeds:
        if not 0 <= seed < 2**63:
            raise UsageError(f"--seed must be at least 0 and below 2**63, not {seed}")
    return seeds


def recipe_in(name: str, changes: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """A recipe's base and fields; those of a file are read here, so that results are known by what it says."""
    path = Path(name)
    if path.suffix != ".toml":
        raise UsageError(f"--recipe is quick, gate or a .toml file, not {name!r}")
    try:
        recipe = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"--recipe {path} cannot be read: {error}") from error
    base = recipe.pop("base", "quick")
    if base not in RECIPES:
        raise unknown(f"base of the recipe {path}", str(base), RECIPES)
    return str(base), {**recipe, **changes}


def share_in(value: float | str) -> float | str:
    """A share of trained weights, or best."""
    if value == "best":
        return value
    try:
        share = float(value)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(f"setting wise_ft is a share from 0 to 1, or best, not {value!r}")
    return share


def half_width_in(points: float) -> float:
    """Half of an interval's width, in points."""
    if not 0 < float(points) < 50:
        raise UsageError(f"until must be above 0 and below 50 points, not {points}")
    return float(points)


PATCH_FEATURES = ("class-token", "maskclip", "value", "sclip", "clearclip", "naclip", "proxyclip")
"""Variants of patch features, see `vision_features.encoders.patch_features`."""
PRESETS = ("encoder", "sclip", "clearclip", "naclip", "proxyclip")
"""Settings of zero-shot segmentation by name, see `gate_runner.tasks.segmenting.presets`."""


def patch_features_in(text: str | Iterable[str]) -> tuple[str, ...]:
    """Return variants of patch features, each once."""
    names = words_in(text)
    for name in names:
        if name not in PATCH_FEATURES:
            raise unknown("patch features", name, PATCH_FEATURES)
    return names


def preset_in(name: str) -> str:
    """Return a preset's name."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return name


def threshold_in(text: float | str) -> str:
    """Return a rule for the background's threshold."""
    if text in ("preset", "none", "validation"):
        return str(text)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise UsageError(
            f"setting background_threshold is preset, none, validation or a number from 0 to 1, not {text!r}"
        )
    return f"{value:g}"


def list_in(path: str | PathLike[str] | None) -> Path | None:
    """Return a file of words, or a folder of such, that is there."""
    if path is None:
        return None
    place = Path(path)
    if not place.exists():
        raise UsageError(
            f"setting class_words: {place} is no file and no folder; expected a line of words for each class"
        )
    return place


_LONGEST_LIST = 1_000_000
"""Bytes of a list of words, at most."""


def list_digest(path: Path | None) -> str | None:
    """Return what results know lists of words by: the name and the MD5 of what it holds."""
    if path is None:
        return None
    if not path.is_dir():
        return f"{path.name} {hashlib.md5(list_content(path), usedforsecurity=False).hexdigest()}"
    digest = hashlib.md5(usedforsecurity=False)
    for file in sorted(path.glob("cls_*.txt")):
        digest.update(f"{file.name} {hashlib.md5(list_content(file), usedforsecurity=False).hexdigest()}\n".encode())
    return f"{path.name} {digest.hexdigest()}"


def source_digest(spec: str | None) -> str | None:
    """Return what results know a source of knowledge ``NAME=PATH`` by: both names, and a digest of all that is there.

    Example:
        >>> source_digest("glip=nowhere/odinw.yaml")
        'glip=odinw.yaml e4a6a0577479b2b4'
    """
    if spec is None:
        return None
    from gate_data.pictures import content_digests

    name, _, text = spec.partition("=")
    place = Path(text)
    files = sorted(file for file in place.rglob("*") if file.is_file()) if place.is_dir() else [place]
    files = [file for file in files if file.is_file()]
    digest = hashlib.blake2b(digest_size=8)
    for file, content in zip(files, content_digests([str(file) for file in files]), strict=True):
        digest.update(f"{file.relative_to(place).as_posix()} {content}\n".encode("utf-8", "surrogateescape"))
    return f"{name}={place.name} {digest.hexdigest()}"


def list_content(file: Path) -> bytes:
    """Return the bytes of a list of words.

    Raises:
        DataError: it cannot be read, is a pipe, or has more than a megabyte; shows the file.
    """
    refuse_special(file)
    try:
        with file.open("rb") as opened:
            content = opened.read(_LONGEST_LIST + 1)
    except OSError as error:
        raise DataError(f"words {file} cannot be read: {error}") from error
    if len(content) > _LONGEST_LIST:
        raise DataError(f"{file} has more than {_LONGEST_LIST:,} bytes; a list of words has a line for each class")
    return content


PROMPTS = ("overrides", "names", "wn_path", "wn_def", "wiki_def", "gpt3", "gpt3:N", "wiki_def&gpt3", "wiki_def&gpt3:N")
"""What a detector reads; all but the first two are knowledge behind the names."""


def prompts_in(text: str) -> str:
    """Read what a detector reads, without spaces; ``gpt3`` has 1 to 5 texts."""
    value = "".join(str(text).split())
    name, colon, count = value.partition(":")
    if name not in PROMPTS or (colon and (not name.endswith("gpt3") or count not in ("1", "2", "3", "4", "5"))):
        raise unknown("value of setting prompts", value, [known.replace("N", "5") for known in PROMPTS])
    return value


def knowledge_parts(prompts: str) -> list[tuple[str, int]]:
    """Return the kinds of knowledge that a value of ``prompts`` names, each with its most texts."""
    if prompts in ("overrides", "names"):
        return []
    return [(name, int(count or 5)) for part in prompts.split("&") for name, _, count in [part.partition(":")]]


ENSEMBLE_FIELD = "ensemble"
"""Field of a recipe for trainings of an encoder: of how many of the best checkpoints the headline is the mean."""


def ensemble_in(recipe_fields: Mapping[str, Any]) -> int:
    """Return of how many of the best checkpoints scores are the mean output's; 1 is the best one alone.

    Raises:
        UsageError: neither 1, 3 nor 5; the message has the value.

    Source:
        GATE, section 8.1, has 3 for its tables; a kept head or encoder is the best checkpoint's, so 1 is the default.
    """
    text = str(recipe_fields.get(ENSEMBLE_FIELD, 1))
    if text not in ("1", "3", "5"):
        raise UsageError(f"recipe: {ENSEMBLE_FIELD} is {text!r}, expected 1, 3 or 5 checkpoints")
    return int(text)
