"""A head over files, a batch at a time; while one batch is encoded, the next is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import torch

from gate_data.pictures import Pictures, Transform
from gate_data.readers.folders import PICTURES
from vision_features.heads.calibrating import Sets
from wary_files.errors import DataError
from wary_files.limits import refuse_special
from wary_files.text import number_of

if TYPE_CHECKING:
    from torch import Tensor

    from gate_data.request import Size
    from vision_adapters.rows import Rows

Progress = Callable[[str, int, int], None]
"""Told of a phase, how much of it is done, and of how much."""


_TOGETHER = 1024
"""Images that go through the feature cache together: one segment of it, and the first answers after so many."""
PLAIN = Sets(1.0)
"""No set, and probabilities as the softmax gives them."""


@dataclass(frozen=True)
class Prediction:
    """What a head says of one image.

    Args:
        file: the image.
        classes: the most probable, first the best.
        probabilities: of these, calibrated where the head's card has a temperature; over all classes they sum to 1.
        error: why the image could not be read; the others are then empty.
        covering: the set of classes of the requested coverage; None where none was.
        none_of_these: whether it is none of the classes; None where that was not asked for.

    Example:
        >>> Prediction("new/1.jpg", ("cat", "dog"), (0.9, 0.1)).classes[0]
        'cat'
    """

    file: str
    classes: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = ()
    error: str = ""
    covering: tuple[str, ...] | None = None
    none_of_these: bool | None = None


def predictions(
    head: Any,
    files: Sequence[str],
    top: int,
    batch_size: int,
    progress: Progress | None,
    keep: bool = False,
    sets: Sets = PLAIN,
) -> Iterator[Prediction]:
    """Classes and probabilities of image files, see `Head.predict`, whose module imports this one."""
    from vision_features.features import at_once

    if keep and not head.card["part"]:  # weights that were trained with the head are nobody else's
        yield from _with_cache(head, files, top, batch_size, progress, sets)
        return
    transform = head.encoder.transform if head.card.get("transform") else None
    batch_size = at_once(batch_size, head.encoder.device)
    read = partial(_read_pictures, side=head.encoder.image_size, transform=transform)
    batches = [files[start : start + batch_size] for start in range(0, len(files), batch_size)]
    with ThreadPoolExecutor(1) as reader:
        waiting = reader.submit(read, batches[0]) if batches else None
        for number, batch in enumerate(batches):
            assert waiting is not None
            images, errors = waiting.result()
            if number + 1 < len(batches):
                waiting = reader.submit(read, batches[number + 1])
            yield from _of_batch(head, batch, images, errors, top, sets)
            if progress is not None:
                progress("predict", min((number + 1) * batch_size, len(files)), len(files))


def image_files(paths: Iterable[Path]) -> list[str]:
    """Files as they are, and all images below folders, in sorted order."""
    files: list[str] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(str(file) for file in path.rglob("*") if file.suffix.lower() in PICTURES)
            if not inside:
                raise DataError(f"{path} holds no {' '.join(PICTURES)} file")
            files += inside
        elif path.is_file():
            files.append(str(path))
        else:
            refuse_special(path)
            raise DataError(f"{path} is not there")
    return files


def true_labels(path: Path, target: str = "") -> dict[str, str]:
    """The label of each file, of a table with columns that `gate_data.own.guess` knows, or of a folder.

    That holds folders of classes, around which those of splits may stand, or is what `adapt probe` takes.
    ``target`` is the table's column of labels, where its name says nothing. What `write_csv` wrote is understood, the
    quote with it that it puts before names which a spreadsheet would run.
    """
    from gate_data.own.columns import TABLES
    from gate_data.readers import classes_in, files_of_classes, table
    from gate_data.readers.folders import SPLIT_WORDS
    from vision_features.heads.embedding import own_of, pictures_of
    from wary_files.text import uninert

    if target and path.is_dir():
        raise DataError(f"{path} is a folder, and {target!r} can be a column of a table only")
    tables = (*path.glob("*"), *path.glob("*/metadata.*")) if path.is_dir() else ()
    if any(file.name == "benchmark.toml" or file.suffix in TABLES for file in tables):
        listed, _, given = pictures_of(path)
        return {file: str(label) for file, label in zip(listed, given, strict=True) if isinstance(file, str)}
    if path.is_dir():
        folders = [path / name for name in classes_in(path) if name.casefold() in SPLIT_WORDS] or [path]
        return {file: name for folder in folders for name, files in files_of_classes(folder).items() for file in files}
    own = own_of(path, target=target)[0].data
    root = path.parent / own.root
    labels: dict[str, str] = {}
    for row in table(path, [own.image, own.target]):
        label, name = uninert(row.text(own.target)), row.text(own.image)
        if not (root / name).exists():
            name = uninert(name)
        if labels.setdefault(str(root / name), label) != label:
            raise row.error(own.target, "one label for each image, and this one had another")
    return labels


def labels_of(files: Iterable[str], labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of those files that have one, by absolute paths: both may be given from any folder."""
    by_path = {os.path.abspath(file): label for file, label in labels.items()}  # noqa: PTH100 - links stay
    return {path: by_path[path] for path in map(os.path.abspath, files) if path in by_path}


def noted(predicted: Iterable[Prediction], predictions_made: list[Prediction]) -> Iterator[Prediction]:
    """The same one after another, each added to a list as it comes."""
    for prediction in predicted:
        predictions_made.append(prediction)
        yield prediction


def refuse_unknown(labels: Iterable[str], classes: Sequence[str]) -> None:
    """Refuse labels that are none of a head's classes."""
    unknown = sorted(set(labels) - set(classes))
    if unknown:
        raise DataError(
            f"labels that the head does not know: {', '.join(unknown[:5])}; it knows {', '.join(classes[:8])}"
        )


def scored_apart(
    predicted: Sequence[Prediction], labels: Mapping[str, str], classes: Sequence[str], card: Mapping[str, Any]
) -> list[str]:
    """Lines of `scored`: on all images, and where the head was fitted on some of them, on the others alone."""
    from vision_features.heads.fitted import fitted_among

    lines = [scored(predicted, labels, classes)]
    labelled = labels_of((prediction.file for prediction in predicted if not prediction.error), labels)
    fitted = set(fitted_among(card, list(labelled)))
    if not fitted:
        return lines
    if len(fitted) == len(labelled):
        return [*lines, "all of these images trained or chose the head: new ones may do worse"]
    others = [prediction for prediction in predicted if os.path.abspath(prediction.file) not in fitted]  # noqa: PTH100
    own = f"{len(fitted):,} of these images trained or chose the head"
    return [*lines, f"{own}; on the others {scored(others, labels, classes)}"]


def scored(predicted: Sequence[Prediction], labels: Mapping[str, str], classes: Sequence[str]) -> str:
    """Accuracy and macro F1 of predictions with true labels, in words."""
    from paired_scores.metrics import evaluate

    number = {name: index for index, name in enumerate(classes)}
    guesses = {
        os.path.abspath(prediction.file): prediction.classes[0]  # noqa: PTH100
        for prediction in predicted
        if not prediction.error
    }
    label_of = labels_of(guesses, labels)
    rows = [(guess, label_of[file]) for file, guess in guesses.items() if file in label_of]
    if not rows:
        raise DataError("none of the images that were read has a label")
    refuse_unknown((label for _, label in rows), classes)
    guessed, true = ([number[name] for name in names] for names in zip(*rows, strict=True))
    scores = [evaluate(name, guessed, true) for name in ("accuracy", "macro_f1")]
    lines = [f"{name} {prediction.value:.4f} [{prediction.low:.4f}, {prediction.high:.4f}]"
            for name, prediction in zip(("accuracy", "macro F1"), scores, strict=True)]  # fmt: skip
    return f"{', '.join(lines)} on {number_of(len(rows), 'image')}"


def write_csv(predicted: Iterable[Prediction], top: int, file: TextIO, further: Sequence[str] = ()) -> int:
    """A row per file: its classes and probabilities, the best first. Returns how many could not be read.

    `further` are "set", classes separated by semicolons, and "none_of_these", true or false, where they are requested.
    """
    import csv

    from wary_files.text import inert, utf8_name

    writer = csv.writer(file, lineterminator="\n")
    numbers = range(1, top + 1)
    writer.writerow(["file", *(name for n in numbers for name in (f"class{n}", f"probability{n}")), *further, "error"])
    failed = 0
    for prediction in predicted:
        pairs = [value for pair in zip(prediction.classes, prediction.probabilities, strict=True) for value in pair]
        shown = [inert(value) if isinstance(value, str) else f"{value:.6f}" for value in pairs]
        covering, none = prediction.covering, prediction.none_of_these
        values = {
            "set": "" if covering is None else inert("; ".join(covering)),
            "none_of_these": "" if none is None else str(none).lower(),
        }
        shown += [""] * (2 * top - len(shown)) + [values[name] for name in further]
        writer.writerow([inert(utf8_name(prediction.file)), *shown, inert(prediction.error)])
        failed += bool(prediction.error)
    return failed


def write_json_lines(predicted: Iterable[Prediction], file: TextIO) -> int:
    """A JSON object per line. Returns how many could not be read."""
    import json

    from wary_files.text import utf8_name

    failed = 0
    for prediction in predicted:
        name = utf8_name(prediction.file)
        record: dict[str, Any] = {"file": name, "error": prediction.error} if prediction.error else {
            "file": name,
            "classes": list(prediction.classes),
            "probabilities": [round(value, 6) for value in prediction.probabilities],
        }  # fmt: skip
        if prediction.covering is not None:
            record["set"] = list(prediction.covering)
        if prediction.none_of_these is not None:
            record["none_of_these"] = prediction.none_of_these
        line = json.dumps(record, ensure_ascii=False)
        if any("\ud800" <= letter <= "\udfff" for letter in line):  # a file's name that is not UTF-8
            line = json.dumps(record)
        file.write(line + "\n")
        failed += bool(prediction.error)
    return failed


def _read_pictures(
    files: Sequence[str], side: Size, transform: Transform | None
) -> tuple[dict[int, Tensor], dict[int, str]]:
    """Pixels by place, and why the others have none."""

    def pixels(names: Sequence[str]) -> list[Tensor]:
        looked = Pictures.of(list(names), side).stream(range(len(names)), transform=transform)
        return [torch.from_numpy(picture.pixels) for picture in looked]

    try:
        return dict(enumerate(pixels(files))), {}
    except DataError:
        pass
    images: dict[int, Tensor] = {}
    errors: dict[int, str] = {}
    for position, file in enumerate(files):
        try:
            (images[position],) = pixels([file])
        except DataError as error:
            errors[position] = str(error)
    return images, errors


def _of_batch(
    head: Any, files: Sequence[str], images: dict[int, Tensor], errors: dict[int, str], top: int, sets: Sets
) -> Iterator[Prediction]:
    scores = head.scores(torch.stack(list(images.values()))) if images else None
    yield from _ranked(head, files, images, scores, errors, top, sets)


def _with_cache(
    head: Any, files: Sequence[str], top: int, batch_size: int, progress: Progress | None, sets: Sets
) -> Iterator[Prediction]:
    """The same through the feature cache, in parts: what runs encoded is read, and what is new is kept."""
    from vision_features.features import FeatureCache, encode_pictures

    encoder, transform = head.encoder, head.encoder.transform if head.card.get("transform") else None
    cache = FeatureCache.of(encoder, head.card["encoder"]["fingerprint"])

    def encoded(start: int, part: Sequence[str]) -> Rows:
        def report(done: int, total: int) -> None:
            if progress is not None:
                progress("predict", start + done, len(files))

        pictures = Pictures.of(list(part), encoder.image_size)
        return encode_pictures(cache, encoder, pictures, head.kind, "images", batch_size, report, transform=transform)

    for start in range(0, len(files), max(batch_size, _TOGETHER)):
        part, errors = files[start : start + max(batch_size, _TOGETHER)], dict[int, str]()
        try:
            rows: Rows | None = encoded(start, part)
        except DataError:
            errors = _errors(part, encoder.image_size)
            if not errors:
                raise
            sound = [file for place, file in enumerate(part) if place not in errors]
            rows = encoded(start, sound) if sound else None
        at = 0
        for first in range(0, len(part), batch_size):
            batch = part[first : first + batch_size]
            inside = {place - first: text for place, text in errors.items() if first <= place < first + len(batch)}
            places = [place for place in range(len(batch)) if place not in inside]
            scores = None if rows is None or not places else head.scores_of(rows[at : at + len(places)])
            at += len(places)
            yield from _ranked(head, batch, places, scores, inside, top, sets)
        if progress is not None:
            progress("predict", start + len(part), len(files))


def _errors(files: Sequence[str], side: Size) -> dict[int, str]:
    """Why files cannot be read, by place."""
    errors: dict[int, str] = {}
    for place, file in enumerate(files):
        try:
            _ = Pictures.of([file], side)[0]
        except DataError as error:
            errors[place] = str(error)
    return errors


def _ranked(
    head: Any,
    files: Sequence[str],
    places: Iterable[int],
    scores: Tensor | None,
    errors: Mapping[int, str],
    top: int,
    sets: Sets,
) -> Iterator[Prediction]:
    """Predictions of a batch, of which the scored ones are in some places and the others have errors."""
    ranked: dict[int, tuple[list[int], list[float]]] = {}
    covering: dict[int, list[int]] = {}
    none: dict[int, bool] = {}
    if scores is not None:
        scores = scores.cpu()
        if not bool(scores.isfinite().all()):
            raise DataError(
                "the head gives scores that are NaN or infinite: its weights, or the encoder's, are not sound"
            )
        best = scores.topk(top).indices  # of scores: small differences of theirs are ties of probabilities
        probabilities = sets.probabilities(scores).gather(1, best)
        covering = dict(zip(places, sets.members(scores) or (), strict=False))
        none = dict(zip(places, sets.none_of_these(scores) or (), strict=False))
        ranked = dict(zip(places, zip(best.tolist(), probabilities.tolist(), strict=True), strict=True))
    for position, file in enumerate(files):
        if position not in ranked:
            yield Prediction(file, error=errors[position])
            continue
        indices, shares = ranked[position]
        members = covering.get(position)
        yield Prediction(
            file,
            tuple(head.classes[index] for index in indices),
            tuple(shares),
            covering=None if members is None else tuple(head.classes[index] for index in members),
            none_of_these=none.get(position),
        )
