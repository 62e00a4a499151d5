"""A trained model in a folder: its weights, and the vectors and the index of all entities; needs the extra `torch`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from oven_retrieval.encoding import as_array
from oven_retrieval.folder import FolderError
from oven_retrieval.kb import KnowledgeBase
from oven_retrieval.models.clip2clip import EQUAL_WEIGHTS, Weights
from oven_retrieval.models.dual import Clip2ClipModule, ClipFusion
from oven_retrieval.models.questions import Question, image_files
from oven_retrieval.progress import Progress
from oven_retrieval.ranking import Ranking
from oven_retrieval.vectors import VectorIndex, VectorStore, open_index
from oven_retrieval.vectors.store import Float32
from wary_files.durable import locks, naming, own_file, unfinished
from wary_files.json_files import JsonFileError, read_json
from wary_files.text import json_text

KIND = "oven-model"
KINDS = ("clip2clip", "fusion")
MODEL, WEIGHTS = "model.json", "model.safetensors"

MakeTowers = Callable[[], "tuple[Tower, Tower]"]
"""Loads the encoder anew: its image tower and its text tower."""
ReadPictures = Callable[[Sequence[Path]], Tensor]
"""Image files to a batch [n, 3, h, w] that the encoder takes."""


class Tower(nn.Module):
    """One side of an encoder: a function over the weights of a module; always in evaluation mode.

    Args:
        module: holds the weights.
        encode: a batch to features [n, d], through these weights.

    Example:
        >>> weights = nn.Linear(2, 3)
        >>> tower = Tower(weights, lambda batch: weights(batch.float()))
        >>> tower(torch.zeros(5, 2)).shape, tower.train().training
        (torch.Size([5, 3]), False)
    """

    def __init__(self, module: nn.Module, encode: Callable[[Any], Tensor]) -> None:
        super().__init__()
        self.module, self._encode = module, encode

    def train(self, mode: bool = True) -> Tower:
        """Stay in evaluation mode: statistics of normalisation layers stay those of the pre-training."""
        super().train(False)
        return self

    def forward(self, batch: Any) -> Tensor:
        """Features of a batch."""
        return self._encode(batch)


@dataclass(frozen=True)
class ModelConfig:
    """What a trained model is made from.

    `kind` one of `KINDS`; `kb` hash of the knowledge base; `encoder` name with fingerprint; `template` of the
    entities' texts; `fine_tune` which of the encoder's weights were trained, None for none; `dim` width of the
    encoder's features; `width`, `heads`, `layers` of Fusion.
    """

    kind: str
    kb: str
    encoder: str
    template: str
    fine_tune: str | None
    dim: int
    width: int = 0
    heads: int = 0
    layers: int = 0


def safetensors_torch() -> Any:
    """The module `safetensors.torch`, or say which extra brings it."""
    try:
        return import_module("safetensors.torch")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "safetensors":
            raise
        raise ImportError("trained models need safetensors: pip install 'oven-retrieval[torch]'") from error


def train_only(model: nn.Module, towers: Sequence[Tower], pattern: str) -> int:
    """Let the towers' weights whose name matches a regular expression learn, and freeze the others."""
    try:
        expression = re.compile("" if pattern == "all" else pattern)
    except re.error as error:
        raise ValueError(f"fine_tune: expected a regular expression, got {pattern!r}: {error}") from None
    model.requires_grad_(True)
    chosen, names = 0, dict[str, None]()
    for module in {id(tower.module): tower.module for tower in towers}.values():
        for name, parameter in module.named_parameters():
            names[name] = None
            parameter.requires_grad_(bool(expression.search(name)) and parameter.is_floating_point())
            chosen += parameter.numel() * parameter.requires_grad
    if not chosen:
        shown = list(names)[:: max(1, len(names) // 5)][:6]
        raise ValueError(f"fine_tune: no weight's name matches {pattern!r}; some of the names are {shown}")
    return chosen


class EncodedDual:
    """A dual encoder over images and texts: the module, and the towers in front of it."""

    def __init__(self, config: ModelConfig, make_towers: MakeTowers, weights: Weights = EQUAL_WEIGHTS) -> None:
        if config.kind not in KINDS:
            raise ValueError(f"kind: expected one of {list(KINDS)}, got {config.kind!r}")
        self.config = config
        self.image, self.text = make_towers()
        self.module: Clip2ClipModule | ClipFusion
        towers: dict[str, Any] = {}
        if config.fine_tune is not None:
            image, text = make_towers()
            towers = {
                "query_image": self.image,
                "query_text": self.text,
                "entity_image": image,
                "entity_text": text,
            }
        if config.kind == "fusion":
            width, heads, layers = config.width, config.heads, config.layers
            self.module = ClipFusion(config.dim, width=width, heads=heads, layers=layers, **towers)
        else:
            self.module = Clip2ClipModule(weights, **towers)
        if config.fine_tune is not None:
            train_only(self.module, list(towers.values()), config.fine_tune)

    @property
    def _device(self) -> torch.device:
        return next(self.module.parameters()).device

    def _inputs(self, pictures: Tensor, texts: Sequence[str]) -> tuple[Any, Any]:
        if self.config.fine_tune is not None:
            return pictures, list(texts)
        return self.image(pictures).to(self._device), self.text(list(texts)).to(self._device)

    @torch.no_grad()
    def queries(self, pictures: Tensor, texts: Sequence[str]) -> Float32:
        """Vectors of questions."""
        return np.asarray(as_array(self.module.eval().query(*self._inputs(pictures, texts))), dtype=np.float32)

    @torch.no_grad()
    def entities(self, pictures: Tensor, texts: Sequence[str]) -> Float32:
        """Vectors of entities."""
        return np.asarray(as_array(self.module.eval().entity(*self._inputs(pictures, texts))), dtype=np.float32)


class TrainedModel:
    """Answers questions about images: what `train_model` and `open_model` give (see there)."""

    def __init__(self, dual: EncodedDual, index: VectorIndex, kb: KnowledgeBase, report: dict[str, Any]) -> None:
        self.dual, self.index, self.kb, self.report = dual, index, kb, report

    def search(self, pictures: Tensor, texts: Sequence[str], k: int = 1) -> Ranking:
        """The k best entities for each image and question."""
        if len(pictures) != len(texts):
            raise ValueError(f"images, texts: expected one of each per question, got {len(pictures)}, {len(texts)}")
        answers = self.index.search(self.dual.queries(pictures, texts), k)
        answers.kb = self.kb
        return answers


def trained_parameters(module: nn.Module) -> dict[str, Tensor]:
    """The numbers that training may have changed, each once."""
    return {name: value.detach().cpu().contiguous() for name, value in module.named_parameters() if value.requires_grad}


def _fits(stored: Tensor | None, expected: Tensor | None) -> bool:
    """Whether stored numbers can take the place of others."""
    if stored is None or expected is None or (stored.shape, stored.dtype) != (expected.shape, expected.dtype):
        return False
    return bool(stored.isfinite().all())


def read_config(folder: str | Path) -> tuple[ModelConfig, dict[str, Any]]:
    """What a model folder says of itself: its making, and what training found."""
    file = Path(folder) / MODEL
    try:
        description = read_json(file)
        if description["kind"] != KIND:
            raise KeyError("kind")
        return ModelConfig(**description["config"]), dict(description["report"])
    except FileNotFoundError:
        raise FolderError(f"{folder}: expected a folder of `train` with {MODEL}; there is none") from None
    except (KeyError, TypeError, JsonFileError) as error:
        raise FolderError(f"{file}: not the description of a trained model: {type(error).__name__}: {error}") from None


def open_model(folder: str | Path, kb: KnowledgeBase, make_towers: MakeTowers, *, encoder_name: str) -> TrainedModel:
    """Open what `train_model` has written.

    Args:
        folder: the model.
        kb: the knowledge base that it was trained for.
        make_towers: loads the encoder.
        encoder_name: its name with its fingerprint.

    Raises:
        FolderError: damaged, or made for other entities or with another encoder (both are shown).

    Example:
        >>> import tempfile
        >>> from types import SimpleNamespace
        >>> try:
        ...     open_model(tempfile.mkdtemp(), SimpleNamespace(hash="k"), lambda: None, encoder_name="toy@1")
        ... except FolderError as error:
        ...     print(str(error).partition(": ")[2])
        expected a folder of `train` with model.json; there is none
    """
    config, report = read_config(folder)
    for label, expected, actual in (("kb", kb.hash, config.kb), ("encoder", encoder_name, config.encoder)):
        if expected != actual:
            raise FolderError(f"{folder}: {label} is {actual!r}, expected {expected!r}; train again")
    dual = EncodedDual(config, make_towers)
    weights = Path(folder) / WEIGHTS
    if not weights.is_file():  # a pipe is waited for without end
        raise FolderError(f"{weights} is no file; train again")
    load_file = safetensors_torch().load_file
    try:
        stored = load_file(weights)
    except (OSError, ValueError, import_module("safetensors").SafetensorError) as error:
        raise FolderError(f"{weights} cannot be read: {error}; train again") from None
    parameters = trained_parameters(dual.module)
    differing = [name for name in sorted({*stored, *parameters}) if not _fits(stored.get(name), parameters.get(name))]
    if differing:
        raise FolderError(f"{folder}: {WEIGHTS} does not fit the model; they differ in {differing[:3]}")
    dual.module.load_state_dict(stored, strict=False)
    dual.module.eval()
    store = VectorStore(Path(folder) / "entities", kb=kb.hash)
    return TrainedModel(dual, open_index(Path(folder) / "index", store), kb, report)


@locks("path")
def write_predictions(
    model: TrainedModel,
    questions: Sequence[Question],
    path: str | Path,
    read: ReadPictures,
    *,
    batch: int = 64,
    progress: Progress | None = None,
) -> Path:
    """Answer questions and write OVEN's prediction jsonl: data_id, pred_entity_id, and the name and the score.

    A question without an answer (there is no entity) has null as its id and score. The file appears when it is whole.

    Example:
        >>> import json, tempfile
        >>> from types import SimpleNamespace
        >>> first = Ranking(np.array([[0]]), np.array([[0.9]], np.float32))
        >>> kb = SimpleNamespace(ids=["Q1"], names=["Duck"])
        >>> model = SimpleNamespace(search=lambda pictures, texts: first, kb=kb)
        >>> file = Path(tempfile.mkdtemp()) / "answers.jsonl"
        >>> questions = [Question("d1", Path("1.png"), "what?")]
        >>> file = write_predictions(model, questions, file, lambda files: torch.zeros(1))
        >>> json.loads(file.read_text())["pred_entity_id"]
        'Q1'
    """
    target = Path(path)
    partial = own_file(unfinished(target))
    try:
        with naming(partial), partial.open("w", encoding="utf-8") as file:
            for first in range(0, len(questions), batch):
                part = questions[first : first + batch]
                neighbours = model.search(read(image_files(part)), [q.text for q in part])
                for question, row, score in zip(
                    part, neighbours.rows[:, 0].tolist(), neighbours.scores[:, 0].tolist(), strict=True
                ):
                    record = {
                        "data_id": question.data_id,
                        "pred_entity_id": model.kb.ids[row] if row >= 0 else None,
                        "pred_entity_text": model.kb.names[row] if row >= 0 else "",
                        "score": round(score, 5) if row >= 0 else None,
                    }
                    file.write(json_text(record, allow_nan=False) + "\n")
                if progress is not None:
                    progress("questions", min(first + batch, len(questions)), len(questions))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target
