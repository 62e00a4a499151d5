"""micro-clip and micro-dense: small dual encoders that come with the runner, trained on the micro world alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from vision_features.errors import EncoderError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int
    from torch import Tensor, nn

    from vision_features.encoders.encoder import Encoder
    from vision_features.encoders.spec import EncoderSpec


FILES = Path(__file__).with_name("micro_clip_files")
"""Files of micro-clip; see `folder_of`."""


class MicroTokenizer:
    """Words, numbers and signs to ids: <start> words <end>, then padding.

    A text is split into lower-case words, runs of digits, and single signs. What is not in the vocabulary becomes
    <unk>; a text that is too long loses its last words, never its <end>. The vocabulary has <pad> first.
    """

    def __init__(self, vocabulary: Sequence[str], context_length: int) -> None:
        self.vocabulary = tuple(vocabulary)
        self.context_length = context_length
        self._id = {word: index for index, word in enumerate(self.vocabulary)}
        self.start_id, self.end_id, self.unknown_id = (self._id[name] for name in ("<start>", "<end>", "<unk>"))

    def __call__(self, texts: str | Sequence[str]) -> Int[Tensor, "n context_length"]:
        """Token ids, int64, one row a text."""
        import torch

        rows = [texts] if isinstance(texts, str) else list(texts)
        ids = torch.zeros(len(rows), self.context_length, dtype=torch.long)
        for row, text in zip(ids, rows, strict=True):
            words = self.split(text)[: self.context_length - 2]
            tokens = [self.start_id, *(self._id.get(word, self.unknown_id) for word in words), self.end_id]
            row[: len(tokens)] = torch.tensor(tokens)
        return ids

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, <start> and <end> among them, before any is cut off."""
        return [len(self.split(text)) + 2 for text in texts]

    @staticmethod
    def split(text: str) -> list[str]:
        """Lower-case words, runs of digits and single signs, in order."""
        return re.findall(r"[^\W\d_]+|\d+|[^\w\s]", text.lower())


def folder_of(name: str) -> Path:
    """Return the folder of an encoder's files: of ``"micro-clip"`` or ``"micro-dense"``."""
    return Path(__file__).with_name(f"{name.replace('-', '_')}_files")


def micro_clip_config(name: str = "micro-clip") -> dict[str, Any]:
    """config.json as it stands beside the weights: `model_cfg`, `stem_channels`, `preprocess_cfg` and `training`."""
    config: dict[str, Any] = json.loads((folder_of(name) / "config.json").read_text(encoding="utf-8"))
    return config


def micro_tokenizer(name: str = "micro-clip") -> MicroTokenizer:
    """The tokenizer of an encoder, from its vocab.txt."""
    words = (folder_of(name) / "vocab.txt").read_text(encoding="utf-8").split("\n")
    return MicroTokenizer(
        [word for word in words if word], micro_clip_config(name)["model_cfg"]["text_cfg"]["context_length"]
    )


def build_micro_clip(config: dict[str, Any], seed: int) -> nn.Module:
    """A `DualEncoder` from `model_cfg`, its patch embedding replaced by three strided convolutions.

    The convolutions, of `stem_channels` and then of the tower's width, see edges that a plain patch embedding learns
    far more slowly. Random weights depend on the seed alone.
    """
    import torch
    from torch import nn

    from vision_features.encoders.towers import DualEncoder

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = DualEncoder(**config["model_cfg"])
        first, second = config["stem_channels"]
        model.visual.conv1 = nn.Sequential(
            nn.Conv2d(3, first, 3, stride=2, padding=1),
            nn.GELU(),
            nn.Conv2d(first, second, 3, stride=2, padding=1),
            nn.GELU(),
            nn.Conv2d(second, config["model_cfg"]["vision_cfg"]["width"], 3, stride=2, padding=1),
        )
    return cast("nn.Module", model)


def load_micro_clip(
    *, pretrained: bool = True, seed: int = 0, name: str = "micro-clip"
) -> tuple[nn.Module, MicroTokenizer]:
    """Load micro-clip, or ``name="micro-dense"``, from the files that come with the package; nothing is downloaded.

    `encode_image` takes float images [n, 3, 64, 64] that are scaled to [0, 1] and then normalised with the mean and
    standard deviation in `micro_clip_config()["preprocess_cfg"]`; `encode_text` takes the tokenizer's ids. Tokens are
    given by `load_encoder("micro-clip")`.
    """
    from safetensors.torch import load_file

    config = micro_clip_config(name)
    model: Any = build_micro_clip(config, seed)
    # Where open_clip itself keeps them.
    model.visual.image_mean = tuple(config["preprocess_cfg"]["mean"])
    model.visual.image_std = tuple(config["preprocess_cfg"]["std"])
    if pretrained:
        stored = load_file(folder_of(name) / "weights.safetensors")
        model.load_state_dict({name: tensor.float() for name, tensor in stored.items()})
    return model.eval(), micro_tokenizer(name)


def load(spec: EncoderSpec) -> Encoder:
    """Make micro-clip or micro-dense, or the same architecture with random weights."""
    from vision_features.encoders.open_clip_models import from_clip

    seed = spec.random_seed
    if spec.weights is not None and seed is None:
        name = spec.source
        raise EncoderError(f"encoder {spec.text!r}: expected {name}, {name}/random or {name}/random:SEED")
    model, tokenizer = load_micro_clip(pretrained=seed is None, seed=seed or 0, name=spec.source)
    return from_clip(model, tokenizer, spec.text)
