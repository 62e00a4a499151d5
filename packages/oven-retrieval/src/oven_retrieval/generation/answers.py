"""Load a generative model, put questions to it, and write its answers as OVEN's prediction file."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from oven_retrieval.generation.names import NameGenerator
from oven_retrieval.models.questions import Question
from oven_retrieval.names import NameLinker
from oven_retrieval.pictures import read_rgb
from oven_retrieval.progress import Progress
from oven_retrieval.ranking import Ranking
from oven_retrieval.text_files import json_objects
from wary_files.checkpoints import whole
from wary_files.durable import locks, own_file, replace_file
from wary_files.json_files import read_json
from wary_files.text import json_text


def load_generator(
    name: str, linker: NameLinker, *, device: str = "cpu", aliases: bool = False, batch: int = 8
) -> NameGenerator:
    """A model of transformers with its tokenizer or processor."""
    try:
        transformers: Any = importlib.import_module("transformers")
    except ImportError:
        raise ImportError("a generative linker needs transformers: pip install 'oven-retrieval[generate]'") from None
    config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
    kinds = transformers.models.auto.modeling_auto
    if type(config) in kinds.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
        loader: Any = transformers.AutoModelForImageTextToText
        model, _ = whole(loader.from_pretrained, name)
        processor = transformers.AutoProcessor.from_pretrained(name, trust_remote_code=False)
    else:
        seq2seq = type(config) in kinds.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING
        if not seq2seq and type(config) not in kinds.MODEL_FOR_CAUSAL_LM_MAPPING:
            raise ValueError(f"{name}: expected a model that generates text, got a {config.model_type!r}")
        loader = transformers.AutoModelForSeq2SeqLM if seq2seq else transformers.AutoModelForCausalLM
        model, _ = whole(loader.from_pretrained, name)
        processor = transformers.AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    return NameGenerator(model.to(device).eval(), processor, linker, aliases=aliases, batch=batch)


def make_prompts(processor: Any, questions: Sequence[str], *, images: bool, template: str | None = None) -> list[str]:
    """Questions in the form that a model was trained on."""
    if template is not None:
        if "{question}" not in template:
            raise ValueError(f"template: expected {{question}} in it, got {template!r}")
        mark = getattr(processor, "image_token", "") if images else ""
        if isinstance(mark, str) and mark not in template:
            template = f"{mark}{template}"
        return [template.replace("{question}", question) for question in questions]
    if getattr(processor, "chat_template", None):
        shown = [{"type": "image"}] if images else []
        return [
            processor.apply_chat_template(
                [{"role": "user", "content": [*shown, {"type": "text", "text": text}] if images else text}],
                add_generation_prompt=True,
                tokenize=False,
            )
            for text in questions
        ]
    mark = getattr(processor, "image_token", "") if images else ""
    return [f"{mark}{question}" for question in questions]


@locks("output")
def write_answers(
    generator: NameGenerator,
    asked: Sequence[Question],
    output: str | Path,
    *,
    constrained: bool = True,
    beams: int = 4,
    template: str | None = None,
    exact_first: bool = True,
    progress: Progress | None = None,
) -> int:
    """Answer questions and write `data_id pred_entity_id score text`; the same call after a kill continues.

    Args:
        generator: the model, and the linker whose entities are the answers.
        asked: the questions.
        output: the new file.
        constrained: whether the model can write names alone; else it writes freely, and the linker maps its text.
        beams: of the search.
        template: prompt with {question}; the model's own where None.
        exact_first: of free texts: False to map them by BM25 alone, as the paper does.
        progress: called with the phase, how many questions are done, and how many there are.

    Raises:
        FileExistsError: the file is there.
        ValueError: a template without {question}, answers of other settings that were begun, or a model that writes
            nothing for all questions of the first block.
    """
    output = Path(output)
    if output.exists():
        raise FileExistsError(f"{output} exists; expected a new file")
    partial = own_file(output.with_name(output.name + ".partial"))
    settings_file = output.with_name(f".{output.name}.settings")
    done = _resume(partial, asked)
    settings = {
        "model": model_digest(generator.model),
        "knowledge base": generator.linker.kb.hash,
        "aliases": generator.aliases,
        "constrained": constrained,
        "beams": beams,
        "template": template,
        "lead": generator.lead,
        "exact first": exact_first,
    }
    if done:
        _check_settings(settings_file, partial, settings)
    else:
        replace_file(settings_file, json.dumps(settings, indent=1))
    with partial.open("a", encoding="utf-8") as file:
        remaining = iter(asked[done:])
        count = done
        while block := list(islice(remaining, generator.batch)):
            records = _records(generator, block, constrained, beams, template, exact_first)
            if not count and not any(record["text"].strip() for record in records):
                raise ValueError(
                    f"the model writes nothing for the first {len(block)} questions, such as {block[0].text!r:.60}; "
                    "expected a name (is the template the one that it was trained with?)"
                )
            for question, record in zip(block, records, strict=True):
                file.write(json_text({"data_id": question.data_id, **record}) + "\n")
            file.flush()
            count += len(block)
            if progress is not None:
                progress("questions", count, len(asked))
    partial.rename(output)
    settings_file.unlink()
    return len(asked) - done


def model_digest(model: Any) -> str:
    """A digest of a torch module's parameters: names, shapes and 64 values of each, so that billions cost little."""
    digest = hashlib.sha256()
    for name, values in model.named_parameters():
        flat = values.detach().reshape(-1)
        digest.update(f"{name} {list(values.shape)} {values.dtype}".encode())
        digest.update(flat[:: max(1, len(flat) // 64)][:64].double().cpu().numpy().tobytes())
    return digest.hexdigest()


def _check_settings(file: Path, partial: Path, settings: dict[str, Any]) -> None:
    try:
        begun = read_json(file)
    except (OSError, ValueError):
        begun = {}
    if not isinstance(begun, dict):
        begun = {}
    differing = [name for name, value in settings.items() if name not in begun or begun[name] != value]
    if differing:
        raise ValueError(
            f"{partial}: holds answers with another {', '.join(differing)}; remove it to start again, or go on as "
            f"it was begun ({differing[0]}: {begun.get(differing[0], 'unknown')!r:.40}, "
            f"now {settings[differing[0]]!r:.40})"
        )


def _resume(partial: Path, questions: Sequence[Question]) -> int:
    """How many questions an earlier call has answered; a line that a kill has cut is taken off."""
    if not partial.is_file():
        return 0
    text = partial.read_bytes()
    complete_lines = text[: text.rfind(b"\n") + 1]
    if len(complete_lines) < len(text):
        with partial.open("r+b") as file:
            file.truncate(len(complete_lines))
    ids = [record.get("data_id") for _, record in json_objects(partial)]
    if ids != [question.data_id for question in questions[: len(ids)]]:
        raise ValueError(f"{partial}: holds answers to other questions; remove it to start again")
    return len(ids)


def _records(
    generator: NameGenerator,
    block: Sequence[Question],
    constrained: bool,
    beams: int,
    template: str | None,
    exact_first: bool,
) -> list[dict[str, Any]]:
    files = [question.image for question in block if question.image is not None]
    if files and len(files) < len(block):
        raise ValueError(f"asked: expected an image for all questions or none, got {len(files)} of {len(block)}")
    questions = [question.text for question in block]
    prompts = make_prompts(generator.processor, questions, images=bool(files), template=template)
    images = [_open(file) for file in files] if files else None
    generated: Ranking
    if constrained:
        generated = generator.constrained(prompts, images, beams=beams)
    else:
        generated = generator.free(prompts, images, beams=beams, exact_first=exact_first)
    ids = generator.linker.kb.ids
    records: list[dict[str, Any]] = []
    for row, score, texts in zip(generated.rows[:, 0].tolist(), generated.scores[:, 0], generated.texts, strict=True):
        text = texts[0] if texts else ""
        several = [] if constrained else names_of_several(generator.linker, text)
        if several:
            records.append({"pred_entity_id": None, "score": None, "text": text, "several names": several})
        else:
            known = row >= 0
            record = {"pred_entity_id": ids[row] if known else None, "score": round(float(score), 5) if known else None}
            records.append(record | {"text": text})
    return records


_REASONS = {
    "several": ("text names several entities", "texts name several entities"),
    "unmatched": ("text matches no name", "texts match no name"),
    "empty": ("text is empty", "texts are empty"),
}


def unanswered(predictions: str | Path) -> str:
    """Say how many questions of a prediction file have no entity, and why, with the first of each; empty if none.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "a.jsonl"
        >>> _ = file.write_text('{"data_id": "7", "pred_entity_id": null, "text": " "}')
        >>> unanswered(file)
        "1 of 1 questions has no answer: 1 text is empty, first of question '7'"
    """
    counts, examples, total = Counter[str](), dict[str, str](), 0
    for total, (_, record) in enumerate(json_objects(predictions), start=1):  # noqa: B007  # read after the loop
        if record.get("pred_entity_id") is not None:
            continue
        text, several = str(record.get("text", "")), record.get("several names")
        reason = "several" if several else "unmatched" if text.strip() else "empty"
        counts[reason] += 1
        shown = f" ({' / '.join(several)})" if several else f" ({text.strip()!r:.60})" if text.strip() else ""
        examples.setdefault(reason, f"first of question {record.get('data_id')!r}{shown}")
    if not counts:
        return ""
    reasons = "; ".join(
        f"{count:,} {_REASONS[reason][count > 1]}, {examples[reason]}" for reason, count in counts.items()
    )
    number = counts.total()
    return f"{number:,} of {total:,} questions {'has' if number == 1 else 'have'} no answer: {reasons}"


_SEVERAL = re.compile(r"\n|;|\bor\b")


def names_of_several(linker: NameLinker, text: str) -> list[str]:
    """The names in a text that gives those of different entities, with "or", a semicolon or a new line between them.

    Such a text is no answer. Empty where it is one name itself, or where a part is no name.

    Example:
        >>> from oven_retrieval import KnowledgeBase, build_linker
        >>> linker = build_linker(KnowledgeBase.from_names(["Wood duck", "Goose", "Life or Death"]))
        >>> [names_of_several(linker, text) for text in ("wood duck or goose", "life or death", "duck; goose")]
        [['wood duck', 'goose'], [], []]
    """
    parts = [part.strip() for part in _SEVERAL.split(text) if part.strip()]
    if len(parts) < 2:
        return []
    matches = linker.exact.find([text, *parts])
    rows = [set(matches.row[matches.query == number].tolist()) for number in range(1 + len(parts))]
    one_entity = bool(rows[0]) or bool(set.intersection(*rows[1:]))
    return [] if one_entity or not all(rows[1:]) else parts


def _open(file: Path) -> Any:
    try:
        return read_rgb(file)
    except (OSError, ValueError) as error:
        raise ValueError(f"{file}: expected an image: {error}") from None
