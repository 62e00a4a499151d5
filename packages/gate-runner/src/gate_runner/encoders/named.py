"""The one rule for encoders that files name: a file chooses no code, no plug-in and no network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gate_runner.encoders.spec import EncoderSpec, parse_spec
from gate_runner.errors import EncoderError, UsageError

if TYPE_CHECKING:
    from gate_runner.encoders.encoder import Encoder

_BUILT_IN = ("micro-clip", "lite")
_FOLDERS = ("hf", "hf-detector", "hf-text", "hf-audio")


def load_named_encoder(named: str, file: Path, *, chosen: str | None = None, device: str = "cpu") -> Encoder:
    """The encoder that a file names, where a file may choose it, or the one that the user says in its place.

    Args:
        named: the spec string in the file.
        file: that holds it, for messages.
        chosen: the spec string that the user says, or None.
        device: a torch device.

    Raises:
        EncoderError: the file names code, a plug-in or what has to be fetched; the message says what to do.
    """
    from gate_runner.encoders.loading import load_encoder

    return load_encoder(chosen or spec_of_file(named, file), device=device)


def spec_of_file(named: object, file: Path, *, say: str = "--encoder {}") -> str:
    """A spec string out of a file, if what it makes is built in and needs no network, at any depth of ``tuned:``.

    Args:
        named: the spec string in the file.
        file: that holds it, for messages.
        say: how the user says it instead; ``{}`` stands for the spec.

    Returns:
        The same spec string.

    Raises:
        EncoderError: it names a function, a plug-in, a model of a hub, or nothing that there is.

    Example:
        >>> spec_of_file("micro-clip/random", Path("card.json"))
        'micro-clip/random'
        >>> spec_of_file("my_lab.models:tiny", Path("card.json"))
        Traceback (most recent call last):
        ...
        gate_runner.errors.EncoderError: card.json names the encoder 'my_lab.models:tiny', which runs code or is fetched: a file does not choose that; say --encoder my_lab.models:tiny if you trust it
    """  # noqa: E501 - the doctest prints one line
    seen: set[str] = set()
    inner = named
    while True:
        try:
            spec = parse_spec(inner) if isinstance(inner, str) else None
        except UsageError:
            spec = None
        if spec is None:
            raise EncoderError(
                f"{file} names the encoder {inner!r}, which nobody can make from its name: give the encoder itself, "
                f"or {say.format('SPEC')}"
            )
        if spec.source != "tuned":
            break
        folder, _, start = spec.name.partition("=")
        if folder in seen:
            raise EncoderError(f"{file}: tuned:{folder} was trained from itself, says its card")
        seen.add(folder)
        if not start:
            from gate_runner.encoders.tuned import read_card

            start = str(read_card(Path(folder).expanduser())["encoder"]["spec"])
        inner = start
    if not _is_safe(spec):
        raise EncoderError(
            f"{file} names the encoder {named!r}, which runs code or is fetched: a file does not choose that; "
            f"say {say.format(named)} if you trust it"
        )
    return str(named)


def _is_safe(spec: EncoderSpec) -> bool:
    """Whether it is built in, with weights that lie here or are drawn."""
    if spec.source in _BUILT_IN:
        return True
    if spec.source in _FOLDERS:
        return Path(spec.name.partition("/random")[0]).expanduser().is_dir()
    if spec.source not in ("open_clip", "timm") or spec.weights is None or ":" in spec.name:  # hf-hub:, local-dir:
        return False
    drawn = spec.weights == "random" or spec.weights.startswith("random:")
    return (drawn or Path(spec.weights).is_file()) and not (spec.source == "open_clip" and _has_text_of_hub(spec.name))


def _has_text_of_hub(name: str) -> bool:
    """Whether an open_clip model's text side takes its tokens or its shape from a hub."""
    import open_clip

    config = open_clip.get_model_config(name) or {}
    return any(key in config.get("text_cfg", {}) for key in ("hf_model_name", "hf_tokenizer_name"))
