"""``oven sizes`` and ``oven history``: the paper's figures 5 and 4."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from oven_retrieval.commands.encoders import Encoders
from oven_retrieval.commands.options import AsJson, Folder, NamedEncoder
from oven_retrieval.commands.terminal import echo

Figure = Annotated[Path | None, typer.Option(help="SVG to write.")]


def sizes(
    context: typer.Context,
    questions: Annotated[Path, typer.Argument(help="OVEN's jsonl: data_id, image_id, question, entity_id.")],
    kb: Folder,
    model: Annotated[list[Path], typer.Option(help="Folder written by `train`. Repeatable.")],
    images: Annotated[Path, typer.Option(help="Folder with the questions' images, named by image_id.")],
    sizes: Annotated[str, typer.Option(help="Numbers of entities, with commas between them; all is the last.")] = "",
    draws: Annotated[int, typer.Option(min=1, help="Draws of the other entities.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    encoder: NamedEncoder = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Images per call of the encoder.")] = 64,
    device: Annotated[str, typer.Option(help="Torch device.")] = "cpu",
    figure: Figure = None,
    as_json: AsJson = False,
) -> None:
    """Measure accuracy by the number of entities.

    The right entities of the questions are always among them, the others are drawn; the range is over the draws.
    """
    import numpy as np

    from oven_retrieval.commands.train import open_trained
    from oven_retrieval.evaluation import Line, accuracy_by_size, line_figure
    from oven_retrieval.models import ImageFolder, read_questions
    from oven_retrieval.models.questions import answer_rows, image_files

    encoders: Encoders = context.obj
    question_list, _ = read_questions(questions, ImageFolder(images))
    wanted, lines, records = None, [], dict[str, Any]()
    for folder in model:
        opened, size = open_trained(encoders, folder, kb, device, encoder)
        truth = answer_rows(opened.kb, question_list)
        wanted = wanted or _sizes(sizes, len(np.unique(truth)), len(opened.kb))
        batches = [question_list[first : first + batch_size] for first in range(0, len(question_list), batch_size)]
        queries = [
            opened.dual.queries(encoders.read(image_files(part), size), [question.text for question in part])
            for part in batches
        ]
        points = accuracy_by_size(np.concatenate(queries), truth, opened.index.vectors, wanted, draws=draws, seed=seed)
        lines.append(Line(folder.name, [(point.size, point.accuracy.value) for point in points]))
        records[folder.name] = [{"entities": point.size, **point.accuracy._asdict()} for point in points]
    if figure is not None:
        _write(figure, line_figure(lines, "entities in the knowledge base", log=True))
    if as_json:
        echo(json.dumps(records))
        return
    for name, points_of_model in records.items():
        for point in points_of_model:
            echo(
                f"{name}: {point['entities']:>10,} entities {point['value']:6.2f} % right "
                f"[{point['low']:.2f}, {point['high']:.2f}]"
            )


def _sizes(text: str, least: int, most: int) -> list[int]:
    """The sizes that are given, or six from the right entities to all, each as many times larger."""
    if not text:
        import numpy as np

        return sorted({round(size) for size in np.geomspace(least, most, 6).tolist()})
    try:
        chosen = [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"sizes: --sizes: expected whole numbers with commas between them, got {text!r}") from None
    return sorted({*chosen, most})


def history(
    model: Annotated[list[Path], typer.Argument(help="Folders written by `train` or `train-generator`.")],
    figure: Figure = None,
) -> None:
    """Show accuracy over training steps.

    Seen and unseen entities of the validation, at each look: the paper's figure 4.
    """
    from oven_retrieval.evaluation import Line, line_figure
    from oven_retrieval.models.history import read_history

    lines = []
    for folder in model:
        looks = read_history(folder)
        for step, seen, unseen, mean in looks:
            accuracies = f"seen {seen:5.1f} %, unseen {unseen:5.1f} %, harmonic mean {mean:5.1f}"
            echo(f"{folder.name}: step {step:>6,}: {accuracies}")
        for column, label in ((1, "seen"), (2, "unseen")):
            name = label if len(model) == 1 else f"{folder.name}, {label}"
            lines.append(Line(name, [(look[0], look[column]) for look in looks]))
    if figure is not None:
        _write(figure, line_figure(lines, "steps"))


def _write(path: Path, figure: str) -> None:
    from wary_files.durable import replace_file

    replace_file(path, figure)
    echo(f"{path}: written", err=True)
