"""Uploads to a model hub: what is chosen, that nothing is sent unasked, and one commit; the test plays the hub."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import gate_runner
from gate_runner.errors import UsageError
from gate_runner.exporting.hub import prepared, send

from ._command import call_here
from ._folders import write_run

hub = pytest.importorskip("huggingface_hub")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """What the hub was told, in order."""
    told_hub: list[tuple[str, dict[str, Any]]] = []

    class Hub:
        def create_repo(self, repo_id: str, **options: Any) -> None:
            told_hub.append(("repo", {"repo_id": repo_id, **options}))

        def create_commit(self, repo_id: str, operations: list[Any], **options: Any) -> SimpleNamespace:
            told_hub.append(("commit", {"repo_id": repo_id, "operations": operations, **options}))
            return SimpleNamespace(commit_url=f"hub/{repo_id}/commit/1")

    monkeypatch.setattr(hub, "HfApi", Hub)
    return told_hub


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("runs") / "trained"
    fields = {"steps": 2, "validate_every": 1, "batch_size": 8}
    (finished,) = gate_runner.run(
        "digits", encoder="micro-dense/random", output=output, show=False, limit=30, device="cpu", tune="bias",
        recipe_fields=fields, save_encoders=True, save_heads=True,
    )  # fmt: skip
    assert finished.status == "ok", finished.reason
    return output


def test_a_run_is_sent_as_one_commit_without_what_names_the_machine(
    trained: Path, calls: list[tuple[str, dict[str, Any]]]
) -> None:
    upload = prepared(trained, "mylab/tiny")
    paths = [file.path for file in upload.files]
    assert paths[0] == "README.md"
    assert {path.partition("/")[0] for path in paths} == {"README.md", "results", "encoders", "heads"}
    assert any(path.endswith("encoder.safetensors") for path in paths)
    assert not any(path.startswith(("manifest", "samples")) for path in paths)
    assert send(upload) == "hub/mylab/tiny/commit/1"
    (made, repo), (committed, commit) = calls
    assert (made, committed) == ("repo", "commit")
    assert repo == {"repo_id": "mylab/tiny", "private": True, "exist_ok": True}
    sent = {operation.path_in_repo: operation.path_or_fileobj for operation in commit["operations"]}
    assert list(sent) == paths
    assert b"model-index" in sent["README.md"]
    (result,) = (path for path in paths if path.startswith("results/"))
    assert json.loads(Path(sent[result]).read_text())["benchmark"] == "digits"


@pytest.mark.parametrize("kind", ["encoders", "heads"])
def test_a_kept_encoder_or_head_is_sent_alone(
    kind: str, trained: Path, calls: list[tuple[str, dict[str, Any]]]
) -> None:
    (folder,) = (trained / kind).iterdir()
    upload = prepared(folder, "mylab/part")
    assert {"README.md", "card.json"} <= {file.path for file in upload.files}
    send(upload, private=False)
    assert calls[0][1]["private"] is False


def test_the_command_sends_nothing_unless_told(
    trained: Path, calls: list[tuple[str, dict[str, Any]]], tmp_path: Path
) -> None:
    listed = call_here("upload", str(trained), "--to", "mylab/tiny", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert b"for private mylab/tiny; nothing was sent" in listed.stdout
    assert calls == []
    done = call_here("upload", str(trained), "--to", "mylab/tiny", "--yes", "--public", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["address"] == "hub/mylab/tiny/commit/1"
    assert [name for name, _ in calls] == ["repo", "commit"]


@pytest.mark.parametrize("name", ["tiny", "my lab/tiny", "../tiny", "mylab/tiny/more", "mylab/", "mylab/a..b"])
def test_names_that_no_hub_takes_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected OWNER/NAME"):
        prepared(write_run(tmp_path / "run", {"digits": 0.5}), name)


def test_other_folders_links_and_refusals_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="neither a run folder"):
        prepared(tmp_path, "mylab/tiny")
    run = write_run(tmp_path / "run", {"digits": 0.5})
    secret = tmp_path / "secret"
    secret.write_text("mine")
    (run / "heads").mkdir()
    (run / "heads" / "head.safetensors").symlink_to(secret)
    with pytest.raises(UsageError, match="is a link"):
        prepared(run, "mylab/tiny")
    (run / "heads" / "head.safetensors").unlink()

    class Hub:
        def create_repo(self, repo_id: str, **options: Any) -> None:
            raise OSError("no route\nto the hub")

    monkeypatch.setattr(hub, "HfApi", Hub)
    with pytest.raises(UsageError, match=r"the hub took nothing of mylab/tiny: no route$"):
        send(prepared(run, "mylab/tiny"))
