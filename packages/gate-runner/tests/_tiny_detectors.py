"""Tiny detectors of transformers with random weights, and processors whose vocabulary is made here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

WORDS = ("square", "circle", "red", "fish", "small", "with", "orange", "beaks", "puffin", ",", "black", "dog", "person",
         "unlabelled", "a", "b", "c")  # fmt: skip


def tokenizer(folder: Path) -> Any:
    """BERT's, with its ids of [CLS], [SEP], the full stop and the question mark, which transformers' loss relies on."""
    from transformers import BertTokenizerFast

    names = [f"[unused{number}]" for number in range(1100)]
    special = {0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 103: "[MASK]", 1012: ".", 1029: "?"}
    for place, name in special.items():
        names[place] = name
    names[1040 : 1040 + len(WORDS)] = WORDS
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(names))
    return BertTokenizerFast.from_pretrained(folder)


def grounding(folder: Path, kind: str = "GroundingDino", seed: int = 0) -> Path:
    """Grounding DINO, or ``MMGroundingDino``, saved as a checkpoint."""
    import transformers

    config_class = getattr(transformers, f"{kind}Config")
    config = config_class(
        backbone_config=transformers.SwinConfig(
            image_size=64, embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 2, 2, 2], window_size=4, drop_path_rate=0.0,
            out_features=["stage2", "stage3", "stage4"],
        ),
        text_config=transformers.BertConfig(
            vocab_size=1100, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
        ),
        d_model=32, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=16, decoder_ffn_dim=16, num_queries=12, max_text_len=16, auxiliary_loss=False, dropout=0.0,
        fusion_droppath=0.0,
    )  # fmt: skip
    torch.manual_seed(seed)
    model = getattr(transformers, f"{kind}ForObjectDetection")(config)
    model.save_pretrained(folder)
    image = transformers.GroundingDinoImageProcessor(size={"shortest_edge": 96, "longest_edge": 128})
    transformers.GroundingDinoProcessor(image, tokenizer(folder / "words")).save_pretrained(folder)
    return folder


def rt_detr(folder: Path, classes: int = 2, seed: int = 0) -> Path:
    """RT-DETR v2, saved as a checkpoint."""
    import transformers

    config = transformers.RTDetrV2Config(
        backbone_config=transformers.RTDetrResNetConfig(
            embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], layer_type="basic",
            out_features=["stage2", "stage3", "stage4"],
        ),
        encoder_in_channels=[8, 16, 16], encoder_hidden_dim=16, feat_strides=[8, 16, 32], encoder_ffn_dim=16,
        encoder_attention_heads=2, d_model=16, decoder_in_channels=[16, 16, 16], decoder_ffn_dim=16, num_queries=12,
        decoder_layers=2, decoder_attention_heads=2, num_denoising=0, hidden_expansion=0.5, num_labels=classes,
    )  # fmt: skip
    torch.manual_seed(seed)
    transformers.RTDetrV2ForObjectDetection(config).save_pretrained(folder)
    transformers.RTDetrImageProcessor(size={"height": 64, "width": 64}).save_pretrained(folder)
    return folder


class OwlProcessor:
    """OWLv2's picture processor with the tokenizer above: its own needs files of merges."""

    def __init__(self, folder: Path) -> None:
        import transformers

        self.words = tokenizer(folder)
        self.pictures = transformers.Owlv2ImageProcessor(size={"height": 64, "width": 64})

    def __call__(self, images: Any, text: Any, **_: Any) -> Any:
        given = self.words(text[0], padding="max_length", max_length=8, truncation=True, return_tensors="pt")
        shown = self.pictures(images, return_tensors="pt")
        shown["input_ids"], shown["attention_mask"] = given["input_ids"], given["attention_mask"]
        return shown


def owl(folder: Path) -> tuple[Any, Any]:
    """OWLv2 and a processor."""
    import transformers

    config = transformers.Owlv2Config(
        text_config={"vocab_size": 1100, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
                     "num_attention_heads": 2, "max_position_embeddings": 8, "eos_token_id": 102},
        vision_config={"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
                       "image_size": 64, "patch_size": 16},
        projection_dim=16,
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.Owlv2ForObjectDetection(config).eval(), OwlProcessor(folder)
