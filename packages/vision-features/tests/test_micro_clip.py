from __future__ import annotations

import argparse
import hashlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vision_features.encoders.micro_clip import (
    FILES,
    folder_of,
    load,
    load_micro_clip,
    micro_clip_config,
    micro_tokenizer,
)
from vision_features.encoders.spec import parse_spec
from vision_features.errors import EncoderError

SCRIPT = Path(__file__).parents[2] / "gate-runner" / "training" / "train_micro_clip.py"


@pytest.fixture(scope="module")
def loaded():
    return load_micro_clip()


def test_it_is_in_eval_mode_and_float32(loaded):
    model, _ = loaded
    assert not model.training
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert all(bool(p.isfinite().all()) for p in model.parameters())


def test_files_are_small_and_are_what_the_config_says():
    files = [path for path in FILES.iterdir() if path.is_file()]
    assert {path.name for path in files} == {"config.json", "vocab.txt", "weights.safetensors", "MODEL_CARD.md"}
    assert sum(path.stat().st_size for path in files) <= 6_000_000
    config = micro_clip_config()
    digest = hashlib.sha256((FILES / "weights.safetensors").read_bytes()).hexdigest()
    assert config["training"]["weights_sha256"] == digest
    assert digest in (FILES / "MODEL_CARD.md").read_text(encoding="utf-8")
    text_cfg = config["model_cfg"]["text_cfg"]
    assert text_cfg["vocab_size"] == len(micro_tokenizer().vocabulary)
    assert text_cfg["eos_id"] == micro_tokenizer().end_id
    assert min(config["training"]["training_seeds"]) >= 1_000_000
    assert min(config["training"]["held_out_seeds"]) >= 100_000 > 0
    assert max(config["training"]["held_out_seeds"]) < 1_000_000


def test_it_says_how_its_images_are_normalised(loaded):
    model, _ = loaded
    preprocess = micro_clip_config()["preprocess_cfg"]
    assert list(model.visual.image_mean) == preprocess["mean"]
    assert list(model.visual.image_std) == preprocess["std"]
    assert model.visual.image_size[0] == preprocess["size"] == 64


def test_random_weights_depend_on_the_seed_alone_and_leave_the_global_state():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, _ = load_micro_clip(pretrained=False, seed=1)
    assert torch.equal(before, torch.get_rng_state())
    torch.rand(3)
    same, _ = load_micro_clip(pretrained=False, seed=1)
    other, _ = load_micro_clip(pretrained=False, seed=2)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), same.parameters(), strict=True))
    assert not torch.equal(first.visual.conv1[0].weight, other.visual.conv1[0].weight)
    trained, _ = load_micro_clip()
    assert {name: t.shape for name, t in trained.state_dict().items()} == {
        name: t.shape for name, t in first.state_dict().items()
    }


@torch.no_grad()
def test_image_tokens_are_those_that_open_clip_gives(loaded):
    model, _ = loaded
    images = torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    patches = load(parse_spec("micro-clip")).patches
    tokens, grid = patches(images)
    assert grid == (8, 8)
    assert tokens.shape == (3, 64, micro_clip_config()["model_cfg"]["vision_cfg"]["width"])
    from open_clip.model import CLIP

    theirs = CLIP(**micro_clip_config()["model_cfg"]).eval()
    theirs.visual.conv1 = model.visual.conv1
    theirs.load_state_dict(model.state_dict())
    theirs.visual.output_tokens = True
    pooled, expected = theirs.visual(images)
    torch.testing.assert_close(tokens, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(pooled, model.encode_image(images), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_text_tokens_pool_to_the_text_features(loaded):
    model, tokenizer = loaded
    texts = ["a photo of a large red circle", "two stars", ""]
    ids, encode = tokenizer(texts), load(parse_spec("micro-clip")).text_tokens
    tokens, mask = encode(texts)
    assert mask.sum(1).tolist() == [9, 4, 2]
    ends = (ids == tokenizer.end_id).int().argmax(1)
    pooled = tokens[torch.arange(3), ends] @ model.text_projection
    torch.testing.assert_close(pooled, model.encode_text(ids), rtol=1e-5, atol=1e-5)
    # Causal: what comes after <end> changes nothing.
    other = ids.clone()
    other[1, 5:] = 7
    torch.testing.assert_close(model.encode_text(other)[1], model.encode_text(ids)[1], rtol=1e-5, atol=1e-5)


def test_texts_become_ids_with_known_ends():
    tokenizer = micro_tokenizer()
    ids = tokenizer("Three RED circles, please!")
    words = [tokenizer.vocabulary[i] for i in ids[0].tolist()]
    expected = ["<start>", "three", "red", "circles", ",", "<unk>", "<unk>", "<end>"]
    assert words == expected + ["<pad>"] * (tokenizer.context_length - len(expected))
    long = tokenizer("star " * 40)[0]
    assert long[-1] == tokenizer.end_id
    assert long[-2] == tokenizer("star")[0, 1]
    assert tokenizer([]).shape == (0, tokenizer.context_length)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.text(max_size=50), max_size=4))
def test_any_text_gives_one_start_one_end_and_padding(texts):
    tokenizer = micro_tokenizer()
    ids = tokenizer(texts)
    assert ids.shape == (len(texts), 32)
    assert ids.dtype == torch.long
    for row in ids.tolist():
        end = row.index(tokenizer.end_id)
        assert row[0] == tokenizer.start_id
        assert 0 not in row[:end]
        assert not any(row[end + 1 :])


def test_the_vocabulary_holds_every_word_of_the_micro_world():
    micro = pytest.importorskip("eqben_builder.micro")
    tokenizer = micro_tokenizer()
    assert not (tokenizer(list(micro.VOCABULARY)) == tokenizer.unknown_id).any()


@torch.no_grad()
def test_it_knows_colours_and_shapes_on_seeds_that_it_never_saw(loaded):
    micro = pytest.importorskip("eqben_builder.micro")
    model, tokenizer = loaded
    scenes = [micro.scene_at(91_234, k, 1) for k in range(200)]
    images = torch.from_numpy(micro.render(scenes).images).permute(0, 3, 1, 2).float() / 255
    mean, std = (torch.tensor(value)[:, None, None] for value in (model.visual.image_mean, model.visual.image_std))
    classes = [f"{colour} {shape}" for colour in micro.COLOURS for shape in micro.SHAPES]
    truth = torch.tensor([classes.index(f"{s.items[0].colour} {s.items[0].shape}") for s in scenes])
    prompted = [f"a photo of {'an' if name[0] in 'aeiou' else 'a'} {name}" for name in classes]
    prompts = model.encode_text(tokenizer(prompted), normalize=True)
    right = (model.encode_image((images - mean) / std, normalize=True) @ prompts.T).argmax(1) == truth
    # Chance is 1/80; the model card's figure less four standard errors of 200 draws.
    card = micro_clip_config()["training"]["scores"]["zero-shot, 80 classes of colour and shape"]
    assert right.float().mean().item() >= card - 4 * np.sqrt(card * (1 - card) / 200)
    assert card > 0.8


def test_importing_it_loads_neither_torch_nor_open_clip():
    # Loaded by its path, so that what the package around it imports does not count.
    code = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("micro_clip", sys.argv[1])
module = sys.modules["micro_clip"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print([name for name in ("torch", "open_clip") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, FILES.with_name("micro_clip.py")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_an_interrupted_training_ends_in_the_same_bytes_on_any_number_of_threads(tmp_path):
    pytest.importorskip("eqben_builder")
    if not SCRIPT.exists():
        pytest.skip("the training script is not part of an installed package")
    spec = importlib.util.spec_from_file_location("train_micro_clip", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    tokenizer = script.MicroTokenizer(script.VOCABULARY, 32)
    script.CHUNK = 3
    settings = {"steps": 4, "decay": 2, "batch": 7, "lr": 1e-3, "warm_up": 2, "seed": 3, "precision": "fp32"}
    settings |= {"report_every": 10, "save_every": 10}

    def weights(folder, threads, until):
        (tmp_path / folder).mkdir(exist_ok=True)
        arguments = argparse.Namespace(**settings, threads=threads, until=until, work_dir=tmp_path / folder)
        return script.train(arguments, tokenizer)[0].state_dict()

    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    try:
        whole = weights("whole", threads=1, until=4)
        weights("parts", threads=2, until=1)
        weights("parts", threads=2, until=3)
        parts = weights("parts", threads=2, until=4)
        settings["steps"] = 9
        with pytest.raises(SystemExit, match="too late"):
            weights("parts", threads=2, until=9)
        settings["lr"] = 2e-3
        with pytest.raises(SystemExit, match="was made with"):
            weights("parts", threads=2, until=9)
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic)
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    start = script.build_micro_clip(script.ARCHITECTURE, 3).state_dict()
    assert sum(not torch.equal(whole[name], start[name]) for name in whole) > 50


def _training_script(name: str, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("eqben_builder")
    if not SCRIPT.exists():
        pytest.skip("the training scripts are not part of an installed package")
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    return importlib.import_module(name)


def test_micro_dense_is_under_600_kilobytes_and_what_its_config_says():
    folder = folder_of("micro-dense")
    config = micro_clip_config("micro-dense")
    weights = (folder / "weights.safetensors").read_bytes()
    digest = hashlib.sha256(weights).hexdigest()
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 600_000
    assert config["name"] == "micro-dense"
    assert config["training"]["weights_sha256"] == digest
    assert digest in (folder / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert config["model_cfg"]["text_cfg"]["vocab_size"] == len(micro_tokenizer("micro-dense").vocabulary)
    ours, clips = (set(micro_clip_config(name)["training"]["training_seeds"]) for name in ("micro-dense", "micro-clip"))
    assert not ours & clips
    assert min(ours) >= 1_000_000


def test_micro_dense_is_a_spec_with_random_weights_of_any_seed():
    first, same, other, trained = (
        load(parse_spec(f"micro-dense{weights}")).module.state_dict()
        for weights in ("/random:3", "/random:3", "/random:4", "")
    )
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["visual.proj"], other["visual.proj"])
    assert not torch.equal(first["visual.proj"], trained["visual.proj"])
    assert trained["visual.proj"].shape == (64, 64)
    with pytest.raises(EncoderError, match="expected micro-dense, micro-dense/random or micro-dense/random:SEED"):
        load(parse_spec("micro-dense/other"))


def test_the_whole_images_of_micro_dense_have_the_colours_of_its_card(monkeypatch):
    script = _training_script("train_micro_dense", monkeypatch)
    model, tokenizer = load_micro_clip(name="micro-dense")
    scores = script.evaluate(model, tokenizer)
    card = micro_clip_config("micro-dense")["training"]["scores"]
    assert set(scores) == set(card)
    for name, (score, chance) in scores.items():
        assert score == pytest.approx(card[name], abs=0.02), name
        assert score > chance, name


def test_captions_of_micro_dense_name_what_is_visible_alone(monkeypatch):
    script = _training_script("train_micro_dense", monkeypatch)
    for index in (5, *range(40_000, 40_300)):
        pixels, text = script.training_pair(7, index)
        again, same = script.training_pair(7, index)
        assert text == same
        assert np.array_equal(pixels, again)
        words = text.replace(",", "").split()
        for colour, rgb in script.RGB.items():
            if colour in words:  # of any brightness: things may be lit, and have darker marks
                seen, wanted = pixels / 255, np.array(rgb)
                cosine = seen @ wanted / (np.linalg.norm(seen, axis=-1) * np.linalg.norm(wanted)).clip(1e-9)
                share = ((cosine > 0.98) & (np.linalg.norm(seen, axis=-1) > 0.25 * np.linalg.norm(wanted))).mean()
                assert share > 0.007, (index, colour, text)
        assert not (script.MicroTokenizer(script.base.VOCABULARY, 32)([text]) == 2).any()
