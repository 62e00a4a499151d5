"""micro-clip/random with narrow towers of one layer: for tests of what is done with features."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from vision_features.encoders import micro_clip, probe
from vision_features.encoders.encoder import Encoder

_LOAD, _PROBE = micro_clip.load_micro_clip, probe.probe
"""As they are before the session keeps what they give, by the encoder's name alone."""


def with_small_towers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let micro-clip/random be small in this process: an image, or a step of training, takes a tenth of the time.

    Other processes, and micro-clip with its weights, are as ever.
    """
    whole, known = micro_clip.load_micro_clip, probe.probe
    config = copy.deepcopy(micro_clip.micro_clip_config())
    config["stem_channels"] = [8, 8]
    config["model_cfg"]["vision_cfg"] |= {"width": 32, "layers": 1, "head_width": 16}
    config["model_cfg"]["text_cfg"] |= {"width": 32, "layers": 1}

    def load(**named: Any) -> Any:
        if named.get("pretrained", True):
            return whole(**named)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(micro_clip, "micro_clip_config", lambda _: copy.deepcopy(config))
            return _LOAD(**named)

    def probed(encoder: Encoder) -> dict[str, Any]:
        return (_PROBE if encoder.spec.startswith("micro-clip/random") else known)(encoder)

    monkeypatch.setattr(micro_clip, "load_micro_clip", load)
    monkeypatch.setattr(probe, "probe", probed)
