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
    for index, name in special.items():
        names[index] = name
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


_RESNET = {"embedding_size": 8, "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "layer_type": "basic"}
_HGNET = {
    "stem_channels": [3, 8, 8], "stage_in_channels": [8, 8, 16, 16], "stage_mid_channels": [8, 8, 8, 8],
    "stage_out_channels": [8, 16, 16, 16], "stage_num_blocks": [1, 1, 1, 1],
    "stage_downsample": [False, True, True, True], "stage_light_block": [False, False, True, True],
    "stage_kernel_size": [3, 3, 5, 5], "stage_numb_of_layers": [1, 1, 1, 1], "embedding_size": 8,
    "hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1],
}  # fmt: skip
_LEVELS = ["stage2", "stage3", "stage4"]
_REAL_TIME = {
    "encoder_in_channels": [8, 16, 16], "encoder_hidden_dim": 16, "feat_strides": [8, 16, 32], "encoder_ffn_dim": 16,
    "encoder_attention_heads": 2, "d_model": 16, "decoder_in_channels": [16, 16, 16], "decoder_ffn_dim": 16,
    "decoder_layers": 2, "decoder_attention_heads": 2, "num_denoising": 0, "hidden_expansion": 0.5,
}  # fmt: skip
_DETR = {
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2,
}  # fmt: skip
_LIGHT = {
    "d_model": 16, "hidden_expansion": 0.5, "decoder_layers": 2, "decoder_ffn_dim": 16, "group_detr": 2,
    "decoder_self_attention_heads": 2, "decoder_cross_attention_heads": 2,
}  # fmt: skip
_VIT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 64, "patch_size": 16}
CLOSED = {
    "conditional_detr": ("ConditionalDetr", "ConditionalDetr", _DETR),
    "d_fine": ("DFine", "RTDetr", {**_REAL_TIME, "encoder_in_channels": [16, 16, 16], "lqe_hidden_dim": 8}),
    "dab-detr": ("DabDetr", "ConditionalDetr", {**_DETR, "hidden_size": 32}),
    "deformable_detr": ("DeformableDetr", "DeformableDetr", {**_DETR, "num_feature_levels": 3}),
    "deimv2": ("Deimv2", "RTDetr", {**_REAL_TIME, "encoder_in_channels": [16, 16, 16], "lqe_hidden_dim": 8}),
    "detr": ("Detr", "Detr", _DETR),
    "lw_detr": ("LwDetr", "DeformableDetr", {**_LIGHT, "projector_scale_factors": [1.0]}),
    "rf_detr": ("RfDetr", "RfDetr", _LIGHT),
    "rt_detr": ("RTDetr", "RTDetr", _REAL_TIME),
    "rt_detr_v2": ("RTDetrV2", "RTDetr", _REAL_TIME),
    "yolos": ("Yolos", "Yolos", {**_VIT, "image_size": [64, 96], "intermediate_size": 16}),
}
"""Of each family the names of its classes and its image processor in transformers, and a tiny configuration."""


def closed_set(folder: Path, family: str, classes: int = 2, seed: int = 0) -> Path:
    """A detector that reads no names, saved as a checkpoint."""
    import transformers

    name, processor, sizes = CLOSED[family]
    options: dict[str, Any] = {**sizes, "num_labels": classes}
    if family == "yolos":
        options["num_detection_tokens"] = 12
    else:
        options |= {"num_queries": 12, "backbone_config": _backbone(family)}
    torch.manual_seed(seed)
    model = getattr(transformers, f"{name}ForObjectDetection")(getattr(transformers, f"{name}Config")(**options))
    model.save_pretrained(folder)
    whole = processor in ("RTDetr", "RfDetr") or family == "lw_detr"
    size = {"height": 64, "width": 64} if whole else {"shortest_edge": 64, "longest_edge": 96}
    getattr(transformers, f"{processor}ImageProcessor")(size=size).save_pretrained(folder)
    return folder


def _backbone(family: str) -> Any:
    import transformers

    if family in ("d_fine", "deimv2"):
        return transformers.HGNetV2Config(**_HGNET, out_features=_LEVELS)
    if family in ("rt_detr", "rt_detr_v2"):
        return transformers.RTDetrResNetConfig(**_RESNET, out_features=_LEVELS)
    if family == "lw_detr":
        return transformers.LwDetrViTConfig(
            **_VIT, window_block_indices=[0], num_windows=4, num_windows_side=2, out_indices=[2], pretrain_image_size=64
        )
    if family == "rf_detr":
        return transformers.RfDetrDinov2Config(**_VIT, num_windows=2, out_features=["stage1", "stage2"])
    return transformers.ResNetConfig(**_RESNET, out_features=_LEVELS if family == "deformable_detr" else ["stage4"])


class OwlProcessor:
    """OWLv2's image processor with the tokenizer above: its own needs files of merges."""

    def __init__(self, folder: Path) -> None:
        import transformers

        self.tokenizer = tokenizer(folder)
        self.pictures = transformers.Owlv2ImageProcessor(size={"height": 64, "width": 64})

    def __call__(self, images: Any, text: Any, **_: Any) -> Any:
        tokenizer = self.tokenizer(text[0], padding="max_length", max_length=8, return_tensors="pt")
        shown = self.pictures(images, return_tensors="pt")
        shown["input_ids"], shown["attention_mask"] = tokenizer["input_ids"], tokenizer["attention_mask"]
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
