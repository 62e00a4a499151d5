"""All options of a run in one frozen record, checked as it is made."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from gate_runner.axes import PROBES, SHORT_CLASSES, Axes, shots_of
from gate_runner.errors import UsageError, unknown
from gate_runner.items import items_in
from gate_runner.readouts import checked

if TYPE_CHECKING:
    from gate_runner.items import ChosenItems
    from gate_runner.options import Head, Isolation, Options, Precision, Prompts, Protocol, SplitScored, Transform

_DEVICES = ("cpu", "cuda", "hpu", "meta", "mps", "mtia", "xla", "xpu")
TUNES = ("frozen", "bias", "norm", "last-block", "lora", "full", "linear", "prompt")
"""Which weights of an encoder can learn with a head; ``linear`` and ``prompt`` are of detectors."""
HEADS = ("dense", "detr")
SPLITS = ("test", "valid")
PROMPTS = ("overrides", "names", "path", "definition", "wiktionary", "gpt3")
"""What a detector reads; all but the first two are knowledge behind the names."""
PROTOCOLS = ("ours", "gate")
TRANSFORMS = ("model", "square")
PRECISIONS = ("auto", "float32", "bfloat16")
CLASS_WEIGHTS = ("none", "balanced", "sampled")
RECIPES = ("quick", "gate")


def seconds_in(said: float | str | None) -> float | None:
    """A duration in seconds.

    Args:
        said: a number with ``s``, ``m``, ``h`` or ``d`` behind it; without one, seconds; or None.

    Example:
        >>> seconds_in("20m"), seconds_in("1.5h"), seconds_in("45")
        (1200.0, 5400.0, 45.0)
    """
    if not isinstance(said, str):
        return said
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", said.strip())
    if found is None or float(found[1]) == 0:
        raise UsageError(f"{said!r} is no duration; expected a number with s, m, h or d, e.g. 20m")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]]


def options_in(said: Mapping[str, str] | Iterable[str] | None) -> dict[str, str]:
    """Options as a mapping.

    Example:
        >>> options_in(["partition=gpu", "constraint=a=b"])
        {'partition': 'gpu', 'constraint': 'a=b'}
    """
    if isinstance(said, Mapping):
        return dict(said)
    pairs = [(text, *text.partition("=")) for text in said or ()]
    for text, key, sign, _ in pairs:
        if not key or not sign:
            raise UsageError(f"executor option {text!r}: expected KEY=VALUE")
    return {key: value for _, key, _, value in pairs}


def bytes_in(said: int | str) -> int:
    """A number of bytes.

    Args:
        said: a number with ``kB``, ``MB``, ``GB`` or ``TB`` behind it (thousands); without one, bytes.

    Example:
        >>> bytes_in("20GB"), bytes_in("0.5 MB"), bytes_in(7)
        (20000000000, 500000, 7)
    """
    if not isinstance(said, str):
        return said
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)b?", said.strip().lower())
    if found is None:
        raise UsageError(f"{said!r} is no number of bytes; expected a number with kB, MB, GB or TB, e.g. 20GB")
    thousands = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}[found[2]]
    return round(float(found[1]) * float(10 ** (3 * thousands)))


def checked_device(text: str) -> str:
    """What was said, where torch has devices of that kind; whether this machine has one shows as it is used.

    Args:
        text: ``"auto"``, or a kind with or without a number, e.g. ``"cuda:1"``.

    Example:
        >>> checked_device("cuda:1")
        'cuda:1'
        >>> checked_device("gpu")
        Traceback (most recent call last):
        ...
        gate_data.errors.UsageError: --device 'gpu' is none; expected auto, cpu, cuda, cuda:NUMBER, mps or xpu
    """
    if text != "auto" and re.fullmatch(rf"(?:{'|'.join(_DEVICES)})(?::\d+)?", text) is None:
        raise UsageError(f"--device {text!r} is none; expected auto, cpu, cuda, cuda:NUMBER, mps or xpu")
    return text


def _seeds_in(said: Iterable[int]) -> tuple[int, ...]:
    seeds = tuple(dict.fromkeys(said)) or (0,)
    for seed in seeds:
        if not 0 <= seed < 2**63:
            raise UsageError(f"--seed must be at least 0 and below 2**63, not {seed}")
    return seeds


def _names_in(said: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(said.split(",") if isinstance(said, str) else said or ()))


def _recipe_in(name: str, said: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """A recipe's base and fields; those of a file are read here, so that results are known by what it says."""
    if name in RECIPES:
        return name, said
    path = Path(name)
    if path.suffix != ".toml":
        raise UsageError(f"--recipe is quick, gate or a .toml file, not {name!r}")
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"--recipe {path} cannot be read: {error}") from error
    base = told.pop("base", "quick")
    if base not in RECIPES:
        raise unknown(f"base of the recipe {path}", str(base), RECIPES)
    return str(base), {**told, **said}


def _share_in(said: float | str | None) -> float | str | None:
    if said is None or said == "best":
        return said
    try:
        share = float(said)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(f"--wise-ft is a share from 0 to 1, or best, not {said!r}")
    return share


def _shots_in(said: str | int | Iterable[str | int]) -> tuple[str, ...]:
    """Numbers of shots, in order, each once, from a text such as ``"0,5,full"`` or several."""
    listed = [said] if isinstance(said, str | int) else said
    texts = [text.strip() for each in listed for text in str(each).split(",")]
    found = tuple(dict.fromkeys(text for text in texts if text))
    for text in found:
        if text != "full" and not text.isdecimal():
            raise UsageError(f"--shots is a list of numbers and full, e.g. 0,5,full, not {text!r}")
    return tuple(text if text == "full" else str(int(text)) for text in found)


def _words_in(said: str | Iterable[str]) -> tuple[str, ...]:
    """Words, each once, from a text with commas or several."""
    listed = [said] if isinstance(said, str) else said
    words = [word.strip() for text in listed for word in text.split(",")]
    return tuple(dict.fromkeys(word for word in words if word))


def _tune_in(said: str | Iterable[str]) -> str:
    """What learns: one, or of a sweep several with commas."""
    tunes = _words_in(said)
    for tune in tunes or (str(said),):
        if tune not in TUNES:
            raise unknown("mode --tune", tune, TUNES)
    return ",".join(tunes)


def _until_in(said: Any) -> float | None:
    if said is not None and not 0 < float(said) < 50:
        raise UsageError(f"until must be above 0 and below 50 points, not {said}")
    return None if said is None else float(said)


def _path_in(said: Any) -> Path | None:
    return None if said is None else Path(said)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How benchmarks are run. A request, each of its parts and each job carry it whole.

    A new option is a field here and an entry of `gate_runner.options.Options`, which makes it a keyword of Python's
    functions and an option of the command line. A field's metadata may have ``identity``: results with other values do
    not belong into one run folder, and are not compared; ``mode``: they are compared all the same; ``told``: what of
    the value is kept, where there is one; and ``read``: from what was said to the value.

    Args:
        source: ``"local"``, ``"hub"``, ``"built-in"``, ``"micro"``, or None for each benchmark's first possible one
            that needs no network.
        data_root: folder of data sets' original files, or of copies of the hub's repositories, or None.
        limit: at most so many samples in each split, or None.
        items: a file of `eevee items --json`: of benchmarks that it names, the chosen test samples alone are scored,
            and their whole scores estimated with intervals; all others are scored whole. None for all. ``"adaptive"``,
            or a file of ``--method adaptive``: samples are asked by blocks until the score is known, see ``until``.
        until: with such items: half-width of the interval, in points (hundredths of the score), at which a benchmark
            stops. It holds at every look (a confidence sequence).
        skip_unreadable: look at every picture of original files and of your own, and leave out those that cannot be
            read; results say how many and which.
        batch_size: images per call of the encoder.
        transform: what makes pixels of pictures in files for a frozen encoder: ``"model"``, its library's transform for
            evaluation (timm's, open_clip's, the processor of transformers), where it has one, or ``"square"``, the
            middle square scaled to the model's size. Places (maps), boxes and encoders that are trained have squares.
        precision: in what a frozen encoder computes: ``"float32"``, ``"bfloat16"``, or ``"auto"``: bfloat16 on a GPU
            where the first pictures give the same features to a fiftieth of their size. Results say where it was.
        micro_batches: into how many parts a training batch is cut, for little memory; the gradient stays the whole
            batch's.
        device: a torch device; ``"auto"`` takes the GPUs where there are some.
        seeds: each benchmark runs once with each.
        isolate: ``"none"`` computes in this process; ``"worker"`` in a process that takes one benchmark after another
            and is replaced when it dies; ``"benchmark"`` in a fresh process for each.
        time_limit: seconds, or a text like ``"20m"``, after which a benchmark is stopped and counts as failed, or None;
            needs isolation.
        retries: how often what failed is tried again, from where it stopped.
        workers: benchmarks at the same time on CPUs; on GPUs it is one for each. Needs isolation.
        recompute: compute again what is there but damaged or changed, instead of stopping.
        tune: which weights of the encoder learn with the head: ``"frozen"``, ``"bias"``, ``"norm"``, ``"last-block"``,
            ``"lora"`` or ``"full"``; of a detector ``"linear"``, ``"prompt"`` or ``"full"``. In a sweep several with
            commas, of ``"frozen"`` and ``"full"``.
        recipe: by which they learn: ``"quick"``, sized for stand-ins, ``"gate"``, the paper's, or a TOML file, whose
            fields are read as they are said, and become ``recipe_fields``.
        recipe_fields: fields of the recipe that differ, e.g. ``{"lr": 1e-4}``; heads on frozen encoders take them, too.
        head: on frozen patches, where a task has several: ``"dense"`` or ``"detr"``.
        shots: training pictures of each class, one result for each number: ``"0,5,full"``; all of them by default. Of
            image classification an axis of a sweep, see `gate_runner.axes.Axes`, as the next three are.
        readout: where the encoder is read out: ``"auto"`` chooses on training and validation samples, ``"all"`` scores
            every read-out beside it, ``"last"`` is the encoder's own output, and `gate_runner.readouts.Readout` says
            the rest, such as ``"block:9/mean"``; of several, each is a unit.
        init: how heads start: ``"random"``, ``"language"``, or both, which is the default of a sweep.
        projection: ``"1p"``, a head on the backbone's features, ``"2p"``, on the projected ones (the default), or both.
        knowledge: in class texts: ``"none"``, ``"wiktionary"``, ``"wordnet"``, ``"gpt3"``, and ``"auto"``, which
            chooses on validation.
        controls: compare knowledge in a sweep with random words, and with that of other classes.
        probe: of a sweep, how heads on fixed features are fitted, one of `gate_runner.axes.PROBES`.
        knowledge_folder: ELEVATER's knowledge files, a folder with ``external/`` and ``gpt3/``.
        keep_predictions: keep the probabilities of each unit of a sweep, for submissions.
        short_classes: where a class has fewer images than shots: ``"take"`` all, as ELEVATER does, or ``"skip"``.
        class_weight: of image classification: ``"balanced"``, every class counts the same in the loss, or
            ``"sampled"``, pictures of every class are drawn equally often (where a head is solved, that is the same).
        folds: of image classification with a frozen encoder: every picture of all splits is tested once, by a head
            fitted to the other folds; the interval also holds what differs between folds.
        protocol: of few-shot benchmarks: ``"ours"``, five ways and one shot, or ``"gate"``, GATE's many ways and shots,
            which is the benchmark ``…-gate``.
        split: which split is scored: ``"test"``, or ``"valid"`` where published numbers are of that one.
        prompts: what a detector reads for class names: ``"overrides"``, the set's own captions where there are some, or
            ``"names"``; ``"path"``, ``"definition"`` (both of WordNet), ``"wiktionary"`` or ``"gpt3"``: names with that
            knowledge behind them.
        knowledge_from: where it comes from, ``NAME=PATH`` with a name of `knowledge_prompts.source_names`, such as
            ``"glip=odinw_benchmark35_knowledge_and_gpt3.yaml"`` or ``"wordnet=FOLDER"``.
        language_model: ``"package.module:function"``, which returns something that scores captions alone, texts to as
            many numbers, such as a language model's log-likelihoods: one more blind line of compositional suites.
        decode_workers: processes that read and augment training images; 0 does it in the training's own.
        save_encoders: keep each trained encoder in the run folder, to be loaded again as ``tuned:FOLDER``.
        save_heads: keep the head of each benchmark of image classification in the run folder, to be loaded again with
            `gate_runner.heads.load_head`, with the encoder's weights where it was trained.
        keep_zero_shot: benchmarks of one class per image on which an encoder with a text side is scored by class
            prompts before and after its training: what was forgotten.
        wise_ft: share of the trained weights in the mix with the weights before, 0 to 1 (WiSE-FT); ``"best"`` takes the
            share that validates best; None does not mix.
        num_processes: that train one encoder together: each on a GPU of its own, where there are some, has a share of
            every batch (`torch.nn.parallel.DistributedDataParallel`), and the gradient is the whole batch's.
        checkpoint_blocks: compute an encoder's blocks again in the backward pass instead of keeping what they gave:
            less memory, the same gradient, about a third more time.
        feature_cache: bytes, or a text like ``"20GB"``, that all features may take in the user's cache folder;
            those that were not used longest make room, and what does not fit is encoded again whenever it is needed.
        encode_again: do so, too, where the disk has no room for features, instead of failing.
        executor: ``"local"``, ``"ray"``, ``"slurm"`` or a plug-in.
        executor_options: what the executor understands, e.g. ``{"address": "ray://head:10001"}``.

    Raises:
        UsageError: a value that cannot be used; the message shows it.

    Example:
        >>> Settings(limit=100).changed(seeds=[0, 1, 0], isolate="worker", time_limit="20m").seeds
        (0, 1)
    """

    source: str | None = None
    data_root: Path | None = field(default=None, metadata={"read": _path_in})
    limit: int | None = field(default=None, metadata={"identity": True})
    items: ChosenItems | None = field(
        default=None, metadata={"read": items_in, "identity": True, "told": attrgetter("digest")}
    )
    until: float | None = field(default=None, metadata={"read": _until_in, "identity": True, "told": float})
    skip_unreadable: bool = field(default=False, metadata={"identity": True, "mode": True})
    batch_size: int = 128
    transform: Transform = field(default="model", metadata={"identity": True, "mode": True})
    precision: Precision = field(default="auto", metadata={"identity": True, "mode": True})
    micro_batches: int = 1
    device: str = field(default="auto", metadata={"read": checked_device})
    seeds: tuple[int, ...] = field(default=(0,), metadata={"read": _seeds_in})
    isolate: Isolation = "none"
    time_limit: float | None = field(default=None, metadata={"read": seconds_in})
    retries: int = 0
    workers: int = 1
    recompute: bool = False
    tune: str = field(default="frozen", metadata={"read": _tune_in, "identity": True, "mode": True})
    recipe: str = field(default="quick", metadata={"identity": True, "mode": True})
    recipe_fields: Mapping[str, Any] = field(
        default_factory=dict, metadata={"read": options_in, "identity": True, "mode": True}
    )
    head: Head = field(default="dense", metadata={"identity": True, "mode": True})
    shots: tuple[str, ...] = field(default=(), metadata={"read": _shots_in})
    readout: tuple[str, ...] = field(default=(), metadata={"read": lambda said: checked(_words_in(said))})
    init: tuple[str, ...] = field(default=(), metadata={"read": _words_in})
    projection: tuple[str, ...] = field(default=(), metadata={"read": _words_in})
    knowledge: tuple[str, ...] = field(default=(), metadata={"read": _words_in})
    controls: bool = True
    probe: str = field(default="anchored", metadata={"identity": True, "mode": True})
    knowledge_folder: Path | None = field(default=None, metadata={"read": _path_in})
    keep_predictions: bool = False
    short_classes: str = field(default="take", metadata={"identity": True, "mode": True})
    class_weight: str = field(default="none", metadata={"identity": True, "mode": True})
    folds: int | None = field(default=None, metadata={"identity": True, "mode": True})
    protocol: Protocol = "ours"
    split: SplitScored = field(default="test", metadata={"identity": True, "mode": True})
    prompts: Prompts = field(default="overrides", metadata={"identity": True, "mode": True})
    knowledge_from: str | None = field(default=None, metadata={"identity": True, "mode": True})
    language_model: str | None = field(default=None, metadata={"identity": True, "mode": True})
    decode_workers: int = 0
    save_encoders: bool = field(default=False, metadata={"identity": True, "mode": True})
    save_heads: bool = False
    keep_zero_shot: tuple[str, ...] = field(default=(), metadata={"read": _names_in, "identity": True, "mode": True})
    wise_ft: float | str | None = field(default=None, metadata={"read": _share_in, "identity": True, "mode": True})
    num_processes: int = 1
    checkpoint_blocks: bool = False
    feature_cache: int = field(default=20_000_000_000, metadata={"read": bytes_in})
    encode_again: bool = False
    executor: str = "local"
    executor_options: Mapping[str, str] = field(default_factory=dict, metadata={"read": options_in})

    def __post_init__(self) -> None:
        """Read what was said, and check it."""
        for one in fields(self):
            read = one.metadata.get("read")
            if read is not None:
                object.__setattr__(self, one.name, read(getattr(self, one.name)))
        recipe, recipe_fields = _recipe_in(self.recipe, self.recipe_fields)
        object.__setattr__(self, "recipe", recipe)
        object.__setattr__(self, "recipe_fields", recipe_fields)
        for name in ("limit", "batch_size", "micro_batches", "workers", "num_processes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"--{name.replace('_', '-')} must be at least 1, not {value}")
        if self.retries < 0:
            raise UsageError(f"--retries must be at least 0, not {self.retries}")
        if self.time_limit is not None and not self.time_limit > 0:
            raise UsageError(f"--time-limit must be positive, not {self.time_limit} s")
        choices = {
            "head": HEADS,
            "split": SPLITS,
            "prompts": PROMPTS,
            "protocol": PROTOCOLS,
            "probe": PROBES,
            "transform": TRANSFORMS,
            "precision": PRECISIONS,
            "class_weight": CLASS_WEIGHTS,
        }
        for name, known in (*choices.items(), ("short_classes", SHORT_CLASSES)):
            if getattr(self, name) not in known:
                raise unknown(f"value of --{name.replace('_', '-')}", getattr(self, name), known)
        self._check_knowledge()
        if self.decode_workers < 0:
            raise UsageError(f"--decode-workers must be at least 0, not {self.decode_workers}")
        if self.recipe != "quick" and self.tune == "frozen":
            raise UsageError(f"--recipe {self.recipe} trains an encoder: it goes with --tune other than frozen")
        self._check_trained()
        if self.folds is not None and self.folds < 2:
            raise UsageError(f"folds must be at least 2, not {self.folds}")
        if self.feature_cache < 0:
            raise UsageError(f"--feature-cache must be at least 0, not {self.feature_cache} bytes")
        if self.isolate not in ("none", "worker", "benchmark"):
            raise UsageError(f"--isolate must be none, worker or benchmark, not {self.isolate!r}")
        if self.isolate == "none":
            self._check_one_process()

    def _check_trained(self) -> None:
        """Refuse what only a training of the encoder can have."""
        fields = ("save_encoders", "keep_zero_shot", "wise_ft", "checkpoint_blocks")
        asked = [name for name in fields if getattr(self, name) not in (False, (), None)]
        for name in [*asked, *(["num_processes"] if self.num_processes != 1 else [])]:
            if self.tune == "frozen":
                flag = f"--{name.replace('_', '-')}"
                raise UsageError(f"{flag} is for an encoder that is trained: it goes with --tune other than frozen")

    def _check_knowledge(self) -> None:
        wanted, said = self.prompts in PROMPTS[2:], self.knowledge_from
        if wanted and said is None:
            raise UsageError(
                f"--prompts {self.prompts} needs --knowledge-from NAME=PATH, e.g. glip=FILE or wordnet=FOLDER"
            )
        if said is not None and not wanted:
            raise UsageError(f"--knowledge-from goes with --prompts {', '.join(PROMPTS[2:])}, not {self.prompts}")
        if said is not None and not (all(said.partition("=")) and Path(said.partition("=")[2]).exists()):
            raise UsageError(f"--knowledge-from {said!r}: expected NAME=PATH, with a path that exists")

    def _check_one_process(self) -> None:
        for said, needs in (
            ("--time-limit", self.time_limit is not None),
            ("--workers", self.workers > 1),
            (f"--executor {self.executor}", self.executor != "local"),
        ):
            if needs:
                raise UsageError(f"{said} needs processes of their own: --isolate worker or benchmark, not none")

    @property
    def sweeps(self) -> bool:
        """Whether an option was given that only a sweep over image classification has (``shots`` is detection's, too).

        Example:
            >>> Settings(init="language").sweeps, Settings(shots="5").sweeps, Settings(tune="frozen,full").sweeps
            (True, False, True)
        """
        texts = self.init or self.projection or self.knowledge or self.knowledge_folder is not None
        return bool(
            texts
            or "," in self.tune
            or self.probe != "anchored"
            or self.keep_predictions
            or self.short_classes != "take"
        )

    def axes(self) -> Axes | None:
        """The axes of a sweep over image classification; None where none was asked for.

        Raises:
            UsageError: a value that no axis has.

        Example:
            >>> Settings(shots="0,5").axes().init, Settings().axes()
            (('random', 'language'), None)
        """
        if not (self.sweeps or self.shots):
            return None
        said = {
            "shots": shots_of(self.shots),
            "tune": tuple(self.tune.split(",")),
            "init": self.init,
            "projection": self.projection,
            "knowledge": self.knowledge,
        }
        chosen: dict[str, Any] = {name: values for name, values in said.items() if values}
        return Axes(**chosen, seeds=self.seeds, controls=self.controls)

    def of_unit(self, training: Mapping[str, Any]) -> Settings:
        """Those of one unit of a sweep, whose point its benchmark's ``training`` holds; the same for any other."""
        point = training.get("variant")
        if point is None:
            return self
        trained = point["tune"] == "full" and point["shots"] != 0
        recipe: dict[str, Any] = {} if trained else {"recipe": "quick", "recipe_fields": {}}
        start: dict[str, Any] = dict.fromkeys(("shots", "init", "projection", "knowledge"), ())
        return replace(self, tune="full" if trained else "frozen", **recipe, **start)

    def changed(self, **options: Unpack[Options]) -> Settings:
        """The same with other values.

        Raises:
            UsageError: an option that there is not, or a value that cannot be used.
        """
        known = [one.name for one in fields(self)]
        for name in options:
            if name not in known:
                raise unknown("option", name, known)
        said: dict[str, Any] = dict(options)
        return replace(self, **said)

    def identity(self) -> dict[str, Any]:
        """What results that share a run folder, or are compared, must have in common.

        Example:
            >>> Settings(limit=100, batch_size=8).identity()
            {'limit': 100}
            >>> Settings(tune="full").identity()
            {'limit': None, 'tune': 'full'}
        """
        start, found = Settings(), {}
        for one in fields(self):
            value, mode, told = getattr(self, one.name), one.metadata.get("mode"), one.metadata.get("told")
            if one.name == "tune" and self.sweeps and (self.init or self.projection or self.knowledge or "," in value):
                continue  # each unit's name says it
            if one.metadata.get("identity") and (not (mode or told) or value != getattr(start, one.name)):
                found[one.name] = told(value) if told else list(value) if isinstance(value, tuple) else value
        return found

    @classmethod
    def modes(cls) -> set[str]:
        """The options by which runs may differ and be compared all the same: how the encoder was trained.

        Example:
            >>> {"recipe", "recipe_fields", "tune", "wise_ft"} <= Settings.modes()
            True
        """
        return {one.name for one in fields(cls) if one.metadata.get("mode")}

    def to_mapping(self) -> dict[str, Any]:
        """JSON-ready values, with absolute paths."""
        paths = {name: getattr(self, name) for name in ("data_root", "knowledge_folder")}
        absolute = {name: None if path is None else str(path.absolute()) for name, path in paths.items()}
        return {**asdict(self), **absolute}
