from __future__ import annotations

import json
import math
import shutil
from collections import Counter

import numpy as np
import pytest

from eqben_builder.building import build, read_records, verify
from eqben_builder.diffusion.builder import ASPECTS, KINDRED, DiffusionBuilder, prompt_pair
from eqben_builder.micro import generator_at

STEPS = 3


def vocabulary():
    """A byte-pair vocabulary in CLIP's form: letters, a few merges, and the two marks."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    tokens = [*letters, *(f"{letter}</w>" for letter in letters)]
    merges = [("t", "h"), ("th", "e</w>"), ("o", "f</w>"), ("c", "a"), ("ca", "t</w>"), ("d", "o"), ("do", "g</w>")]
    tokens += ["".join(pair) for pair in merges]
    names = {token: number for number, token in enumerate(tokens)}
    return names | {"<|startoftext|>": len(names), "<|endoftext|>": len(names) + 1}, merges


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    torch = pytest.importorskip("torch")
    diffusers = pytest.importorskip("diffusers")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("model")
    names, merges = vocabulary()
    (folder / "vocab.json").write_text(json.dumps(names))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    tokenizer = transformers.CLIPTokenizer(
        str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=77, pad_token="<|endoftext|>"
    )
    text = transformers.CLIPTextModel(
        transformers.CLIPTextConfig(
            vocab_size=len(names), hidden_size=32, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=77, bos_token_id=len(names) - 2, eos_token_id=len(names) - 1,
            pad_token_id=len(names) - 1,
        )
    )  # fmt: skip
    unet = diffusers.UNet2DConditionModel(
        block_out_channels=(8, 16), layers_per_block=1, sample_size=8, in_channels=4, out_channels=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32, attention_head_dim=2, norm_num_groups=4,
    )  # fmt: skip
    with torch.no_grad():
        # Larger weights than a fresh network's, so that what is attended to can be seen in the image.
        for name, weight in unet.named_parameters():
            if "attn2" in name and weight.ndim == 2:
                weight.mul_(8)
    vae = diffusers.AutoencoderKL(
        block_out_channels=(8, 16), in_channels=3, out_channels=3, latent_channels=4, norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, sample_size=16,
    )  # fmt: skip
    with torch.no_grad():
        vae.decoder.conv_out.weight.mul_(6)
    pipeline = diffusers.StableDiffusionPipeline(
        vae=vae, text_encoder=text, tokenizer=tokenizer, unet=unet, safety_checker=None, feature_extractor=None,
        requires_safety_checker=False,
        scheduler=diffusers.DDIMScheduler(
            clip_sample=False, set_alpha_to_one=False, steps_offset=1, beta_schedule="scaled_linear"
        ),
    )  # fmt: skip
    pipeline.save_pretrained(folder / "saved", safe_serialization=True)
    return folder / "saved"


@pytest.fixture(scope="module")
def pipeline(model):
    from eqben_builder.diffusion.pipeline import load_pipeline

    return load_pipeline(str(model))


@pytest.mark.parametrize("part", ["unet", "vae", "text_encoder"])
def test_a_part_that_lacks_weights_is_refused(model, tmp_path, part):
    from safetensors.torch import load_file, save_file

    from eqben_builder.diffusion.pipeline import load_pipeline

    shutil.copytree(model, tmp_path / "model")
    file = next((tmp_path / "model" / part).glob("*.safetensors"))
    weights = load_file(file)
    del weights[sorted(weights)[len(weights) // 2]]
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ValueError, match=rf"model/{part} lacks weights of \w+: .*; they would be random"):
        load_pipeline(str(tmp_path / "model"))


def draw(pipeline, prompts, edit, **options):
    from eqben_builder.diffusion.pipeline import edited_pair

    return edited_pair(pipeline, prompts, edit, **{"seed": 5, "steps": STEPS} | options).images


def no_edit(pipeline, prompts):
    """Both prompts drawn in one batch, without any editing."""
    from eqben_builder.diffusion.pipeline import refine_prompt

    return draw(pipeline, prompts, refine_prompt(pipeline.tokenizer, *prompts), cross=0.0, self_share=0.0)


PROMPTS = ("a photo of the dog in the snow", "a photo of the cat in the snow")
LONGER = ("a photo of the dog", "a photo of the dog in the snow")


def edits(tokenizer):
    from eqben_builder.diffusion.pipeline import refine_prompt, replace_words

    replaced, refined = replace_words(tokenizer, *PROMPTS), refine_prompt(tokenizer, *LONGER)
    return {"replace": (PROMPTS, replaced), "refine": (LONGER, refined)}


@pytest.mark.parametrize("guidance", [1.0, 7.5])
def test_the_same_prompt_changes_nothing(pipeline, guidance):
    from eqben_builder.diffusion.pipeline import refine_prompt, replace_words

    for edit in (replace_words, refine_prompt):
        first, second = draw(
            pipeline, PROMPTS[:1] * 2, edit(pipeline.tokenizer, PROMPTS[0], PROMPTS[0]), guidance=guidance
        )
        assert np.array_equal(first, second)


def test_the_source_is_the_same_bytes_whatever_is_edited(pipeline):
    for name, (prompts, edit) in edits(pipeline.tokenizer).items():
        plain = draw(pipeline, prompts, edit, cross=0.0, self_share=0.0)
        edited = draw(pipeline, prompts, edit)
        assert np.array_equal(plain[0], edited[0]), name
        assert not np.array_equal(plain[1], edited[1]), name


def test_without_sharing_both_pictures_are_what_the_pipeline_draws(pipeline):
    import torch

    noise = torch.randn((1, 4, 8, 8), generator=torch.Generator().manual_seed(5)).repeat(2, 1, 1, 1)
    plain = pipeline(list(PROMPTS), height=16, width=16, num_inference_steps=STEPS, latents=noise, output_type="np")
    for ours, theirs in zip(no_edit(pipeline, PROMPTS), plain.images, strict=True):
        assert np.abs(ours / 255 - theirs).max() <= 1 / 255


def test_fused_attention_is_the_edited_map_on_the_values(pipeline):
    import torch

    from eqben_builder.diffusion.pipeline import EditState, PromptToPromptProcessor

    class Mapped(PromptToPromptProcessor):
        """The definition, in attention maps: P' = P_source A + P_target B."""

        dtype = torch.float64

        def _mixed(self, query, key, value, scale, *, crossed):
            query, key, value = (x.to(self.dtype) for x in (query, key, value))
            if not crossed and self.state.edits_self(query.shape[2]):
                query[3], key[3] = query[2], key[2]
            maps = torch.softmax(query @ key.mT * scale, dim=-1)
            if crossed and self.state.edits_cross:
                edit = self.state.edit.to(maps)
                maps[3] = maps[2] @ edit.source + maps[3] @ edit.target
                if not edit.target.any():  # words are replaced: attention moves, and none is lost
                    assert torch.allclose(maps[3].sum(-1), torch.ones((), dtype=self.dtype), atol=1e-5)
            return (maps @ value).float()

    class Narrow(Mapped):
        dtype = torch.float32

    generator = torch.Generator().manual_seed(0)
    for _, edit in edits(pipeline.tokenizer).values():
        for name, module in pipeline.unet.named_modules():
            if not name.endswith(("attn1", "attn2")):
                continue
            hidden = torch.randn((4, 16, module.to_q.in_features), generator=generator)
            text = torch.randn((4, 77, 32), generator=generator) if name.endswith("attn2") else None
            with torch.no_grad():
                kinds = (PromptToPromptProcessor, Narrow, Mapped)
                fused, narrow, exact = (kind(EditState(edit, 5))(module, hidden, text) for kind in kinds)
            rounding = max(float((narrow - exact).abs().max()), 1e-6 * float(exact.abs().max()))
            assert (fused - exact).abs().max() <= 4 * rounding


def test_the_mapper_pairs_words_in_one_place_and_spreads_tokens():
    pytest.importorskip("torch")
    pytest.importorskip("jaxtyping")
    from eqben_builder.diffusion.pipeline import refine_prompt, replace_words

    class Letters:
        """One token for each letter of a word."""

        model_max_length = 12

        def __call__(self, text, add_special_tokens=True):
            class Result:
                input_ids = [ord(letter) for word in text.split() for letter in word]  # noqa: RUF012

            return Result

    mapper = replace_words(Letters(), "a bc d", "a efg d").source
    expected = np.zeros((12, 12))
    expected[0, 0] = expected[1, 1] = 1
    expected[2:4, 2:5] = 1 / 3
    expected[4, 5] = 1
    for k in range(6):
        expected[5 + k, 6 + k] = 1
    assert np.allclose(mapper, expected)
    shared, own = refine_prompt(Letters(), "a d", "a bc d")
    assert [(int(i), int(j)) for i, j in zip(*np.nonzero(shared.numpy()), strict=True)][:4] == [
        (0, 0), (1, 1), (2, 4), (3, 5),
    ]  # fmt: skip
    assert np.flatnonzero(np.diag(own)).tolist() == [2, 3]
    assert np.allclose((shared + own).sum(0), 1)
    with pytest.raises(ValueError, match="has 2 words and 'a b c' 3: refine"):
        replace_words(Letters(), "a b", "a b c")
    with pytest.raises(ValueError, match="has 11 tokens, 10 fit"):
        replace_words(Letters(), "abcdefghijk", "abcdefghijk")


def test_the_pipelines_own_attention_is_put_back(pipeline):
    _, edit = edits(pipeline.tokenizer)["replace"]
    before = {name: type(processor) for name, processor in pipeline.unet.attn_processors.items()}
    draw(pipeline, PROMPTS, edit)
    with pytest.raises(ValueError, match="lies outside"):
        draw(pipeline, PROMPTS, edit, cross=2.0)
    with pytest.raises(ValueError, match="multiple of 2"):
        draw(pipeline, PROMPTS, edit, size=17)
    pipeline.text_encoder.register_forward_pre_hook(lambda *_: (_ for _ in ()).throw(RuntimeError("broken")))
    try:
        with pytest.raises(RuntimeError, match="broken"):
            draw(pipeline, PROMPTS, edit)
    finally:
        pipeline.text_encoder._forward_pre_hooks.clear()
    assert {name: type(processor) for name, processor in pipeline.unet.attn_processors.items()} == before


def test_a_build_with_a_model_can_be_verified(model, tmp_path):
    builder = DiffusionBuilder(str(model), steps=2, seed=1, duplicate_bits=None)
    manifest = build(builder, tmp_path / "sd", pairs=2)
    assert manifest["counts"] == {"object": 2, "scene": 2, "attribute": 2}
    assert verify(tmp_path / "sd").failures == ()
    assert build(builder, tmp_path / "again", pairs=2)["hash"] == manifest["hash"]
    for record in read_records(tmp_path / "sd"):
        assert record.source["edit"] == ("replace" if record.aspect == "object" else record.source["edit"])
        changed = [edit["to"] for edit in record.certificate["token_edits"]]
        assert changed
    rows = [json.loads(line) for line in (tmp_path / "sd" / "pairs.jsonl").read_text().splitlines()]
    rows[0]["source"]["values"] = ["horse", "boat"]
    (tmp_path / "sd" / "pairs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert (rows[0]["id"], "certificate") in {(f.where, f.check) for f in verify(tmp_path / "sd").failures}


def test_prompts_suit_their_objects_and_give_nothing_away():
    for aspect in ASPECTS:
        drawn = [prompt_pair(generator_at(3, k), aspect) for k in range(400)]
        for pair in drawn:
            kin = KINDRED[pair.kin]
            assert pair.prompts[0].replace(pair.values[0], "#") == pair.prompts[1].replace(pair.values[1], "#")
            assert set(pair.values) <= {*kin.objects, *kin.scenes, *kin.attributes}
            assert pair.prompts[0] != pair.prompts[1]
        first = Counter(word for pair in drawn for word in set(pair.prompts[0].split()))
        second = Counter(word for pair in drawn for word in set(pair.prompts[1].split()))
        for word in first | second:
            assert abs(first[word] - second[word]) <= 4.5 * math.sqrt(first[word] + second[word]), word
    assert KINDRED["large animals"].objects == ("horse", "cattle", "elephant", "goat", "deer", "camel", "zebra")
    with pytest.raises(ValueError, match="aspect 'mood'"):
        prompt_pair(np.random.default_rng(0), "mood")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aspects": ["colour"]}, "aspect 'colour' is not one of object"),
        ({"size": 30}, "a multiple of 8"),
        ({"steps": 0}, "steps = 0"),
        ({"cross": 1.5}, "cross = 1.5"),
    ],
)
def test_a_wrong_option_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        DiffusionBuilder("nowhere", **options)


def test_a_missing_extra_is_named(monkeypatch):
    from eqben_builder.diffusion import builder

    monkeypatch.setattr(builder, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"torch is not installed: pip install 'eqben-builder\[diffusion\]'"):
        DiffusionBuilder("nowhere")


def test_a_licence_is_that_of_the_model():
    assert DiffusionBuilder("CompVis/stable-diffusion-v1-4").licence == "CreativeML-OpenRAIL-M"
    assert DiffusionBuilder("somebody/other-model").licence == "unknown"
    assert DiffusionBuilder("somebody/other-model", licence="Apache-2.0").licence == "Apache-2.0"
