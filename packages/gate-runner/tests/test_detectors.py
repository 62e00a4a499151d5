"""Detectors of transformers, tiny and random: what they read, and how they are scored."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import gate_runner
from gate_runner.detection.tables import overview
from gate_runner.detection.tuning import _Learning, batch_loss, choose, unchanged
from gate_runner.errors import DataError, EncoderError, MissingCapabilityError
from gate_runner.runs.observers import Observer
from gate_runner.runs.stored import read_run
from vision_adapters.training.schedule import parameter_groups
from vision_features.encoders import load_encoder
from vision_features.encoders.detectors import Detector, phrases

from ._tiny_detectors import closed_set, grounding, owl

pytest.importorskip("transformers")
PICTURE = np.random.default_rng(0).integers(0, 255, (48, 64, 3)).astype(np.uint8)


@pytest.fixture(scope="module")
def grounding_dino(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return grounding(tmp_path_factory.mktemp("grounding"))


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return closed_set(tmp_path_factory.mktemp("rt"), "rt_detr_v2", classes=5)


def detector(path: Path) -> Detector:
    detector = load_encoder(f"hf-detector:{path}").detector
    assert detector is not None
    return detector


def test_names_become_phrases_as_glip_writes_them() -> None:
    captions = {"puffin": {"suffix": " with orange beaks"}, "pothole": {"prefix": "some ", "name": "holes"}}
    names = ["small_fish", "cup (large)", "puffin", "pothole", "(unlabelled)", "a  b"]
    assert [phrase.text for phrase in phrases(names, captions)] == [
        "small fish", "cup", "puffin with orange beaks", "some holes", "", "a b",
    ]  # fmt: skip


def test_class_scores_are_means_over_a_classs_own_tokens(grounding_dino: Path) -> None:
    dino = detector(grounding_dino)
    prompts = phrases(["square", "small fish", "puffin"], {"puffin": {"suffix": " with orange beaks"}})
    text, spans = dino.caption(prompts)
    assert text == "square. small fish. puffin with orange beaks."
    assert [text[start:stop] for start, stop in spans] == ["square", "small fish", "puffin"]
    assert dino.token_map(prompts).gt(0).sum(dim=1).tolist() == [1, 2, 1]
    spotted = dino.spot(PICTURE, prompts)
    inputs = dino.processor(images=PICTURE, text=text, return_tensors="pt")
    with torch.inference_mode():
        chance = dino.model(**inputs).logits[0].sigmoid()
    words = dino.processor.tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
    own = [words.index("small"), words.index("fish")]
    torch.testing.assert_close(spotted.scores[:, 1], chance[:, own].mean(dim=1))


def test_letters_that_are_two_in_lower_case_move_no_other_class(grounding_dino: Path) -> None:
    dino = detector(grounding_dino)
    prompts = phrases(["İİİ", "small fish", "Puffin"], {"Puffin": {"prefix": "İ ", "name": "puffİn", "suffix": " İ"}})
    text, spans = dino.caption(prompts)
    assert [text[start:stop] for start, stop in spans] == ["İİİ".lower(), "small fish", "puffİn".lower()]
    plain = dino.token_map(phrases(["a", "small fish"]))[1]
    assert dino.token_map(prompts)[1].gt(0).sum() == plain.gt(0).sum() == 2


def test_long_lists_are_asked_in_chunks_and_nameless_classes_never(grounding_dino: Path) -> None:
    dino = detector(grounding_dino)
    prompts = phrases(["square", "circle", "(unlabelled)", "fish", "dog", "person", "puffin", "a", "b"])
    chunks = dino.chunks(prompts)
    assert len(chunks) > 1
    assert [index for chunk in chunks for index in chunk] == [0, 1, 3, 4, 5, 6, 7, 8]
    spotted = dino.spot(PICTURE, prompts)
    assert spotted.scores.shape == (12 * len(chunks), 9)
    assert float(spotted.scores[:, 2].sum()) == 0
    alone = dino.spot(PICTURE, [prompts[index] for index in chunks[-1]])
    torch.testing.assert_close(spotted.scores[-12:, chunks[-1]], alone.scores)
    with pytest.raises(DataError, match="at most 16 fit"):
        dino.spot(PICTURE, phrases(["fish " * 20]))


def test_owl_boxes_lie_in_the_picture_not_in_its_square(tmp_path: Path) -> None:
    owl_detector = Detector(*owl(tmp_path))
    spotted = owl_detector.spot(PICTURE, phrases(["square", "small fish"]))
    assert spotted.scores.shape == (16, 2)
    inputs = owl_detector.processor(images=PICTURE, text=[["square", "small fish"]])
    with torch.inference_mode():
        model = owl_detector.model(**inputs)
    low = (model.pred_boxes[0, :, 1] + model.pred_boxes[0, :, 3] / 2) * 64  # pixels of the square, 64 on each side
    torch.testing.assert_close(spotted.boxes[:, 3] * 48, low)


def test_what_is_no_detector_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="no directory"):
        load_encoder(f"hf-detector:{tmp_path / 'gone'}")
    with pytest.raises(EncoderError, match="'bert' is no detector that is known here"):
        Detector(SimpleNamespace(config=SimpleNamespace(model_type="bert")), None)


def test_zero_shot_in_the_runner_names_its_prompts(grounding_dino: Path, tmp_path: Path) -> None:
    done = gate_runner.run(
        ["micro/odinw-lot", "digits"], encoder=f"hf-detector:{grounding_dino}", output=tmp_path / "run", limit=4,
        show=False, device="cpu", prompts="names",
    )  # fmt: skip
    zero_shot, refused = done.results
    assert zero_shot.status == "ok", zero_shot.reason
    assert zero_shot.training["prompts"] == {"kind": "names", "read": ["square", "circle"]}
    assert (zero_shot.training["shots"], zero_shot.training["steps"]) == ("0", 0)
    assert "is a detector: it gives boxes, no features" in refused.reason


def truths() -> list[torch.Tensor]:
    return [torch.tensor([[1.0, 0.5, 0.5, 0.4, 0.4]]), torch.zeros(0, 5), torch.tensor([[0.0, 0.3, 0.6, 0.2, 0.3]])]


def test_mixed_prompts_would_teach_wrong_classes_and_ours_do_not(grounding_dino: Path) -> None:
    """Where transformers joins label maps of several prompts, it adds one number of classes, not all earlier ones."""
    from transformers.loss.loss_grounding_dino import GroundingDinoImageLoss

    maps = tuple(torch.eye(4)[:rows] for rows in (2, 3, 2))
    outputs = {"logits": torch.zeros(3, 5, 4), "label_maps": maps, "text_mask": torch.ones(3, 4, dtype=torch.bool)}
    targets = [{"class_labels": torch.tensor([1])} for _ in range(3)]
    indices = [(torch.tensor([0]), torch.tensor([0]))] * 3
    loss = GroundingDinoImageLoss(matcher=None, focal_alpha=0.25, losses=[])
    wrong = loss._get_target_classes_one_hot(outputs, targets, indices)
    right = [maps[row][1].argmax().item() for row in range(3)]
    assert [wrong[row, 0].argmax().item() for row in range(3)] != right
    dino = detector(grounding_dino)
    dino.model.eval()
    prompts = phrases(["square", "circle"])
    with torch.no_grad():
        whole = batch_loss(dino, [PICTURE] * 3, truths(), prompts)
        each = [batch_loss(dino, [PICTURE], [truth], prompts) for truth in truths()]
    objects = sum(len(truth) for truth in truths())
    assert float(whole) == pytest.approx(sum(map(float, each)) / objects, rel=0.02)  # each is over one object, or none


@pytest.mark.parametrize("tune", ["full", "linear", "prompt"])
def test_training_lowers_the_loss_and_leaves_no_trace(grounding_dino: Path, tune: str) -> None:
    dino = detector(grounding_dino)
    before = {name: value.clone() for name, value in dino.model.state_dict().items()}
    prompts = phrases(["square", "circle"])
    with unchanged(dino):
        choose(dino, tune)
        learned = [weight for weight in dino.model.parameters() if weight.requires_grad]
        share = sum(w.numel() for w in learned) / sum(w.numel() for w in dino.model.parameters())
        assert (share < 0.01) is (tune == "prompt")
        optimiser = torch.optim.AdamW(learned, lr=0.05 if tune == "prompt" else 3e-3)
        losses = []
        for _ in range(8):
            torch.manual_seed(0)
            loss = batch_loss(dino, [PICTURE] * 3, truths(), prompts)
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            losses.append(float(loss.detach()))
        assert min(losses[4:]) < losses[0]
    after = dino.model.state_dict()
    assert set(before) == set(after)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_closed_set_learns_its_own_classes_and_resumes_to_the_bit(closed: Path, tmp_path: Path) -> None:
    fields = {"steps": "4", "validate_every": "2", "batch_size": "2", "lr": "1e-3"}
    plain: dict[str, Any] = {"encoder": f"hf-detector:{closed}", "limit": 4, "show": False, "device": "cpu"}
    refused = gate_runner.run("micro/odinw-lot", output=tmp_path / "zero", **plain).results[0]
    assert "knows 5 classes of its own, the data set has 2: train it" in refused.reason
    plain |= {"recipe_fields": fields, "tune": "full"}
    results = gate_runner.run("micro/odinw-lot", output=tmp_path / "whole", **plain).results[0]
    assert results.status == "ok", results.reason
    assert (results.training["steps"], results.training["recipe"]["weight_decay"]) == (4, 0.05)
    assert [row["step"] for row in results.training["validation"]] == [0, 2, 4]

    class Stops(Observer):
        def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
            if phase == "train" and done == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gate_runner.run("micro/odinw-lot", output=tmp_path / "broken", observers=[Stops()], **plain)
    again = gate_runner.run("micro/odinw-lot", output=tmp_path / "broken", **plain).results[0]
    assert again.samples_sha256 == results.samples_sha256
    assert again.training["validation"] == results.training["validation"]
    assert again.training["losses"] == results.training["losses"]
    assert len(set(results.training["losses"])) == 2


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tune": "lora"}, "--tune lora is for encoders; a detector has frozen, linear, prompt or full"),
        ({"shots": "3"}, "--shots 3 trains a detector: say how with --tune linear, prompt or full"),
        ({"tune": "prompt"}, "--tune prompt learns what is added to a text encoder's tokens, and "),
        ({"tune": "full", "recipe_fields": {"speed": "1"}}, "unknown field of a recipe 'speed'"),
    ],
)
def test_what_a_detector_cannot_do_is_a_reason(closed: Path, tmp_path: Path, options: Any, reason: str) -> None:
    run = gate_runner.run("micro/odinw-lot", encoder=f"hf-detector:{closed}", output=tmp_path, limit=4, show=False,
                          device="cpu", **options)  # fmt: skip
    assert run.results[0].reason.startswith(reason)


def test_a_prompt_alone_learns_between_zero_shot_and_all_and_ends_when_validation_gains_nothing(
    grounding_dino: Path, tmp_path: Path
) -> None:
    """On a made-up set of ODinW's form: GLIP's rates, under a hundredth of the weights, no more than whole training."""
    plain: dict[str, Any] = {"encoder": f"hf-detector:{grounding_dino}", "limit": 8, "show": False, "device": "cpu"}
    results = {}
    for tune, fields in (
        ("frozen", {}), ("prompt", {"steps": "24"}),
        ("full", {"steps": "16", "lr": "3e-3", "stop": "none", "validate_every": "8"}),
        ("still", {"steps": "8", "lr": "1e-12", "stop": "none"}),
    ):  # fmt: skip
        done = gate_runner.run(
            "micro/odinw-lot",
            output=tmp_path / tune,
            tune=tune.replace("still", "prompt"),
            recipe_fields=fields,
            **plain,
        )
        results[tune] = done.results[0]
        assert results[tune].status == "ok", results[tune].reason
    prompt = results["prompt"].training
    assert (prompt["recipe"]["lr"], prompt["recipe"]["weight_decay"]) == (0.05, 0.25)
    assert (prompt["recipe"]["plateau_on"], prompt["recipe"]["patience"], prompt["recipe"]["stop"]) == (
        "validation",
        2,
        4,
    )
    assert prompt["trained_parameters"] == 16 * 16
    assert prompt["trained_parameters"] < 0.01 * results["full"].training["trained_parameters"] * 2
    start = prompt["validation"][0]["map"]
    assert start == results["full"].training["validation"][0]["map"]
    best = {tune: max(row["map"] for row in results[tune].training["validation"]) for tune in ("prompt", "full")}
    assert start <= best["prompt"] <= best["full"]
    # the score of so small a detector moves in steps: the loss says strictly where the prompt stands
    losses = {tune: results[tune].training["losses"] for tune in ("still", "prompt", "full")}
    assert all(own < still for own, still in zip(losses["prompt"], losses["still"], strict=True))
    assert losses["full"][-1] < min(losses["prompt"]) < min(losses["still"])
    scores = [row["map"] for row in prompt["validation"]]
    assert len(scores) - 1 - scores.index(max(scores)) <= 4
    table = overview([read_run(done) for done in sorted(tmp_path.iterdir())])[0]
    assert {row[1] for row in table.rows} == {"prompt", "full"}  # ELEVATER's table 4 has the prompt's row


@pytest.mark.parametrize(
    ("tune", "rate", "decay"), [("prompt", 0.05, 0.25), ("full", 1e-4, 0.05), ("linear", 1e-4, 0.05)]
)
def test_the_numbers_are_those_of_table_8(
    tune: str, rate: float, decay: float, grounding_dino: Path, tmp_path: Path
) -> None:
    (result,) = gate_runner.run(
        "micro/odinw-lot", encoder=f"hf-detector:{grounding_dino}", output=tmp_path / "run", limit=4, show=False,
        device="cpu", tune=tune, recipe_fields={"steps": "1"},
    )  # fmt: skip
    assert result.status == "ok", result.reason
    recipe = result.training["recipe"]
    assert (recipe["lr"], recipe["weight_decay"], recipe["batch_size"], recipe["factor"]) == (rate, decay, 4, 0.1)


def test_text_sides_learn_slower_and_biases_faster(grounding_dino: Path) -> None:
    learning = _Learning(detector(grounding_dino), phrases(["square"]), lambda row: PICTURE, torch.zeros(1, 1, 5))
    choose(learning.detector, "full")
    scales: dict[float, set[str]] = {}
    names = {id(weight): name for name, weight in learning.named_parameters()}
    for group in parameter_groups(learning, 0.05):
        scales.setdefault(round(group["lr_scale"], 6), set()).update(names[id(weight)] for weight in group["params"])
    assert set(scales) == {0.1, 0.2, 1.0, 2.0}
    assert all("text_backbone" in name for name in scales[0.1] | scales[0.2])
    assert not any("text_backbone" in name for name in scales[1.0] | scales[2.0])
    assert all(name.endswith("bias") for name in scales[0.2] | scales[2.0])


def test_features_of_a_detector_are_refused(grounding_dino: Path) -> None:
    encoder = load_encoder(f"hf-detector:{grounding_dino}")
    assert encoder.provides() == ["detector"]
    with pytest.raises(MissingCapabilityError, match="it gives boxes, no features"):
        encoder.encode_image(torch.zeros(1, 3, 8, 8, dtype=torch.uint8))
