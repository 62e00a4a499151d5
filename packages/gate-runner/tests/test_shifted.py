"""Text and audio models behind a patch stem: every kind, trained, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from gate_runner.errors import EncoderError
from gate_runner.tasks.backbone import choose_weights, preserved_encoder
from vision_features.encoders import load_encoder

transformers = pytest.importorskip("transformers")

SMALL = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
CONFIGS: dict[str, Any] = {
    "bert": lambda: transformers.BertConfig(**SMALL, max_position_embeddings=20),
    "roberta": lambda: transformers.RobertaConfig(**SMALL, max_position_embeddings=20),
    "mpnet": lambda: transformers.MPNetConfig(**SMALL, max_position_embeddings=20),
    "distilbert": lambda: transformers.DistilBertConfig(
        vocab_size=40, dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=20
    ),
    "bart": lambda: transformers.BartConfig(
        vocab_size=40, d_model=16, encoder_layers=2, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=20,
    ),
    "whisper": lambda: transformers.WhisperConfig(
        vocab_size=60, d_model=16, encoder_layers=2, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, max_source_positions=20,
        max_target_positions=20, num_mel_bins=8, pad_token_id=1, bos_token_id=1, eos_token_id=1,
        decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", CONFIGS)
def test_every_kind_sees_and_learns(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    transformers.AutoModel.from_config(CONFIGS[kind]()).save_pretrained(tmp_path / "model")
    source = "hf-audio" if kind == "whisper" else "hf-text"
    encoder = load_encoder(f"{source}:{tmp_path}/model")
    assert encoder.image_size == 64  # 16 patches of the 20 positions, 18 of those that count from the padding token on
    images = torch.randint(0, 256, (2, 3, 64, 64), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    assert encoder.encode_patches(images).tokens.shape == (2, 16, 16)
    with preserved_encoder(encoder):
        names = choose_weights(encoder, "pooled", "full", images)
    assert "stem.cut.weight" in names
    assert any("layer" in name for name in names)
    assert encoder.fingerprint() == load_encoder(f"{source}:{tmp_path}/model").fingerprint()
    untrained = load_encoder(f"{source}:{tmp_path}/model/random:3")
    assert untrained.fingerprint() not in (
        encoder.fingerprint(),
        load_encoder(f"{source}:{tmp_path}/model/random").fingerprint(),
    )


def test_other_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="no directory"):
        load_encoder("hf-text:./nowhere")
    transformers.AutoModel.from_config(CONFIGS["bert"]()).save_pretrained(tmp_path / "model")
    with pytest.raises(EncoderError, match="is a bert; hf-audio: takes whisper"):
        load_encoder(f"hf-audio:{tmp_path}/model")
    with pytest.raises(EncoderError, match="not 'x'"):
        load_encoder(f"hf-text:{tmp_path}/model/random:x")
