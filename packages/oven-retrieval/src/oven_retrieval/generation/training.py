"""Fine-tune a generative model of transformers to write entities' names; needs the extra `generate`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oven_retrieval.evaluation.scores import harmonic_mean
from oven_retrieval.generation.answers import make_prompts
from oven_retrieval.generation.names import NameGenerator
from oven_retrieval.models.history import Look
from oven_retrieval.models.questions import Question, answer_rows
from oven_retrieval.pictures import read_rgb
from oven_retrieval.progress import Say
from wary_files.durable import locks, own_file, unfinished

if TYPE_CHECKING:
    from torch import Tensor

PAPER_TEMPLATE = "Answer in en: {question}"
"""PaLI's prompt of visual question answering, as the paper gives it."""
KIND, TRAINING = "oven-generator", "training.json"
_IGNORED = -100
"""The label of what counts in no loss, in all models of transformers."""


@dataclass(frozen=True)
class GeneratorRecipe:
    """How to train.

    Args:
        steps: most steps.
        batch_size: questions per step; the model sees as many at once as its `NameGenerator` takes.
        lr: greatest learning rate; the paper does not print its own.
        warmup: steps of linear warm-up, before a linear decay to 0 at the last step.
        validate_every: steps between two looks at the validation questions.
        patience: looks without a better harmonic mean before training stops.
        seed: of the order of the questions, and of dropout.
        optimiser: `adafactor`, the paper's, or `adamw`.
        template: prompt with {question}; None for the model's own.
        constrained: whether validation lets the model write names alone; else it writes freely, and BM25 maps its text,
            as in the paper.
        beams: of validation.

    Raises:
        ValueError: a number out of range, an optimiser that does not exist, or a template without {question}.

    Example:
        >>> GeneratorRecipe(template="what is it?")
        Traceback (most recent call last):
        ...
        ValueError: template: expected {question} in it, got 'what is it?'

    Source: OVEN section 11.3: 2,000 steps, 1,000 of warm-up, linear decay, Adafactor.
    """

    steps: int = 2000
    batch_size: int = 128
    lr: float = 1e-3
    warmup: int = 1000
    validate_every: int = 100
    patience: int = 5
    seed: int = 0
    optimiser: str = "adafactor"
    template: str | None = PAPER_TEMPLATE
    constrained: bool = True
    beams: int = 1

    def __post_init__(self) -> None:
        """Refuse what cannot be trained."""
        for name in ("steps", "batch_size", "lr", "validate_every", "patience", "beams"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: expected above 0, got {getattr(self, name)!r}")
        if self.warmup < 0:
            raise ValueError(f"warmup: expected at least 0, got {self.warmup!r}")
        if self.optimiser not in ("adafactor", "adamw"):
            raise ValueError(f"optimiser: expected 'adafactor' or 'adamw', got {self.optimiser!r}")
        if self.template is not None and "{question}" not in self.template:
            raise ValueError(f"template: expected {{question}} in it, got {self.template!r}")

    def rate(self, step: int) -> float:
        """Learning rate of a step, counted from 1.

        Example:
            >>> recipe = GeneratorRecipe(steps=10, warmup=2, lr=1.0)
            >>> [recipe.rate(step) for step in (1, 2, 6, 10)]
            [0.5, 1.0, 0.5, 0.0]
        """
        if step <= self.warmup:
            return self.lr * step / self.warmup
        return self.lr * (self.steps - step) / max(1, self.steps - self.warmup)


@locks("output")
def train_generator(
    generator: NameGenerator,
    train: Sequence[Question],
    validation: Sequence[Question],
    output: str | Path,
    *,
    recipe: GeneratorRecipe | None = None,
    say: Say | None = None,
) -> list[Look]:
    """Fine-tune a model on the names of the entities that answer questions, and write it as transformers does.

    loss = mean over the tokens of the names, and their end marks, of -log p(token | prompt, image, tokens before)

    The parameters with the best harmonic mean of seen and unseen accuracy are kept, those before training included.

    Args:
        generator: the model, with the linker whose entities are the answers; it is trained in place. Models with a
            decoder of their own (T5, BLIP-2 with T5) and without one (GPT-2, LLaVA) are trained.
        train: questions of seen entities.
        validation: questions of seen and unseen entities, `seen` set.
        output: new folder: the model, its processor, and `training.json`; `load_generator` and `oven generate --model`
            open it.
        recipe: how; the paper's by default.
        say: called with one line per look.

    Returns:
        The looks at the validation: step, seen, unseen and harmonic mean in percent, the first before training.

    Raises:
        FileExistsError: names the folder that is in the way.
        ValueError: questions of unknown entities, with and without images, or of one kind only; a name that the
            tokenizer cannot write; a loss that is not finite, with its step.

    Source: OVEN sections 4.2 and 11.3, which fine-tune PaLI.
    """
    import torch

    from oven_retrieval.models.contrastive import make_optimiser

    recipe, target = recipe or GeneratorRecipe(), Path(output)
    if target.exists():
        raise FileExistsError(f"{target} exists; expected a new folder")
    if {question.seen for question in validation} != {True, False}:
        raise ValueError("validation: expected questions of seen and of unseen entities, got one kind only")
    if not train:
        raise ValueError("train: expected at least one question, got none")
    kb = generator.linker.kb
    names = [kb.names[row] for row in answer_rows(kb, train).tolist()]
    generator.targets(list(dict.fromkeys(names)))  # before anything is trained: a name that cannot be written
    truth = answer_rows(kb, validation)
    model = generator.model
    torch.manual_seed(recipe.seed)
    optimiser = make_optimiser(recipe.optimiser, [p for p in model.parameters() if p.requires_grad], recipe.lr)
    looks = [_look(generator, validation, truth, recipe, 0)]
    best, waited, parameters = looks[0], 0, _copied(model)
    for step, chosen in enumerate(islice(_batches(len(train), recipe), recipe.steps), start=1):
        model.train()
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate(step)
        optimiser.zero_grad()
        loss = _backward(generator, [train[i] for i in chosen], [names[i] for i in chosen], recipe.template)
        if not np.isfinite(loss):
            raise ValueError(f"loss: {loss} at step {step}; expected a finite number (a lower lr than {recipe.lr}?)")
        optimiser.step()
        if step % recipe.validate_every and step != recipe.steps:
            continue
        looks.append(_look(generator, validation, truth, recipe, step))
        if say is not None:
            say(
                f"step {step:,} of {recipe.steps:,}: loss {loss:.3f}, seen {looks[-1][1]:.1f} %, "
                f"unseen {looks[-1][2]:.1f} %, harmonic mean {looks[-1][3]:.1f}"
            )
        waited += 1
        if looks[-1][3] > best[3]:
            best, waited, parameters = looks[-1], 0, _copied(model)
        if waited == recipe.patience:
            break
    model.load_state_dict(parameters)
    model.eval()
    _write(generator, target, recipe, looks, best)
    return looks


def _copied(model: Any) -> dict[str, Tensor]:
    return {name: values.detach().cpu().clone() for name, values in model.state_dict().items()}


def _batches(count: int, recipe: GeneratorRecipe) -> Iterator[list[int]]:
    """Numbers of questions for ever; each is taken once before any is taken again."""
    rng, size = np.random.default_rng(recipe.seed), min(recipe.batch_size, count)
    while True:
        order = rng.permutation(count).tolist()
        for first in range(0, count // size * size, size):
            yield order[first : first + size]


def _backward(
    generator: NameGenerator, questions: Sequence[Question], names: Sequence[str], template: str | None
) -> float:
    """Add the gradient of a batch, some questions at a time, and return its loss."""
    total, loss = sum(map(len, generator.targets(names))), 0.0
    for first in range(0, len(questions), generator.batch):
        part = slice(first, first + generator.batch)
        targets = generator.targets(names[part])
        own = name_loss(generator, questions[part], targets, template) * (sum(map(len, targets)) / total)
        own.backward()  # type: ignore[no-untyped-call]  # torch leaves it without types
        loss += float(own.detach())
    return loss


def name_loss(
    generator: NameGenerator, questions: Sequence[Question], targets: Sequence[Sequence[int]], template: str | None
) -> Tensor:
    """Mean negative log-likelihood of the tokens of names, given their questions."""
    import torch

    prompts, images = prompts_of(generator, questions, template)
    inputs = generator.inputs(prompts, images)
    longest, device = max(map(len, targets)), generator.model.device
    padding = generator.tokenizer.pad_token_id
    labels = torch.tensor([[*tokens, *[_IGNORED] * (longest - len(tokens))] for tokens in targets], device=device)
    if not generator.has_own_decoder:
        # The names go on after the prompts, which are padded on the left.
        mask, before = labels != _IGNORED, inputs["input_ids"]
        names = labels.masked_fill(~mask, padding)
        for field, more in (("input_ids", names), ("attention_mask", mask.to(inputs["attention_mask"].dtype))):
            inputs[field] = torch.cat([inputs[field], more], dim=1)
        for field, values in inputs.items():  # kinds of tokens, where a processor marks those of images
            if field not in ("input_ids", "attention_mask") and values.shape == before.shape:
                inputs[field] = torch.cat([values, torch.zeros_like(names, dtype=values.dtype)], dim=1)
        labels = torch.cat([torch.full_like(before, _IGNORED), labels], dim=1)
    loss: Tensor = generator.model(**inputs, labels=labels).loss
    return loss


def prompts_of(
    generator: NameGenerator, questions: Sequence[Question], template: str | None
) -> tuple[list[str], list[Any] | None]:
    """Prompts of questions, and their images where they have them."""
    files = [question.image for question in questions if question.image is not None]
    if files and len(files) < len(questions):
        raise ValueError(f"questions: expected an image for all or none, got {len(files)} of {len(questions)}")
    texts = [question.text for question in questions]
    prompts = make_prompts(generator.processor, texts, images=bool(files), template=template)
    return prompts, [_picture(file) for file in files] if files else None


def _picture(file: Path) -> Any:
    try:
        return read_rgb(file)
    except (OSError, ValueError) as error:
        raise ValueError(f"{file}: expected an image: {error}") from None


def _look(
    generator: NameGenerator, validation: Sequence[Question], truth: Any, recipe: GeneratorRecipe, step: int
) -> Look:
    """Accuracy on the validation questions."""
    generator.model.eval()
    rows: list[int] = []
    for first in range(0, len(validation), generator.batch):
        prompts, images = prompts_of(generator, validation[first : first + generator.batch], recipe.template)
        if recipe.constrained:
            answers = generator.constrained(prompts, images, beams=recipe.beams)
        else:
            answers = generator.free(prompts, images, beams=recipe.beams, exact_first=False)
        rows += answers.rows[:, 0].tolist()
    right, seen = np.array(rows) == truth, np.array([bool(question.seen) for question in validation])
    accuracies = 100 * float(right[seen].mean()), 100 * float(right[~seen].mean())
    return (step, *accuracies, harmonic_mean(*accuracies))


def _write(generator: NameGenerator, target: Path, recipe: GeneratorRecipe, looks: Sequence[Look], best: Look) -> None:
    """The folder, which takes its name when it is whole."""
    partial = own_file(unfinished(target))
    shutil.rmtree(partial, ignore_errors=True)
    try:
        generator.model.save_pretrained(partial)
        generator.processor.save_pretrained(partial)
        step, seen, unseen, mean = best
        training = {"step": step, "seen": seen, "unseen": unseen, "harmonic": mean, "steps": looks[-1][0]}
        record = {"kind": KIND, "knowledge base": generator.linker.kb.hash, "recipe": asdict(recipe)}
        record["training"] = training | {"history": looks}
        (partial / TRAINING).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
