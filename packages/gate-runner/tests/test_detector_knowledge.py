"""Knowledge behind the names that detectors read: GLIP's file, several texts, and what no source knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gate_runner
from gate_runner.detection.knowledge import known_phrases
from gate_runner.errors import DataError, UsageError
from gate_runner.settings import Settings
from vision_features.encoders import load_encoder
from vision_features.encoders.detectors import Detector, Phrase, phrases

from ._tiny_detectors import closed_set, grounding, owl

pytest.importorskip("transformers")
pytest.importorskip("yaml")
PICTURE = np.random.default_rng(0).integers(0, 255, (48, 64, 3)).astype(np.uint8)
FILE = """\
square:
  def_wiki: a red dog
  def_wn: red
  gpt3: [' black fish', orange, a b c]
  path_wn: [square, small_fish]
circle: {def_wiki: null, def_wn: '', gpt3: [small], path_wn: ''}
"""


@pytest.fixture(scope="module")
def knowledge(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("knowledge") / "odinw.yaml"
    path.write_text(FILE)
    return f"glip={path}"


@pytest.fixture(scope="module")
def dino(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return grounding(tmp_path_factory.mktemp("grounding"))


def detector_of(path: Path) -> Detector:
    detector = load_encoder(f"hf-detector:{path}").detector
    assert detector is not None
    return detector


@pytest.mark.parametrize(
    ("kind", "square", "unknown"),
    [
        ("wn_path", ["square, square, small fish"], ("circle",)),
        ("wn_def", ["square, red"], ("circle",)),
        ("wiki_def", ["square, a red dog"], ("circle",)),
        ("gpt3:2", ["square, black fish", "square, orange"], ()),
        ("gpt3", ["square, black fish", "square, orange", "square, a b c"], ()),
        ("wiki_def&gpt3:1", ["square, a red dog", "square, black fish"], ()),
    ],
)
def test_each_kind_follows_the_name_after_a_comma(
    knowledge: str, kind: str, square: list[str], unknown: tuple[str, ...]
) -> None:
    known = known_phrases("x", ["square", "circle", "(unlabelled)"], kind, knowledge)
    assert [single.text for single in known.phrases[0].each] == square
    assert known.unknown == unknown
    assert known.phrases[1].text == ("circle" if unknown else "circle, small")
    assert known.phrases[2] == Phrase("")


def test_a_score_is_the_mean_over_a_classs_texts_in_one_prompt(dino: Path) -> None:
    detector = detector_of(dino)
    read = [Phrase("square", "", ", red", (", a dog",)), Phrase("circle")]
    text, spans = detector.caption(read)
    assert text == "square, red. square, a dog. circle."
    assert [text[start:stop] for start, stop in spans] == ["square", "square", "circle"]
    spotted = detector.spot(PICTURE, read)
    inputs = detector.processor(images=PICTURE, text=text, return_tensors="pt")
    with torch.inference_mode():
        chance = detector.model(**inputs).logits[0].sigmoid()
    words = detector.processor.tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
    own = [place for place, word in enumerate(words) if word == "square"]
    assert len(own) == 2
    torch.testing.assert_close(spotted.scores[:, 0], chance[:, own].mean(dim=1))
    torch.testing.assert_close(spotted.scores[:, 1], chance[:, words.index("circle")])


def test_owls_boxes_are_the_images_and_scores_the_mean_over_passes(tmp_path: Path) -> None:
    detector = Detector(*owl(tmp_path))
    both = detector.spot(PICTURE, [Phrase("square", "", ", red", (", a dog",)), Phrase("circle")])
    passes = [
        detector.spot(PICTURE, [Phrase("square", "", suffix), Phrase("circle")]) for suffix in (", red", ", a dog")
    ]
    torch.testing.assert_close(both.boxes, passes[0].boxes)
    torch.testing.assert_close(both.scores, (passes[0].scores + passes[1].scores) / 2)
    assert not torch.allclose(passes[0].scores[:, 0], passes[1].scores[:, 0], atol=1e-6)


def test_texts_that_do_not_fit_are_shortened_and_counted(dino: Path) -> None:
    detector = detector_of(dino)
    read = [Phrase("square", "", "," + " fish" * 30), Phrase("circle", "", ", a b c a b c", (", red fish dog person",))]
    fitted, cut = detector.fitting([*read, Phrase("dog", "", ", red")])
    assert cut == 2
    assert fitted[1] == Phrase("circle", "", ", a b c a b c")
    assert read[0].text.startswith(fitted[0].text)
    assert len(detector.processor.tokenizer(detector.caption(fitted[:1])[0])["input_ids"]) == detector.room
    assert detector.spot(PICTURE, fitted).scores.shape[1] == 3


def test_a_run_reports_its_knowledge_and_refuses_what_cannot_read_it(
    dino: Path, knowledge: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain: dict[str, Any] = {"limit": 3, "show": False, "device": "cpu", "knowledge_from": knowledge}
    digests = {}
    for kind in ("wn_def", "wiki_def & gpt3:1"):
        output = tmp_path / kind[:3]
        run = gate_runner.run(
            "micro/odinw-lot", encoder=f"hf-detector:{dino}", output=output, prompts=kind, **plain
        )  # fmt: skip
        (result,) = run.results
        assert result.status == "ok", result.reason
        digests[kind] = result.training["prompts"]
        if kind == "wn_def":
            page = gate_runner.report(output, pictures=0)
            assert "Without knowledge, read by their names alone: 1 class, circle." in page
            assert "odinw-lot: wn_def has nothing on 1 of 2 classes, read by name alone: circle" in caplog.text
    assert digests["wn_def"]["read"] == ["square, red", "circle"]
    assert digests["wn_def"]["unknown"] == ["circle"]
    assert digests["wiki_def & gpt3:1"]["read"] == ["square, a red dog | square, black fish", "circle, small"]
    assert digests["wiki_def & gpt3:1"]["kind"] == "wiki_def&gpt3:1"
    closed = closed_set(tmp_path / "closed", "detr")
    for number, (path, options, reason) in enumerate((
        (closed, {"prompts": "wn_def"}, "setting prompts=wn_def is for detectors that read names, not detr"),
        (dino, {"prompts": "gpt3", "tune": "full"}, "--tune full trains with one text of a class"),
    )):  # fmt: skip
        refused = gate_runner.run(
            "micro/odinw-lot", encoder=f"hf-detector:{path}", output=tmp_path / f"no{number}", **plain, **options
        )
        assert refused.results[0].reason.startswith(reason)


def test_what_no_source_knows_is_one_line(knowledge: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"wn_def knows none of 2 classes: 'dog'"):
        known_phrases("x", ["dog", "cat"], "wn_def", knowledge)
    own = tmp_path / "own.json"
    own.write_text('{"dog": ["A dog."]}')
    with pytest.raises(UsageError, match=r"setting prompts=wn_path reads wordnet-path; cupl=.* has cupl"):
        known_phrases("x", ["dog"], "wn_path", f"cupl={own}")
    with pytest.raises(UsageError, match=r"needs knowledge_from=NAME=PATH, such as glip=FILE"):
        Settings(prompts="gpt3:2")
    with pytest.raises(UsageError, match="knowledge_from goes with prompts of knowledge"):
        Settings(knowledge_from="glip=x")
    for wrong in ("gpt3:6", "gpt", "names:2", "wn_def:1"):
        with pytest.raises(UsageError, match="setting prompts"):
            Settings(prompts=wrong, knowledge_from="glip=x")
    assert phrases(["a_b"])[0].each == [Phrase("a b")]
