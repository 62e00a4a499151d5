"""Fusion models of transformers, of tiny random weights: the log odds that their heads give, by themselves."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("typer")

import torch
import transformers

from eqben_builder.building import build
from eqben_builder.cli import main
from eqben_builder.micro.builder import MicroBuilder
from eqben_builder.scoring.matching_models import MatchingModel, load_matching

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "red", "blue", "circle", "square", "left", "of"]
TEXT = {"vocab_size": len(WORDS), "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 16, "max_position_embeddings": 12, "pad_token_id": 0}  # fmt: skip
CAPTIONS = ["a red circle", "a blue square left of a red circle of a red circle of a red circle", "a blue circle"]


def words(folder, longest=512):
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    return transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=longest)


def blip(folder):
    text = {**TEXT, "encoder_hidden_size": 16, "bos_token_id": 2, "eos_token_id": 3, "sep_token_id": 3}
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
              "image_size": 32, "patch_size": 16}  # fmt: skip
    config = transformers.BlipConfig(text_config=text, vision_config=vision, projection_dim=8, image_text_hidden_size=8)
    images = transformers.BlipImageProcessor(size={"height": 32, "width": 32})
    return transformers.BlipForImageTextRetrieval(config), transformers.BlipProcessor(images, words(folder))


def vilt(folder):
    config = transformers.ViltConfig(**TEXT, image_size=32, patch_size=16)
    images = transformers.ViltImageProcessor(size={"shortest_edge": 32}, size_divisor=16)
    return transformers.ViltForImageAndTextRetrieval(config), transformers.ViltProcessor(images, words(folder))


def bridge_tower(folder):
    vision = {"hidden_size": 64, "num_hidden_layers": 2, "patch_size": 16, "image_size": 32}
    text = {**TEXT, "hidden_size": 64, "num_hidden_layers": 2, "bos_token_id": 2, "eos_token_id": 3}
    config = transformers.BridgeTowerConfig(
        hidden_size=64, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vision_config=vision,
        text_config=text,
    )  # fmt: skip
    sides = {"size": {"shortest_edge": 32}, "crop_size": {"shortest_edge": 32}, "size_divisor": 16}
    processor = transformers.BridgeTowerProcessor(transformers.BridgeTowerImageProcessor(**sides), words(folder, 10))
    return transformers.BridgeTowerForImageAndTextRetrieval(config), processor


def blip_2(folder, mark=12):
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
              "image_size": 32, "patch_size": 16}  # fmt: skip
    reader = {**TEXT, "vocab_size": len(WORDS) + 1, "encoder_hidden_size": 16, "use_qformer_text_input": True}
    config = transformers.Blip2Config(
        vision_config=vision, qformer_config=reader, num_query_tokens=4, image_text_hidden_size=8,
        image_token_index=mark,
    )  # fmt: skip
    images = transformers.BlipImageProcessor(size={"height": 32, "width": 32})
    queries = None if mark is None else 4
    model = transformers.Blip2ForImageTextRetrieval(config)
    torch.nn.init.normal_(model.query_tokens)
    return model, transformers.Blip2Processor(images, words(folder), num_query_tokens=queries)


def blip_2_without_a_mark(folder):
    return blip_2(folder, None)


def odds_of_blip_2(model, processor, image, caption):
    """Its definition: queries that read the image and the text, a head on each, the mean of what they say."""
    pixels = processor.image_processor(images=image, return_tensors="pt")["pixel_values"]
    ids = processor.tokenizer(caption, truncation=True, max_length=12, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        patches = model.vision_model(pixels).last_hidden_state
        tokens = model.embeddings.word_embeddings(ids) + model.embeddings.position_embeddings.weight[: ids.shape[1]]
        read = model.qformer(
            query_embeds=torch.cat([model.query_tokens, tokens], dim=1), query_length=4, encoder_hidden_states=patches
        ).last_hidden_state
        logits = model.itm_head(read[:, :4]).mean(dim=1)
    return float(logits[0, 1] - logits[0, 0])


def by_hand(model, processor, image, caption):
    """The log odds of one pair, alone."""
    if "Blip2" in type(model).__name__:
        return odds_of_blip_2(model.eval(), processor, image, caption)
    limit = min(processor.tokenizer.model_max_length, 12)
    inputs = processor(images=image, text=caption, truncation=True, max_length=limit, return_tensors="pt")
    with torch.no_grad():
        answer = model.eval()(**inputs)
    logits = answer.itm_score if hasattr(answer, "itm_score") else answer.logits
    return float(logits[0, 1] - logits[0, 0]) if logits.shape[1] == 2 else float(logits[0, 0])


@pytest.mark.parametrize("make", [blip, blip_2, blip_2_without_a_mark, vilt, bridge_tower])
def test_a_saved_model_gives_the_log_odds_of_its_head(make, tmp_path):
    torch.manual_seed(0)
    model, processor = make(tmp_path)
    for part in (model, processor):
        part.save_pretrained(tmp_path / "model")
    loaded = load_matching(f"hf-itm:{tmp_path / 'model'}")
    assert isinstance(loaded, MatchingModel)
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (32, 32, 3), dtype=np.uint8) for _ in CAPTIONS]
    expected = [by_hand(model, processor, image, text) for image, text in zip(images, CAPTIONS, strict=True)]
    assert loaded(images, CAPTIONS) == pytest.approx(expected, abs=1e-5)
    assert np.ptp(expected) > 1e-6


def test_a_command_scores_pairs_by_a_saved_model(tmp_path, capsys):
    model, processor = vilt(tmp_path)
    for part in (model, processor):
        part.save_pretrained(tmp_path / "model")
    build(MicroBuilder(size=32), tmp_path / "pairs", pairs=3, workers=1)
    with pytest.raises(SystemExit) as ended:
        main(["score", str(tmp_path / "pairs"), "--fusion", f"hf-itm:{tmp_path / 'model'}"])
    printed = capsys.readouterr()
    assert not ended.value.code, printed.err
    assert "average of all columns" in printed.out


def test_other_checkpoints_are_refused_in_one_line(tmp_path):
    config = transformers.BertConfig(**TEXT)
    transformers.BertModel(config).save_pretrained(tmp_path / "bert")
    with pytest.raises(ValueError, match="its architecture is BertModel; expected BlipForImageTextRetrieval"):
        load_matching(f"hf-itm:{tmp_path / 'bert'}")
    with pytest.raises(ValueError, match=r"there is no folder \./nowhere"):
        load_matching("hf-itm:./nowhere")
