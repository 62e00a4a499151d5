"""Every kind of encoder, with random weights saved to disk and read again; and every way in which one can be wrong."""

from __future__ import annotations

import importlib
import inspect
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import constants as hub_settings
from PIL import Image

from gate_data.hub.reaching import SECONDS
from vision_features.encoders import load_encoder, loading
from vision_features.encoders import spec as spec_module
from vision_features.encoders.code import digest_of_classes
from vision_features.encoders.devices import device_in
from vision_features.encoders.encoder import CLIP_MEAN, CLIP_STD, Encoder
from vision_features.encoders.loading import device_for
from vision_features.encoders.own import adopt
from vision_features.encoders.spec import agree, encoder_forms, parse_spec
from vision_features.encoders.towers import DualEncoder
from vision_features.errors import EncoderError, MissingCapabilityError
from vision_features.features import FeatureCache, encode_pictures
from wary_files.errors import DataError, UsageError

IMAGES = torch.randint(0, 256, (3, 3, 48, 48), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def features(encoder: Encoder) -> torch.Tensor:
    return encoder.encode_image(IMAGES)


def test_every_form_is_parsed_and_loaded_by_its_row_alone() -> None:
    assert set(loading._LOADERS) == set(spec_module._FORMS) - {"tuned"}  # load_encoder opens its folder
    for source, (form, _) in spec_module._FORMS.items():
        text = form.partition("[")[0].replace("0|1|2", "0") if source != "module" else "my_lab.models:make"
        assert parse_spec(text).source == source, form


@pytest.mark.parametrize(
    ("text", "source", "name", "weights"),
    [
        ("micro-clip", "micro-clip", "", None),
        ("micro-clip/random", "micro-clip", "", "random"),
        ("micro-dense", "micro-dense", "", None),
        ("micro-dense/random:7", "micro-dense", "", "random:7"),
        ("open_clip:ViT-B-32/laion2b_s34b_b79k", "open_clip", "ViT-B-32", "laion2b_s34b_b79k"),
        ("open_clip:ViT-B-32//data/w.pt", "open_clip", "ViT-B-32", "/data/w.pt"),
        ("timm:vit_tiny_patch16_224.augreg_in21k", "timm", "vit_tiny_patch16_224.augreg_in21k", None),
        ("hf:google/vit-base-patch16-224", "hf", "google/vit-base-patch16-224", None),
        ("lab.models.tiny:make", "module", "lab.models.tiny:make", None),
    ],
)
def test_specs_are_read(text: str, source: str, name: str, weights: str | None) -> None:
    spec = parse_spec(text)
    assert (spec.source, spec.name, spec.weights) == (source, name, weights)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("micro-clop", "nearest: micro-clip"),
        ("micro-dens", "nearest: micro-dense"),
        ("micro-densely", "unknown encoder"),
        ("timm:", "names no model"),
        ("hf:", "names nothing"),
        ("lab.models:", "unknown encoder"),
        ("", "unknown encoder"),
        ("runs/gone", "no such spec, and the folder of that name is not there"),
        (
            "openai/clip-vit-base-patch32",
            "is not there; a model of Hugging Face's hub is hf:openai/clip-vit-base-patch32",
        ),
        ("ViT-B-32", "open_clip has a model of that name: open_clip:ViT-B-32/WEIGHTS"),
        ("ViT-B-32/openai", "open_clip has a model of that name: open_clip:ViT-B-32/openai"),
        ("resnet18", "timm has a model of that name: timm:resnet18"),
        ("/", "no such spec, and the folder of that name holds no trained encoder"),
        ("timm:@224", "names no model"),
        ("timm:test_vit@/random", "whole number of pixels from 16 to 4096 after '@'"),
        ("timm:test_vit@1k/random", "whole number of pixels"),
        ("timm:test_vit@15/random", "whole number of pixels"),
        ("timm:test_vit@-32/random", "whole number of pixels"),
        ("timm:test_vit@40960/random", "whole number of pixels"),
        ("timm:test_vit@٣٢/random", "whole number of pixels"),
    ],
)
def test_wrong_specs_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_spec(text)


def test_every_form_is_listed() -> None:
    assert [form.split(":")[0].split("[")[0] for form, _ in encoder_forms()][:6] == [
        "micro-clip",
        "micro-dense",
        "open_clip",
        "lite",
        "timm",
        "hf",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("timm:resnet19/random", "nearest: .*resnet1"),
        ("open_clip:ViT-B-33/random", "nearest: .*ViT-B-3"),
        ("open_clip:ViT-B-32", "add /random, /FILE or a tag"),
        ("open_clip:ViT-B-32/laion3b", "nearest"),
        ("timm:test_vit/nowhere.safetensors", "no file nowhere.safetensors"),
        ("timm:test_vit/random:x", "whole number below .*, not 'x'"),
        ("timm:test_vit@200/random", "200 pixels are not divided by patches of 16; the nearest sizes are 192 and 208"),
        ("timm:levit_128s@256/random", "takes images of 224 x 224 pixels, and no others"),
        ("micro-clip/pretrained", "micro-clip/random"),
        ("micro-dense/pretrained", "micro-dense/random"),
        ("hf:./nowhere", "no directory nowhere"),
        ("no.such.module:make", "cannot import 'no.such.module'"),
    ],
)
def test_what_does_not_exist_is_named(text: str, message: str) -> None:
    if text.startswith("hf:"):
        pytest.importorskip("transformers")
    with pytest.raises(UsageError, match=message):
        load_encoder(text)


def test_random_weights_depend_on_their_seed_alone() -> None:
    before = torch.random.get_rng_state()
    first, again, other = (load_encoder(f"timm:test_vit/random:{seed}") for seed in (1, 1, 2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert first.fingerprint() == again.fingerprint() != other.fingerprint()
    assert torch.equal(features(first), features(again))


@pytest.mark.parametrize(("name", "grid"), [("test_vit", (4, 4)), ("test_resnet", (2, 2))])
def test_timm_takes_pictures_of_the_size_that_the_spec_says(name: str, grid: tuple[int, int]) -> None:
    own, smaller = (load_encoder(f"timm:{name}{size}/random:1") for size in ("", "@64"))
    assert (own.image_size, smaller.image_size) == (160, 64)
    assert smaller.encode_patches(IMAGES).grid == grid
    assert features(own).shape == features(smaller).shape
    assert not torch.allclose(features(own), features(smaller))
    assert not agree(own.outputs, smaller.outputs)
    assert (smaller.describe()["spec"], smaller.describe()["image_size"]) == (f"timm:{name}@64/random:1", 64)


def test_places_that_were_learnt_are_interpolated(tmp_path: Path) -> None:
    import timm
    from safetensors.torch import save_file

    model = timm.create_model("test_vit").requires_grad_(False)
    model.pos_embed[0, 1:] = torch.arange(10.0).repeat_interleave(10)[:, None]  # each place says its row
    save_file(model.state_dict(), tmp_path / "w@1.safetensors")
    module = load_encoder(f"timm:test_vit@320/{tmp_path}/w@1.safetensors").module
    assert module is not None
    rows = module.get_parameter("pos_embed")[0, 1:].reshape(20, 20, -1)
    halves = torch.arange(20.0) / 2 - 0.25
    assert torch.allclose(rows[4:-4], halves[4:-4, None, None], atol=1e-4)
    same = load_encoder(f"timm:test_vit@160/{tmp_path}/w@1.safetensors")
    assert same.fingerprint() == load_encoder(f"timm:test_vit/{tmp_path}/w@1.safetensors").fingerprint()


def test_timm_from_a_file_equals_the_model_that_was_saved(tmp_path: Path) -> None:
    import timm
    from safetensors.torch import save_file

    model = timm.create_model("test_vit", num_classes=7).eval()
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    encoder = load_encoder(f"timm:test_vit/{tmp_path}/w.safetensors")
    with torch.inference_mode():
        expected = model.forward_head(model.forward_features(encoder.prepare(IMAGES)), pre_logits=True)
    # Its weights lie elsewhere in memory, and kernels of some processors then add in another order.
    torch.testing.assert_close(features(encoder), expected)
    assert encoder.encode_patches(IMAGES).grid == (10, 10)
    with pytest.raises(MissingCapabilityError, match="no text side"):
        encoder.encode_text(["a star"])


def test_timm_refuses_weights_of_another_model(tmp_path: Path) -> None:
    import timm
    from safetensors.torch import save_file

    save_file(timm.create_model("test_resnet").state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(EncoderError, match="does not load"):
        load_encoder(f"timm:test_vit/{tmp_path}/w.safetensors")


def test_weights_in_a_file_that_may_need_quickgelu_are_warned_of(tmp_path: Path) -> None:
    import json
    import warnings

    import open_clip

    config = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
    }
    for name, quick in (("tiny-two", False), ("tiny-two-quickgelu", True), ("tiny-alone", False)):
        (tmp_path / f"{name}.json").write_text(json.dumps({**config, **({"quick_gelu": True} if quick else {})}))
        open_clip.add_model_config(tmp_path / f"{name}.json")
    torch.save(open_clip.create_model("tiny-two").state_dict(), tmp_path / "w.pt")
    with pytest.warns(UserWarning, match="nothing next to it says") as caught:
        plain = load_encoder(f"open_clip:tiny-two/{tmp_path}/w.pt")
    assert str(caught[0].message).endswith(f"open_clip:tiny-two-quickgelu/{tmp_path}/w.pt")
    with pytest.warns(UserWarning, match=f"open_clip:tiny-two-quickgelu@64/{tmp_path}"):
        load_encoder(f"open_clip:tiny-two@64/{tmp_path}/w.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        quick = load_encoder(f"open_clip:tiny-two-quickgelu/{tmp_path}/w.pt")
        load_encoder(f"open_clip:tiny-alone/{tmp_path}/w.pt")
        load_encoder("open_clip:tiny-two/random")
    assert not torch.allclose(features(plain), features(quick))  # what the warning is of
    beside = tmp_path / "open_clip_config.json"
    beside.write_text(json.dumps({"model_cfg": {**config, "quick_gelu": True}}))
    with pytest.warns(UserWarning, match="but the open_clip_config.json next to it says QuickGELU"):
        load_encoder(f"open_clip:tiny-two/{tmp_path}/w.pt")
    beside.write_text(json.dumps({"model_cfg": {**config, "quick_gelu": False}}))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        load_encoder(f"open_clip:tiny-two/{tmp_path}/w.pt")


def test_weights_in_a_file_of_another_model_are_refused_with_what_lacks(tmp_path: Path) -> None:
    import json

    import open_clip

    config = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
    }
    (tmp_path / "tiny-short.json").write_text(json.dumps(config))
    open_clip.add_model_config(tmp_path / "tiny-short.json")
    weights = open_clip.create_model("tiny-short").state_dict()
    torch.save({name: value for name, value in weights.items() if name != "visual.proj"}, tmp_path / "w.pt")
    with pytest.raises(EncoderError, match=r"for CLIP: Missing key\(s\) in state_dict: .visual.proj."):
        load_encoder(f"open_clip:tiny-short/{tmp_path}/w.pt")
    torch.save({}, tmp_path / "w.pt")
    with pytest.raises(EncoderError, match=r"does not load: StopIteration$"):
        load_encoder(f"open_clip:tiny-short/{tmp_path}/w.pt")


def test_images_for_weights_in_a_file_are_prepared_as_for_the_published_weights_or_as_the_file_next_to_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json
    import warnings

    import open_clip
    from open_clip import pretrained

    config = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
    }
    half = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5), "interpolation": "bicubic", "resize_mode": "squash"}
    openai = {"mean": CLIP_MEAN, "std": CLIP_STD, "interpolation": "bicubic", "resize_mode": "shortest"}
    published = {"tiny-half": {"a": half, "b": half}, "tiny-mixed": {"a": openai, "b": half}, "tiny-openai": {"a": {}}}
    for name in (*published, "tiny-unpublished"):
        (tmp_path / f"{name}.json").write_text(json.dumps(config))
        open_clip.add_model_config(tmp_path / f"{name}.json")
    for name, tags in published.items():
        monkeypatch.setitem(pretrained._PRETRAINED, name, tags)
    torch.save(open_clip.create_model("tiny-half").state_dict(), tmp_path / "w.pt")
    with pytest.warns(UserWarning, match="mean .0.5, 0.5, 0.5.*as for all its published weights"):
        encoder = load_encoder(f"open_clip:tiny-half/{tmp_path}/w.pt")
    assert (encoder.mean, encoder.std) == ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    wide = Image.fromarray(np.repeat(np.arange(0, 256, 2, dtype=np.uint8), 3).reshape(1, 128, 3).repeat(64, axis=0))
    assert encoder.transform is not None
    assert np.ptp(encoder.transform(wide)) > 200  # squashed: both ends of the image are there
    with pytest.warns(UserWarning, match="as for some of its published weights, but not 'b'"):
        encoder = load_encoder(f"open_clip:tiny-mixed/{tmp_path}/w.pt")
    assert encoder.mean == CLIP_MEAN
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for name in ("tiny-openai", "tiny-unpublished"):
            encoder = load_encoder(f"open_clip:{name}/{tmp_path}/w.pt")
            assert (encoder.mean, encoder.std) == (CLIP_MEAN, CLIP_STD)
            assert encoder.transform is not None
            assert np.ptp(encoder.transform(wide)) < 200  # its middle alone
        beside = tmp_path / "open_clip_config.json"
        stated = {"mean": [0, 0, 0], "std": [1, 1, 1], "interpolation": "bilinear", "resize_mode": "squash"}
        beside.write_text(json.dumps({"model_cfg": config, "preprocess_cfg": stated}))
        for name in ("tiny-half", "tiny-mixed", "tiny-openai"):
            encoder = load_encoder(f"open_clip:{name}/{tmp_path}/w.pt")
            assert (encoder.mean, encoder.std) == ((0, 0, 0), (1, 1, 1))
    for field, value in (("std", [1, 0, 1]), ("mean", [0.5]), ("mean", "0.5"), ("resize_mode", "zoom")):
        beside.write_text(json.dumps({"preprocess_cfg": {**stated, field: value}}))
        with pytest.raises(EncoderError, match=f"open_clip_config.json: preprocess_cfg.{field} is "):
            load_encoder(f"open_clip:tiny-openai/{tmp_path}/w.pt")


@pytest.mark.parametrize(
    ("part", "message"), [("mean", "mean .0.48.*, not .0.5, 0.5, 0.5."), ("crop", "the transform")]
)
def test_a_head_of_images_that_were_prepared_otherwise_for_a_file_of_weights_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, message: str
) -> None:
    """As such heads were saved when open_clip's default was taken for every file."""
    import json

    import open_clip

    from vision_adapters.heads import fixed_head
    from vision_features.encoders import open_clip_models
    from vision_features.heads.saved import KeptHead, load_head, save_head

    config = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
    }
    (tmp_path / "tiny-prepared.json").write_text(json.dumps(config))
    open_clip.add_model_config(tmp_path / "tiny-prepared.json")
    torch.save(open_clip.create_model("tiny-prepared").state_dict(), tmp_path / "w.pt")
    stated = {"mean": [0.5] * 3, "std": [0.5] * 3} if part == "mean" else {"resize_mode": "squash"}
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"preprocess_cfg": stated}))
    spec = f"open_clip:tiny-prepared/{tmp_path}/w.pt"
    with monkeypatch.context() as patched:
        patched.setattr(open_clip_models, "_preparation_of_file", lambda *_: {})
        encoder = load_encoder(spec)
    assert encoder.mean == CLIP_MEAN
    assert encoder.transform is not None
    head = KeptHead(fixed_head(torch.rand(2, 16), torch.rand(2), "raw"), "projected", ("a {}.",))
    about = {"classes": ["cat", "dog"], "transform": encoder.transform.description}
    save_head(head, encoder, tmp_path / "head", about, start=encoder.fingerprint())
    with pytest.raises(EncoderError, match=rf"was adapted on images with .*{message}.*: probabilities would differ"):
        load_head(tmp_path / "head", encoder=spec, device="cpu")


def test_open_clip_from_a_file_equals_the_model_that_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    import open_clip

    config = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
    }
    (tmp_path / "tiny-clip.json").write_text(json.dumps(config))
    open_clip.add_model_config(tmp_path / "tiny-clip.json")
    model = open_clip.create_model("tiny-clip").eval()
    torch.save(model.state_dict(), tmp_path / "w.pt")
    encoder = load_encoder(f"open_clip:tiny-clip/{tmp_path}/w.pt")
    texts = ["a star", "two red circles"]
    with torch.inference_mode():
        expected = model.encode_image(encoder.prepare(IMAGES))
        words = model.encode_text(open_clip.get_tokenizer("tiny-clip")(texts))
    assert torch.equal(features(encoder), expected)
    torch.testing.assert_close(encoder.encode_text(texts), words)
    assert encoder.encode_patches(IMAGES).tokens.shape == (3, 16, 32)
    tokens = encoder.encode_text_tokens(texts)
    assert tokens.tokens.shape == (2, 77, 32)
    assert tokens.mask.sum(dim=1).tolist() == [4, 5]  # start, words, end
    assert encoder.encode_text_tokens(["star!(red)"]).mask.sum() == 7  # the token of "!" is that of padding


def test_hugging_face_dual_encoder_from_a_directory(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    side = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    config = transformers.CLIPConfig(
        text_config={**side, **ends, "vocab_size": 30, "max_position_embeddings": 12},
        vision_config={**side, "image_size": 32, "patch_size": 8},
        projection_dim=16,
    )
    model = transformers.CLIPModel(config).eval()
    model.save_pretrained(tmp_path)
    _save_word_tokenizer(transformers, tmp_path)
    encoder = load_encoder(f"hf:{tmp_path}")
    with torch.inference_mode():
        image_features = model.get_image_features(pixel_values=encoder.prepare(IMAGES))
    assert torch.equal(features(encoder), getattr(image_features, "pooler_output", image_features))
    assert encoder.encode_patches(IMAGES).grid == (4, 4)
    assert encoder.encode_text(["star", "red star"]).shape == (2, 16)
    assert encoder.encode_text_tokens(["star", "red star"]).mask.sum(dim=1).tolist() == [3, 4]
    assert encoder.cut_texts(["star " * 10]) == ""
    assert "more than the 12 tokens" in encoder.cut_texts(["star " * 11])


@pytest.mark.parametrize(
    ("kind", "mean", "reason"),
    [
        ("Siglip", (0.5, 0.5, 0.5), "as published siglip models do"),
        ("CLIP", CLIP_MEAN, "as published clip models do"),
        ("Dinov2", (0.485, 0.456, 0.406), "as published dinov2 models do"),
        ("ViT", (0.5, 0.5, 0.5), "as a guess"),
    ],
)
def test_a_folder_without_an_image_processor_gets_its_familys_normalisation_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, mean: tuple[float, ...], reason: str
) -> None:
    transformers = pytest.importorskip("transformers")
    side = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    image = {**side, "image_size": 32, "patch_size": 8}
    if kind in ("Siglip", "CLIP"):
        text = {
            "vocab_size": 30,
            "max_position_embeddings": 12,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "pad_token_id": 0,
        }
        width = {"projection_size": 32} if kind == "Siglip" else {}
        config = getattr(transformers, f"{kind}Config")(text_config={**side, **text, **width}, vision_config=image)
    else:
        config = getattr(transformers, f"{kind}Config")(**image)
    getattr(transformers, f"{kind}Model")(config).save_pretrained(tmp_path)
    if kind in ("Siglip", "CLIP"):
        _save_word_tokenizer(transformers, tmp_path)
    encoder = load_encoder(f"hf:{tmp_path}")
    assert encoder.mean == mean
    (message,) = [record.getMessage() for record in caplog.records if "preprocessor_config.json" in record.getMessage()]
    assert reason in message


@pytest.mark.parametrize("names", [["input_ids"], ["input_ids", "attention_mask"]])
def test_siglip_reads_texts_without_a_mask_and_its_tokens_stay_on_the_device(tmp_path: Path, names: list[str]) -> None:
    transformers = pytest.importorskip("transformers")
    side = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    config = transformers.SiglipConfig(
        text_config={**side, **ends, "vocab_size": 30, "max_position_embeddings": 12, "projection_size": 32},
        vision_config={**side, "image_size": 32, "patch_size": 8},
    )
    torch.manual_seed(0)
    model = transformers.SiglipModel(config).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)  # so that what is attended to matters
    model.save_pretrained(tmp_path)
    _save_word_tokenizer(transformers, tmp_path, model_input_names=names)
    encoder = load_encoder(f"hf:{tmp_path}")
    published = torch.tensor([[1, 4, 2, *[0] * 9], [1, 5, 4, 2, *[0] * 8]])
    with torch.inference_mode():
        expected = model.get_text_features(input_ids=published)
    torch.testing.assert_close(
        encoder.encode_text(["star", "red star"]), getattr(expected, "pooler_output", expected), atol=1e-5, rtol=1e-5
    )
    encoder.module.to("meta")  # any device that is not the CPU
    assert encoder.text_tokens is not None
    tokens = encoder.text_tokens(["star", "red star"])
    assert tokens.mask.device == tokens.tokens.device == torch.device("meta")


def test_hugging_face_vision_model_from_a_directory(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=32, patch_size=8
    )
    model = transformers.ViTModel(config).eval()
    model.save_pretrained(tmp_path)
    encoder = load_encoder(f"hf:{tmp_path}")
    with torch.inference_mode():
        expected = model(pixel_values=encoder.prepare(IMAGES))
    assert torch.equal(features(encoder), expected.pooler_output)
    assert torch.equal(encoder.encode_patches(IMAGES).tokens, expected.last_hidden_state[:, 1:])
    assert encoder.provides() == ["patches"]


def test_a_classifiers_checkpoint_gives_the_token_that_its_classifier_reads(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=32, patch_size=8
    )
    torch.manual_seed(0)
    model = transformers.ViTForImageClassification(config).eval()
    torch.nn.init.normal_(model.classifier.weight)
    model.save_pretrained(tmp_path)
    encoder = load_encoder(f"hf:{tmp_path}")
    images = torch.rand(3, 3, 32, 32)
    with torch.no_grad():
        features = encoder.image(images)
        assert torch.allclose(model.classifier(features), model(pixel_values=images).logits, atol=1e-5)
        assert encoder.blocks is not None
        assert torch.equal(encoder.blocks(images).pooled, features)
        assert torch.equal(load_encoder(f"hf:{tmp_path}").image(images), features)


def _save_word_tokenizer(transformers: object, folder: Path, **options: object) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = {word: index for index, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", "star", "red"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    transformers.PreTrainedTokenizerFast(  # type: ignore[attr-defined]
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>", **options
    ).save_pretrained(folder)


@pytest.fixture
def silent_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A hub that takes connections and never says anything; a third of a second is waited for it, not three."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(20)
        monkeypatch.setattr(hub_settings, "ENDPOINT", f"http://127.0.0.1:{listening.getsockname()[1]}")
        monkeypatch.setattr(hub_settings, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr("gate_data.hub.reaching.SECONDS", SECONDS / 10)
        yield


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hf:mylab/vit", "there is no folder mylab/vit here, .* as hf:./FOLDER, or bring the hub's cache"),
        ("hf-text:bert", "there is no folder bert here"),
        ("timm:resnet18", "does not hold its weights; .* as timm:resnet18/FILE"),
        ("open_clip:ViT-B-32/laion2b_s34b_b79k", "does not hold its weights"),
    ],
)
def test_a_hub_that_does_not_answer_is_one_line_after_seconds(silent_hub: None, text: str, message: str) -> None:
    begun = time.monotonic()
    with pytest.raises(EncoderError, match=rf"127.0.0.1:\d+ does not answer \(.*\), and .*{message}") as error:
        load_encoder(text)
    assert time.monotonic() - begun < SECONDS + 20  # its own library's retries take 53 s, and more of a silent hub
    assert "\n" not in str(error.value)
    assert not hub_settings.HF_HUB_OFFLINE


def test_what_the_hubs_cache_holds_is_loaded_without_the_hub(
    silent_hub: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers = pytest.importorskip("transformers")
    snapshot = tmp_path / "models--mylab--vit" / "snapshots" / ("a" * 40)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=32
    )
    transformers.ViTModel(config).save_pretrained(snapshot)
    transformers.ViTImageProcessor().save_pretrained(snapshot)
    (tmp_path / "models--mylab--vit" / "refs").mkdir()
    (tmp_path / "models--mylab--vit" / "refs" / "main").write_text("a" * 40)
    monkeypatch.setattr(hub_settings, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("transformers.utils.hub.TRANSFORMERS_CACHE", str(tmp_path), raising=False)
    assert load_encoder("hf:mylab/vit").image_size == 32


def test_an_encoder_that_a_function_returns_is_called_by_its_spec(own: str) -> None:
    assert load_encoder(f"{own}:made_of_another").spec == f"{own}:made_of_another"


def test_the_size_of_an_image_tower_is_the_encoders() -> None:
    """Models of open_clip name it there; 224 would not fit their places."""
    vision = {"image_size": 16, "patch_size": 8, "width": 8, "layers": 1, "head_width": 4}
    text = {"context_length": 4, "vocab_size": 9, "width": 8, "heads": 2, "layers": 1, "eos_id": 8}
    model = DualEncoder(6, vision, text)
    assert not hasattr(model, "image_size")
    assert adopt(model, "mine").image_size == 16


def test_own_encoder(own: str) -> None:
    encoder = load_encoder(f"{own}:grid")
    assert encoder.image_size == 32
    assert features(encoder).shape == (3, 192)
    assert encoder.provides() == ["patches"]
    texts = load_encoder(f"{own}:with_texts")
    assert texts.provides() == ["patches", "text"]
    assert texts.text is not None
    assert texts.text(["a", "abc"])[:, 0].tolist() == [1.0, 3.0]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("wrong_shape", r"encode_image of two inputs gave shape \(2, 3, 32, 32\), expected \(2, d\)"),
        ("nan", r"NaN or infinity in 384 of 384 values, shape \(2, 192\)"),
        ("fails", "fails\\(\\) raised RuntimeError: no weights at hand"),
        ("missing", "has no 'missing'"),
        ("not_an_encoder", "is a int without encode_image"),
        ("whole_numbers", r"encode_image gave a tensor of torch.int64; expected one tensor of floating-point features"),
        ("pair", r"encode_image gave a tuple of 2 \(Tensor, str\); expected one tensor"),
        (
            "whole_places",
            r"encode_patches gave a tensor of torch.int64; expected one tensor of floating-point features",
        ),
        ("no_grid", r"encode_patches gave a Tensor; expected \(tokens \[n, t, d\], \(rows, columns\)\)"),
        ("number_as_grid", r"encode_patches gave the grid 4; expected \(rows, columns\)"),
        ("whole_texts", "encode_text gave a tensor of torch.int64; expected one tensor of floating-point"),
        ("no_mask", r"encode_text_tokens gave a Tensor; expected \(tokens \[n, l, e\], mask \[n, l\]\)"),
        ("list_as_mask", "encode_text_tokens gave a list as its mask"),
        ("no_height", r"image_size: expected the side of a square in pixels, or its height and width, not \(0, 32\)"),
        ("three_sides", r"image_size: expected the side .* not \(32, 32, 3\)"),
        ("size_in_words", r"image_size: expected the side .* not 'large'"),
        ("one_mean", r"mean = 0.5; expected a number for each channel"),
        ("raises", r"encode_image of images of shape \(2, 3, 32, 32\) raised KeyError: 'weights'; .* image_size"),
        ("tokens_alone", r"encode_text of 2 texts \(a list of str\) raised TypeError"),
    ],
)
def test_a_bad_encoder_is_found_before_anything_runs(own: str, function: str, message: str) -> None:
    with pytest.raises(EncoderError, match=message):
        load_encoder(f"{own}:{function}")


def test_a_mask_of_whole_numbers_is_one_of_truths(own: str) -> None:
    assert load_encoder(f"{own}:whole_mask").encode_text_tokens(["one"]).mask.dtype == torch.bool


def test_want_of_memory_stays_what_it_is() -> None:
    def full(images: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    with pytest.raises(RuntimeError, match="allocate") as raised:  # a run halves its batches for it
        Encoder("full", 32, full).encode_image(IMAGES)
    assert not isinstance(raised.value, EncoderError)


def test_a_file_in_the_place_of_its_module_is_said(own: str) -> None:
    with pytest.raises(EncoderError, match=f"name the module, not its file: {own}:"):
        load_encoder(f"{own}.py:grid")
    with pytest.raises(EncoderError, match=r"name the module, not its file: lab\.models:"):
        load_encoder("./lab/models.py:grid")


def test_a_device_that_is_not_there_is_one_line() -> None:
    with pytest.raises(UsageError, match=r"--device 'gpu' is none; expected auto, cpu, cuda"):
        device_in("gpu")
    device_count = torch.cuda.device_count()
    with pytest.raises(UsageError, match=rf"--device cuda:{device_count}: torch finds (no|{device_count}) GPU"):
        device_for(f"cuda:{device_count}")
    with pytest.raises(EncoderError, match="cannot be moved to xpu:7"):
        load_encoder("micro-clip/random", device="xpu:7")


def test_images_are_resized_and_normalised() -> None:
    batches = []

    def encode(images: torch.Tensor) -> torch.Tensor:
        batches.append(images)
        return images.flatten(2).mean(dim=2)

    class Holder:
        image_size, mean, std = 16, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
        encode_image = staticmethod(encode)

    adopt(Holder(), "x").encode_image(torch.full((2, 3, 40, 40), 255, dtype=torch.uint8))
    assert batches[0].shape == (2, 3, 16, 16)
    torch.testing.assert_close(batches[0], torch.full((2, 3, 16, 16), 2.0))


def test_one_text_is_no_list_of_texts() -> None:
    """One text was encoded letter by letter."""
    encoder = load_encoder("micro-clip/random")
    for take in (encoder.encode_text, encoder.encode_text_tokens, encoder.cut_texts):
        with pytest.raises(UsageError, match="got one text, 'a red square'; expected a list of texts"):
            take("a red square")


def test_a_spec_of_thousands_of_letters_and_counts_that_are_not_whole_are_refused() -> None:
    for spec in ("a" * 3000, "hf:" + "a" * 3000):
        with pytest.raises(UsageError, match=r"encoder '.{40}'… has 3,00\d characters; expected at most 1,000"):
            load_encoder(spec)
    images = torch.zeros(2, 3, 64, 64, dtype=torch.uint8)
    with pytest.raises(UsageError, match=r"batch_size is 1\.5; expected a whole number"):
        encode_pictures(FeatureCache(), load_encoder("micro-clip/random"), images, "pooled", "x", 1.5)  # type: ignore[arg-type]


def _as_integers(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A state whose matrices are int8 without their scale, as a quantiser for another program leaves it."""
    return {
        name: (tensor * 100).to(torch.int8) if name.endswith("weight") and tensor.ndim > 1 else tensor
        for name, tensor in state.items()
    }


@pytest.mark.parametrize("ending", ["safetensors", "pt"])
def test_weights_that_are_integers_are_refused(tmp_path: Path, ending: str) -> None:
    """PyTorch casts them without a word, and every feature is noise."""
    from safetensors.torch import save_file

    def save(state: dict[str, torch.Tensor], name: str) -> Path:
        path = tmp_path / f"{name}.{ending}"
        (save_file if ending == "safetensors" else torch.save)(_as_integers(state), path)
        return path

    timm, open_clip = pytest.importorskip("timm"), pytest.importorskip("open_clip")
    path = save(timm.create_model("test_vit", num_classes=0).state_dict(), "timm")
    with pytest.raises(DataError, match=r"timm\.\w+: \S+weight has numbers of type int8, expected floats"):
        load_encoder(f"timm:test_vit/{path}")
    path = save({"visual.proj.weight": torch.ones(4, 4)}, "clip")
    assert open_clip
    with pytest.raises(DataError, match=r"clip\.\w+: visual\.proj\.weight has numbers of type (int8|I8), expected"):
        load_encoder(f"open_clip:RN50-quickgelu/{path}")


def test_a_folder_of_integers_or_of_more_layers_is_refused(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    safetensors = pytest.importorskip("safetensors.torch")
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=32, patch_size=8
    )
    transformers.ViTModel(config).save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    state = safetensors.load_file(file)
    config.num_hidden_layers = 1
    config.save_pretrained(tmp_path)
    with pytest.raises(EncoderError, match=r"has more layers than its configuration says: \S*layers?\.1\."):
        load_encoder(f"hf:{tmp_path}")
    config.num_hidden_layers = 2
    config.save_pretrained(tmp_path)
    safetensors.save_file(_as_integers(state), tmp_path / "model_int8.safetensors")
    load_encoder(f"hf:{tmp_path}")  # a file that is not loaded says nothing
    safetensors.save_file(_as_integers(state), file, metadata={"format": "pt"})
    with pytest.raises(EncoderError, match=r"model\.safetensors: \S+weight has numbers of type I8, expected floats"):
        load_encoder(f"hf:{tmp_path}")


def test_a_file_of_classes_is_parsed_again_after_a_change_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    file, parsed, getsource = tmp_path / "parsed_once.py", [], inspect.getsource
    file.write_text("class Net:\n    width = 1\n")
    module = importlib.import_module("parsed_once")
    monkeypatch.setattr(inspect, "getsource", lambda kind: (parsed.append(kind), getsource(kind))[1])
    first = digest_of_classes(module.Net())
    assert digest_of_classes(module.Net()) == first != ""
    assert parsed == [module.Net]
    file.write_text("class Net:\n    width = 10\n")
    assert digest_of_classes(module.Net()) not in (first, "")
    assert parsed == [module.Net] * 2
