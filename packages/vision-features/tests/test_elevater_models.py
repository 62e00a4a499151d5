"""Checkpoints of ELEVATER's models, tiny and written by the test in their authors' forms, against plain definitions."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

timm = pytest.importorskip("timm")
open_clip = pytest.importorskip("open_clip")

from vision_features.encoders import load_encoder  # noqa: E402 - where the extras are there
from vision_features.errors import EncoderError  # noqa: E402

WIDTH, PATCH, SIDE, HEADS, DEPTH = 24, 8, 32, 12, 2
TEXTS = ["a photo of a dog", "a cat", "an aeroplane , a fixed-wing aircraft with wings"]
State = dict[str, Tensor]


def drawn(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> State:
    generator = torch.Generator().manual_seed(seed)
    return {name: 0.3 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def layer(x: Tensor, state: State, name: str, eps: float) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"], eps)


def attended(q: Tensor, k: Tensor, v: Tensor, heads: int, mask: Tensor | None = None) -> Tensor:
    """Attention, head by head."""
    parts = []
    for one_q, one_k, one_v in zip(q.chunk(heads, -1), k.chunk(heads, -1), v.chunk(heads, -1), strict=True):
        scores = one_q @ one_k.transpose(-1, -2) / math.sqrt(one_q.shape[-1])
        parts.append((scores if mask is None else scores + mask).softmax(-1) @ one_v)
    return torch.cat(parts, -1)


def vision_shapes(*, beit: bool) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a vision transformer in MoCo-v3's file, or of CAE's encoder."""
    shapes: dict[str, tuple[int, ...]] = {
        "cls_token": (1, 1, WIDTH), "pos_embed": (1, 1 + (SIDE // PATCH) ** 2, WIDTH),
        "patch_embed.proj.weight": (WIDTH, 3, PATCH, PATCH), "patch_embed.proj.bias": (WIDTH,),
        "norm.weight": (WIDTH,), "norm.bias": (WIDTH,),
    }  # fmt: skip
    for block in range(DEPTH):
        at = f"blocks.{block}"
        for norm in ("norm1", "norm2"):
            shapes |= {f"{at}.{norm}.weight": (WIDTH,), f"{at}.{norm}.bias": (WIDTH,)}
        shapes[f"{at}.attn.qkv.weight"] = (3 * WIDTH, WIDTH)
        biases = ("attn.q_bias", "attn.v_bias", "gamma_1", "gamma_2") if beit else ()
        shapes |= {f"{at}.{name}": (WIDTH,) for name in biases}
        shapes |= {} if beit else {f"{at}.attn.qkv.bias": (3 * WIDTH,)}
        shapes |= {
            f"{at}.attn.proj.weight": (WIDTH, WIDTH), f"{at}.attn.proj.bias": (WIDTH,),
            f"{at}.mlp.fc1.weight": (4 * WIDTH, WIDTH), f"{at}.mlp.fc1.bias": (4 * WIDTH,),
            f"{at}.mlp.fc2.weight": (WIDTH, 4 * WIDTH), f"{at}.mlp.fc2.bias": (WIDTH,),
        }  # fmt: skip
    return shapes


def vision(images: Tensor, state: State) -> Tensor:
    """The class token of a vision transformer, by its definition, in float64."""
    state = {name: value.double() for name, value in state.items()}
    x = F.conv2d(images.double(), state["patch_embed.proj.weight"], state["patch_embed.proj.bias"], stride=PATCH)
    x = torch.cat([state["cls_token"].expand(len(x), -1, -1), x.flatten(2).transpose(1, 2)], 1) + state["pos_embed"]
    for block in range(DEPTH):
        own = {name.removeprefix(f"blocks.{block}."): value for name, value in state.items()}
        zeros = torch.zeros(WIDTH, dtype=torch.float64)
        biases = own.get("attn.qkv.bias")
        if biases is None:
            biases = torch.cat([own["attn.q_bias"], zeros, own["attn.v_bias"]])
        q, k, v = F.linear(layer(x, own, "norm1", 1e-6), own["attn.qkv.weight"], biases).chunk(3, -1)
        mixed = F.linear(attended(q, k, v, HEADS), own["attn.proj.weight"], own["attn.proj.bias"])
        x = x + own.get("gamma_1", 1.0) * mixed
        inner = F.gelu(F.linear(layer(x, own, "norm2", 1e-6), own["mlp.fc1.weight"], own["mlp.fc1.bias"]))
        x = x + own.get("gamma_2", 1.0) * F.linear(inner, own["mlp.fc2.weight"], own["mlp.fc2.bias"])
    return layer(x, state, "norm", 1e-6)[:, 0]


def moco(path: Path) -> State:
    """A pre-training's checkpoint: both encoders, the predictor, the optimiser."""
    state = drawn(vision_shapes(beit=False))
    named = {f"module.base_encoder.{name}": value for name, value in state.items()}
    named |= {f"module.momentum_encoder.{name}": value + 1 for name, value in state.items()}
    named |= {"module.base_encoder.head.0.weight": torch.ones(4, WIDTH), "module.predictor.0.weight": torch.ones(4, 4)}
    torch.save({"epoch": 300, "arch": "vit_base", "state_dict": named, "optimizer": {"state": {}}}, path)
    return state


def converted(path: Path) -> State:
    """The same as MoCo-v3's own script converts it."""
    state = drawn(vision_shapes(beit=False))
    torch.save({"model": state}, path)
    return state


def cae(path: Path) -> State:
    """A pre-training's checkpoint: encoder, teacher, regressor, decoder, and the options of the training."""
    state = drawn(vision_shapes(beit=True))
    named = {f"encoder.{name}": value for name, value in state.items()}
    named |= {f"teacher.{name}": value + 1 for name, value in state.items()}
    named |= {"pretext_neck.decoder_blocks.0.norm1.weight": torch.ones(4), "mask_token": torch.zeros(1, 1, 4)}
    torch.save({"model": named, "epoch": 799, "args": argparse.Namespace(lr=0.001)}, path)
    return state


@pytest.mark.parametrize(("source", "write"), [("moco-v3", moco), ("moco-v3", converted), ("cae", cae)])
def test_a_vision_transformer_gives_what_its_definition_gives(
    source: str, write: Callable[[Path], State], tmp_path: Path
) -> None:
    state = write(tmp_path / "checkpoint.pth")
    encoder = load_encoder(f"{source}:{tmp_path / 'checkpoint.pth'}")
    assert encoder.image_size == SIDE
    images = torch.randint(256, (3, 3, SIDE, SIDE), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    features = encoder.encode_image(images)
    expected = vision(encoder.prepare(images), state)
    assert torch.allclose(features.double(), expected, atol=1e-5 * float(expected.abs().max()))
    assert encoder.describe()["taxonomy"]["track"] == "academic"


def text_state(width: int, layers: int, output: int) -> State:
    shapes: dict[str, tuple[int, ...]] = {
        "token_embedding.weight": (49408, width), "positional_embedding": (77, width),
        "ln_final.weight": (width,), "ln_final.bias": (width,),
    }  # fmt: skip
    for block in range(layers):
        at = f"resblocks.{block}"
        for norm in ("ln_1", "ln_2"):
            shapes |= {f"{at}.{norm}.weight": (width,), f"{at}.{norm}.bias": (width,)}
        shapes |= {
            f"{at}.attn.in_proj_weight": (3 * width, width), f"{at}.attn.in_proj_bias": (3 * width,),
            f"{at}.attn.out_proj.weight": (width, width), f"{at}.attn.out_proj.bias": (width,),
            f"{at}.mlp.c_fc.weight": (4 * width, width), f"{at}.mlp.c_fc.bias": (4 * width,),
            f"{at}.mlp.c_proj.weight": (width, 4 * width), f"{at}.mlp.c_proj.bias": (width,),
        }  # fmt: skip
    return {**drawn(shapes, 3), "projection": drawn({"p": (width, output)}, 4)["p"]}


def text_features(state: State, layers: int) -> Tensor:
    """UniCL's text transformer by its definition: causal, QuickGELU, norms with 1e-12, the end token's place."""
    state = {name: value.double() for name, value in state.items()}
    tokens = open_clip.SimpleTokenizer(context_length=77)(TEXTS)
    x = state["token_embedding.weight"][tokens] + state["positional_embedding"]
    mask = torch.full((77, 77), -math.inf, dtype=torch.float64).triu(1)
    for block in range(layers):
        own = {name.removeprefix(f"resblocks.{block}."): value for name, value in state.items()}
        q, k, v = F.linear(layer(x, own, "ln_1", 1e-12), own["attn.in_proj_weight"], own["attn.in_proj_bias"]).chunk(
            3, -1
        )
        heads = max(1, q.shape[-1] // 64)
        x = x + F.linear(attended(q, k, v, heads, mask), own["attn.out_proj.weight"], own["attn.out_proj.bias"])
        inner = F.linear(layer(x, own, "ln_2", 1e-12), own["mlp.c_fc.weight"], own["mlp.c_fc.bias"])
        inner = inner * torch.sigmoid(1.702 * inner)
        x = x + F.linear(inner, own["mlp.c_proj.weight"], own["mlp.c_proj.bias"])
    x = layer(x, state, "ln_final", 1e-12)
    return x[torch.arange(len(tokens)), tokens.argmax(-1)] @ state["projection"]


def swin() -> tuple[nn.Module, State]:
    """A Swin transformer of timm's, and its weights under the names of the first release."""
    from timm.models.swin_transformer import SwinTransformer

    torch.manual_seed(0)
    model = SwinTransformer(img_size=56, embed_dim=8, depths=(2, 2), num_heads=(1, 2), window_size=7, num_classes=0)
    nn.init.normal_(model.norm.bias)
    old: State = {}
    for name, value in model.eval().state_dict().items():
        # there a stage ends with what makes the next one smaller, here the next one begins with it
        old[name.replace("layers.1.downsample", "layers.0.downsample")] = value
    old["layers.0.blocks.1.attn_mask"] = torch.zeros(4, 49, 49)
    old["layers.0.blocks.0.attn.relative_position_index"] = torch.zeros(49, 49)
    return model, old


@pytest.mark.parametrize(
    ("source", "image", "text", "matrices", "wrapped"),
    [
        ("unicl", "image_encoder.", "text_encoder.", ("image_projection", "text_projection"), True),
        ("unicl", "visual.", "text.", ("vision_projection", "text_projection"), True),
        ("klite", "visual.", "text.", ("vision_projection", "text_projection"), False),
        ("klite", "image_encoder.", "lang_encoder.", ("image_projection", "lang_projection"), False),
    ],
)
def test_pictures_and_texts_meet_as_unicl_defines_it(
    source: str, image: str, text: str, matrices: tuple[str, str], wrapped: bool, tmp_path: Path
) -> None:
    model, old = swin()
    texts = text_state(16, 2, 6)
    projection = torch.randn(16, 6, generator=torch.Generator().manual_seed(5))
    state: dict[str, Any] = {
        **{f"{image}{name}": value for name, value in old.items()},
        **{f"{text}{name}": value for name, value in texts.items() if name != "projection"},
        matrices[0]: projection, matrices[1]: texts["projection"], "logit_scale": torch.tensor(2.0),
    }  # fmt: skip
    torch.save({"model": state} if wrapped else state, tmp_path / "model.pt")
    encoder = load_encoder(f"{source}:{tmp_path / 'model.pt'}")
    assert encoder.image_size == 56
    assert encoder.logit_scale == pytest.approx(math.exp(2.0))
    images = torch.randint(256, (2, 3, 56, 56), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        pooled = model(encoder.prepare(images))
    assert torch.allclose(encoder.encode_image(images), pooled @ projection, atol=1e-5)
    assert torch.allclose(encoder.encode_backbone(images), pooled, atol=1e-5)
    expected = text_features(texts, 2)
    assert torch.allclose(encoder.encode_text(TEXTS).double(), expected, atol=1e-4 * float(expected.abs().max()))
    assert encoder.describe()["taxonomy"]["knowledge"] == ("yes" if source == "klite" else "no")


class Opener:
    """An object in a checkpoint."""


def test_what_is_no_checkpoint_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "file.pth"
    with pytest.raises(EncoderError, match=r"no file .*nowhere.pth; expected a checkpoint of cae"):
        load_encoder(f"cae:{tmp_path / 'nowhere.pth'}")
    path.write_bytes(b"text")
    with pytest.raises(EncoderError, match="is not a checkpoint of tensors"):
        load_encoder(f"unicl:{path}")
    torch.save({"model": Opener()}, path)
    with pytest.raises(EncoderError, match="keep its weights alone"):
        load_encoder(f"klite:{path}")
    moco(path)
    with pytest.raises(EncoderError, match="does not hold the weights of cae"):
        load_encoder(f"cae:{path}")
    with pytest.raises(EncoderError, match="does not hold the weights of unicl"):
        load_encoder(f"unicl:{path}")
    torch.save({"epoch": 3}, path)
    with pytest.raises(EncoderError, match="holds no weights"):
        load_encoder(f"moco-v3:{path}")
