"""Every family of detectors that transformers has: scores as its own processor reads them, and its training."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import gate_runner
from gate_runner.detection.knowledge import known_phrases
from gate_runner.detection.trainable import choose, low, steady, unchanged, with_classes
from gate_runner.detection.tuning import batch_loss, tune_detector
from gate_runner.encoders import detectors, load_encoder
from gate_runner.encoders.detectors import Detector
from gate_runner.encoders.phrases import Phrase, phrases
from gate_runner.errors import DataError, UsageError
from gate_runner.settings import Settings

from ._tiny_detectors import CLOSED, closed_set, grounding, omdet

pytest.importorskip("transformers")
PICTURE = np.random.default_rng(0).integers(0, 255, (48, 64, 3)).astype(np.uint8)
TRUTHS = [torch.tensor([[1.0, 0.5, 0.5, 0.4, 0.4]]), torch.zeros(0, 5), torch.tensor([[0.0, 0.3, 0.6, 0.2, 0.3]])]


def loaded(path: Path) -> Detector:
    detector = load_encoder(f"hf-detector:{path}").detector
    assert detector is not None
    return detector


def _visual(name: str) -> bool:
    return "backbone" in name or "conv_encoder" in name


def test_every_closed_set_has_a_tiny_one() -> None:
    assert set(CLOSED) == set(detectors.CLOSED)


@pytest.mark.parametrize("family", sorted(CLOSED))
def test_a_closed_set_is_read_as_its_own_processor_does_and_learns(family: str, tmp_path: Path) -> None:
    made = loaded(closed_set(tmp_path, family))
    asked = phrases(["square", "circle"])
    spotted = made.spot(PICTURE, asked)
    with torch.inference_mode():
        model = made.model(**made.processor(images=PICTURE, return_tensors="pt"))
    (theirs,) = made.processor.post_process_object_detection(model, threshold=0.0, target_sizes=[(48, 64)])
    best = int(theirs["scores"].argmax())
    query, label = divmod(int(spotted.scores.argmax()), 2)
    assert label == int(theirs["labels"][best])
    torch.testing.assert_close(spotted.scores[query, label], theirs["scores"][best])
    torch.testing.assert_close(spotted.boxes[query] * torch.tensor([64.0, 48, 64, 48]), theirs["boxes"][best])

    before = {name: value.clone() for name, value in made.model.state_dict().items()}
    for tune in ("full", "linear"):
        with unchanged(made):
            learns = choose(made, tune)
            frozen = [name for name, weight in made.model.named_parameters() if not weight.requires_grad]
            if tune == "full":
                assert all(map(low, frozen))
                assert family == "yolos" or frozen
                assert family == "yolos" or any(_visual(name) for name in learns)
            else:
                assert not any(_visual(name) for name in learns)
            optimiser = torch.optim.AdamW([w for w in made.model.parameters() if w.requires_grad], lr=1e-3)
            losses = []
            for _ in range(8):
                made.model.train()
                steady(made.model)
                torch.manual_seed(0)
                loss = batch_loss(made, [PICTURE] * 3, TRUTHS, asked)
                optimiser.zero_grad()
                torch.autograd.backward(loss)
                optimiser.step()
                losses.append(float(loss.detach()))
            assert min(losses[4:]) < max(losses[:2]), losses  # the first step may choose other queries
            made.model.eval()
    assert all(torch.equal(value, before[name]) for name, value in made.model.state_dict().items())
    with unchanged(made):
        with_classes(made, 4)
        assert made.spot(PICTURE, phrases(list("abcd"))).scores.shape == (12, 4)
    assert made.spot(PICTURE, asked).scores.shape == (12, 2)


def test_only_the_stem_and_the_first_stage_stay_as_they_are() -> None:
    inside = {
        "model.backbone.conv_encoder.model.embeddings.patch_embeddings.projection.weight": True,
        "model.backbone.conv_encoder.model.encoder.layers.0.blocks.1.layernorm_before.weight": True,
        "model.backbone.conv_encoder.model.encoder.layers.1.blocks.0.layernorm_before.weight": False,
        "model.backbone.model.encoder.stages.2.blocks.0.layers.0.conv.weight": False,
        "model.backbone.model.encoder.stages.0.blocks.0.layers.1.conv.weight": True,
        "model.backbone.conv_encoder.model.layer1.0.conv1.weight": True,
        "model.backbone.conv_encoder.model.layer2.0.conv1.weight": False,
        "model.backbone.conv_encoder.model.bn1.weight": True,
        "model.conv_encoder.model.embedder.stem2a.convolution.weight": True,
        "model.conv_encoder.model.encoder.stages.1.downsample.convolution.weight": False,
        "model.backbone.backbone.encoder.layer.11.mlp.fc1.weight": False,
        "model.backbone.projector.scale_layers.0.layers.0.conv.weight": False,
        "model.text_backbone.encoder.layer.0.output.dense.weight": False,
        "model.decoder.layers.0.fc1.weight": False,
    }
    assert {name: low(name) for name in inside} == inside


def test_omdet_turbo_reads_names_in_chunks_and_scores_as_its_processor(tmp_path: Path) -> None:
    made = loaded(omdet(tmp_path))
    asked = phrases(["square", "small_fish"])
    spotted = made.spot(PICTURE, asked)
    inputs = made.processor(
        images=PICTURE, text=[["square", "small fish"]], task=["Detect square, small fish."], return_tensors="pt",
        text_kwargs={"padding": "max_length", "max_length": 16},
    )  # fmt: skip
    with torch.inference_mode():
        model = made.model(**inputs)
    (theirs,) = made.processor.post_process_grounded_object_detection(
        model, threshold=0.0, nms_threshold=1.0, target_sizes=[(48, 64)], max_num_det=24
    )
    assert spotted.scores.shape == (12, 2)
    torch.testing.assert_close(spotted.scores.flatten().sort().values, theirs["scores"].sort().values)
    query, label = divmod(int(spotted.scores.argmax()), 2)
    best = int(theirs["scores"].argmax())
    assert label == int(theirs["labels"][best])
    edges = (spotted.boxes[query] * torch.tensor([64.0, 48, 64, 48])).clamp(min=0)
    torch.testing.assert_close(edges, theirs["boxes"][best])

    many = phrases(["square", "circle", "(unlabelled)", "fish", "dog", "person", "puffin", "red", "black"])
    chunks = made.chunks(many)
    assert [place for chunk in chunks for place in chunk] == [0, 1, 3, 4, 5, 6, 7, 8]
    assert len(chunks) == 2
    first = [many[place].name for place in chunks[0]]
    tokens = [len(made.processor.tokenizer(f"Detect {', '.join(names)}.")["input_ids"])
              for names in (first, [*first, many[chunks[1][0]].name])]  # fmt: skip
    assert tokens[0] <= 16 < tokens[1]
    spot = made.spot(PICTURE, many)
    assert spot.scores.shape == (24, 9)
    assert float(spot.scores[:, 2].sum()) == 0
    alone = made.spot(PICTURE, [many[place] for place in chunks[1]])
    torch.testing.assert_close(spot.scores[12:, chunks[1]], alone.scores)
    with pytest.raises(DataError, match=r"class 'fish fish .* has \d+ tokens, at most 16 fit"):
        made.spot(PICTURE, phrases(["fish " * 20]))
    long = [Phrase("fish", suffix=": " + "small " * 30), Phrase("dog", suffix=": black")]
    fitted, cut = made.fitting(long)
    assert (cut, fitted[1]) == (1, long[1])
    assert fitted[0].text == "fish: " + " ".join(["small"] * 12)  # start, end, the name and the colon are four
    job: Any = SimpleNamespace(settings=SimpleNamespace(tune="full"))
    with pytest.raises(UsageError, match="omdet-turbo cannot be trained: transformers has no loss for it, and refuses"):
        tune_detector(job, made, asked)


@pytest.fixture
def knowledge(tmp_path: Path) -> Path:
    pytest.importorskip("yaml")
    path = tmp_path / "knowledge.yaml"
    path.write_text(
        "square: {def_wn: 'red. small? square', path_wn: [square, a_b], gpt3: [' a red fish.', black]}\n"
        "circle: {def_wn: 'a small small red orange black fish with orange beaks , a small dog', def_wiki: dog}\n"
        "holes: {def_wn: black}\n"
    )
    return path


def test_knowledge_follows_the_name_and_changes_what_is_found(tmp_path: Path, knowledge: Path) -> None:
    made = loaded(grounding(tmp_path / "model"))
    spec = f"glip={knowledge}"
    plain = phrases(["square", "circle"])
    read, known = known_phrases("x", ["square", "circle"], "definition", spec)
    assert known == 2
    assert read[0] == Phrase("square", suffix=": red. small? square")
    text, spans = made.caption(read)
    assert text.startswith("square: red  small  square. circle: a small")  # no stop within a phrase
    assert [text[start:stop] for start, stop in spans] == ["square", "circle"]
    assert made.token_map(read).gt(0).sum(dim=1).tolist() == [1, 1]  # a name's tokens, not those behind it
    fitted, cut = made.fitting(read)
    assert cut == 1
    assert len(made.processor.tokenizer(made.caption(fitted[1:])[0])["input_ids"]) == made.room == 16
    assert read[1].text.startswith(fitted[1].text)
    assert made.chunks(fitted) == [[0], [1]]
    assert made.chunks(plain) == [[0, 1]]
    without, with_it = made.spot(PICTURE, plain), made.spot(PICTURE, fitted)
    assert with_it.scores.shape == (24, 2)
    assert float(with_it.scores[:12, 1].sum()) == float(with_it.scores[12:, 0].sum()) == 0
    assert not torch.allclose(without.scores[:, 0], with_it.scores[:12, 0], atol=1e-4)
    alone = made.spot(PICTURE, fitted[:1])
    torch.testing.assert_close(with_it.scores[:12, 0], alone.scores[:, 0])


def test_each_kind_of_knowledge_and_what_is_not_known(knowledge: Path) -> None:
    spec = f"glip={knowledge}"
    said = {kind: [one.text for one in known_phrases("x", ["square", "circle", "(unlabelled)"], kind, spec)[0]]
            for kind in ("path", "gpt3", "wiktionary")}  # fmt: skip
    assert said == {
        "path": ["square: square, a b", "circle", ""],
        "gpt3": ["square: a red fish.", "circle", ""],
        "wiktionary": ["square", "circle: dog", ""],
    }
    renamed = known_phrases("x", ["pot", "square"], "definition", spec, {"pot": {"prefix": "some ", "name": "holes"}})
    assert (renamed[0][0].text, renamed[1]) == ("holes: black", 2)
    with pytest.raises(DataError, match="wordnet-path knows none of 1 classes: 'dog'"):
        known_phrases("x", ["dog"], "path", spec)
    with pytest.raises(UsageError, match="source 'oracle' is unknown; expected one of"):
        known_phrases("x", ["dog"], "path", f"oracle={knowledge}")
    own = knowledge.with_suffix(".json")
    own.write_text('{"dog": ["A dog."]}')
    with pytest.raises(UsageError, match=r"--prompts path reads wordnet-path; cupl=.* has cupl"):
        known_phrases("x", ["dog"], "path", f"cupl={own}")
    knowledge.write_text("- a")
    with pytest.raises(DataError, match="expected one entry for each class"):
        known_phrases("x", ["dog"], "path", spec)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompts": "gpt3"}, "--prompts gpt3 needs --knowledge-from NAME=PATH"),
        ({"knowledge_from": "glip=x"}, "--knowledge-from goes with --prompts path, definition, wiktionary, gpt3"),
        ({"prompts": "path", "knowledge_from": "glip"}, "--knowledge-from 'glip': expected NAME=PATH"),
        ({"prompts": "path", "knowledge_from": "glip=/gone.yaml"}, "with a path that exists"),
    ],
)
def test_knowledge_is_asked_for_in_whole(options: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Settings(**options)


def test_a_run_names_the_knowledge_that_was_read(tmp_path: Path, knowledge: Path) -> None:
    plain: dict[str, Any] = {
        "limit": 3, "show": False, "device": "cpu", "prompts": "definition", "knowledge_from": f"glip={knowledge}",
    }  # fmt: skip
    for number, made in enumerate((grounding(tmp_path / "model"), omdet(tmp_path / "omdet"))):
        output = tmp_path / f"run{number}"
        (run,) = gate_runner.run("micro/odinw-lot", encoder=f"hf-detector:{made}", output=output, **plain)
        assert run.status == "ok", run.reason
        training = run.training["prompts"]
        assert (training["kind"], training["from"], training["known"]) == ("definition", f"glip={knowledge}", 2)
        assert training["read"][0] == "square: red. small? square"
        assert training["shortened"] == 1
        assert "square: red. small?" in gate_runner.report(output, pictures=0)
    path = closed_set(tmp_path / "closed", "detr")
    (refused,) = gate_runner.run("micro/odinw-lot", encoder=f"hf-detector:{path}", output=tmp_path / "c", **plain)
    assert refused.reason == "--prompts definition is for detectors that read class names; detr has none"
