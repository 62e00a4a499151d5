"""A head in a folder: its tensors as safetensors, and a card that says what it is and whose scores it gives."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from vision_adapters.heads import AttentiveHead, LinearHead
from vision_adapters.tuning.baselines import CacheHead
from vision_adapters.tuning.gaussians import GaussianHead
from wary_files.durable import write_whole

if TYPE_CHECKING:
    from vision_adapters.classifier import HeadClassifier

__all__ = ["load_head", "save_head"]

SCHEMA = "vision-adapters/head/1"
CALIBRATION = "calibration"
"""What `about` calls a temperature: what a classifier's `predict_proba` divides scores by."""
TENSORS, CARD = "head.safetensors", "card.json"
_NUMBERS = (
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool,
)  # fmt: skip
"""What weights are kept in. Of complex numbers half would be dropped; those of 8 bits say nothing of infinity."""


@dataclass(frozen=True, eq=False)
class SavedHead:
    """A head that was read from its folder.

    `module` is in evaluation mode; `classes` are whose scores these are, in their order, empty where nobody said;
    `about` is what whoever saved it said besides; ``about["calibration"]`` a classifier's temperature, if it has one:
    ``Calibration(**about["calibration"]).probabilities(module(features))`` are its probabilities.
    """

    module: nn.Module
    classes: tuple[str, ...]
    about: Mapping[str, Any]


def save_head(
    head: nn.Module | HeadClassifier,
    folder: str | Path,
    *,
    classes: Sequence[str] = (),
    about: Mapping[str, Any] | None = None,
) -> None:
    """Write a head into a folder, from which `load_head` makes it again.

    Args:
        head: a `LinearHead`, an `AttentiveHead`, the head of a `Tuned`, or a fitted `HeadClassifier`, whose temperature
            goes into ``about["calibration"]``.
        folder: made if it is not there; a head in it is written over.
        classes: names, one for each score; by default those that a classifier has.
        about: whatever JSON holds, e.g. which encoder's features it takes.

    Raises:
        ValueError: a head of another type, a classifier that was not fitted, or not as many names as scores.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_head(LinearHead(4, 2), folder, classes=("cat", "dog"), about={"encoder": "mine"})
        ...     loaded = load_head(folder)
        >>> loaded.classes, loaded.module.weight.shape
        (('cat', 'dog'), torch.Size([2, 4]))
    """
    if not isinstance(head, nn.Module):
        fitted = getattr(head, "calibration_", None)
        head, classes = _of_classifier(head, classes)
        if fitted is not None:
            about = {CALIBRATION: fitted._asdict(), **(about or {})}
    form, content = head_form(head), tensor_bytes(head.state_dict())
    outputs = form.get("outputs", len(classes))
    if classes and len(classes) != outputs:
        raise ValueError(f"there are {len(classes)} names of classes for a head of {outputs} scores")
    card: dict[str, Any] = {
        "schema": SCHEMA,
        "head": form,
        "classes": list(classes),
        "about": dict(about or {}),
        "files": {TENSORS: hashlib.sha256(content).hexdigest()},
    }
    card["digest"] = card_digest(card)
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    # the card is last: it holds the digest of the tensors, so that a save that was stopped is seen
    for name, written in ((TENSORS, content), (CARD, json.dumps(card, indent=1).encode())):
        write_whole(path / name, written)


def _of_classifier(classifier: Any, classes: Sequence[str]) -> tuple[nn.Module, Sequence[str]]:
    """The head of a fitted classifier, and the names of its classes where no others are given."""
    head = getattr(classifier, "head_", None)
    if head is None and hasattr(classifier, "fit"):
        raise ValueError(f"{type(classifier).__name__} was not fitted; call fit before save_head")
    if not isinstance(head, nn.Module):
        raise ValueError(f"a head of type {type(classifier).__name__} cannot be kept; expected a torch module")
    return head, tuple(classes) or tuple(str(name) for name in classifier.classes_.tolist())


def load_head(folder: str | Path) -> SavedHead:
    """The head of a folder that `save_head` wrote.

    Raises:
        ValueError: no head there, one that was changed or cut, or of another schema; the message names the file.

    Example:
        >>> load_head("nowhere")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: nowhere... cannot be read: ...
    """
    path = Path(folder) / CARD
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no file")  # a pipe is waited for without end
    try:
        card: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        schema, digest = card["schema"], card["digest"]
        form, classes, about, files = card["head"], tuple(map(str, card["classes"])), dict(card["about"]), card["files"]
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is not a head's card: {type(error).__name__}: {error}") from error
    if schema != SCHEMA:
        raise ValueError(f"{path}: schema is {schema!r}, expected {SCHEMA!r}")
    if card_digest(card) != digest:
        raise ValueError(f"{path} was changed after it was written: its digest does not fit; save the head again")
    tensors = read_tensors(path.with_name(TENSORS), str(files.get(TENSORS)))
    head = head_from(form, tensors)
    outputs = head_form(head).get("outputs", len(tensors["values"].T) if "values" in tensors else 0)
    if classes and len(classes) != outputs:
        raise ValueError(f"{path}: {len(classes)} names of classes for a head of {outputs} scores")
    return SavedHead(head, classes, about)


def head_form(head: nn.Module) -> dict[str, Any]:
    """What has to be known of a head, besides its tensors, to make it again."""
    if isinstance(head, LinearHead):
        outputs, dim = head.weight.shape
        return {"kind": "linear", "dim": dim, "outputs": outputs, "features": head.features, "scaled": head.train_scale}
    if isinstance(head, AttentiveHead):
        outputs, dim = head.last.weight.shape
        return {"kind": "attentive", "dim": dim, "outputs": outputs, "heads": len(head.queries)}
    if isinstance(head, CacheHead):
        return {"kind": "cache", "scale": head.scale, "alpha": head.alpha, "beta": head.beta}
    if isinstance(head, GaussianHead):
        outputs, dim = head.get_buffer("means").shape
        return {"kind": "gaussian", "dim": dim, "outputs": outputs, "scale": head.scale}
    raise ValueError(
        f"a head of type {type(head).__name__} cannot be kept; expected a LinearHead, an AttentiveHead, a CacheHead or "
        "a GaussianHead"
    )


def head_from(form: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> nn.Module:
    """A head again, from what `head_form` said and its tensors, in evaluation mode.

    Sizes are compared before a head is made: a card alone asks for no memory.
    """
    try:
        kind = form["kind"]
        head: nn.Module | None = None
        if kind == "linear":
            _check_shape("weight", tensors["weight"], (form["outputs"], form["dim"]))
            head = LinearHead(form["dim"], form["outputs"], features=form["features"], train_scale=form["scaled"])
        elif kind == "attentive":
            _check_shape("last.weight", tensors["last.weight"], (form["outputs"], form["dim"]))
            head = AttentiveHead(form["dim"], form["outputs"], heads=form["heads"])
        elif kind == "cache":
            head = _cache_head(form, tensors)
        elif kind == "gaussian":
            head = _gaussian_head(form, tensors)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(_unfit(error)) from error
    if head is None:
        raise ValueError(f"unknown kind of head {kind!r}; expected linear, attentive, cache or gaussian")
    for name, own in head.state_dict().items():
        if name in tensors and tensors[name].is_floating_point() != own.is_floating_point():
            raise ValueError(_unfit(f"{name!r} is {tensors[name].dtype}, expected {own.dtype}"))
    try:
        head.load_state_dict(dict(tensors))
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(_unfit(error)) from error
    return head.eval()


def _cache_head(form: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> CacheHead:
    """A cache, whose tensors alone say its sizes."""
    scale, alpha, beta = (_finite(form, name) for name in ("scale", "alpha", "beta"))
    texts, keys, values = (_table(tensors, name) for name in ("texts", "keys", "values"))
    _check_shape("values", values, (len(keys), len(texts)))
    _check_shape("keys", keys, (len(keys), texts.shape[1]))
    return CacheHead(texts, keys, values, scale, alpha, beta)


def _gaussian_head(form: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> GaussianHead:
    """Gaussians of classes, each with a text."""
    texts, means, variances = (_table(tensors, name) for name in ("texts", "means", "variances"))
    for name, tensor in (("texts", texts), ("means", means), ("variances", variances)):
        _check_shape(name, tensor, (form["outputs"], form["dim"]))
    if not bool((variances > 0).all()):
        raise ValueError("expected every variance above 0, got one that is not")
    return GaussianHead(texts, means, variances, _finite(form, "scale"))


def _finite(form: Mapping[str, Any], name: str) -> float:
    value = form[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
        raise ValueError(f"{name} is {value!r:.40}, expected a finite number")
    return float(value)


def _table(tensors: Mapping[str, Tensor], name: str) -> Tensor:
    tensor = tensors[name]
    if tensor.ndim != 2 or not tensor.is_floating_point():
        raise ValueError(f"{name!r} is {tensor.dtype} of shape {tuple(tensor.shape)}, expected numbers [rows, columns]")
    return tensor.float()


_LARGEST = 1e30
"""Of the numbers of a card, which are multiplied in float32."""


def _check_shape(name: str, tensor: Tensor, expected: tuple[Any, ...]) -> None:
    if tuple(tensor.shape) != expected or any(type(size) is not int for size in expected):
        raise ValueError(f"{name!r} has the shape {tuple(tensor.shape)}, expected {expected}")


def _unfit(error: Exception | str) -> str:
    return f"the head's tensors do not fit its card: {' '.join(str(error).split())[:300] or type(error).__name__}"


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Tensors as safetensors has them; those that share memory are told apart."""
    from safetensors.torch import save

    content: bytes = save(_apart(tensors))
    return content


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write tensors as safetensors has them, without a second copy of them in memory.

    Raises:
        OSError: the file cannot be written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    path.touch()
    mode = path.stat().st_mode  # safetensors puts a file in its place that nobody else may read
    try:
        save_file(_apart(tensors), path)
    except SafetensorError as error:  # in whose words the system's number stands
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
    path.chmod(stat.S_IMODE(mode))
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """On the CPU and in one piece each; only what shares its memory with others is copied."""
    memory: set[int] = set()
    separate = {}
    for name, tensor in tensors.items():
        value = tensor.detach().cpu().contiguous()
        storage = value.untyped_storage()
        if storage.data_ptr() in memory or storage.nbytes() > value.nbytes:
            value = value.clone()
        memory.add(value.untyped_storage().data_ptr())
        separate[name] = value
    return separate


def read_tensors(path: Path, sha256: str) -> dict[str, Tensor]:
    """The tensors of a file, whose digest its card says; all finite."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no file")
    try:
        content = path.read_bytes()
        tensors: dict[str, Tensor] = load(content)
    except (OSError, SafetensorError, ValueError, KeyError) as error:  # KeyError: of numbers that torch has not
        raise ValueError(f"{path} cannot be read: {error}") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(
            f"{path} does not belong to its card.json: it was changed, or its saving was stopped; save it again"
        )
    for name, tensor in tensors.items():
        if tensor.dtype not in _NUMBERS:
            raise ValueError(f"{path}: {name!r} holds {tensor.dtype}, expected one of {', '.join(map(str, _NUMBERS))}")
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ValueError(f"{path}: {name!r} holds NaN or infinity; train the head again")
    return tensors


def card_digest(card: Mapping[str, Any]) -> str:
    """SHA-256 of a card without its digest."""
    content = {name: value for name, value in card.items() if name != "digest"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
