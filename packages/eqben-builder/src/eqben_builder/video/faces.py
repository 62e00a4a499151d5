"""Detectors of faces: a frame that shows the cook shows less of the step."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class FaceDetector(Protocol):
    """Anything that counts faces."""

    def __call__(self, image: NDArray[np.uint8]) -> int:
        """How many faces a picture, uint8 [height, width, 3], shows."""


def face_detector(spec: str) -> FaceDetector | None:
    """The detector of a name: "opencv" (Viola and Jones), "face-recognition" (dlib's), "none", or yours."""
    if spec == "none":
        return None
    if spec == "opencv":
        return _opencv()
    if spec == "face-recognition":
        return _face_recognition()
    module, colon, name = spec.partition(":")
    if not colon or not module or not name:
        raise ValueError(f"faces = {spec!r}: expected opencv, face-recognition, none or MODULE:FUNCTION")
    found = getattr(import_module(module), name, None)
    if not callable(found):
        raise ValueError(f"faces = {spec!r}: {module} has no function {name!r}")

    def count(image: NDArray[np.uint8]) -> int:
        return int(found(image))

    return count


def _opencv() -> FaceDetector:
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


def _face_recognition() -> FaceDetector:
    try:
        library: Any = import_module("face_recognition")
    except ImportError as error:
        raise ImportError("this detector needs the package face_recognition: pip install face_recognition") from error

    def count(image: NDArray[np.uint8]) -> int:
        return len(library.face_locations(image))

    return count
