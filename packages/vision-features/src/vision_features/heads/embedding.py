"""Features of a user's own images in a file, with names and labels, for whatever else they are to be used for."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gate_data.original_files import within_limit
from gate_data.own import OwnBenchmark, guess, originals_from, read_benchmark
from gate_data.pictures import Pictures
from gate_data.readers import described
from gate_data.readers.folders import PICTURES
from gate_data.readers.source import readable
from gate_data.readers.splits import spread
from wary_files.durable import replacing
from wary_files.errors import DataError, StorageError, UsageError, whole_numbers
from wary_files.text import utf8_name

if TYPE_CHECKING:
    from vision_features.encoders.encoder import Encoder


@whole_numbers("batch_size", "limit")
def embed(
    images: str | PathLike[str],
    output: str | PathLike[str],
    *,
    encoder: str | Encoder | None = None,
    device: str = "auto",
    batch_size: int = 64,
    limit: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Write features, files, splits and labels of images; what the feature cache has is not encoded again.

    Args:
        images: a folder, table or benchmark's file, as `gate_runner.adapt` takes them; or a folder of images alone.
        output: a ``.npz`` with arrays ``features`` ``[n, d]`` (float32), ``files``, ``splits`` and ``labels`` ``[n]``,
            or a ``.parquet`` with a row for each image. Labels are names of classes, or numbers, where there are any.
        encoder: spec, or an encoder; by default ``lite:0`` where it is installed, else ``micro-clip``.
        device: a torch device; ``"auto"`` takes the first GPU where there is one.
        batch_size: images at a time, at most; see `features.at_once`.
        limit: at most so many images of each split, spread over the classes as a run's; None for all.
        progress: told how many are done.

    Returns:
        How many images there were.

    Raises:
        UsageError: another ending than those two, or a limit or a batch size below 1.
        DataError: images that cannot be used; the message names the file.
        StorageError: the file cannot be written.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in ("a.png", "b.png"):
        ...     Image.new("RGB", (32, 32)).save(folder / name)
        >>> embed(folder, folder / "features.npz", encoder="micro-clip")
        2
        >>> np.load(folder / "features.npz")["features"].shape
        (2, 128)
    """
    from vision_features.encoders import load_encoder
    from vision_features.encoders.loading import device_for
    from vision_features.encoders.own import borrowed
    from vision_features.encoders.spec import usual_encoder
    from vision_features.features import FeatureCache, encode_pictures

    path = Path(output)
    if path.suffix not in (".npz", ".parquet"):
        raise UsageError(f"--output {path} must end in .npz or .parquet")
    if batch_size < 1:
        raise UsageError(f"--batch-size must be at least 1, not {batch_size}")
    if limit is not None and limit < 1:
        raise UsageError(f"--limit must be at least 1, not {limit}")
    files, splits, labels = pictures_of(Path(images), limit)
    encoder = usual_encoder()[0] if encoder is None else encoder
    loaded = load_encoder(encoder, device=device_for(device)) if isinstance(encoder, str) else encoder
    with borrowed(loaded):
        loaded.to(device_for(device))
        pictures = Pictures.of(files, loaded.image_size)
        cache = FeatureCache.of(loaded, loaded.fingerprint())
        rows = encode_pictures(
            cache, loaded, pictures, "pooled", "images", batch_size, progress, transform=loaded.transform
        )[:]
    columns = {"files": [utf8_name(described(file)) for file in files], "splits": splits, "labels": labels}
    filled = {name: values for name, values in columns.items() if any(value != "" for value in values)}
    try:
        _write(path, np.asarray(rows.float()), filled)
    except OSError as error:
        raise StorageError.about(path, error) from error
    return len(files)


def own_of(source: Path, table: Path | None = None, target: str = "") -> tuple[OwnBenchmark, Path, tuple[str, ...]]:
    """One's own data by their file, or as a folder or table is taken for; where its paths begin, and remarks."""
    file = source if source.suffix == ".toml" else source / "benchmark.toml"
    if source.suffix == ".toml" or file.is_file():
        return read_benchmark(file), file.parent, ()
    guessed = guess(source, table=table, target=target)
    return OwnBenchmark.model_validate(guessed.values), source if source.is_dir() else source.parent, guessed.remarks


def pictures_of(source: Path, limit: int | None = None) -> tuple[list[Any], list[str], list[Any]]:
    """Return images, within the limit of each split, their splits and labels; empty words where there are none."""
    own_file = source if source.suffix == ".toml" else source / "benchmark.toml"
    if source.is_dir() and not own_file.is_file():
        alone = sorted(str(entry) for entry in source.iterdir() if entry.suffix.lower() in PICTURES)
        if alone and not any(entry.is_dir() for entry in source.iterdir()):
            alone = alone if limit is None else [alone[row] for row in spread([0] * len(alone), limit)]
            return alone, [""] * len(alone), [""] * len(alone)
    own, folder, _ = own_of(source)
    originals = originals_from(own, folder / "benchmark.toml")
    assert originals.parts is not None
    lists = originals.parts(folder)
    files: list[Any] = []
    splits: list[str] = []
    labels: list[Any] = []
    for name, samples in (("train", lists.train), ("validation", lists.validation or ()), ("test", lists.test)):
        for sample in within_limit(samples, originals.form, limit):
            if type(sample.source) is tuple:
                raise DataError(f"{source}: features of single images are written, not of clips or pairs")
            files.append(sample.source)
            splits.append(name)
            labels.append(_label(sample.target, lists.classes))
    return files, splits, labels


def _label(target: Any, classes: tuple[str, ...]) -> Any:
    if isinstance(target, int) and classes:
        return classes[target]
    if type(target) is tuple:
        return "|".join(name for name, mark in zip(classes, target, strict=True) if mark)
    return target if isinstance(target, float) else ""


def _text(value: Any) -> Any:
    """A name as Parquet holds it: bytes that are not UTF-8 become escapes."""
    return readable(value) if isinstance(value, str) else value


def _write(path: Path, features: np.ndarray, columns: dict[str, list[Any]]) -> None:
    with replacing(path, named=True) as new, new.open("xb") as file:
        if path.suffix == ".npz":
            arrays: Any = {"features": features, **{name: np.asarray(values) for name, values in columns.items()}}
            np.savez(file, **arrays)
        else:
            import pyarrow as arrow
            from pyarrow import parquet

            columns = {name: [_text(value) for value in values] for name, values in columns.items()}
            rows = arrow.FixedSizeListArray.from_arrays(arrow.array(features.reshape(-1)), features.shape[1])
            parquet.write_table(arrow.table({**columns, "features": rows}), file)
