"""The default encoder: the micro-clip that is shipped in this package."""

from __future__ import annotations

from gate_runner.encoders.encoder import Encoder
from gate_runner.encoders.micro_clip import load_micro_clip
from gate_runner.encoders.open_clip_models import from_clip
from gate_runner.encoders.spec import EncoderSpec
from gate_runner.errors import EncoderError


def load(spec: EncoderSpec) -> Encoder:
    """Make micro-clip, or the same architecture with random weights.

    Raises:
        EncoderError: something other than ``random`` or ``random:SEED`` stands behind the slash.
    """
    seed = spec.random_seed
    if spec.weights is not None and seed is None:
        raise EncoderError(f"encoder {spec.text!r}: expected micro-clip, micro-clip/random or micro-clip/random:SEED")
    model, tokenizer = load_micro_clip(pretrained=seed is None, seed=seed or 0)
    made = from_clip(model, tokenizer, spec.text)
    data = "268,800 made-up pairs of the micro world" if seed is None else "none: random weights"
    made.taxonomy = {"knowledge": "no", "pretraining_data": data, "track": "academic"}
    return made
