"""``hf-detector:``: a whole detector of transformers where an encoder is named."""

from __future__ import annotations

from torch import Tensor

from gate_runner.encoders.detectors import CLOSED, Detector
from gate_runner.encoders.encoder import Encoder
from gate_runner.encoders.hugging_face import of_transformers
from gate_runner.encoders.spec import EncoderSpec
from gate_runner.errors import EncoderError, MissingCapabilityError

_SIDE = 224


def load(spec: EncoderSpec) -> Encoder:
    """A detector with its processor, from a local directory or the hub."""
    library, where = of_transformers(spec)
    try:
        config = library.AutoConfig.from_pretrained(where)
        if config.model_type in CLOSED:
            model = library.AutoModelForObjectDetection.from_pretrained(where)
            processor = library.AutoImageProcessor.from_pretrained(where)
        else:
            model = library.AutoModelForZeroShotObjectDetection.from_pretrained(where)
            processor = library.AutoProcessor.from_pretrained(where)
    except (OSError, ValueError, KeyError, ImportError) as error:
        lines = str(error).strip().splitlines()
        raise EncoderError(
            f"encoder {spec.text!r} cannot be loaded as a detector: {lines[0] if lines else error}"
        ) from error

    def image(images: Tensor) -> Tensor:
        raise MissingCapabilityError(
            f"encoder {spec.text!r} is a detector: it gives boxes, no features; run detection sets"
        )

    return Encoder(spec.text, _SIDE, image, module=model, detector=Detector(model, processor))
