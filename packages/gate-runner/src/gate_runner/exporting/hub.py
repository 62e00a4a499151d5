"""A run's results and checkpoints, or one kept encoder or head, as a repository on Hugging Face's hub."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gate_runner.errors import UsageError
from gate_runner.exporting import model_card
from gate_runner.exporting.model import ModelName
from gate_runner.files import inside
from gate_runner.runs.stored import read_run

_SENT = ("results", "encoders", "heads")
"""Of a run folder. Its manifest names the machine, the command and paths; samples may name the user's files."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_CARD = (
    "---\ntags: [gate-runner]\n---\n\n# {name}\n\n{what} of gate-runner; `card.json` holds what it was trained on.\n"
)


class Sent(NamedTuple):
    """A file of an upload: its path in the repository, and where its content is, or the content itself."""

    path: str
    content: Path | bytes

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self.content) if isinstance(self.content, bytes) else self.content.stat().st_size


@dataclass(frozen=True)
class Upload:
    """What would be sent, and where to."""

    repository: str
    files: tuple[Sent, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def prepared(folder: Path, repository: str) -> Upload:
    """Choose what an upload of a folder holds; nothing is sent.

    Args:
        folder: a run folder (results, kept encoders and heads, and a model card made from them), or one kept encoder
            or head.
        repository: ``OWNER/NAME`` on the hub.

    Raises:
        UsageError: another folder, a name that the hub does not take, or a link among the files; the message has it.
    """
    owner, slash, name = repository.partition("/")
    if not (slash and _NAME.fullmatch(owner) and _NAME.fullmatch(name)) or ".." in repository or "--" in repository:
        raise UsageError(f"--to {repository!r}: expected OWNER/NAME of letters, digits, '.', '_' and '-'")
    if (folder / "manifest.json").is_file():
        run = read_run(folder)
        if not any(result.status == "ok" for result in run.results):
            raise UsageError(f"{folder} holds no finished result to upload")
        files = [file for part in _SENT for file in _files(folder, folder / part)]
        card = str(model_card.files(run, ModelName(owner, name), "").contents["README.md"])
    elif (folder / "card.json").is_file():
        files = _files(folder, folder)
        kind = "A head" if (folder / "head.safetensors").is_file() else "An encoder"
        card = _CARD.format(name=name, what=kind)
    else:
        raise UsageError(f"{folder} is neither a run folder (manifest.json) nor a kept encoder or head (card.json)")
    if "README.md" not in {file.path for file in files}:
        files = [Sent("README.md", card.encode()), *files]
    return Upload(repository, tuple(files))


def _files(root: Path, folder: Path) -> list[Sent]:
    """Every file below a folder, by its path from the root; hidden ones are left out, and a link is an error."""
    if not folder.is_dir():
        return []
    sent = []
    for path in sorted(folder.rglob("*")):
        names = path.relative_to(root).parts
        if any(name.startswith(".") for name in names) or path.suffix in (".partial", ".lock"):
            continue
        if path.is_symlink():
            raise UsageError(f"{path} is a link: an upload takes files alone; copy it, or leave it out")
        if path.is_file():
            sent.append(Sent("/".join(names), inside(root, *names)))
    return sent


def send(upload: Upload, *, private: bool = True) -> str:
    """Send an upload as one commit, to a repository that is made if there is none, and return its address.

    The hub's library finds the token (``hf auth login`` or ``HF_TOKEN``); it is read nowhere else.

    Raises:
        UsageError: huggingface-hub is not installed, or the hub refuses; the message has its first line.
    """
    try:
        from huggingface_hub import CommitOperationAdd, HfApi
        from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError
    except ImportError as error:
        raise UsageError("an upload needs huggingface-hub: pip install 'gate-runner[hf]'") from error
    operations: Sequence[CommitOperationAdd] = [
        CommitOperationAdd(
            path_in_repo=file.path,
            path_or_fileobj=file.content if isinstance(file.content, bytes) else str(file.content),
        )
        for file in upload.files
    ]
    api = HfApi()
    try:
        api.create_repo(upload.repository, private=private, exist_ok=True)
        commit = api.create_commit(
            upload.repository, operations, commit_message=f"{len(upload.files)} files by gate-runner"
        )
    except (HfHubHTTPError, LocalTokenNotFoundError, OSError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UsageError(f"the hub took nothing of {upload.repository}: {reason}") from error
    return str(commit.commit_url)
