from __future__ import annotations

import pytest
import torch
from torch import nn

from vision_adapters.heads import seeded
from vision_adapters.stems import PatchEncoder, PatchStem


def tiny(kind: str) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    text = {
        "vocab_size": 20,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    pair = {
        "vocab_size": 20, "d_model": 16, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32,
    }  # fmt: skip
    ends = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
    make = {
        "bert": lambda: transformers.BertModel(transformers.BertConfig(**text, max_position_embeddings=16)),
        "roberta": lambda: transformers.RobertaModel(transformers.RobertaConfig(**text, max_position_embeddings=18)),
        "distilbert": lambda: transformers.DistilBertModel(
            transformers.DistilBertConfig(
                vocab_size=20, dim=16, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=16
            )
        ),
        "mpnet": lambda: transformers.MPNetModel(transformers.MPNetConfig(**text, max_position_embeddings=18)),
        "bart": lambda: transformers.BartModel(transformers.BartConfig(**pair, **ends, max_position_embeddings=16)),
        "whisper": lambda: transformers.WhisperModel(
            transformers.WhisperConfig(**pair, **ends, max_source_positions=16, num_mel_bins=8)
        ),
    }
    return make[kind]()


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "mpnet", "bart", "whisper"])
def test_text_and_audio_encoders_see_images(kind: str) -> None:
    encoder = seeded(lambda: PatchEncoder(tiny(kind), patch=8), 0).eval()
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    tokens = encoder(images)
    assert tokens.shape == (2, 16, 16)
    assert torch.equal(encoder.pooled(images), tokens.mean(1))
    moved = images.clone()
    moved[:, :, :8, :8] += 1
    other = encoder(moved)
    assert not torch.allclose(other[:, 15], tokens[:, 15], atol=1e-5)  # attention carries the first patch to the last
    swapped = torch.cat([images[:, :, :, 8:], images[:, :, :, :8]], dim=3)
    assert not torch.allclose(encoder.pooled(swapped), encoder.pooled(images), atol=1e-5)  # positions are there
    tokens.sum().backward()
    assert encoder.stem.cut.weight.grad.abs().sum() > 0
    with pytest.raises(ValueError, match="25 patches, but the model has 16 positions"):
        encoder(torch.zeros(1, 3, 40, 40))


def test_other_models_are_refused() -> None:
    with pytest.raises(ValueError, match="no patch stem for 'Linear'"):
        PatchEncoder(nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"\(30, 32\) pixels, expected multiples of 8"):
        PatchStem(4, 8)(torch.zeros(1, 3, 30, 32))


def test_patches_are_in_reading_order() -> None:
    stem = PatchStem(1, 2, 1)
    nn.init.ones_(stem.cut.weight)
    nn.init.zeros_(stem.cut.bias)
    image = torch.arange(4.0).view(2, 2).repeat_interleave(2, 0).repeat_interleave(2, 1)[None, None]
    assert stem(image).flatten().tolist() == [0.0, 4.0, 8.0, 12.0]
