"""Every setting of a run, said once, in five groups: default, type, help, and whether results are known by it.

One file of more than 400 lines: it is the list of all settings, an entry each.
"""

# ruff: noqa: RUF009 (what is called as a default is `dataclasses.field`, below another name)

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

from gate_runner.settings.items import ChosenItems, items_in
from gate_runner.settings.values import (
    bytes_in,
    half_width_in,
    list_digest,
    list_in,
    pairs_in,
    patch_features_in,
    preset_in,
    prompts_in,
    seconds_in,
    seeds_in,
    share_in,
    shots_in,
    source_digest,
    threshold_in,
    tune_in,
    words_in,
)
from vision_features.encoders.devices import device_in
from vision_features.readouts import checked

_PATH = str | PathLike[str] | None
_WORDS = str | Sequence[str]


class Declaration(NamedTuple):
    """What is declared of a setting, besides its default and the type of its value."""

    help: str  # the first line is what the command line shows; the lines behind it are for the reference
    group: str  # "data", "features", "training", "sweep" or "machine": a table of a file
    least: int | None = None  # of a number
    read: Callable[[Any], Any] | None = None  # from what was said to the value, where it is not the default
    accepts: Any = None  # what may be said, where it is more than the value's type
    # "data" where results with other values do not belong into one run folder and are not compared; "mode" where they
    # are compared all the same
    identity: Literal["", "data", "mode"] = ""
    digest: Callable[[Any], Any] | None = None  # what of the value identifies, where it is not the value itself
    flag: str = ""  # the option's name where it is not the setting's own
    common: bool = False  # whether `run` and `plan` have an option for it; others are said by --setting, or in a file
    metavar: str | None = None  # of the option


def _group(name: str) -> Callable[..., Any]:
    """The function that declares a setting of a group."""

    def setting(default: Any, text: str, **more: Any) -> Any:
        declared = {"setting": Declaration(text, name, **more)}
        if isinstance(default, dict):
            return field(default_factory=dict, metadata=declared)
        return field(default=default, metadata=declared)

    return setting


_data, _features, _training = _group("data"), _group("features"), _group("training")
_sweep, _machine = _group("sweep"), _group("machine")


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """What is scored."""

    source: str | None = _data(
        None,
        "local, hub, built-in or micro; by default the first without a network.\n"
        "A benchmark is taken from its first possible source otherwise.",
        common=True,
    )
    data_root: Path | None = _data(
        None,
        "Folder with data sets' original files.\nCopies of the hub's repositories lie there, too.",
        read=Path,
        accepts=_PATH,
        common=True,
    )
    limit: int | None = _data(None, "At most so many samples in each split.", least=1, identity="data", common=True)
    items: ChosenItems | None = _data(
        None,
        "Of 'eevee items', or adaptive: score chosen samples, estimate the whole.\n"
        "Of benchmarks that the file names, the chosen test samples alone are scored, and their whole scores are "
        'estimated with intervals; all others are scored whole. ``"adaptive"``, or a file of ``--method adaptive``, '
        "asks for samples by blocks until the score is known, see ``until``.",
        read=items_in,
        accepts=_PATH,
        identity="data",
        digest=attrgetter("digest"),
        common=True,
        metavar="FILE",
    )
    until: float | None = _data(
        None,
        "With adaptive items: stop when the interval is this narrow (half of it).\n"
        "In points, hundredths of the score. The interval holds at every look.",
        read=half_width_in,
        identity="data",
        digest=float,
        metavar="POINTS",
    )
    skip_unreadable: bool = _data(
        False,
        "Leave out images that cannot be read, and list them.\n"
        "Every image of original files and of your own is looked at for that.",
        identity="mode",
    )
    drop_near: bool = _data(
        False,
        "Leave out training images that are near copies of test images.\n"
        "Copies are files stored again, resized, cropped a little, mirrored or brighter; the result's note says how "
        "many were left out. Of lists of image files, such as your own.",
        identity="mode",
    )
    split: Literal["test", "valid"] = _data(
        "test",
        "Which split of a detection set is scored: test or valid.\nPublished numbers are of valid at times.",
        identity="mode",
    )
    shift: tuple[str, ...] = _data(
        (),
        "Score shifted test images, too: corruptions, resolution, grey, or e.g. fog,motion_blur.\n"
        "``corruptions`` are the fifteen of ImageNet-C at five strengths, computed on the fly; of image classification "
        "with a frozen encoder.",
        read=words_in,
        accepts=_WORDS,
        metavar="LIST",
    )


@dataclass(frozen=True, kw_only=True)
class FeatureSettings:
    """What a frozen encoder, or a detector, makes of images and names."""

    transform: Literal["model", "square"] = _features(
        "model",
        "Images in files: as the model's own library has them, or cut.\n"
        "``model`` is the transform for evaluation of timm, open_clip or the processor of transformers, where there is "
        "one; ``square`` the middle square scaled to the model's size. Places (maps), boxes and encoders that are "
        "trained have squares.",
        identity="mode",
        metavar="model|square",
    )
    precision: Literal["auto", "float32", "bfloat16"] = _features(
        "auto",
        "Of frozen encoders: auto is bfloat16 on GPUs, if it agrees.\n"
        "It does where the first images give the same features to a fiftieth of their size; results say so.",
        identity="mode",
        metavar="auto|float32|bfloat16",
    )
    readout: tuple[str, ...] = _features(
        (),
        "Where to read the encoder: auto, all, last, or e.g. block:9/mean.\n"
        "``auto`` chooses on training and validation samples, ``all`` scores every read-out next to it, ``last`` is "
        "the encoder's own output, and `vision_features.readouts.Readout` says the rest; of several, each is a unit.",
        read=lambda text: checked(words_in(text)),
        accepts=_WORDS,
        common=True,
        metavar="LIST",
    )
    prompts: str = _features(
        "overrides",
        "Text that a detector reads: overrides (a set's captions), names, or names with knowledge.\n"
        "Knowledge is wn_path, wn_def, wiki_def, gpt3:N with 1 to 5 texts, or wiki_def&gpt3:N; it needs "
        "``knowledge_from``.",
        read=prompts_in,
        identity="mode",
    )
    knowledge_from: str | None = _features(
        None,
        "Source of a detector's knowledge: glip=FILE, wordnet=FOLDER, wiktionary=DUMP, …\n"
        "The name is one of `knowledge_prompts.source_names`.",
        identity="mode",
        digest=source_digest,
        metavar="NAME=PATH",
    )
    patch_features: tuple[str, ...] = _features(
        (),
        "Zero-shot segmentation: class-token, maskclip, value, sclip, clearclip, naclip, proxyclip.\n"
        "Each is a result; without any, all but proxyclip.",
        read=patch_features_in,
        accepts=_WORDS,
        metavar="LIST",
    )
    preset: str = _features(
        "encoder",
        "Zero-shot segmentation: side, windows, scale, threshold as encoder, sclip, clearclip, naclip or proxyclip.\n"
        "``encoder`` takes the encoder's own size and scale, the others those of the published code, by data set.",
        read=preset_in,
        identity="data",
        digest=str,
        metavar="NAME",
    )
    class_words: Path | None = _features(
        None,
        "Zero-shot segmentation: a list of words, a line for each class.\n"
        "Words are between commas or semicolons, as papers publish them (cls_voc21.txt); or a folder of such lists.",
        read=list_in,
        accepts=_PATH,
        identity="data",
        digest=list_digest,
        metavar="FILE",
    )
    background: Literal["words", "threshold"] = _features(
        "words",
        "Zero-shot segmentation: the background has words, or is what no word is sure of.",
        identity="data",
        digest=str,
        metavar="words|threshold",
    )
    background_threshold: str = _features(
        "preset",
        "Zero-shot segmentation: probability below which is background: preset, none, validation or a number.\n"
        "``validation`` chooses it on validation images, where data have a background; reports show the whole curve.",
        read=threshold_in,
        accepts=float | str,
        identity="data",
        digest=str,
        metavar="RULE",
    )
    refine: Literal["preset", "none", "pamr"] = _features(
        "preset",
        "Zero-shot segmentation: refine maps by the image's colours (pamr), or not.\n"
        "Reports show it in a column of its own.",
        identity="mode",
        metavar="preset|none|pamr",
    )
    proxy: str | None = _features(
        None,
        "Zero-shot segmentation: second encoder of proxyclip, e.g. timm:vit_base_patch16_224.dino.",
        identity="mode",
        metavar="SPEC",
    )
    language_model: str | None = _features(
        None,
        "Suites: returns a model of captions alone, which becomes a text-only baseline.\n"
        "It scores texts by as many numbers, such as a language model's log-likelihoods.",
        identity="mode",
        metavar="MODULE:FUNCTION",
    )


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """What learns, and how."""

    seeds: tuple[int, ...] = _training(
        (0,),
        "Seed of heads and batches; may be given several times.\nEach benchmark runs once with each.",
        read=seeds_in,
        accepts=Sequence[int],
        flag="--seed",
        common=True,
    )
    tune: str = _training(
        "frozen",
        "Weights that learn with the head: frozen, bias, norm, last-block, lora or full.\n"
        "Of a detector linear, prompt or full.\n"
        "In a sweep several with commas, of frozen and full.",
        read=tune_in,
        accepts=_WORDS,
        identity="mode",
        common=True,
    )
    recipe: str = _training(
        "quick",
        "Training recipe: quick, gate (the paper's) or a .toml file.\n"
        "``quick`` is sized for stand-ins; a file's fields are read as they are said, and become ``recipe_fields``.",
        identity="mode",
        common=True,
    )
    recipe_fields: Mapping[str, Any] = _training(
        {},
        "A field of the recipe; may be given several times.\nHeads on frozen encoders take them, too.",
        read=pairs_in,
        accepts=Mapping[str, Any] | Sequence[str],
        identity="mode",
        flag="--set",
        common=True,
        metavar="FIELD=VALUE",
    )
    wise_ft: float | str | None = _training(
        None,
        "Mix trained weights with the start: 0 to 1, or best on validation.\n"
        "It is the share of the trained weights (WiSE-FT); None does not mix.",
        read=share_in,
        identity="mode",
        metavar="SHARE",
    )
    class_weight: Literal["none", "balanced", "sampled"] = _training(
        "none",
        "Class balance: weigh the loss (balanced), or draw images of every class equally often (sampled).",
        identity="mode",
        metavar="none|balanced|sampled",
    )
    folds: int | None = _training(
        None,
        "Folds for classes: test every image of all splits once, by cross-validation.\n"
        "With a frozen encoder, by a head fitted to the others; the interval also holds what differs between folds.",
        least=2,
        identity="mode",
    )
    keep_zero_shot: tuple[str, ...] = _training(
        (),
        "Score class prompts on it before and after; several times.\n"
        "Of benchmarks of one class per image, for an encoder with a text side: what its training forgot.",
        read=words_in,
        accepts=Sequence[str],
        identity="mode",
        metavar="BENCHMARK",
    )
    save_encoders: bool = _training(
        False, "Keep trained encoders, for tuned:FOLDER.\nThey lie in the run folder.", identity="mode"
    )
    save_heads: bool = _training(
        False,
        "Keep heads of image classification, for predict.\n"
        "`vision_features.heads.load_head` loads them, with the encoder's weights where it was trained.",
    )
    micro_batches: int = _training(
        1,
        "Parts into which a training batch is cut, for little memory.\nThe gradient stays the whole batch's.",
        least=1,
    )
    checkpoint_blocks: bool = _training(
        False,
        "Train with less memory: blocks are computed twice.\n"
        "An encoder's blocks are computed again in the backward pass: the same gradient, about a third more time.",
    )
    num_processes: int = _training(
        1,
        "Processes that train one encoder together, a GPU for each.\n"
        "Each has a share of every batch (`torch.nn.parallel.DistributedDataParallel`); the gradient is the whole "
        "batch's.",
        least=1,
    )
    decode_workers: int = _training(
        0, "Processes that read and augment training images.\n0 does it in the training's own process.", least=0
    )


@dataclass(frozen=True, kw_only=True)
class SweepSettings:
    """The axes of a sweep over image classification, see `gate_runner.settings.axes.Axes`, and what goes with them."""

    shots: tuple[str, ...] = _sweep(
        (),
        "Training images of each class, e.g. 0,1,5,full; one result for each.\nAll of them by default.",
        read=shots_in,
        accepts=str | int | Sequence[str | int],
        common=True,
        metavar="LIST",
    )
    init: tuple[str, ...] = _sweep(
        (),
        "Start of a sweep's heads: random,language.\nBoth are the default of a sweep.",
        read=words_in,
        accepts=_WORDS,
        common=True,
        metavar="LIST",
    )
    projection: tuple[str, ...] = _sweep(
        (),
        "Projection in a sweep: 1p, head on the backbone's features; 2p, on its output.\n2p is the default of a sweep.",
        read=words_in,
        accepts=_WORDS,
        metavar="LIST",
    )
    knowledge: tuple[str, ...] = _sweep(
        (),
        "Knowledge of a sweep's class texts: none, wiktionary, gpt3:5, …, or auto, which chooses on validation.\n"
        "Sources are wiktionary, wordnet, wordnet-path, wordnet-definition and gpt3; ``gpt3:N`` are its first N texts, "
        "``wiktionary+gpt3:N`` both. ``auto`` chooses among none and those that are named, or else ELEVATER's rows: "
        "wiktionary, gpt3:5 and wiktionary+gpt3:5.",
        read=words_in,
        accepts=_WORDS,
        common=True,
        metavar="LIST",
    )
    keep_predictions: bool = _sweep(False, "Keep a sweep's probabilities and detections, for export --to elevater.")
    short_classes: Literal["take", "skip"] = _sweep(
        "take",
        "Sweep over a class with fewer images than shots: take all, as ELEVATER does, or skip the unit.",
        identity="mode",
        metavar="take|skip",
    )
    protocol: Literal["few-shot", "base-to-new", "cross", "domain"] = _sweep(
        "few-shot",
        "Of coop: few-shot, base-to-new, cross or domain.\n"
        "``base-to-new`` trains on the first half of the classes and scores both halves, ``cross`` trains on ImageNet "
        "and scores the other sets, ``domain`` trains on ImageNet and scores its four shifted test sets.",
        common=True,
        metavar="PROTOCOL",
    )
    methods: tuple[str, ...] = _sweep(
        (),
        "Of coop: heads by name, e.g. zero_shot,tip_adapter,anchored.\n"
        "Names of ``vision_adapters.tuning.METHODS``, and prolip, which fits the encoder's projection again.",
        read=words_in,
        accepts=_WORDS,
        metavar="LIST",
    )
    views: int = _sweep(
        1,
        "Of coop: views of each training image, whose features are averaged.\n"
        "1 is the image as the encoder takes it; of more, each view is a random crop of half its area or more, at "
        "times mirrored, as in Tip-Adapter, which has 10.",
        least=1,
        identity="mode",
    )
    choose_on: Literal["shots", "validation"] = _sweep(
        "shots",
        "Of coop: choose by folds of the shots, or on the drawn validation images.\n"
        "These are ``min(shots, 4)`` further labels of each class; results say which labels chose.",
        identity="mode",
        metavar="shots|validation",
    )
    controls: bool = _sweep(
        True, "Controls of a sweep: compare knowledge with random words and with that of other classes."
    )
    probe: str = _sweep(
        "anchored",
        "Probe of a sweep: method for heads on fixed features, e.g. elevater.\n"
        "`gate_runner.settings.axes.PROBES` has the names.",
        identity="mode",
    )
    unlabelled: bool = _sweep(
        False,
        "Sweep option: use the training images that are not shots, without their labels.\n"
        "StatA fits Gaussians around the class texts to them, in place of the probe. If they give no reason to leave "
        "zero-shot, it is kept, and the result says why.",
        identity="mode",
    )
    knowledge_folder: Path | None = _sweep(
        None, "ELEVATER's knowledge files, a folder with external/ and gpt3/.", read=Path, accepts=_PATH
    )


@dataclass(frozen=True, kw_only=True)
class MachineSettings:
    """On what, and in how many processes; results do not depend on it but for rounding."""

    batch_size: int = _machine(
        128,
        "Images per call of the encoder, at most.\nA CPU is given 16, or 8 a thread; halved where memory runs out.",
        least=1,
    )
    device: str = _machine(
        "auto", "A torch device; 'auto' takes the first GPU where there is one.", read=device_in, common=True
    )
    isolate: Literal["none", "worker", "benchmark"] = _machine(
        "none",
        "none: this process; worker: one that is replaced when it dies; benchmark: a new one each.",
        common=True,
    )
    time_limit: float | None = _machine(
        None,
        "Stop a benchmark after, e.g., 20m; it counts as failed.\nA number is seconds. It needs isolation.",
        read=seconds_in,
        accepts=float | str | None,
        metavar="DURATION",
    )
    retries: int = _machine(0, "How often to try again what failed, from where it stopped.", least=0)
    workers: int | None = _machine(
        None,
        "Benchmarks at the same time on CPUs; on GPUs, one for each.\n"
        "By default up to four, as cores and memory are free, of four or more benchmarks with a frozen encoder; one "
        "where energy is measured. More than one needs isolation.",
        least=1,
        common=True,
    )
    recompute: bool = _machine(False, "Compute damaged or edited results again.\nOtherwise they stop the run.")
    feature_cache: int = _machine(
        20_000_000_000,
        "Features in the user's cache folder, at most, e.g. 20GB; old ones make room.\n"
        "What does not fit, or has no room on the disk, is encoded again whenever it is needed.",
        least=0,
        read=bytes_in,
        accepts=int | str,
        metavar="BYTES",
    )
    executor: str = _machine("local", "local, slurm or a plug-in.", common=True)
    executor_options: Mapping[str, str] = _machine(
        {},
        "For the executor; may be given several times.\nFor example ``slurm_partition=gpu``.",
        read=pairs_in,
        accepts=Mapping[str, str] | Sequence[str],
        flag="--executor-option",
        metavar="KEY=VALUE",
    )
