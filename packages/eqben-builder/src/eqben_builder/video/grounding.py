"""Grounding the boundaries of Kinetics-GEB+ in their videos by a model's similarities: the task of appendix A.6."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eqben_builder.scoring.grounding import THRESHOLDS, ground_boundary, grounding_accuracy
from eqben_builder.scoring.similarity import unit_rows
from eqben_builder.video.decode import VideoError, frames_at
from eqben_builder.video.gebc import read_gebc
from eqben_builder.video.library import Library

if TYPE_CHECKING:
    import os

    from eqben_builder.scoring.similarity import DualEncoder


class GroundingReport(NamedTuple):
    """What `ground_gebc` found.

    accuracy: Seconds -> share of boundaries found within them.
    average: Mean over the thresholds, the paper's "Avg".
    predicted, true: Seconds, one for each boundary that was looked for.
    missing: Boundaries whose video is not there or cannot be decoded.
    reasons: Why, of each video that cannot be decoded.

    Example:
        >>> GroundingReport({0.1: 1.0}, 1.0, (1.9,), (2.0,), 0).average
        1.0
    """

    accuracy: dict[float, float]
    average: float
    predicted: tuple[float, ...]
    true: tuple[float, ...]
    missing: int
    reasons: tuple[str, ...] = ()


def ground_gebc(
    annotations: str | os.PathLike[str],
    videos: str | os.PathLike[str],
    encoder: DualEncoder,
    *,
    rate: float = 5.0,
    thresholds: tuple[float, ...] = THRESHOLDS,
) -> GroundingReport:
    """Find each annotated boundary in its video from the captions before and after it, with no training.

    Frames are sampled over the whole video, up to the last annotated time; the boundary is put where
    `eqben_builder.scoring.ground_boundary` finds the largest contrast of their cosines.

    Args:
        annotations: Kinetics-GEB+'s JSON file.
        videos: Folder of Kinetics clips.
        encoder: A dual encoder; a video's frames are encoded once for all of its boundaries.
        rate: Frames a second.
        thresholds: Seconds.

    Returns:
        A `GroundingReport`.

    Raises:
        ValueError: What `read_gebc` refuses; a rate that is not positive; no boundary whose video can be decoded.
        FileNotFoundError: The file or folder that is missing.
        ImportError: PyAV is missing.

    Example:
        >>> import json, tempfile
        >>> from PIL import Image
        >>> class Brightness:
        ...     def encode_image(self, images):
        ...         return [[image.mean(), 255.0 - image.mean()] for image in images]
        ...     def encode_text(self, captions):
        ...         return [["white" in text, "black" in text] for text in captions]
        >>> row = {"timestamp": 2, "prev_timestamp": 0, "next_timestamp": 4, "subject": "a wall"}
        >>> row |= {"status_before": "is black", "status_after": "is white"}
        >>> dark, light = (Image.new("RGB", (16, 16), colour) for colour in ("black", "white"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "boundaries.json").write_text(json.dumps({"abcdefghijk": [row]}))
        ...     dark.save(f"{folder}/abcdefghijk.gif", save_all=True, append_images=[light], duration=2000)
        ...     _ = Path(folder, "abcdefghijk.gif").rename(Path(folder, "abcdefghijk.mkv"))  # FFmpeg looks inside
        ...     report = ground_gebc(f"{folder}/boundaries.json", folder, Brightness())
        >>> round(report.predicted[0], 2), report.average
        (1.9, 1.0)

    Source:
        EqBen appendix A.6: five frames a second, thresholds of 0.1 to 3 s (table 12). Captions are the subject followed
        by the state, as in Eq-GEBC.
    """
    if not 0.0 < rate < float("inf"):
        raise ValueError(f"rate = {rate!r}, expected a positive number of frames a second")
    library = Library(Path(videos))
    predicted: list[float] = []
    true: list[float] = []
    missing, reasons = 0, list[str]()
    for video, boundaries in read_gebc(Path(annotations))[0].items():
        path = library.find(video)
        end = max((boundary.following for boundary in boundaries), default=0.0)
        times = np.arange(0.0, end, 1.0 / rate)
        if path is None or len(times) < 2:
            missing += len(boundaries)
            continue
        try:
            frames = [frame.image for frame in frames_at(path, times.tolist())]
        except VideoError as error:  # without frames, cut short, or no video at all
            reasons.append(str(error))
            missing += len(boundaries)
            continue
        images = unit_rows(encoder.encode_image(frames), len(frames), "frames")
        texts = [text for boundary in boundaries for text in (boundary.before, boundary.after)]
        captions = unit_rows(encoder.encode_text(texts), len(texts), "captions")
        similarities = (captions @ images.T).reshape(len(boundaries), 2, len(frames))
        for boundary, s in zip(boundaries, similarities, strict=True):
            predicted.append(ground_boundary(s, times).time)
            true.append(boundary.time)
    if not true:
        why = f", such as {reasons[0]}" if reasons else ""
        raise ValueError(f"none of {missing} boundaries has a video in {videos} that can be decoded{why}")
    accuracy = grounding_accuracy(predicted, true, thresholds)
    average = float(np.mean(list(accuracy.values())))
    return GroundingReport(accuracy, average, tuple(predicted), tuple(true), missing, tuple(reasons))
