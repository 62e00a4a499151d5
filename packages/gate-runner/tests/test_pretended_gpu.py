"""Every way of asking an encoder with its weights on a GPU that is pretended: no tensor meets one of another device.

Torch's fake tensors have shapes and devices and no values: what is computed across devices raises as on a real GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from gate_runner.encoders.encoder import Encoder
from gate_runner.encoders.loading import load_encoder
from gate_runner.features.encoding import features_of_kind

GPU = torch.device("cuda", 0)
SIDE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
SEEN: dict[str, Any] = {**SIDE, "image_size": 32, "patch_size": 8}
READ: dict[str, Any] = {**SIDE, "vocab_size": 30, "max_position_embeddings": 12}


def tokenizer(folder: Path, *names: str) -> None:
    """A tokenizer of seven words; SigLIP's gives no mask."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = {word: number for number, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", "one", "two", "words"])}
    made = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=made, model_input_names=list(names), **special).save_pretrained(folder)


def hf(kind: str, folder: Path) -> Encoder:
    transformers: Any = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    if kind == "clip":
        special = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
        how = transformers.CLIPConfig(text_config={**READ, **special}, vision_config=SEEN, projection_dim=16)
        model = transformers.CLIPModel(how)
    elif kind == "siglip":
        how = transformers.SiglipConfig(text_config={**READ, "projection_size": 32}, vision_config=SEEN)
        model = transformers.SiglipModel(how)
    elif kind == "dinov2":
        model = transformers.Dinov2Model(transformers.Dinov2Config(**SEEN))
    else:
        model = transformers.ConvNextModel(transformers.ConvNextConfig(hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1]))
    model.save_pretrained(folder)
    if kind in ("clip", "siglip"):
        tokenizer(folder, *(("input_ids",) if kind == "siglip" else ("input_ids", "attention_mask")))
    return load_encoder(f"hf:{folder}")


def clip(kind: str) -> Encoder:
    """Tiny models of open_clip's classes."""
    import open_clip

    from gate_runner.encoders.open_clip_models import from_clip

    library: Any = open_clip
    seen = {"image_size": 32, "patch_size": 8, "width": 32, "layers": 2, "head_width": 16}
    read = {"context_length": 12, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
    if kind == "CoCa":
        visual = {**seen, "attentional_pool": True, "attn_pooler_heads": 2, "output_tokens": True}
        words = {**read, "embed_cls": True, "output_tokens": True}
        shared = {"context_length": 12, "width": 32, "heads": 2, "layers": 2, "attn_pooler_heads": 2}
        model = library.CoCa(16, multimodal_cfg={**shared, "vocab_size": 49408}, text_cfg=words, vision_cfg=visual)
    elif kind == "CustomTextCLIP":  # as SigLIP is built
        visual = {"image_size": 32, "timm_model_name": "test_vit", "timm_pool": "avg", "timm_proj": "linear"}
        model = library.CustomTextCLIP(
            16, vision_cfg=visual, text_cfg={**read, "pool_type": "last"}, init_logit_bias=-10
        )
    elif kind == "ResNet":
        visual = {"image_size": 64, "layers": [1, 1, 1, 1], "width": 8, "patch_size": None}
        model = library.CLIP(16, vision_cfg=visual, text_cfg=read)
    else:
        model = library.CLIP(16, vision_cfg=seen, text_cfg=read)
    words_of = library.SimpleTokenizer(context_length=12)
    encoder = from_clip(model.eval(), words_of, f"own {kind}")
    encoder.to("cpu")
    from gate_runner.encoders.probe import probe

    encoder.outputs = probe(encoder)
    return encoder


ENCODERS: dict[str, Callable[[Path], Encoder]] = {
    "micro-clip": lambda _: load_encoder("micro-clip"),
    **{
        f"timm:{name}": lambda _, name=name: load_encoder(f"timm:{name}/random") for name in ("test_vit", "test_resnet")
    },
    **{f"open_clip {kind}": lambda _, kind=kind: clip(kind) for kind in ("CLIP", "ResNet", "CoCa", "CustomTextCLIP")},
    **{f"hf {kind}": lambda folder, kind=kind: hf(kind, folder) for kind in ("clip", "siglip", "dinov2", "convnext")},
}


def moved(mode: FakeTensorMode, module: nn.Module) -> None:
    """Put weights and buffers on the pretended GPU; tensors that a module holds otherwise stay, as with `to`."""
    for part in module.modules():
        for name, weight in part._parameters.items():
            if weight is not None:
                part._parameters[name] = nn.Parameter(mode.from_tensor(weight.detach()).to(GPU), requires_grad=False)
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = mode.from_tensor(buffer).to(GPU)


@pytest.mark.parametrize("name", ENCODERS)
def test_no_tensor_meets_another_device(name: str, tmp_path: Path) -> None:
    encoder = ENCODERS[name](tmp_path)
    assert encoder.module is not None
    texts = ["one", "two words"]
    projection = next((at for at, weight in encoder.module.named_parameters() if weight is encoder.projection), "")
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        moved(mode, encoder.module)
        if encoder.projection is not None:  # a weight of the module, which `to` moves in place
            encoder.projection = encoder.module.get_parameter(projection)
        encoder.device = GPU
        images = torch.zeros(2, *encoder.shape, dtype=torch.uint8)
        given: list[Tensor] = [encoder.encode_image(images)]
        if encoder.backbone is not None:
            given += [encoder.encode_backbone(images), features_of_kind(encoder, "both", images)]
        if encoder.patches is not None:
            given.append(encoder.encode_patches(images).tokens)
        given += [encoder.encode_readouts(images), features_of_kind(encoder, "readouts", images)]
        given += [block.places for block in encoder.encode_blocks(images).blocks]
        if encoder.text is not None:
            given.append(encoder.encode_text(texts) @ given[0].T)
        if encoder.text_tokens is not None:
            words = encoder.encode_text_tokens(texts)
            given += [words.tokens * words.mask[..., None], words.mask.sum(dim=1)]
        assert {each.device for each in given} == {GPU}
        assert features_of_kind(encoder, "tokens:1", images).device.type == "cpu"


def test_a_mask_on_another_device_is_seen() -> None:
    """As SigLIP's was: the test above can fail."""
    with FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(RuntimeError, match="device"):
        torch.zeros(2, 3, device=GPU) * torch.ones(2, 3)


def test_coca_loads_with_all_its_features() -> None:
    encoder = clip("CoCa")
    images = torch.zeros(2, *encoder.shape, dtype=torch.uint8)
    assert encoder.encode_patches(images).tokens.shape == (2, 16, 32)
    assert encoder.encode_text(["one"]).shape == encoder.encode_image(images[:1]).shape
    assert {"last", "block:1/mean", "block:2/mean"} <= set(encoder.readouts())
