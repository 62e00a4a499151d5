"""An image-text encoder trained on images with captions: one request, the one trainer, a folder with a card.

One file of more than 400 lines: the steps of one training share its batches, heads and checks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from eqsim import ClipEqSimLoss
from gate_data.captioned import Captioned, CaptionedSplit
from gate_runner.errors import EncoderError, StorageError, UsageError
from gate_runner.files import DISK
from gate_runner.finetuning.hard_batches import HardRows, nearest_others
from gate_runner.finetuning.picture_rows import PictureRows
from gate_runner.finetuning.request import LOCATED, RATES, FinetuneRequest
from gate_runner.runs.ranks import training_processes
from gate_runner.tasks.recipes import checked_augmentation
from vision_adapters.finetune import choose_weights, recompute_blocks
from vision_adapters.rows.samples import WorkerDiedError
from vision_adapters.training import Recipe, fit, wise_ft
from vision_adapters.training.checkpoint import changing_state
from vision_adapters.training.pairs import ChosenRows, DualEncoder, features_of_batch, recall_at_1
from vision_features.encoders import load_encoder
from vision_features.encoders.loading import device_for
from vision_features.encoders.named import read_card
from vision_features.encoders.probe import probe
from vision_features.encoders.spec import agree
from vision_features.encoders.tuned import save_tuned
from wary_files.locks import BusyError, held

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from vision_adapters.training.outcome import Fit, Validation
    from vision_features.encoders.encoder import Encoder

_SIGLIP_BIAS = -10.0
_ENCODED = 64
EVIDENCE = 30
"""Held-out samples below which a recall says nothing."""
_IN_MEMORY = 2**29
"""Bytes of held-out images up to which they are decoded once."""
Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Materials:
    """What a request names, loaded: the data, the encoder at its start, and the teacher where there is another one."""

    data: Captioned
    encoder: Encoder
    teacher: Encoder | None

    @classmethod
    def of(cls, request: FinetuneRequest, device: str) -> Materials:
        """Read and load all of it."""
        data = request.read()
        _refuse_terms(request.terms, data)
        named = [name for name in (request.encoder, request.teacher) if name is not None]
        encoder, *teacher = [load_encoder(name, device=device_for(device)) for name in named]
        return cls(data, encoder, teacher[0] if teacher else None)

    def contents(self) -> dict[str, str]:
        """Digests that tell the same names with other contents apart."""
        weights = {"encoder": self.encoder, "teacher": self.teacher}
        marks = {name: str(part.fingerprint()) for name, part in weights.items() if part is not None}
        return {"data": self.data.digest(), **marks}

    def outputs(self) -> dict[str, Any]:
        """What the encoders give on fixed probes, which their code decides besides their weights."""
        weights = {"encoder": self.encoder, "teacher": self.teacher}
        return {name: part.outputs or probe(part) for name, part in weights.items() if part is not None}


def finetune(request: FinetuneRequest, say: Say = lambda line: None) -> Path:
    """Train an encoder on images with captions, and keep it in a folder that every command takes.

    Where the folder is there already, of the same request, data, start and teacher, nothing is trained; a training that
    was interrupted goes on from its last validation, to the same bits. ``say`` is told what was found, and each
    validation, a line each.

    Raises:
        UsageError: another process trains into the folder, or it holds another training; what differs is shown.
    """
    output = request.output.absolute()
    try:
        with held(output.parent / f".{output.name}.lock"):
            return _finetuned(request, say)
    except OSError as error:
        if error.errno not in DISK:
            raise
        raise StorageError.about(Path(error.filename or request.output), error) from error
    except BusyError as error:
        raise UsageError(
            f"{error.owner} trains into {request.output} now: wait for its end, or choose another --output"
        ) from error


def _finetuned(request: FinetuneRequest, say: Say) -> Path:
    card = _card_of(request)
    materials = Materials.of(request, request.device)
    contents, outputs = materials.contents(), materials.outputs()
    if card is not None:
        _require_same(request, card, contents, outputs)
        say(f"{request.output} is there already, of the same request, data and weights")
        return request.output
    data, encoder = materials.data, materials.encoder
    for note in data.notes:
        say(note)
    if cut := encoder.cut_texts(_every_text(data.train)):
        say(cut)
    if len(data.validation) < EVIDENCE:
        say(f"{len(data.validation)} held-out samples are no evidence: give {EVIDENCE} or more to choose and judge by")
    start = {name: value.detach().cpu().clone() for name, value in _module_of(encoder).state_dict().items()}
    values = {"finetune": request.to_mapping()}
    call = "gate_runner.finetuning.training:follow"
    with training_processes(request.num_processes, values, call, encoder.device) as group:
        training = _Training(request, materials, contents)
        done = training.run(group, say)
    share, curve = training.mixed(done)
    about = {
        "request": request.identity(),
        "contents": contents,
        "outputs": outputs,
        "training": {
            "recipe": asdict(training.recipe),
            "terms": {"loss": request.loss, "add": list(request.add)},
            "samples": {
                "train": len(data.train),
                "validation": len(data.validation),
                "pictures_each": data.train.pictures_each,
            },
            "notes": list(data.notes),
            "trained_parameters": training.trained,
            "chosen_step": done.best_step,
            "wise_ft": {"share": share, "curve": curve},
            "validation": [
                {"step": row.step, "recall@1": row.score, "loss": _finite(row.loss), **row.terms}
                for row in done.history
            ],
            "seconds": done.seconds,
        },
    }
    save_tuned(encoder, start, request.output, about)
    training.checkpoint.unlink(missing_ok=True)
    first, last = done.history[0].score, training.recall(training.module)
    say(f"recall at 1 on {len(data.validation)} held-out samples: {first:.3f} before, {last:.3f} after")
    return request.output


def _every_text(split: CaptionedSplit) -> Iterator[str]:
    """Yield captions and false captions, as often as they are there."""
    yield from (text for forms in split.captions for form in forms for text in form)
    yield from (text for false in split.negatives for text in false)


def follow(values: dict[str, Any], together: Callable[[str], AbstractContextManager[ProcessGroup]]) -> None:
    """One of the further processes of a training: it ends where the first goes on alone."""
    request = FinetuneRequest.from_mapping(values["finetune"])
    materials = Materials.of(request, values["device"])
    training = _Training(request, materials, materials.contents())
    with together(materials.encoder.device.type) as group:
        training.run(group, lambda line: None)


def _card_of(request: FinetuneRequest) -> dict[str, Any] | None:
    """The card of a folder that is there already and was trained by such a request; one of another is an error."""
    if not request.output.exists():
        return None
    try:
        card = read_card(request.output)
    except EncoderError as error:
        raise UsageError(f"{request.output} is there, and is no trained encoder: choose another --output") from error
    before, now = card.get("request", {}), request.identity()
    differing = [name for name in now if name not in LOCATED and before.get(name) != now[name]]
    if differing:
        named = ", ".join(f"{name} {before.get(name)!r} there, {now[name]!r} here" for name in differing)
        raise UsageError(f"{request.output} was trained otherwise ({named}): choose another --output")
    return card


def _require_same(
    request: FinetuneRequest, card: Mapping[str, Any], contents: Mapping[str, str], outputs: Mapping[str, Any]
) -> None:
    """Refuse a folder that was trained on other data, or from or by other weights, under the same names."""
    before = card.get("contents", {})
    for name in sorted({*before, *contents}):
        if before.get(name) != contents.get(name):
            raise UsageError(
                f"{request.output} was trained with {name} of digest {str(before.get(name))[:16]}, now it is "
                f"{str(contents.get(name))[:16]}: choose another --output"
            )
    for name, now in outputs.items():
        if not agree(card.get("outputs", {}).get(name, {}), now):
            raise UsageError(
                f"{request.output} was trained when the {name} gave other features for the same inputs: its code was "
                "changed, or it draws at random; choose another --output"
            )


def _refuse_terms(loss: ClipEqSimLoss, data: Captioned) -> None:
    """Terms that need what the data do not have."""
    settings = loss.settings
    if settings.needs_known_pairs and data.train.pictures_each == 1:
        name = "eqsim:relative" if settings.mode == "relative" else "pair"
        raise UsageError(
            f"--add {name} runs over known pairs of images, and there are none: give pairs of eqben build, or a "
            "table with image, image2, caption and caption2"
        )
    if settings.hard_weight and not any(data.train.negatives):
        raise UsageError(
            "--add hard needs false captions, and there are none: a column 'negative' in the table, or in .json"
        )


def _module_of(encoder: Encoder) -> nn.Module:
    if encoder.module is None or encoder.text is None:
        lacks = "shows no weights to train" if encoder.module is None else "has no text side to learn captions"
        raise EncoderError(f"encoder {encoder.spec!r} {lacks}")
    return encoder.module


class _Training:
    """Data, module and recipe of a request, the same in each of its processes."""

    def __init__(self, request: FinetuneRequest, materials: Materials, contents: Mapping[str, str]) -> None:
        data, self.encoder = materials.data, materials.encoder
        self.request, self.loss, self.contents = request, request.terms, contents
        self.other_teacher = materials.teacher
        self.train, self.validation = (
            split.at_size(self.encoder.image_size) for split in (data.train, data.validation)
        )
        self.most = max((len(texts) for texts in self.train.negatives), default=0)
        self.checkpoint = request.output.with_name(f".{request.output.name}.checkpoint.pt")
        self.teacher = self._teacher_rows() if self.loss.settings.keep_weight else ()
        self.module = self._dual()
        self.trained = sum(weight.numel() for weight in self.module.parameters() if weight.requires_grad)
        self.start = changing_state(self.module)
        self.recipe = self._recipe()
        self._decoded: PictureRows | Tensor | None = None

    def _recipe(self) -> Recipe:
        request, count = self.request, len(self.train)
        batch = min(request.batch_size, count)
        steps = request.steps if request.steps is not None else max(1, round(request.epochs * (count // batch)))
        try:
            return Recipe(
                lr=RATES[request.tune] if request.lr is None else request.lr,
                steps=steps,
                batch_size=batch,
                schedule="cosine",
                validate_every=max(1, steps // 10) if request.validate_every is None else request.validate_every,
                warmup=round(request.warmup * steps),
                weight_decay=request.weight_decay,
                precision=request.precision,  # type: ignore[arg-type]  # it checks
            )
        except ValueError as error:
            raise UsageError(str(error)) from error

    def _dual(self) -> DualEncoder:
        encoder, request = self.encoder, self.request
        module, text = _module_of(encoder), encoder.text
        assert text is not None
        numbers = {
            name: value
            for name in ("logit_scale", "logit_bias")
            if isinstance(value := getattr(module, name, None), nn.Parameter)
        }
        bias = numbers.get("logit_bias", nn.Parameter(torch.tensor(_SIGLIP_BIAS))) if request.loss == "siglip" else None
        dual = DualEncoder(
            module,
            lambda images: encoder.image(encoder.prepare(images)).float(),
            lambda texts: text(list(texts)).float(),
            log_scale=numbers.get("logit_scale"),
            bias=bias,
            negatives=self.most,
            follows=request.tune == "full",
        ).to(encoder.device)
        few = PictureRows(self.train, encoder)[: min(2, len(self.train))]
        texts = [forms[0] for forms in self.train.captions[:2]]
        false = [()] * len(texts) if self.most else ()
        sides = ("image", "text", "scale", "bias")

        def embed(*names: str) -> Tensor:
            outputs = dual(few.to(encoder.device), texts, false)
            return torch.cat([outputs[name].flatten() for name in names if name in outputs])

        try:
            if request.tune == "last-block":  # of each tower
                names = {
                    name
                    for side in ("image", "text")
                    for name in choose_weights(module, lambda: embed(side), "last_block")  # noqa: B023 - called at once
                }
                for name, weight in module.named_parameters():
                    weight.requires_grad_(name in names)
            else:
                part: Any = "all" if request.tune == "full" else request.tune
                choose_weights(module, lambda: embed(*sides), part, seed=request.seed)
            if request.checkpoint_blocks:
                recompute_blocks(module)
        except ValueError as error:
            raise EncoderError(f"encoder {encoder.spec!r}: --tune {request.tune}: {error}") from error
        return dual

    def _teacher_rows(self) -> tuple[ChosenRows, ...]:
        """The frozen encoder's features of every image and caption, encoded once."""
        split = self.train
        teacher = self.other_teacher or self.encoder
        if teacher.text is None or teacher.logit_scale is None:
            raise EncoderError(f"teacher {teacher.spec!r} has no text side, or no scale of its scores to be kept")
        split = split.at_size(teacher.image_size)
        rows = PictureRows(split, teacher)
        images = []
        for numbers in torch.split(torch.arange(len(split)), _ENCODED):
            shown = rows[numbers]
            images.append(teacher.encode_image(shown.flatten(0, 1)).cpu().reshape(*shown.shape[:2], -1))
        texts = list(dict.fromkeys(_every_text(split)))
        encoded = torch.cat([teacher.encode_text(texts[at : at + 256]).cpu() for at in range(0, len(texts), 256)])
        row_of = {text: row for row, text in enumerate(texts)}

        def of(form: Sequence[str]) -> Tensor:
            return encoded[[row_of[text] for text in form]]

        scale = torch.full((1,), teacher.logit_scale)
        captions = ChosenRows([[of(form) for form in forms] for forms in split.captions])
        teacher_rows = [ChosenRows([[row] for row in torch.cat(images)]), captions]
        if self.most:
            blank = encoded.new_zeros(self.most, encoded.shape[1])
            padded = [torch.cat([of(false), blank])[: self.most] for false in split.negatives]
            teacher_rows.append(ChosenRows([[row] for row in padded]))
        self.teacher_scale = scale
        return tuple(teacher_rows)

    @torch.no_grad()
    def _nearest(self) -> Tensor:
        """The samples that the encoder at its start confuses most with each."""
        rows, split, encoder = PictureRows(self.train, self.encoder), self.train, self.encoder
        images, texts = [], []
        for numbers in torch.split(torch.arange(len(split)), _ENCODED):
            images.append(encoder.encode_image(rows[numbers][:, 0]).cpu())
            texts.append(encoder.encode_text([split.captions[number][0][0] for number in numbers.tolist()]).cpu())
        return nearest_others(torch.cat(images), torch.cat(texts))

    def run(self, group: ProcessGroup | None, say: Say) -> Fit:
        """Train, or go on with a training."""
        train, request = self.train, self.request
        inputs: list[Any] = [
            PictureRows(train, self.encoder, checked_augmentation(request.augment), request.decode_workers),
            ChosenRows(train.captions),
        ]
        if self.most or self.teacher:
            inputs.append(ChosenRows([[texts] for texts in train.negatives] or [[()]] * len(train)))
        inputs += self.teacher
        if request.hard_share:
            nearest = self._nearest()
            inputs = [HardRows(rows, nearest, request.hard_share) for rows in inputs]
        request.output.parent.mkdir(parents=True, exist_ok=True)

        def watch(row: Validation) -> None:
            terms = ", ".join(f"{name.removesuffix('_loss')} {value:.4f}" for name, value in row.terms.items())
            say(f"step {row.step} of {self.recipe.steps}: recall at 1 {row.score:.3f}{terms and f'; {terms}'}")

        try:
            return fit(
                self.module,
                tuple(inputs),
                torch.arange(len(train)),
                loss=self._loss,
                recipe=self.recipe,
                validate=self.recall,
                direction="higher",
                seed=request.seed,
                checkpoint=self.checkpoint,
                belongs_to={
                    "request": repr([item for item in sorted(request.identity().items()) if item[0] not in LOCATED]),
                    **self.contents,
                },
                device=self.encoder.device,
                group=group,
                watch=watch,
            )
        except WorkerDiedError as error:
            raise UsageError(f"{error}; the same command continues from the last validation") from error
        except (ValueError, FloatingPointError) as error:
            raise UsageError(str(error)) from error

    def _loss(self, outputs: dict[str, Tensor], targets: Tensor) -> dict[str, Tensor]:
        """Each term of the loss of a batch, by name."""
        del targets
        arguments, settings = features_of_batch(outputs), self.loss.settings
        owners, pairs, teacher = (arguments.pop(name, None) for name in ("owners", "close_pairs", "teacher"))
        if settings.hard_weight:
            arguments["negatives_of"] = owners
        looks = "close" in self.request.named  # the loss looks for its own pairs
        if (settings.mode != "none" or settings.pair_weight) and not looks:
            arguments["close_pairs"] = pairs
        if teacher is not None:
            arguments["teacher"] = (*teacher, self.teacher_scale)
        terms: dict[str, Tensor] = self.loss(**arguments, output_dict=True)
        return terms

    def _held_out(self) -> PictureRows | Tensor:
        """The held-out images: decoded once where they are few, read again at each validation beyond that."""
        if self._decoded is None:
            rows = PictureRows(self.validation, self.encoder)
            size = math.prod(rows[:1].shape) * len(rows)
            self._decoded = rows[:] if size <= _IN_MEMORY else rows
        return self._decoded

    @torch.no_grad()
    def recall(self, module: nn.Module) -> float:
        """Recall at 1 among the held-out images and their first captions, both ways."""
        rows, split = self._held_out(), self.validation
        texts = [forms[0] for forms in split.captions]
        parts: list[dict[str, Tensor]] = []
        for numbers in torch.split(torch.arange(len(split)), _ENCODED):
            chosen = [texts[number] for number in numbers.tolist()]
            false = [()] * len(chosen) if self.most else ()
            parts.append(module(rows[numbers].to(self.encoder.device), chosen, false))
        image, text = (torch.cat([part[name].flatten(0, 1).cpu() for part in parts]) for name in ("image", "text"))
        captions = [caption for form in texts for caption in form]
        number = {caption: index for index, caption in enumerate(dict.fromkeys(captions))}
        return recall_at_1(image, text, torch.tensor([number[caption] for caption in captions]))

    def mixed(self, done: Fit) -> tuple[float, list[dict[str, float]]]:
        """Leave the share of the trained weights that was asked for, mixed with where they started."""
        if self.request.wise_ft is None:
            return 1.0, []
        share: Any = self.request.wise_ft if self.request.wise_ft == "best" else float(self.request.wise_ft)
        mix = wise_ft(self.module, self.start, done.kept, share, self.recall, "higher", whole=True)
        return mix.share, [{"share": row.share, "recall@1": row.validation} for row in mix.curve]


def _finite(value: float) -> float | None:
    return value if value == value else None
