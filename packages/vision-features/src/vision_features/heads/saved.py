"""A head in a folder: weights as safetensors, and a card that says what it is, what it scored and what it needs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vision_features.__about__ import __version__
from vision_features.encoders.spec import agree
from vision_features.errors import EncoderError
from wary_files.errors import DataError, UsageError, whole_numbers
from wary_files.folders import Content, write_folder
from wary_files.limits import refuse_special

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor, nn

    from vision_features.encoders.encoder import Encoder
    from vision_features.heads.predicting import Prediction, Progress
    from vision_features.heads.reading import Reading

SCHEMA = "gate-runner/head/3"
"""Of the card; changes whenever one of its fields does."""
_OLD_SCHEMA = "gate-runner/head/2"
"""Of 0.1: without a digest of the card, and without the encoder's normalisation; read all the same."""


@dataclass(frozen=True)
class KeptHead:
    """A head that a task gives back where heads are to be kept: ``module`` takes features of the encoder as they come.

    ``prompts`` are the texts that stood for each class; ``part`` names what of the encoder was trained with the head,
    whose weights ``encoder`` then holds; ``reading`` is what comes between a read-out and the head; ``calibration`` is
    what `heads.calibrating` keeps of its probabilities.
    """

    module: nn.Module
    features: Literal["projected", "backbone", "readout"]
    classes: Sequence[str] = ()
    prompts: Sequence[str] = ()
    part: str = ""
    encoder: Mapping[str, Tensor] | None = None
    reading: Reading | None = None
    calibration: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Head:
    """An encoder and a head that were adapted together, ready to be used.

    Args:
        encoder: on its device.
        module: features to scores.
        card: what was kept about them.
        reading: what comes between the encoder's read-out and the head; None for its outputs.

    Example:
        >>> head = load_head("head/")  # doctest: +SKIP
        >>> for prediction in head.predict(["new/1.jpg", "new/2.jpg"], top=2):  # doctest: +SKIP
        ...     print(prediction.file, prediction.classes, prediction.probabilities)
    """

    encoder: Encoder
    module: nn.Module
    card: dict[str, Any]
    reading: Reading | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the scores."""
        return tuple(self.card["classes"])

    @property
    def kind(self) -> str:
        """The kind of features that it takes, as the feature cache calls them."""
        if self.reading is None:
            return "backbone" if self.card["features"] == "backbone" else "pooled"
        return f"tokens:{self.reading.readout.block}" if self.reading.reads_tokens else "readouts"

    def scores(self, images: Tensor) -> Float[Tensor, "n k"]:
        """Scores of images ``[n, 3, h, w]``, ``uint8`` or floats in 0 to 1, of any one size."""
        from vision_features.features.encoding import features_of_kind

        return self.scores_of(features_of_kind(self.encoder, self.kind, images))

    def scores_of(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Scores of features of `kind`, a tensor."""
        import torch

        if not isinstance(features, torch.Tensor):
            raise UsageError(f"features are a {type(features).__name__}, expected a torch.Tensor [n, d]")
        features = features.to(self.encoder.device)
        with torch.no_grad():
            scores: Tensor = self.module(features if self.reading is None else self.reading(features))
        return scores

    @whole_numbers("top", "batch_size")
    def predict(
        self,
        files: Iterable[str | Path],
        *,
        top: int = 1,
        batch_size: int = 64,
        progress: Progress | None = None,
        keep: bool = False,
        coverage: float | None = None,
        known: float | None = None,
    ) -> Iterator[Prediction]:
        """Classes and probabilities of image files, in order; a file that cannot be read has an error instead.

        Args:
            files: of any number; one batch of them is in memory at a time.
            top: classes to give for each, at least 1.
            batch_size: images at a time, at most; see `features.at_once`.
            progress: told how many are done.
            keep: take features from the feature cache, and keep there what it lacks, as runs do.
            coverage: give each image the set of classes that holds the true one this often, above 0 and at most 1.
            known: say which images are none of the classes, so that this share of images of the classes is kept.

        Yields:
            A prediction per file.

        Raises:
            UsageError: one path in place of a list, a number below 1, or a share that the head cannot give.
        """
        from vision_features.heads.calibrating import sets_of
        from vision_features.heads.predicting import predictions

        if isinstance(files, str | bytes | Path):
            raise UsageError(f"predict got one path, {str(files)!r}; expected a list of image files")
        if top < 1 or batch_size < 1:
            raise UsageError(f"top and batch_size must be at least 1, not {top} and {batch_size}")
        sets = sets_of(self.card, coverage, known)
        names = [str(file) for file in files]
        return predictions(self, names, min(top, len(self.classes)), batch_size, progress, keep, sets)


def save_head(head: KeptHead, encoder: Encoder, folder: Path, about: Mapping[str, Any], *, start: str | None) -> None:
    """Write a head that a task gave back."""
    from vision_adapters.saved import card_digest, head_form, write_tensors

    check_folder(folder)
    try:
        form = head_form(head.module)
    except ValueError as error:
        raise DataError(str(error)) from error
    tensors: dict[str, Mapping[str, Any]] = {"head.safetensors": head.module.state_dict()}
    if head.encoder is not None:
        tensors["encoder.safetensors"] = head.encoder
    if head.reading is not None:
        tensors["readout.safetensors"] = head.reading.state_dict()
    described = {**encoder.describe(), **encoder.preparation(), "fingerprint": start, "outputs": _of_images(encoder)}
    card = {
        "schema": SCHEMA,
        "vision_features": __version__,
        "encoder": described,
        "features": head.features,
        **({} if head.reading is None else {"reading": head.reading.form()}),
        "part": head.part,
        "head": form,
        "prompts": list(head.prompts),
        **({"calibration": dict(head.calibration)} if head.calibration else {}),
        **json.loads(json.dumps(dict(about), default=str)),
    }

    def described_files(path: Path) -> bytes:
        card["files"] = {name: _digest(path.with_name(name)) for name in tensors}
        card["digest"] = card_digest(card)
        return (json.dumps(card, indent=1, ensure_ascii=False) + "\n").encode()

    files: dict[str, Content] = {name: partial(write_tensors, state) for name, state in tensors.items()}
    write_folder(folder, {**files, "card.json": described_files})


def copy_head(head: Path, folder: Path) -> Path:
    """Copy a head out of the run folder that it was kept in."""
    check_folder(folder)
    write_folder(folder, {path.name: partial(_copy, path) for path in sorted(head.iterdir())})
    return folder


def _copy(source: Path, path: Path) -> None:
    shutil.copyfile(source, path)
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_folder(folder: Path) -> None:
    """Refuse a folder in which a head would be written beside something else."""
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / "card.json").is_file())):
        raise UsageError(f"{folder} holds something else than a head; name a new folder")


def load_head(folder: Path | str, *, encoder: Encoder | nn.Module | str | None = None, device: str = "auto") -> Head:
    """Read a head, and make the encoder that it was adapted on.

    Args:
        folder: that `gate_runner.adapt`, or a run with ``save_heads``, wrote.
        encoder: to use instead of making the one that the card names, or its spec; its weights must be the same. It has
            to be given where the card names code, a plug-in or what is fetched: a file does not choose these. A module
            belongs to the head from now on: it is moved to the device, in evaluation mode, without gradients, and
            takes the weights of a head that was trained with its encoder.
        device: a torch device; ``"auto"`` takes the first GPU where there is one.

    Returns:
        Both, ready to predict.

    Raises:
        DataError: no head, or a damaged one; the message names the file.
        EncoderError: an encoder with other weights, whose fingerprints the message shows, or one that a file may not
            choose.

    Example:
        >>> load_head("head/").classes  # doctest: +SKIP
        ('cat', 'dog')
        >>> load_head("nowhere")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        wary_files.errors.DataError: ...nowhere...
    """
    from vision_adapters.saved import head_from
    from vision_features.encoders.loading import device_for, load_named_encoder
    from vision_features.encoders.own import adopt
    from vision_features.heads.reading import Reading

    path = Path(folder)
    card = _read_card(path)
    if encoder is None or isinstance(encoder, str):
        named = card["encoder"]["spec"]
        loaded = load_named_encoder(named, path / "card.json", chosen=encoder, device=device_for(device))
    else:
        loaded = adopt(encoder, type(encoder).__name__)
        loaded.to(device_for(device))
    expected, fingerprint = card["encoder"]["fingerprint"], loaded.fingerprint()
    if expected != fingerprint:
        raise EncoderError(
            f"{path} was adapted on {card['encoder']['spec']} with weights {str(expected)[:16]}…, not on "
            f"{loaded.spec} with weights {str(fingerprint)[:16]}…"
        )
    differing = [
        f"{name} {card['encoder'][name]}, not {now}"
        for name, now in loaded.preparation().items()
        if card["encoder"].get(name, now) != now
    ]
    now = "" if loaded.transform is None else loaded.transform.description
    if card.get("transform") and card["transform"] != now:
        differing.append(f"the transform {card['transform']}, not {now or 'squares'}")
    if differing:
        raise EncoderError(f"{path} was adapted on images with {'; '.join(differing)}: probabilities would differ")
    reading = None
    if card["features"] == "readout":
        try:
            reading = Reading.made(card["reading"], _tensors(path / "readout.safetensors", card))
        except ValueError as error:
            raise error if isinstance(error, DataError) else DataError(f"{path}: {error}") from error
        reading.check(loaded, str(path))
    before = card["encoder"].get("outputs")
    if before and not agree(before, _of_images(loaded)):
        raise EncoderError(
            f"{path} was adapted on {card['encoder']['spec']} when its code gave other features with the same weights: "
            "probabilities would differ; adapt the head again"
        )
    if card["part"]:
        _take_weights(loaded, card["part"], _tensors(path / "encoder.safetensors", card), path)
    try:
        head = head_from(card["head"], _tensors(path / "head.safetensors", card))
    except ValueError as error:
        raise error if isinstance(error, DataError) else DataError(str(error)) from error
    values = getattr(head, "values", None)  # of a cache, whose card does not say its outputs
    if values is not None and values.shape[1] != len(card["classes"]):
        raise DataError(f"{path}: {len(card['classes'])} classes for a head of {values.shape[1]} outputs")
    return Head(loaded, head.to(loaded.device), card, None if reading is None else reading.to(loaded.device))


def _of_images(encoder: Encoder) -> dict[str, Any]:
    """What an encoder gave of the fixed images, of every kind that a head may take."""
    from vision_features.encoders.probe import probe

    encoder.outputs = encoder.outputs or probe(encoder)
    kinds = ("device", "image", "backbone", "block")
    return {name: values for name, values in encoder.outputs.items() if name.startswith(kinds)}


def _read_card(folder: Path) -> dict[str, Any]:
    from vision_adapters.saved import card_digest
    from vision_features.heads.calibrating import check_record

    path = folder / "card.json"
    refuse_special(path)
    try:
        card: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if card["schema"] not in (SCHEMA, _OLD_SCHEMA):
            raise DataError(f"{path}: schema is {card['schema']!r}, expected {SCHEMA!r}")
        if card["schema"] == SCHEMA and card_digest(card) != card["digest"]:
            raise DataError(f"{path} was changed after it was written: its digest does not fit; save the head again")
        _ = (
            card["encoder"]["spec"],
            card["encoder"]["fingerprint"],
            card["head"]["kind"],
            card["features"],
            card["part"],
            card["files"].keys(),
        )
        classes = card["classes"]
        if not (isinstance(classes, list) and classes and all(isinstance(name, str) for name in classes)):
            raise DataError(f"{path}: classes are {classes!s:.60}, expected a list of names")
        if len(set(classes)) != len(classes) or len(classes) != card["head"].get("outputs", len(classes)):
            raise DataError(
                f"{path}: {len(set(classes))} different classes for a head of {card['head'].get('outputs')} outputs"
            )
        if card["features"] not in ("projected", "backbone", "readout"):
            raise DataError(f"{path}: features are {card['features']!r}, expected projected, backbone or readout")
        _ = card["reading"] if card["features"] == "readout" else None
        check_record(path, card.get("calibration"))
    except OSError as error:
        raise DataError(
            f"{folder} holds no head: {path}: {error.strerror or error}; expected a folder that 'adapt … --save' or "
            "save_head wrote"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is not a head's card: {type(error).__name__}: {error}") from error
    return card


def _tensors(path: Path, card: dict[str, Any]) -> dict[str, Tensor]:
    from vision_adapters.saved import read_tensors

    refuse_special(path)
    try:
        return read_tensors(path, str(card["files"].get(path.name)))
    except ValueError as error:
        raise DataError(str(error)) from error


def _take_weights(encoder: Encoder, part: str, weights: dict[str, Tensor], path: Path) -> None:
    from vision_adapters.low_rank import add_lora, lora_targets
    from vision_features.encoders.tuned import refuse_other_shapes

    assert encoder.module is not None  # only what shows a module is fine-tuned
    try:
        if part == "lora":
            targets, read = lora_targets(weights)
            add_lora(encoder.module, targets=targets, read=read)
        else:
            refuse_other_shapes(weights, encoder.module.state_dict())
        encoder.module.load_state_dict(weights, strict=True)
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path} does not fit {encoder.spec}: {reason:.200}") from error
    encoder.to(str(encoder.device))
