"""What computes, from Python: ``gate_runner.run("small", encoder=my_module)``; before it `plan`, and `adapt`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gate_runner.errors import UsageError
from gate_runner.executors import run as execute
from gate_runner.runs import Result
from gate_runner.runs.observers import Observer
from gate_runner.runs.request import Names, make_request
from gate_runner.settings import Settings
from gate_runner.settings.signatures import spelled_out
from gate_runner.settings.values import seconds_in

if TYPE_CHECKING:
    from torch import nn

    from gate_runner.planning import Plan
    from knowledge_prompts import ClassWords
    from vision_features.encoders.encoder import Encoder


@dataclass(frozen=True)
class Run:
    """What `run` found, and where it lies.

    Args:
        folder: the run folder; `compare` and `report` take the run or this.
        results: one per benchmark and seed, in order.

    Example:
        >>> done = Run(Path("runs/mine"), (Result("digits", "digits", "digits", "built-in", 0, "failed", "no space"),))
        >>> [(result.name, result.reason) for result in done.failed]
        [('digits', 'no space')]
    """

    folder: Path
    results: tuple[Result, ...]

    @property
    def failed(self) -> tuple[Result, ...]:
        """The results that failed; each has a ``reason``."""
        return tuple(result for result in self.results if result.status == "failed")

    @property
    def heads(self) -> tuple[Path, ...]:
        """Folders of the heads that were kept, one for each result that has one."""
        from gate_runner.runs.folder import RunFolder

        folders = [RunFolder(self.folder).head_folder(result.name, result.seed) for result in self.results]
        return tuple(folder for folder in folders if folder.is_dir())

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def _repr_html_(self) -> str:
        """A table of scores, for notebooks."""
        from gate_runner.charts.markup import table
        from gate_runner.reports.scores import number

        rows = []
        for result in self.results:
            score = result.headline
            seeded = f"{result.name} seed {result.seed}"
            if score is None:
                rows.append([seeded, result.status, "", "", result.reason])
                continue
            interval = f"{number(score.low)}–{number(score.high)}"
            words = f"{score.metric} {'↑' if score.direction == 'higher' else '↓'}"
            rows.append([seeded, number(score.value), interval, number(score.chance), f"{words} {result.note}".strip()])
        return table(["benchmark", "score", "95 % CI", "chance", "metric"], rows, words=[4])


@spelled_out
def run(
    names: Names,
    *,
    encoder: str | Encoder | nn.Module | Any = "micro-clip",
    name: str | None = None,
    output: str | PathLike[str] | None = None,
    settings: Settings | None = None,
    trackers: Iterable[str] = (),
    observers: Sequence[Observer] = (),
    show: bool = True,
    **options: Any,
) -> Run:
    """Score an encoder; the same call again continues, and computes nothing twice.

    Args:
        names: packs or benchmarks, by name or as `Benchmark` records.
        encoder: a spec string; an ``nn.Module`` from images ``[n, 3, s, s]`` to features ``[n, d]``; an object with
            ``encode_image`` and, if it has them, ``encode_patches``, ``encode_text``, ``encode_text_tokens``,
            ``image_size``, ``mean``, ``std``; or an `Encoder`. A module is put into evaluation mode without gradients
            while this runs, and left as it was found, on the device where it was found.
        name: what results call an encoder that is an object; its class's name by default.
        output: the run folder; ``runs/`` and the encoder's name by default.
        settings: how to run; see `Settings` for what there is.
        trackers: ``"tensorboard"``, ``"wandb"``.
        observers: told of progress and results.
        show: print lines as the command line does.
        options: single settings by name, e.g. ``limit=100, seeds=(0, 1)``; they go before those in ``settings``.

    Returns:
        The results, those that were already there included. A benchmark that fails is a result with its reason.

    Raises:
        UsageError: anything that cannot be used, before anything is computed; the message shows it.
        StorageError: the run folder cannot be written.

    Example:
        >>> import tempfile
        >>> done = run("digits", encoder="micro-clip/random", output=tempfile.mkdtemp(), limit=40, show=False)
        >>> [(result.name, result.status) for result in done]
        [('digits', 'ok')]
    """
    from gate_runner.runs.display import PlainDisplay
    from vision_features.encoders.own import borrowed

    how = (settings or Settings()).changed(**options)
    watching = [*observers]
    if trackers:
        from gate_runner.trackers import make_trackers

        watching = [*make_trackers(trackers), *observers]
    with borrowed(encoder):
        request = make_request(names, encoder, name=name, output=output, settings=how)
        results = execute(request, PlainDisplay() if show else Observer(), watching)
    return Run(request.output, tuple(results))


@spelled_out
def plan(
    names: Names,
    *,
    encoder: str | Encoder | nn.Module | Any = "micro-clip",
    name: str | None = None,
    output: str | PathLike[str] | None = None,
    settings: Settings | None = None,
    budget: float | str | None = None,
    **options: Any,
) -> Plan:
    """What a run will take, from a short probe of this encoder on this machine; nothing is scored.

    Args:
        names: as in `run`, like all others but the last.
        encoder: see `run`.
        name: see `run`.
        output: see `run`.
        settings: see `run`.
        budget: seconds, or a text like ``"90m"``, that the run may take; what fits and tells the most about GATE is
            kept.
        options: see `run`.

    Returns:
        Seconds and peak memory of each part, and the choice where a budget was given.

    Raises:
        UsageError: as in `run`, or a budget that nothing fits.

    Example:
        >>> import tempfile
        >>> planned = plan("digits", encoder="micro-clip/random", output=tempfile.mkdtemp(), limit=40, isolate="none")
        >>> [part.name for part in planned.parts]
        ['digits']
    """
    from gate_runner.planning.plan import plan as make
    from vision_features.encoders.own import borrowed

    how = settings or Settings(isolate="worker" if isinstance(encoder, str) else "none")
    how = how.changed(**options)
    with borrowed(encoder):
        return make(make_request(names, encoder, name=name, output=output, settings=how), budget=seconds_in(budget))


@spelled_out
def adapt(
    images: str | PathLike[str],
    method: Literal["zeroshot", "probe", "finetune"] = "probe",
    *,
    encoder: str | Encoder | nn.Module | Any | None = None,
    name: str | None = None,
    output: str | PathLike[str] | None = None,
    save: str | PathLike[str] | None = None,
    metric: str | None = None,
    words: ClassWords | None = None,
    observers: Sequence[Observer] = (),
    show: bool = False,
    settings: Settings | None = None,
    **options: Any,
) -> Run:
    """Run an encoder on your own labelled images, and keep the head for new ones.

    It is `run` on these images, with the same splits, metric and score; ``probe`` with ``shots``, ``init`` or ``probe``
    is the unit of a sweep, ``zeroshot`` is that of no shots, ``finetune`` is ``run`` with ``tune``.

    Args:
        images: a folder of class folders, with or without ``train``, ``val`` and ``test`` above them, or one that holds
            a ``benchmark.toml``; or a table of files and labels.
        method: ``"zeroshot"``, ``"probe"`` or ``"finetune"``.
        encoder: as in `run`, as are the others that are not described here. Where none is named, ``lite:0`` if it is
            installed (``gate-runner[lite]``) and nothing asks for class texts, else ``micro-clip``.
        name: see `run`.
        output: the run folder; by default one below ``runs/`` with a digest of all that is asked for in its name.
        save: a folder for a copy of the head, which lies in the run folder.
        metric: a name of ``paired_scores.metrics``, in place of the benchmark's own.
        words: how the names of classes become texts: templates, a prompt set, a file of words, knowledge.
        observers: see `run`.
        show: see `run`.
        settings: see `run`.
        options: see `run`.

    Returns:
        The run, whose one result is the score; `Run.heads` names the head for `vision_features.heads.load_head`.

    Raises:
        UsageError: images, a number or an encoder that cannot be used; the message shows it.
        StorageError: the run folder, or ``save``, cannot be written.

    Example:
        >>> import tempfile
        >>> from knowledge_prompts import ClassWords
        >>> from PIL import Image
        >>> folder = Path(tempfile.mkdtemp())
        >>> for number, colour in enumerate(["red", "blue"] * 5):
        ...     (folder / colour).mkdir(exist_ok=True)
        ...     Image.new("RGB", (32, 32), colour).save(folder / colour / f"{number}.png")
        >>> done = adapt(folder, "zeroshot", words=ClassWords(("a {} square",)), output=tempfile.mkdtemp())
        >>> done.results[0].scores[0].metric, [head.name for head in done.heads]
        ('acc@1', [...@0-shot.frozen.language-2p.none.seed0'])
    """
    from gate_runner.adapting import adaptation, asks_for_texts
    from gate_runner.runs.display import PlainDisplay
    from vision_features.encoders.own import borrowed
    from vision_features.encoders.spec import usual_encoder
    from vision_features.heads.saved import check_folder, copy_head
    from wary_files.locks import held

    how = (settings or Settings()).changed(**options)
    if encoder is None:
        encoder, _ = usual_encoder(texts=words is not None or asks_for_texts(method, how))
    copy_to = None if save is None else Path(save)
    with ExitStack() as stack:
        if copy_to is not None:
            check_folder(copy_to)
        stack.enter_context(borrowed(encoder))
        adapted = adaptation(
            images,
            method,
            encoder,
            name=name,
            output=output,
            metric=metric,
            words=words,
            settings=how,
            save=copy_to,
        )
        if copy_to is not None:
            stack.enter_context(held(copy_to.parent / f".{copy_to.name}.lock"))
        results = execute(adapted.request, PlainDisplay() if show else Observer(), observers)
        if results[0].status != "ok":
            raise UsageError(f"{results[0].name}: {results[0].reason}")
        if copy_to is not None:
            copy_head(adapted.head, copy_to)
    return Run(adapted.request.output, tuple(results))
