"""Patch features of every variant and library against loops in float64; what cannot be opened, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vision_features.encoders import load_encoder
from vision_features.encoders.encoder import Encoder, PatchFeatures
from vision_features.encoders.own import adopt
from vision_features.encoders.patch_features import VARIANTS, find_variant, neighbourhood, proxy_weights
from vision_features.encoders.positions import interpolated, patch_side, taking
from vision_features.encoders.spec import EncoderSpec
from vision_features.encoders.surgery import Surgery
from vision_features.errors import EncoderError, MissingCapabilityError
from wary_files.errors import UsageError

from ._slow_patches import gathered

PLAIN = [name for name, variant in VARIANTS.items() if not variant.proxy]


class Opened(NamedTuple):
    """A tower in parts, written down by hand for each library."""

    encoder: Encoder
    before: Callable[[Tensor], Tensor]  # prepared images to what the last block is given
    project: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]  # to queries, keys and values [n, t, w]
    out: nn.Module
    rest: Callable[[Tensor, Tensor], Tensor]  # tokens and attention to what the block gives
    end: Callable[[Tensor], Tensor]  # one token alone [m, w] to features
    prefix: int


def open_clip_tower() -> Opened:
    import open_clip

    torch.manual_seed(0)
    model: Any = open_clip.model.CLIP(
        embed_dim=12,
        vision_cfg=open_clip.CLIPVisionCfg(layers=3, width=24, head_width=8, patch_size=8, image_size=24),
        text_cfg=open_clip.CLIPTextCfg(context_length=8, vocab_size=20, width=16, heads=2, layers=5),
    )
    from vision_features.encoders.open_clip_models import from_clip

    visual = model.visual
    block = visual.transformer.resblocks[-1]

    def before(images: Tensor) -> Tensor:
        tokens = visual._embeds(images)
        for part in visual.transformer.resblocks[:-1]:
            tokens = part(tokens)
        return tokens

    def project(tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = F.linear(block.ln_1(tokens), block.attn.in_proj_weight, block.attn.in_proj_bias).chunk(3, dim=-1)
        return q, k, v

    def rest(tokens: Tensor, attended: Tensor) -> Tensor:
        middle = tokens + attended
        return middle + block.mlp(block.ln_2(middle))

    encoder = from_clip(model, lambda texts: torch.zeros(len(texts), 8, dtype=torch.long), "tiny-open-clip")
    return Opened(encoder, before, project, block.attn.out_proj, rest, lambda t: visual.ln_post(t) @ visual.proj, 1)


def timm_tower(pool: str, scale: float | None = None) -> Opened:
    import timm

    from vision_features.encoders.timm_models import without_classifier

    torch.manual_seed(1)
    model: Any = timm.models.VisionTransformer(
        img_size=24, patch_size=8, embed_dim=24, depth=2, num_heads=3, global_pool=pool, init_values=scale
    )
    model.pretrained_cfg = {"input_size": (3, 24, 24), "mean": (0.5,) * 3, "std": (0.5,) * 3}
    encoder = without_classifier(EncoderSpec("tiny-timm", "timm", "tiny", None), model)
    block = model.blocks[-1]

    def before(images: Tensor) -> Tensor:
        tokens = model.norm_pre(model._pos_embed(model.patch_embed(images)))
        for part in model.blocks[:-1]:
            tokens = part(tokens)
        return tokens

    def project(tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = block.attn.qkv(block.norm1(tokens)).chunk(3, dim=-1)
        return q, k, v

    def rest(tokens: Tensor, attended: Tensor) -> Tensor:
        middle = tokens + block.ls1(attended)
        return middle + block.ls2(block.mlp(block.norm2(middle)))

    def end(tokens: Tensor) -> Tensor:
        if pool == "map":
            return model.fc_norm(model.attn_pool(model.norm(tokens)[:, None]))
        return model.fc_norm(model.norm(tokens))

    return Opened(encoder, before, project, block.attn.proj, rest, end, 1)


def transformers_tower(kind: str) -> Opened:
    import transformers

    torch.manual_seed(2)
    vision = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 3}
    vision |= {"image_size": 24, "patch_size": 8}
    text = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 4, "num_attention_heads": 3}
    name = {"clip": "CLIP", "siglip": "Siglip"}[kind]
    config = getattr(transformers, f"{name}Config")(vision_config=vision, text_config=text)
    model: Any = getattr(transformers, f"{name}Model")(config).eval()
    tower = model.vision_model
    block = tower.encoder.layers[-1]

    def before(images: Tensor) -> Tensor:
        tokens = tower.embeddings(images)
        tokens = tower.pre_layrnorm(tokens) if kind == "clip" else tokens
        for part in tower.encoder.layers[:-1]:
            output = part(tokens, None)
            tokens = output[0] if isinstance(output, tuple) else output
        return tokens

    def project(tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        normed, own = block.layer_norm1(tokens), block.self_attn
        return own.q_proj(normed), own.k_proj(normed), own.v_proj(normed)

    def rest(tokens: Tensor, attended: Tensor) -> Tensor:
        middle = tokens + attended
        return middle + block.mlp(block.layer_norm2(middle))

    def end(tokens: Tensor) -> Tensor:
        if kind == "siglip":
            return tower.head(tower.post_layernorm(tokens)[:, None])
        return model.visual_projection(tower.post_layernorm(tokens))

    def image(images: Tensor) -> Tensor:
        outputs = model.get_image_features(pixel_values=images)
        return outputs if isinstance(outputs, Tensor) else outputs.pooler_output

    def patches(images: Tensor) -> PatchFeatures:
        states = tower(pixel_values=images).last_hidden_state
        return PatchFeatures(states[:, -9:], (3, 3))

    encoder = Encoder(f"tiny-{kind}", 24, image, patches=patches, module=model)
    return Opened(encoder, before, project, block.self_attn.out_proj, rest, end, int(kind == "clip"))


class Own(nn.Module):
    """An encoder of torch's own layers, whose image is the mean of its patches."""

    image_size = 24

    def __init__(self, *, first: bool = True) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 8, 8)
        layers = [nn.TransformerEncoderLayer(24, 3, 32, 0.0, "gelu", batch_first=first, norm_first=True) for _ in "ab"]
        self.layers = nn.ModuleList(layers)
        self.first = first
        self.head = nn.Linear(24, 12)

    def embed(self, images: Tensor) -> Tensor:
        tokens = self.stem(images).flatten(2).transpose(1, 2)
        return tokens if self.first else tokens.transpose(0, 1)

    def encode_image(self, images: Tensor) -> Tensor:
        tokens = self.embed(images)
        for layer in self.layers:
            tokens = layer(tokens)
        return self.head(tokens.mean(dim=1 if self.first else 0))


def own_tower(*, first: bool) -> Opened:
    torch.manual_seed(3)
    model = Own(first=first).eval()
    layer: Any = model.layers[-1]

    def before(images: Tensor) -> Tensor:
        tokens = model.layers[0](model.embed(images))
        return tokens if first else tokens.transpose(0, 1)

    def project(tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        own = layer.self_attn
        q, k, v = F.linear(layer.norm1(tokens), own.in_proj_weight, own.in_proj_bias).chunk(3, dim=-1)
        return q, k, v

    def rest(tokens: Tensor, attended: Tensor) -> Tensor:
        middle = tokens + attended
        return middle + layer.linear2(layer.activation(layer.linear1(layer.norm2(middle))))

    return Opened(adopt(model, "own"), before, project, layer.self_attn.out_proj, rest, model.head, 0)


TOWERS: dict[str, Callable[[], Opened]] = {
    "open_clip, class token": open_clip_tower,
    "timm, class token": lambda: timm_tower("token"),
    "timm, mean": lambda: timm_tower("avg", 0.3),
    "timm, attention": lambda: timm_tower("map"),
    "transformers, class token": lambda: transformers_tower("clip"),
    "transformers, attention": lambda: transformers_tower("siglip"),
    "own, mean": lambda: own_tower(first=True),
    "own, tokens first": lambda: own_tower(first=False),
}


def by_hand(opened: Opened, images: Tensor, name: str, other: np.ndarray | None = None) -> np.ndarray:
    """Patch features of one variant by loops, in float64."""
    variant, heads = find_variant(name), 3
    encoder = opened.encoder
    assert encoder.module is not None
    encoder.module.double()
    try:
        with torch.no_grad():
            tokens = opened.before(images.double())
            projected = [part.numpy() for part in opened.project(tokens)]
            attended = []
            for row in range(len(images)):
                q, k, v = (np.split(part[row], heads, axis=1) for part in projected)
                rows = None if other is None else other[row]
                own = [gathered(name, *parts, (3, 3), opened.prefix, rows) for parts in zip(q, k, v, strict=True)]
                attended.append(np.concatenate(own, axis=1))
            output = opened.out(torch.from_numpy(np.stack(attended)))
            if variant.whole:
                final = opened.rest(tokens, output)
            else:
                scale = getattr(getattr(encoder.module, "blocks", [None])[-1], "ls1", nn.Identity())
                final = scale(output)
            places = final if name == "proxyclip" else final[:, opened.prefix :]
            return opened.end(places.flatten(0, 1)).unflatten(0, places.shape[:2]).numpy()
    finally:
        encoder.module.float()


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("tower", TOWERS)
def test_each_variant_is_its_slow_definition(tower: str, name: str) -> None:
    opened = TOWERS[tower]()
    images = torch.randn(2, 3, 24, 24, generator=torch.Generator().manual_seed(4))
    encoder = opened.encoder
    surgery = Surgery(encoder)
    given = surgery.encode(images, find_variant(name))
    expected = by_hand(opened, images, name)
    assert given.grid == (3, 3)
    assert given.tokens.dtype == torch.float32
    assert np.abs(given.tokens.numpy() - expected).max() < 2e-6 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("tower", TOWERS)
def test_attention_by_a_second_encoder_is_its_slow_definition(tower: str) -> None:
    opened = TOWERS[tower]()
    images = torch.randn(2, 3, 24, 24, generator=torch.Generator().manual_seed(5))
    other = torch.randn(2, 9, 6, generator=torch.Generator().manual_seed(6)) + 0.5
    given = Surgery(opened.encoder).encode(images, find_variant("proxyclip"), PatchFeatures(other, (3, 3)))
    expected = by_hand(opened, images, "proxyclip", other.double().numpy())
    assert given.tokens.shape[:2] == (2, 9)
    assert np.abs(given.tokens.numpy() - expected).max() < 5e-6 * max(1.0, np.abs(expected).max())


def test_a_finer_second_encoder_gives_its_own_grid() -> None:
    encoder = load_encoder("micro-clip")
    other = PatchFeatures(torch.randn(2, 16 * 16, 5), (16, 16))
    given = Surgery(encoder).encode(torch.randn(2, 3, 64, 64), find_variant("proxyclip"), other)
    assert given.grid == (16, 16)
    assert given.tokens.shape == (2, 256, 128)


def test_weights_of_a_second_encoder_do_not_depend_on_the_batch() -> None:
    features = torch.randn(3, 9, 4, generator=torch.Generator().manual_seed(0))
    together = proxy_weights(features)
    alone = torch.cat([proxy_weights(row[None]) for row in features])
    torch.testing.assert_close(together, alone)
    torch.testing.assert_close(together.sum(-1), torch.ones(3, 9))


def test_a_window_is_1_at_each_patch_and_0_before_the_patches() -> None:
    window = neighbourhood((2, 3), 1)
    assert torch.equal(window.diagonal(), torch.tensor([0.0, 1, 1, 1, 1, 1, 1]))
    assert float(window[0].sum() + window[:, 0].sum()) == 0
    assert float(window[1, 6]) == pytest.approx(float(torch.exp(torch.tensor(-(1 + 4) / 50))))


def test_the_model_is_as_it_was_and_gives_what_it_gave() -> None:
    opened = timm_tower("avg")
    encoder, images = opened.encoder, torch.randn(1, 3, 24, 24)
    module = encoder.module
    assert module is not None
    before, fingerprint = encoder.image(images), encoder.fingerprint()
    fast = torch.backends.mha.get_fastpath_enabled()
    surgery = Surgery(encoder)
    surgery.encode(images, find_variant("sclip"))
    with pytest.raises(EncoderError):
        surgery.encode(torch.randn(1, 3, 20, 20), find_variant("sclip"))
    assert torch.equal(encoder.image(images), before)
    assert encoder.fingerprint() == fingerprint
    assert not any("forward" in part.__dict__ for part in module.modules())
    assert torch.backends.mha.get_fastpath_enabled() is fast


class Rotary(Own):
    """Own layers, the last of which adds something to its queries that no projection shows."""

    def __init__(self) -> None:
        super().__init__()
        own: Any = self.layers[-1].self_attn
        plain = own.forward
        own.forward = lambda q, k, v, **named: plain(q.flip(1), k, v, **named)


def test_attention_that_does_more_is_refused() -> None:
    with pytest.raises(MissingCapabilityError, match=r"MultiheadAttention is not softmax\(q k\) v alone"):
        Surgery(adopt(Rotary(), "rotary"))


def test_what_cannot_be_opened_says_what_it_lacks() -> None:
    pixels = adopt(nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4)), "flat")
    pixels.image_size = 8
    with pytest.raises(MissingCapabilityError, match="'flat' has no blocks with attention in its image side"):
        Surgery(pixels)
    with pytest.raises(MissingCapabilityError, match="shows no module"):
        Surgery(Encoder("function", 8, lambda images: images.mean(dim=(2, 3))))
    with pytest.raises(UsageError, match="nearest: maskclip"):
        find_variant("maskclop")
    with pytest.raises(EncoderError, match="'proxyclip' need a second encoder"):
        Surgery(load_encoder("micro-clip")).encode(torch.randn(1, 3, 64, 64), find_variant("proxyclip"))


@pytest.mark.parametrize("tower", [open_clip_tower, lambda: timm_tower("avg"), lambda: transformers_tower("clip")])
def test_images_of_another_size_have_interpolated_positions(tower: Callable[[], Opened]) -> None:
    encoder = tower().encoder
    images, fingerprint = torch.randn(1, 3, 32, 48), encoder.fingerprint()
    with pytest.raises((EncoderError, RuntimeError, AssertionError, ValueError)):
        encoder.image(images)
    with taking(encoder, (32, 48)):
        assert encoder.image_size == (32, 48)
        surgery = Surgery(encoder)
        assert surgery.encode(images, find_variant("naclip")).grid == (4, 6)
    assert encoder.image_size == 24
    assert encoder.fingerprint() == fingerprint
    assert encoder.image(torch.randn(1, 3, 24, 24)).shape[0] == 1


def test_positions_of_the_same_grid_stay_and_prefixes_are_kept() -> None:
    positions = torch.randn(1, 10, 4)
    torch.testing.assert_close(interpolated(positions, (3, 3), (3, 3)), positions)
    assert torch.equal(interpolated(positions, (3, 3), (6, 5))[:, 0], positions[:, 0])
    assert interpolated(positions[0], (3, 3), (6, 5)).shape == (31, 4)


def test_sizes_that_cannot_be_taken_say_why() -> None:
    encoder = load_encoder("micro-clip")
    assert patch_side(encoder) == 8
    with (
        pytest.raises(EncoderError, match="of 8 pixels; an image of 60 x 64 is no multiple"),
        taking(encoder, (60, 64)),
    ):
        pass
    own = own_tower(first=True).encoder
    own.patches = lambda images: PatchFeatures(images.new_zeros(len(images), 9, 4), (3, 3))
    with pytest.raises(EncoderError, match="shows no learnt positions"), taking(own, 48):
        pass
