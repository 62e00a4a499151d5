"""Train a model on questions about a knowledge base, from files to a folder that answers; needs the extra `torch`."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from oven_retrieval.encoding import entity_text
from oven_retrieval.kb import KnowledgeBase
from oven_retrieval.models.clip2clip import EQUAL_WEIGHTS, Clip2Clip, Weights, grid_search
from oven_retrieval.models.contrastive import Entities, Questions, Recipe, train_dual
from oven_retrieval.models.dual import Clip2ClipModule
from oven_retrieval.models.inputs import FeatureRows, PictureRows, TextRows, Work
from oven_retrieval.models.questions import Question, answer_rows, image_files
from oven_retrieval.models.trained import (
    KIND,
    KINDS,
    MODEL,
    WEIGHTS,
    EncodedDual,
    MakeTowers,
    ModelConfig,
    ReadPictures,
    TrainedModel,
    open_model,
    safetensors_torch,
    trained_parameters,
)
from oven_retrieval.pictures import Size, height_width
from oven_retrieval.progress import Progress, Say
from oven_retrieval.vectors import VectorStore, build_index
from wary_files.durable import locks, own_file

_GRID_QUESTIONS = 1000
_TUNING_QUESTIONS = 1000


def paper_recipe(kind: str, *, fine_tune: bool) -> Recipe:
    """The paper's recipe, with Adafactor.

    CLIP2CLIP: 2,000 steps at 1e-4. Fusion: 10,000 at 1e-3 with 1,000 of warm-up. Batches of 4,096, decay with the
    square root of the step to 1e-6. Where the encoder stays as it is, CLIP2CLIP's four weights take 1e-2: the paper's
    rate is for encoders, and would move them by a few hundredths.

    Source: OVEN sections 11.1 and 11.2.
    """
    if kind not in KINDS:
        raise ValueError(f"kind: expected one of {list(KINDS)}, got {kind!r}")
    if kind == "fusion":
        return Recipe(steps=10_000, lr=1e-3, warmup=1000, validate_every=250, optimiser="adafactor")
    return Recipe(steps=2000, lr=1e-4 if fine_tune else 1e-2, optimiser="adafactor")


@dataclass(frozen=True)
class TrainingOptions:
    """How `train_model` trains.

    `kind` `clip2clip` or `fusion`; `recipe` None for the paper's; `fine_tune` a regular expression over the encoder's
    weights, `all`, or None; `template` of the entities' texts; `candidates` entities that validation chooses among,
    besides those that are asked for (the whole knowledge base would cost too much at each look); `batch` images per
    call of the encoder; `width`, `heads`, `layers` of Fusion; `memory_mb`, `recall` of the index of entities.
    """

    kind: str = "clip2clip"
    recipe: Recipe | None = None
    fine_tune: str | None = None
    template: str = "name"
    candidates: int = 10_000
    batch: int = 64
    width: int = 768
    heads: int = 12
    layers: int = 2
    memory_mb: float | None = None
    recall: float = 0.96


@locks("output")
def train_model(
    kb: KnowledgeBase,
    train: Sequence[Question],
    validation: Sequence[Question],
    output: str | Path,
    make_towers: MakeTowers,
    *,
    encoder_name: str,
    read: ReadPictures,
    image_size: Size,
    pictures: Mapping[int, Path] | None = None,
    options: TrainingOptions | None = None,
    device: str = "cpu",
    say: Say | None = None,
    progress: Progress | None = None,
) -> TrainedModel:
    """Train CLIP2CLIP or CLIP Fusion, and write a folder that answers questions.

    `<output>.work` holds the features that were encoded so far: the same call after a kill encodes the
    rest, and trains.

    Args:
        kb: the knowledge base.
        train: questions of seen entities.
        validation: questions of seen and unseen entities, `seen` set.
        output: the new folder.
        make_towers: loads the encoder's image and text towers.
        encoder_name: its name with its fingerprint; kept.
        read: reads image files as the encoder takes them.
        image_size: side, or height and width, of the black image of entities without one.
        pictures: image file of each row that has one.
        options: how.
        device: of the parameters that are trained.
        say: called with one line per step.
        progress: called with what is encoded, how many are, and how many there are.

    Raises:
        FileExistsError: names the folder that is in the way.
        FolderError: unfinished work of another training is there.
        ImportError: safetensors is missing; the extra is named.
        ValueError: questions of unknown entities, no validation question of one kind, options that do not fit.

    Example:
        >>> import tempfile
        >>> from oven_retrieval import Entity, build_kb
        >>> from oven_retrieval.models import Tower
        >>> folder, weights = Path(tempfile.mkdtemp()), torch.nn.Linear(1, 1)
        >>> kb = build_kb([Entity(f"Q{i}", f"thing {i}") for i in range(6)], folder / "kb")
        >>> questions = [
        ...     Question(f"d{i}-{n}", Path(f"{i}.png"), "?", f"Q{i}", i < 4) for i in range(6) for n in range(2)
        ... ]
        >>> def read(files): return torch.stack([torch.full((3, 1, 1), int(file.stem)) for file in files])
        >>> def see(pictures): return torch.eye(7)[pictures[:, 0, 0, 0].long()]
        >>> def say(texts): return torch.eye(7)[[int(text[6:] or 6) for text in texts]]
        >>> model = train_model(
        ...     kb, questions[:8], questions, folder / "model", lambda: (Tower(weights, see), Tower(weights, say)),
        ...     encoder_name="toy@1", read=read, image_size=1,
        ...     options=TrainingOptions(recipe=Recipe(steps=2, batch_size=4, validate_every=1)),
        ... )
        >>> model.search(read([Path("3.png"), Path("5.png")]), ["?", "?"]).rows.tolist()
        [[3], [5]]
    """
    safetensors_torch()
    settings = options or TrainingOptions()
    if settings.kind not in KINDS:
        raise ValueError(f"kind: expected one of {list(KINDS)}, got {settings.kind!r}")
    recipe = settings.recipe or paper_recipe(settings.kind, fine_tune=settings.fine_tune is not None)
    talk = say or (lambda line: None)
    target = Path(output)
    if target.exists():
        raise FileExistsError(f"{target} exists; expected a new folder")
    files, frozen = pictures or {}, settings.fine_tune is None
    data = _Data.of(kb, train, validation, files, settings, recipe.seed)
    work = Work(
        target,
        {
            "encoder": encoder_name,
            "knowledge base": kb.hash,
            "template": settings.template,
            "candidates": settings.candidates,
            "seed": recipe.seed,
            "frozen": frozen,
            "questions": _digest([*train, *validation]),
            "entity images": _digest_files(files),
        },
        talk,
        progress,
    )
    features = _encode(work, data, make_towers, read, image_size, settings)
    weights = EQUAL_WEIGHTS if settings.kind == "fusion" else _start(data, features, talk)
    shape = (settings.width, settings.heads, settings.layers) if settings.kind == "fusion" else (0, 0, 0)
    dim = features.entity_images.shape[1]
    config = ModelConfig(settings.kind, kb.hash, encoder_name, settings.template, settings.fine_tune, dim, *shape)
    torch.manual_seed(recipe.seed)
    dual = EncodedDual(config, make_towers, weights)
    dual.module.to(device)
    entities, train_inputs, validation_inputs = _inputs(data, features, read, image_size, frozen=frozen)
    is_seen = torch.tensor([bool(question.seen) for question in validation])

    def log(step: int, seen: float, unseen: float, mean: float) -> None:
        talk(f"step {step:,} of {recipe.steps:,}: seen {seen:.1f} %, unseen {unseen:.1f} %, harmonic mean {mean:.1f}")

    result = train_dual(dual.module, train_inputs, entities, validation_inputs, is_seen, recipe, log)
    talk(f"kept step {result.step:,}: seen {result.seen:.1f} %, unseen {result.unseen:.1f} %")
    report: dict[str, Any] = {
        "training": asdict(result),
        "questions": len(train),
        "validation questions": len(validation),
        "validation candidates": len(data.rows),
        "recipe": asdict(recipe),
    }
    if isinstance(dual.module, Clip2ClipModule):
        report["weights"] = dual.module.weights._asdict()
    _finish(work, dual, kb, files, validation, read, image_size, settings, report)
    return open_model(target, kb, make_towers, encoder_name=encoder_name)


def _finish(
    work: Work,
    dual: EncodedDual,
    kb: KnowledgeBase,
    files: Mapping[int, Path],
    validation: Sequence[Question],
    read: ReadPictures,
    size: Size,
    options: TrainingOptions,
    report: Mapping[str, Any],
) -> None:
    """Encode and index all entities, tuned on validation questions; the folder takes its name when it is whole."""
    inputs = PictureRows(files, len(kb), read, size)

    def encode(first: int, last: int) -> Tensor:
        return torch.from_numpy(
            dual.entities(inputs[first:last], [entity_text(kb, row, options.template) for row in range(first, last)])
        )

    parameters = trained_parameters(dual.module)
    name = f"{dual.config.encoder}; {_digest_tensors(parameters)[:12]}"
    entities = work.encoded("entities", len(kb), encode, options.batch, kb=kb.hash, encoder=name, dtype="float16")
    chosen = list(validation[:: max(1, len(validation) // _TUNING_QUESTIONS)])
    batches = [chosen[first : first + options.batch] for first in range(0, len(chosen), options.batch)]
    queries = [dual.queries(read(image_files(part)), [question.text for question in part]) for part in batches]
    build_index(
        entities,
        work.path / "index",
        memory_mb=options.memory_mb,
        recall=options.recall,
        queries=np.concatenate(queries),
        overwrite=True,
        say=work.say,
        progress=work.progress,
    )
    weights = own_file(work.path / WEIGHTS)
    weights.touch()
    mode = weights.stat().st_mode  # safetensors puts a file in its place that nobody else may read
    safetensors_torch().save_file(parameters, weights)
    weights.chmod(stat.S_IMODE(mode))
    description = {"kind": KIND, "config": asdict(dual.config), "report": report}
    own_file(work.path / MODEL).write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
    work.path.rename(work.output)
    for entry in work.output.iterdir():
        if entry.name not in {MODEL, WEIGHTS, "entities", "index"}:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


class _Data(NamedTuple):
    """Questions, and the entities that training and validation choose among.

    `rows` of the knowledge base, rising; `truth`, `val_truth` places in `rows`; `files` image file of each place that
    has one; `texts` of the entities; `sample` training questions for the grid search.
    """

    train: Sequence[Question]
    validation: Sequence[Question]
    rows: npt.NDArray[np.int64]
    truth: npt.NDArray[np.int64]
    val_truth: npt.NDArray[np.int64]
    files: dict[int, Path]
    texts: list[str]
    sample: npt.NDArray[np.int64]

    @classmethod
    def of(
        cls,
        kb: KnowledgeBase,
        train: Sequence[Question],
        validation: Sequence[Question],
        pictures: Mapping[int, Path],
        options: TrainingOptions,
        seed: int,
    ) -> _Data:
        """Check the questions and choose the entities."""
        kinds = {question.seen for question in validation}
        if kinds != {True, False}:
            raise ValueError(
                "validation: expected questions of seen and of unseen entities, got those whose `seen` is "
                f"{sorted(map(str, kinds))}"
            )
        answers, val_answers = answer_rows(kb, train), answer_rows(kb, validation)
        rng = np.random.default_rng(seed)
        candidates = rng.permutation(len(kb))[: options.candidates]
        rows = np.unique(np.concatenate([answers, val_answers, candidates]))
        index_of = {row: index for index, row in enumerate(rows.tolist())}
        return cls(
            train,
            validation,
            rows,
            np.searchsorted(rows, answers),
            np.searchsorted(rows, val_answers),
            {index_of[row]: file for row, file in sorted(pictures.items()) if row in index_of},
            [entity_text(kb, row, options.template) for row in rows.tolist()],
            np.sort(rng.permutation(len(train))[:_GRID_QUESTIONS]),
        )


class _Features(NamedTuple):
    """What the untrained encoder gives: of the questions that were encoded, and of the entities of `_Data.rows`.

    Those of questions stay on disk: there may be millions. `sample` says which of them are `_Data.sample`.
    """

    question_images: VectorStore
    question_texts: VectorStore
    entity_images: Tensor
    entity_texts: Tensor
    black: Tensor
    sample: npt.NDArray[np.int64]


def _encode(
    work: Work, data: _Data, make_towers: MakeTowers, read: ReadPictures, size: Size, options: TrainingOptions
) -> _Features:
    """Encode all questions, or the sample alone where the encoder will change; and the entities."""
    image, text = make_towers()
    frozen, batch = options.fine_tune is None, options.batch
    questions = [*data.train, *data.validation] if frozen else [data.train[i] for i in data.sample.tolist()]
    with torch.no_grad():
        black = image(torch.zeros(1, 3, *height_width(size), dtype=torch.uint8)).float().cpu()
    entity_images = black.repeat(len(data.rows), 1)
    pictured = list(data.files)
    if pictured:
        pictures = work.encoded(
            "entity-images", len(pictured), lambda a, b: image(read([data.files[i] for i in pictured[a:b]])), batch
        )
        entity_images[pictured] = torch.from_numpy(pictures.rows(0, len(pictured)).copy())
    texts = work.encoded("entity-texts", len(data.texts), lambda a, b: text(data.texts[a:b]), batch)
    return _Features(
        work.encoded("question-images", len(questions), lambda a, b: image(read(image_files(questions[a:b]))), batch),
        work.encoded("question-texts", len(questions), lambda a, b: text([q.text for q in questions[a:b]]), batch),
        entity_images,
        torch.from_numpy(texts.rows(0, len(texts)).copy()),
        black[0],
        data.sample if frozen else np.arange(len(data.sample)),
    )


def _start(data: _Data, features: _Features, say: Say) -> Weights:
    """Weights from a grid search on training questions."""
    has_image = np.isin(np.arange(len(data.rows)), list(data.files))
    model = Clip2Clip(
        features.entity_texts.numpy(),
        features.entity_images[torch.from_numpy(has_image)].numpy(),
        has_image,
        features.black.numpy(),
    )
    best = grid_search(
        model,
        features.question_images.array[features.sample],
        features.question_texts.array[features.sample],
        data.truth[data.sample],
    )
    weights = ", ".join(f"{name} {value:g}" for name, value in best.weights._asdict().items())
    say(f"grid search on {len(data.sample):,} training questions: {weights}; {best.accuracy:.1%} right")
    return best.weights


def _inputs(
    data: _Data, features: _Features, read: ReadPictures, size: Size, *, frozen: bool
) -> tuple[Entities, Questions, Questions]:
    """Entities, training and validation questions as the module takes them: features, or images and texts."""
    answers = torch.from_numpy(data.truth), torch.from_numpy(data.val_truth)
    if frozen:
        split, end = len(data.train), len(data.train) + len(data.validation)
        train_inputs, validation_inputs = (
            Questions(FeatureRows(features.question_images, *part), FeatureRows(features.question_texts, *part), truth)
            for part, truth in zip(((0, split), (split, end)), answers, strict=True)
        )
        return Entities(features.entity_images, features.entity_texts), train_inputs, validation_inputs
    train_inputs, validation_inputs = (
        Questions(PictureRows(image_files(part), len(part), read, size), TextRows([q.text for q in part]), truth)
        for part, truth in zip((data.train, data.validation), answers, strict=True)
    )
    pictures = PictureRows(data.files, len(data.rows), read, size)
    return Entities(pictures, TextRows(data.texts), len(data.rows)), train_inputs, validation_inputs


def _digest(questions: Sequence[Question]) -> str:
    digest = hashlib.sha256()
    for question in questions:
        digest.update(
            repr((question.data_id, Path(question.image or "").name, question.text, question.entity_id)).encode()
        )
    return digest.hexdigest()


def _digest_files(pictures: Mapping[int, Path]) -> str:
    return hashlib.sha256(repr([(row, file.name) for row, file in sorted(pictures.items())]).encode()).hexdigest()


def _digest_tensors(parameters: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(parameters.items()):
        digest.update(name.encode())
        digest.update(value.double().numpy().tobytes())
    return digest.hexdigest()
