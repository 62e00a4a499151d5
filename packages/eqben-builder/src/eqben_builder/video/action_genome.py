"""Eq-AG: two frames of a Charades video in which at least two of three relations to an object differ."""

from __future__ import annotations

import hashlib
import logging
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eqben_builder.building.builder import Dropped, Made
from eqben_builder.pictures import decode
from eqben_builder.video.decode import frames_numbered
from eqben_builder.video.library import VideoBuilder, check_size, each_frame, evidence, shrunk
from wary_files.pickles import load as load_pickle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eqben_builder.formats import PairRow

RELATIONS = ("attention", "spatial", "contacting")
#: After a chosen frame, so many annotated frames are skipped.
SKIPPED = 2
MIN_DIFFERENT = 2
_FILES = ("object_bbox_and_relationship.pkl", "person_bbox.pkl")
_UNSURE = "unsure"
_log = logging.getLogger(__name__)


class Seen(NamedTuple):
    """An object in one annotated frame: the frame's position in its video, its name, and three relations."""

    position: int
    frame: str
    attention: tuple[str, ...]
    spatial: tuple[str, ...]
    contacting: tuple[str, ...]

    def graph(self) -> dict[str, list[str]]:
        """The relations, ready for JSON."""
        return {name: list(getattr(self, name)) for name in RELATIONS}


def graph_captions(name: str, attention: Sequence[str], spatial: Sequence[str]) -> list[str]:
    """Captions of one object's scene graph, one for each attention and place.

    "The person is {attention} the {object} which is {place} him/her."

    Source:
        EqBen appendix B.1 gives the template. Ours: the article; "or" between a class's synonyms; "around" for the
        label "in", which says that the person is within the object.
    """
    noun = " or ".join(part for part in name.split("/") if part)
    places = ["around" if relation == "in" else relation.replace("_", " ") for relation in spatial]
    return [f"The person is {a.replace('_', ' ')} the {noun} which is {p} him/her." for a in attention for p in places]


def different_relations(first: Seen, second: Seen) -> int:
    """How many of attention, place and contact differ, as sets of labels."""
    return sum(set(getattr(first, name)) != set(getattr(second, name)) for name in RELATIONS)


def sparse_pairs(track: Sequence[Seen]) -> list[tuple[int, int]]:
    """Choose pairs of frames of one object, sparsely.

    Frames t < t' make a pair if at least two of three relations differ. After a chosen t', the next two annotated
    frames are skipped as partners of t; after a t that was chosen, the next two as first frames.

    Source:
        EqBen section 4.1 and appendix B.1: at least 2 of 3 relations, and on to t + 3 and t' + 3 after a choice. The
        order of the search is not given; this one takes the earliest. Skipped are annotated frames of the video.
    """
    chosen = []
    first_from = 0
    for i, first in enumerate(track):
        if first.position < first_from:
            continue
        second_from = 0
        for j in range(i + 1, len(track)):
            if track[j].position >= second_from and different_relations(first, track[j]) >= MIN_DIFFERENT:
                chosen.append((i, j))
                second_from = track[j].position + SKIPPED + 1
        if second_from:
            first_from = first.position + SKIPPED + 1
    return chosen


def read_action_genome(folder: Path) -> dict[str, dict[str, list[Seen]]]:
    """Video -> object -> frames in order: with a person, the object visible, and all three relations."""
    for name in _FILES:
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{folder} holds no {name}, one of Action Genome's annotation files")
    objects, people = (load_pickle((folder / name).read_bytes(), str(folder / name)) for name in _FILES)
    if not isinstance(objects, dict) or not isinstance(people, dict):
        raise ValueError(f"{folder}: the annotation files should hold dictionaries from frames to boxes")
    videos: dict[str, list[str]] = defaultdict(list)
    for frame in objects:
        video, slash, picture = str(frame).partition("/")
        if not slash or not Path(picture).stem.isdecimal() or video in ("", ".", ".."):
            raise ValueError(f"{folder / _FILES[0]}: frame {frame!r} is not named like 'VIDEO.mp4/000089.png'")
        videos[video].append(str(frame))
    tracks_of: dict[str, dict[str, list[Seen]]] = {}
    for video in sorted(videos):
        tracks: dict[str, list[Seen]] = defaultdict(list)
        for index, frame in enumerate(sorted(videos[video], key=frame_number)):
            if not _somebody(people.get(frame)):
                continue
            for name, object_seen in _objects(folder / _FILES[0], frame, index, objects[frame]):
                tracks[name].append(object_seen)
        tracks_of[video] = {name: tracks[name] for name in sorted(tracks)}
    return tracks_of


def frame_number(frame: str) -> int:
    """The number in a frame's name; Action Genome counts from 1."""
    return int(Path(frame).stem)


def _somebody(person: Any) -> bool:
    boxes = person.get("bbox") if isinstance(person, dict) else None
    return boxes.size > 0 if isinstance(boxes, np.ndarray) else isinstance(boxes, list | tuple) and len(boxes) > 0


def _objects(path: Path, frame: str, index: int, listed: Any) -> list[tuple[str, Seen]]:
    if not isinstance(listed, list):
        raise ValueError(f"{path}, frame {frame!r}: expected a list of objects, found {type(listed).__name__}")
    objects: dict[str, Seen] = {}
    for entry in listed:
        where = f"{path}, frame {frame!r}"
        if not isinstance(entry, dict) or not isinstance(entry.get("class"), str):
            raise ValueError(f"{where}: an object without a field 'class'")
        labels = []
        for name in RELATIONS:
            labelled = entry.get(f"{name}_relationship")
            if labelled is not None and not (
                isinstance(labelled, list | tuple) and all(isinstance(x, str) for x in labelled)
            ):
                raise ValueError(f"{where}: field '{name}_relationship' should list labels")
            labels.append(tuple(labelled or ()))
        if (
            entry.get("visible", True)
            and entry.get("bbox") is not None
            and all(labels)
            and entry["class"] not in objects
        ):
            objects[entry["class"]] = Seen(index, frame, *labels)
    return list(objects.items())


class ActionGenomeBuilder(VideoBuilder[list[tuple[str, Seen, Seen]]]):
    """Eq-AG from Action Genome's own files; a job is a video.

    Args:
        annotations: Folder of the two pickle files, which are read with nothing but data allowed.
        videos: Folder of Charades videos (`001YG.mp4`), or of frames (`001YG.mp4/000089.png`).
        size: The shorter side of the images has at most so many pixels; None keeps the video's own.

    Raises:
        FileNotFoundError: The file or folder that is missing.
        ValueError: What `read_action_genome` refuses; a size below 8; no video in which a pair could be chosen.

    Example:
        >>> import pickle, tempfile
        >>> person, objects = {}, {}
        >>> for number, (looks, spatial) in enumerate([("looking_at", "in_front_of"), ("not_looking_at", "behind")], 1):
        ...     frame = f"001YG.mp4/{number:06d}.png"
        ...     person[frame] = {"bbox": np.array([[1.0, 2.0, 3.0, 4.0]])}
        ...     relations = {"attention": looks, "spatial": spatial, "contacting": "sitting_on"}
        ...     labels = {f"{name}_relationship": [label] for name, label in relations.items()}
        ...     objects[frame] = [{"class": "bed", "visible": True, "bbox": (1.0, 2.0, 3.0, 4.0), **labels}]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name, content in zip(_FILES, (objects, person), strict=True):
        ...         _ = Path(folder, name).write_bytes(pickle.dumps(content))
        ...     builder = ActionGenomeBuilder(annotations=Path(folder), videos=Path(folder))
        ...     builder.count, builder.make(0)  # the video itself is not there
        (1, [Dropped(reason='no such video', aspect='ag')])

    Source:
        EqBen appendix B.1. Where the paper is silent: a frame needs a person's box; an attention of "unsure" makes no
        caption; a pair is dropped where a caption would be true of the other frame too (an object may have several
        places at once), or where the images are the same.
    """

    subset = "ag"
    licence = "LicenseRef-Charades"
    aspects = ("ag",)

    def __init__(self, *, annotations: Path, videos: Path, size: int | None = 336) -> None:
        check_size(size)
        annotations, self.videos = Path(annotations), Path(videos)
        read = read_action_genome(annotations)
        jobs = (
            (video, [(name, track[i], track[j]) for name, track in tracks.items() for i, j in sparse_pairs(track)])
            for video, tracks in read.items()
        )
        nothing = f"{annotations}: in none of {len(read)} videos do two frames differ in two relations"
        super().__init__(self.videos, size, jobs, nothing)
        self._hashes = {name: hashlib.sha256((annotations / name).read_bytes()).hexdigest() for name in _FILES}

    def parameters(self) -> dict[str, Any]:
        """The annotation files by their hashes, the videos by names and sizes, the size, and the rule's figures."""
        rule = {"min_different": MIN_DIFFERENT, "skipped": SKIPPED}
        return {"annotations": self._hashes, "videos": self.videos_digest, "size": self.size, **rule}

    def make(self, index: int) -> list[Made | Dropped]:
        """The pairs of one video."""
        video, chosen = self.jobs[index]
        names = sorted(
            {object_seen.frame for _, first, later in chosen for object_seen in (first, later)}, key=frame_number
        )
        images = self._images(video, names)
        return [self._pair(video, name, first, later, images) for name, first, later in chosen]

    def _images(self, video: str, names: Sequence[str]) -> dict[str, NDArray[np.uint8] | str]:
        """The frames' images, or why there is none."""
        if (self.videos / video).is_dir():
            return {name: self._stored(self.videos / name) for name in names}
        path = self.library.find(video)
        if path is None:
            return dict.fromkeys(names, "no such video")
        frames = each_frame(partial(frames_numbered, path), [frame_number(name) - 1 for name in names])
        return {
            name: "a frame cannot be decoded" if image is None else shrunk(image, self.size)
            for name, image in zip(names, frames, strict=True)
        }

    def _stored(self, path: Path) -> NDArray[np.uint8] | str:
        for candidate in (path, path.with_suffix(".jpg")):
            if candidate.is_file():
                try:
                    return shrunk(decode(candidate), self.size)
                except (OSError, ValueError):
                    return "a frame cannot be decoded"
        _log.warning("there is no frame %s", path)
        return "no such frame"

    def _pair(
        self, video: str, name: str, earlier: Seen, later: Seen, images: dict[str, NDArray[np.uint8] | str]
    ) -> Made | Dropped:
        pictures = (images[earlier.frame], images[later.frame])
        for picture in pictures:
            if isinstance(picture, str):
                return Dropped(picture, "ag")
        first, second = (picture for picture in pictures if not isinstance(picture, str))
        if _UNSURE in (*earlier.attention, *later.attention):
            return Dropped("attention is unsure", "ag")
        captions = [
            graph_captions(name, object_seen.attention, object_seen.spatial) for object_seen in (earlier, later)
        ]
        if captions[0][0] in captions[1] or captions[1][0] in captions[0]:
            return Dropped("a caption is true of both frames", "ag")
        if first.shape != second.shape or np.array_equal(first, second):
            return Dropped("images are the same, or of two sizes", "ag")
        texts = (captions[0][0], captions[1][0])
        source = {
            "video": video, "object": name, "frames": [earlier.frame, later.frame], "captions": captions,
            "graphs": [earlier.graph(), later.graph()],
        }  # fmt: skip
        certificate = {"relations_differ": different_relations(earlier, later), **evidence(texts, (first, second))}
        return Made((first, second), texts, "ag", source, certificate)


def certificate_of(
    record: PairRow, image0: NDArray[np.uint8], image1: NDArray[np.uint8], mask: NDArray[np.bool_] | None
) -> dict[str, Any]:
    """The certificate made again from a record's scene graphs and its images."""
    relations = [
        Seen(0, frame, *(tuple(graph[name]) for name in RELATIONS))
        for frame, graph in zip(record.source["frames"], record.source["graphs"], strict=True)
    ]
    differ = different_relations(relations[0], relations[1])
    if differ < MIN_DIFFERENT:
        raise ValueError(f"{differ} of 3 relations differ, expected at least {MIN_DIFFERENT}")
    captions = [
        graph_captions(record.source["object"], frame_seen.attention, frame_seen.spatial) for frame_seen in relations
    ]
    for side, text in enumerate(record.captions):
        if text != captions[side][0]:
            raise ValueError(f"caption {side} is {text!r}, its scene graph says {captions[side][0]!r}")
        if text in captions[1 - side]:
            raise ValueError(f"caption {side} is true of the other frame too: {text!r}")
    return {"relations_differ": differ, **evidence(record.captions, (image0, image1))}
