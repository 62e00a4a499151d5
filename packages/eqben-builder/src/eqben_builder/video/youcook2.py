"""Eq-YouCook2: the middle frames of two steps of one recipe, with the steps' sentences."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eqben_builder.building.builder import Dropped, Made
from eqben_builder.video.decode import frames_at
from eqben_builder.video.gebc import check_times
from eqben_builder.video.library import (
    VideoBuilder,
    check_size,
    each_frame,
    evidence,
    read_annotations,
    seconds,
    shrunk,
)
from wary_files.working_folder import named

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from eqben_builder.formats import PairRow


class Step(NamedTuple):
    """A step of a recipe: its number in the file, its segment in seconds, and its sentence."""

    id: int
    begin: float
    end: float
    sentence: str

    @property
    def middle(self) -> float:
        """Seconds."""
        return (self.begin + self.end) / 2


def read_youcook2(path: Path) -> tuple[dict[str, list[Step]], str]:
    """Read YouCook2's annotations."""
    content, digest = read_annotations(path)
    database = content.get("database") if isinstance(content, dict) else None
    if not isinstance(database, dict):
        raise ValueError(f"{path}: field 'database' should be an object from videos to annotations")
    steps_of: dict[str, list[Step]] = {}
    for video, entry in database.items():
        rows = entry.get("annotations") if isinstance(entry, dict) else None
        if not isinstance(rows, list):
            raise ValueError(f"{path}, video {video!r}: field 'annotations' should be a list, found {rows!r}")
        steps = []
        for k, row in enumerate(rows):
            where = f"{path}, video {video!r}, step {k}"
            segment = row.get("segment") if isinstance(row, dict) else None
            if not isinstance(segment, list) or len(segment) != 2:
                raise ValueError(f"{where}: field 'segment' should hold two times, found {segment!r}")
            begin, end = (seconds(time, where, "segment") for time in segment)
            sentence = row.get("sentence")
            if sentence is None:
                continue
            if not isinstance(sentence, str):
                raise ValueError(f"{where}: field 'sentence' should be a text, found {sentence!r}")
            number = row.get("id", k)
            if not isinstance(number, int):
                raise ValueError(f"{where}: field 'id' should be a whole number, found {number!r}")
            steps.append(Step(number, begin, end, " ".join(sentence.split())))
        steps_of[video] = steps
    return steps_of, digest


class YouCook2Builder(VideoBuilder[list[Step]]):
    """Eq-YouCook2 from YouCook2's own file; a job is a video, and any two of its steps are a pair.

    Args:
        annotations: `youcookii_annotations_trainval.json`.
        videos: Folder of videos, named by their YouTube names.
        faces: Detector of faces: "opencv" (Viola and Jones), or "MODULE:FUNCTION", which says how many an image, uint8
            [height, width, 3], shows. Frames with a face are dropped and counted; "none" keeps them.
        size: The shorter side of the images has at most so many pixels; None keeps the video's own. Faces are looked
            for before.

    Raises:
        FileNotFoundError: The file or folder that is missing.
        ValueError: What `read_youcook2` refuses; a size below 8; an unknown detector; no video with two steps.
        ImportError: The detector's library is missing.

    Example:
        >>> import json, tempfile
        >>> sentences = ([1, 9], "cut the onion"), ([9, 20], "fry it")
        >>> steps = [{"id": k, "segment": when, "sentence": text} for k, (when, text) in enumerate(sentences)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "annotations.json")
        ...     _ = path.write_text(json.dumps({"database": {"abcdefghijk": {"annotations": steps}}}))
        ...     builder = YouCook2Builder(annotations=path, videos=Path(folder), faces="none")
        ...     builder.count, builder.make(0)  # the video itself is not there
        (1, [Dropped(reason='no such video', aspect='youcook2')])

    Source:
        EqBen appendix B.3. That any two steps of a video make a pair is not said; it is what their number of pairs
        (45,849 of 2,000 videos of 7.7 steps) needs. The paper's detector is `face_recognition.face_locations`.
    """

    subset = "youcook2"
    licence = "LicenseRef-YouTube"
    aspects = ("youcook2",)

    def __init__(self, *, annotations: Path, videos: Path, faces: str = "opencv", size: int | None = 336) -> None:
        check_size(size)
        self.faces = faces
        face_detector(faces)
        read, self._hash = read_youcook2(Path(annotations))
        jobs = ((video, read[video]) for video in sorted(read) if len(read[video]) > 1)
        nothing = f"{annotations}: none of {len(read)} videos has two steps with sentences"
        super().__init__(videos, size, jobs, nothing)
        self._detector: Callable[[NDArray[np.uint8]], int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A detector is loaded again in each worker."""
        return {**self.__dict__, "_detector": None}

    def parameters(self) -> dict[str, Any]:
        """The annotation file by its hash, the videos by names and sizes, the detector and the size."""
        return {"annotations": self._hash, "videos": self.videos_digest, "faces": self.faces, "size": self.size}

    def make(self, index: int) -> list[Made | Dropped]:
        """The pairs of one video, and its frames that were dropped."""
        video, steps = self.jobs[index]
        path = self.library.find(video)
        if path is None:
            return [Dropped("no such video", "youcook2")]
        results: list[Made | Dropped] = []
        shown: list[tuple[Step, NDArray[np.uint8]]] = []
        for step, image in self._frames(path, steps):
            if isinstance(image, str):
                results.append(Dropped(image, "youcook2"))
            else:
                shown.append((step, image))
        results += [self._pair(video, first, later) for first, later in combinations(shown, 2)]
        return results

    def _frames(self, path: Path, steps: list[Step]) -> list[tuple[Step, NDArray[np.uint8] | str]]:
        if self._detector is None:
            self._detector = face_detector(self.faces)
        valid = [step for step in steps if step.begin < step.end]
        pictures: list[tuple[Step, NDArray[np.uint8] | str]] = [
            (step, "a segment of no length") for step in steps if step.begin >= step.end
        ]
        frames = each_frame(partial(frames_at, path), [step.middle for step in valid])
        for step, image in zip(valid, frames, strict=True):
            if image is None:
                pictures.append((step, "a frame cannot be decoded"))
            elif self._detector is not None and self._detector(image):
                pictures.append((step, "a frame with a face"))
            else:
                pictures.append((step, shrunk(image, self.size)))
        return pictures

    def _pair(
        self, video: str, earlier: tuple[Step, NDArray[np.uint8]], later: tuple[Step, NDArray[np.uint8]]
    ) -> Made | Dropped:
        (first, image0), (second, image1) = earlier, later
        if first.sentence.lower() == second.sentence.lower():
            return Dropped("captions are the same", "youcook2")
        if np.array_equal(image0, image1):
            return Dropped("images are the same", "youcook2")
        captions = (first.sentence, second.sentence)
        source = {
            "video": video, "times": [first.middle, second.middle], "steps": [first.id, second.id],
            "segments": [[first.begin, first.end], [second.begin, second.end]],
        }  # fmt: skip
        return Made((image0, image1), captions, "youcook2", source, evidence(captions, (image0, image1)))


def certificate_of(
    record: PairRow, image0: NDArray[np.uint8], image1: NDArray[np.uint8], mask: NDArray[np.bool_] | None
) -> dict[str, Any]:
    """The certificate made again from a record and its images."""
    check_times(record)
    return evidence(record.captions, (image0, image1))


def face_detector(spec: str) -> Callable[[NDArray[np.uint8]], int] | None:
    """The detector of a name: "opencv" (Viola and Jones), "none", or yours as "MODULE:FUNCTION"."""
    if spec == "none":
        return None
    if spec == "opencv":
        return _opencv()
    module, colon, name = spec.partition(":")
    if not colon or not module or not name:
        raise ValueError(f"faces = {spec!r}: expected opencv, none or MODULE:FUNCTION")
    detect = named(spec, "faces")
    if not callable(detect):
        raise ValueError(f"faces = {spec!r}: {name!r} is no function")

    def count(image: NDArray[np.uint8]) -> int:
        return int(detect(image))

    return count


def _opencv() -> Callable[[NDArray[np.uint8]], int]:
    try:
        library: Any = import_module("cv2")
    except ImportError as error:
        raise ImportError(
            "finding faces needs OpenCV 4: pip install 'eqben-builder[faces]', or give another detector, or none"
        ) from error
    if not hasattr(library, "CascadeClassifier"):
        raise ImportError(
            f"OpenCV {library.__version__} has no cascades any more: install opencv-python-headless below 5"
        )
    path = Path(library.data.haarcascades) / "haarcascade_frontalface_default.xml"
    cascade = library.CascadeClassifier(str(path))
    if cascade.empty():
        raise ImportError(f"OpenCV {library.__version__} cannot read {path}")

    def count(image: NDArray[np.uint8]) -> int:
        grey = library.cvtColor(image, library.COLOR_RGB2GRAY)
        smallest = max(24, min(grey.shape) // 12)
        return len(cascade.detectMultiScale(grey, scaleFactor=1.1, minNeighbors=5, minSize=(smallest, smallest)))

    return count
