"""Recipes of trainings in which the encoder takes part: by name, from a file, and field by field."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from gate_runner.errors import UsageError, unknown
from gate_runner.settings.values import ENSEMBLE_FIELD, ensemble_in
from gate_runner.tasks.registry import known_task_type

if TYPE_CHECKING:
    from torch import nn

    from gate_runner.settings import Settings
    from gate_runner.tasks.joint import Moves
    from vision_adapters.heads.linear import FeatureNorm
    from vision_adapters.training import Recipe
    from vision_adapters.training.gate import Family

_LOG = logging.getLogger(__name__)

_QUICK = {"steps": 450, "batch_size": 32, "validate_every": 50, "schedule": "cosine", "warmup": 10,
          "head_lr_scale": 3.0, "clip_norm": 1.0}  # fmt: skip
"""Of episodes 150 steps. On validation, from where the frozen features end (micro-clip, seed 0): on the stand-in of
ImageNet .385 at the start, .450 after 150 steps, .473 after 400; of ADE20K .317, .366, .408; of CUB's episodes .873,
and .992 after 150. All are in the figures of ``experiments/tuning_table.py``."""
_STARTS = ("probe", "random")
SIZE_FIELDS = ("head_width", "head_depth")
"""Fields for tasks whose head is a transformer: maps, questions and clips."""
HEAD_FIELDS = ("head_norm", "logit_scale", "train_scale")
"""Fields that only sweeps have which train whole encoders: ELEVATER's table 9."""
_NORMS: dict[str, FeatureNorm] = {"none": "raw", "l2": "l2", "batchnorm": "batchnorm", "l2-batchnorm": "l2-batchnorm"}
AUGMENTATIONS = ("none", "gate", "randaugment", "crop", "flip", "crop-flip")
_YES, _NO = ("true", "1", "yes"), ("false", "0", "no")
_POLICY = re.compile(r"rand(-(m|n|mstd|mmax|p|inc|w)\d{1,3}(\.\d{1,3})?)*")
_MOST = 10**9
"""Of steps and samples: more is a slip."""
_SOLVED_TASK, _SOLVED_RATE = "image-classification", 1e-4
"""Chosen on validation of the stand-in of ImageNet, from a solved head (micro-clip, seed 0), rather than 3e-5."""
_QUICK_RATE = {"full": 3e-4, "last-block": 1e-3, "lora": 2e-3, "bias": 2e-3, "norm": 2e-3}
"""Of ``full``, chosen on validation (micro-clip, seed 0, heads trained on the frozen features before): on the stand-in
of CLEVR-Math rather than 1e-4 and 1e-3, on that of ADE20K rather than 1e-4."""


def recipe_for(settings: Settings, module: nn.Module, task: str) -> Recipe:
    """The recipe by which an encoder is trained."""
    from vision_adapters.training import family_of

    family = family_of(module)
    if family is None:
        _LOG.warning("no known architecture family: %s is trained at the rate of transformers", type(module).__name__)
    return recipe_of_family(settings, family, task)


def recipe_of_family(settings: Settings, family: Family | None, task: str) -> Recipe:
    """The recipe of an architecture family; see `recipe_for`."""
    from vision_adapters.training import Recipe, gate_recipe

    changes = checked(settings.recipe_fields)
    try:
        if settings.recipe == "gate":
            return gate_recipe(family or "vit", known_task_type(task).gate_recipe, **changes)
        rate = _QUICK_RATE[settings.tune]
        if settings.tune == "full" and family == "convolutional":
            rate = 1e-3
        elif settings.tune == "full" and task == _SOLVED_TASK and starts_at_probe(settings):
            rate = _SOLVED_RATE
        return Recipe(**{"lr": rate, **_QUICK, **known_task_type(task).quick, **changes})
    except (TypeError, ValueError) as error:
        raise UsageError(f"recipe: {error}") from error


def in_words(recipe: Mapping[str, Any], *, augment: str = "none", start: str = "", rate: str = "") -> str:
    """A recipe in one line."""
    head = f", head x {recipe['head_lr_scale']:g}" if recipe["head_lr_scale"] != 1 else ""
    varied = "" if augment == "none" else augment.replace("randa", "RandA") + ", "
    return (
        f"AdamW at {rate or format(recipe['lr'], 'g')}{head}, {recipe['schedule']}; {recipe['steps']:,} steps of "
        f"{recipe['batch_size']}, validated every {recipe['validate_every']}; {varied}"
        f"{recipe['precision'].replace('auto', 'bfloat16 where the GPU has it')}"
        f"{'; ' if start else ''}{start}"
    )


def announced(settings: Settings, task: str) -> str:
    """The recipe of a task before an encoder is there, with a learning rate for each architecture family."""
    families: dict[Family, str] = {"vit": "transformers", "hybrid": "hybrids", "convolutional": "convolutional"}
    rates = {words: recipe_of_family(settings, name, task).lr for name, words in families.items()}
    single = len(set(rates.values())) == 1
    by_kind = "" if single else ", ".join(f"{rate:g} ({words})" for words, rate in rates.items())
    recipe = asdict(recipe_of_family(settings, "vit", task))
    augment = augmentation_for(augmentation_of(settings), task)
    return in_words(recipe, augment=augment, start=start_in_words(settings, task), rate=by_kind)


def start_in_words(settings: Settings, task: str) -> str:
    """Where the heads of a task start, before an encoder is there; nothing where it is at random."""
    probe = "at the probe" if starts_at_probe(settings) else ""
    if task == _SOLVED_TASK and settings.wise_ft is not None:
        return f"heads start at the class prompts, of encoders without a text side {probe or 'at random'}"
    if task == "detection" and probe:
        return "heads start at the probe, those of whole detectors where they are"
    return f"heads start {probe}" if probe else ""


def augmentation_of(settings: Settings) -> str:
    """How training images are varied: as GATE does, and in quick recipes not at all, unless a recipe says otherwise.

    ``gate`` is what GATE does for the task: `augmentation_for`.
    """
    return checked_augmentation(settings.recipe_fields.get("augment", settings.recipe == "gate"))


def moves_of(name: str, task: str) -> Moves | None:
    """How images of a task are moved together with what their places are labelled with; None where nothing is.

    Raises:
        UsageError: an augmentation that would move images alone; the message has those that move both.
    """
    from gate_runner.tasks.joint import OF_NAMES, OF_TASKS

    kind = task if task in OF_TASKS else known_task_type(task).gate_recipe
    if name == "gate":
        return OF_TASKS.get(kind)
    if kind == "fewshot" and name != "none":
        raise UsageError(f"augment={name}: images of episodes are not varied: expected gate or none for {task}")
    if kind not in ("segmentation", "medical_segmentation", "depth", "detection"):
        return None
    if name in OF_NAMES or name == "none":
        return OF_NAMES.get(name)
    raise UsageError(
        f"augment={name} moves images, and not what their places are labelled with: expected gate, crop, flip, "
        f"crop-flip or none for {task}"
    )


def augmentation_for(name: str, task: str) -> str:
    """What ``gate`` is for a task, in words or as a name; GATE's few-shot episodes are not varied."""
    moves = moves_of(name, task)
    if name != "gate":
        return name
    if moves is not None:
        return moves.in_words()
    return "none" if known_task_type(task).gate_recipe == "fewshot" else "randaugment"


def checked_augmentation(name: object) -> str:
    """The name of an augmentation, "none" for "no"; anything else is refused."""
    text = str(name).lower()
    text = "gate" if text in _YES else "none" if text in _NO else text
    if text in AUGMENTATIONS or _POLICY.fullmatch(text):
        return text
    raise unknown("augmentation", str(name), AUGMENTATIONS)


def starts_at_probe(settings: Settings) -> bool:
    """Whether heads start where they end on the frozen features: in quick recipes, unless ``head_start=random``."""
    start = settings.recipe_fields.get("head_start", "probe" if settings.recipe == "quick" else "random")
    if start not in _STARTS:
        raise unknown("value of head_start", str(start), _STARTS)
    return bool(start == "probe")


_MAP_HEADS = ("ridge", "transformer")


def is_solved(settings: Settings, training: Mapping[str, Any]) -> bool:
    """Whether the head of class maps is solved by ridge regression: no field of a recipe is set for it.

    A benchmark's ``head`` is ``"ridge"`` on the stand-ins, and where one's own benchmark asks for it. Behind encoders
    that are trained, by any recipe, heads are transformers.
    """
    return settings.tune == "frozen" and not settings.recipe_fields and training.get("head") == "ridge"


class HeadSize(NamedTuple):
    """A transformer's numbers of a task's head."""

    width: int = 128
    depth: int = 2
    heads: int = 4


_GATES_HEADS = {
    "segmentation": HeadSize(1024, 8, 8), "medical_segmentation": HeadSize(1024, 8, 8),
    "relational": HeadSize(512, 4, 8), "video": HeadSize(512, 4, 8),
}  # fmt: skip
"""GATE, section 3: the decoder of maps, of questions, and the four layers over frames."""


def head_size(settings: Settings, task: str) -> HeadSize:
    """The head's transformer: GATE's with its recipe, else a small one; ``head_width`` and ``head_depth`` go before."""
    size = HeadSize()
    if settings.recipe == "gate" and task != "depth":
        size = _GATES_HEADS.get(known_task_type(task).gate_recipe, size)
    return size._replace(**_head_numbers(settings.recipe_fields))


def _head_numbers(values: Mapping[str, Any]) -> dict[str, int]:
    numbers = {}
    for field in SIZE_FIELDS:
        if field not in values:
            continue
        text = str(values[field])
        if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= 2**14:
            raise UsageError(f"recipe: {field} is {values[field]!r}, expected a whole number of at least 1")
        numbers[field.removeprefix("head_")] = int(text)
    if numbers.get("width", 8) % 8:
        raise UsageError(f"recipe: head_width is {numbers['width']}, expected a multiple of 8")
    return numbers


class HeadForm(NamedTuple):
    """How the head of a sweep's whole training takes its features; None is what goes with the recipe."""

    norm: FeatureNorm | None = None
    scale: float | None = None
    train_scale: bool = False


def head_form(settings: Settings) -> HeadForm:
    """Fields of the recipe that a sweep's heads have: ``head_norm``, ``logit_scale`` and ``train_scale``.

    With ``probe=elevater`` they are batch normalisation without affine parameters and a scale of 1, as in ELEVATER's
    section F.3; otherwise length 1 and the encoder's own scale.
    """
    form = _head_form(settings.recipe_fields)
    if settings.probe != "elevater":
        return form
    return form._replace(norm=form.norm or "batchnorm", scale=form.scale or 1.0)


def _head_form(values: Mapping[str, Any]) -> HeadForm:
    norm, scale = values.get("head_norm"), values.get("logit_scale")
    if norm is not None and norm not in _NORMS:
        raise unknown("value of head_norm", str(norm), tuple(_NORMS))
    try:
        number = None if scale is None else float(scale)
    except (TypeError, ValueError):
        number = math.nan
    if number is not None and not (number > 0 and math.isfinite(number)):
        raise UsageError(f"recipe: logit_scale is {scale!r}, expected a number above 0, e.g. 1 or 100")
    train = str(values.get("train_scale", False)).lower()
    if train not in (*_YES, *_NO):
        raise unknown("value of train_scale", train, ("true", "false"))
    return HeadForm(None if norm is None else _NORMS[norm], number, train in _YES)


def checked_own(task: str, values: Mapping[str, Any]) -> None:
    """Refuse what the training of one's own benchmark does not have; ``head`` is one of the heads of class maps.

    Raises:
        UsageError: unknown fields or values, a head for another task, or steps for a head that is solved.
    """
    steps = {name: value for name, value in values.items() if name != "head"}
    checked(steps)
    if "head" not in values:
        return
    if task != "segmentation":
        raise UsageError(f"recipe: head is for benchmarks of class maps (segmentation), not for {task}")
    if values["head"] not in _MAP_HEADS:
        raise unknown("value of head", str(values["head"]), _MAP_HEADS)
    if values["head"] == "ridge" and steps:
        raise UsageError(f"recipe: head = 'ridge' is solved without steps, so {', '.join(steps)} does nothing")


def checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a recipe, brought to their types."""
    from vision_adapters.training import Recipe

    known_fields = {entry.name: entry for entry in fields(Recipe)}
    _head_form(values)
    _head_numbers(values)
    ensemble_in(values)
    recipe: dict[str, Any] = {}
    for name, value in values.items():
        if name == "head_start" and value not in _STARTS:
            raise unknown("value of head_start", str(value), _STARTS)
        if name == "augment":
            checked_augmentation(value)
        if name in ("augment", "base", "head_start", ENSEMBLE_FIELD, *HEAD_FIELDS, *SIZE_FIELDS):
            continue
        if name not in known_fields:
            known = [*known_fields, "augment", "head_start", ENSEMBLE_FIELD, *HEAD_FIELDS, *SIZE_FIELDS]
            raise unknown("field of a recipe", name, known)
        kind = str(known_fields[name].type)
        try:
            if isinstance(value, bool) or (isinstance(value, str) and not (value.isascii() and "_" not in value)):
                raise ValueError(value)  # of texts, Python reads "1_0" and other scripts' digits, too
            if isinstance(value, str) and kind.startswith(("float", "int")):
                value = None if value == "none" and known_fields[name].default is None else float(value)
            if kind.startswith("int") and value is not None:
                if float(value) != int(value) or abs(value) > _MOST:
                    raise ValueError(value)
                value = int(value)
            if name == "betas":
                value = tuple(float(rate) for rate in (value.split(",") if isinstance(value, str) else value))
                if len(value) != 2 or not all(0 <= rate < 1 for rate in value):
                    raise ValueError(value)
            if kind.startswith("float") and value is not None and not math.isfinite(value):
                raise ValueError(value)
        except (ValueError, TypeError, OverflowError) as error:
            raise UsageError(f"recipe: {name} is {value!r}, expected {kind}") from error
        recipe[name] = value
    return recipe
