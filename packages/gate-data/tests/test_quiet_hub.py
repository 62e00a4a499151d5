"""Looking into the hub's cache alone hides what its libraries log, and nothing else."""

from __future__ import annotations

import logging
import threading

import pytest

from gate_data.hub.reaching import cache_alone

pytest.importorskip("huggingface_hub")


def test_only_the_hubs_libraries_are_silent(caplog: pytest.LogCaptureFixture) -> None:
    """Logging was switched off for the whole process."""
    before = logging.root.manager.disable
    with cache_alone():
        assert logging.root.manager.disable == before
        logging.getLogger("huggingface_hub.file_download").error("no network")
        logging.getLogger("transformers").warning("no network")
        logging.getLogger("a.training.loop").error("loss is not finite")
        other = threading.Thread(target=lambda: logging.getLogger("huggingface_hub").error("of another thread"))
        other.start()
        other.join()
        logging.getLogger("huggingface_hub").critical("the disk is full")
    logging.getLogger("huggingface_hub").error("afterwards")
    assert [record.message for record in caplog.records] == [
        *("loss is not finite", "of another thread", "the disk is full", "afterwards")
    ]
