"""Whether the Hugging Face hub answers: asked once, for seconds, where its own library asks six times in a minute."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread, get_ident

_LIBRARIES = {"huggingface_hub", "transformers", "open_clip", "timm", "sentence_transformers", "httpx", "urllib3"}
SECONDS = 3.0
"""In which a hub that can be used has answered, of name and connection, too."""


def why_silent() -> str:
    """Why the hub cannot be reached; empty where it answers, whatever that is."""
    from huggingface_hub import constants, get_session, is_offline_mode

    if is_offline_mode():
        return "HF_HUB_OFFLINE is set"
    reasons: list[str] = []

    def ask() -> None:
        try:
            get_session().head(constants.ENDPOINT, timeout=SECONDS)
        except Exception as error:  # noqa: BLE001 - whatever the library, the network or a proxy raises
            reasons.append(" ".join(str(error).split())[:200] or type(error).__name__)
        else:
            reasons.append("")

    asking = Thread(target=ask, daemon=True)  # neither a name nor several addresses are looked up within a limit
    asking.start()
    asking.join(SECONDS)
    reason = reasons[0] if reasons else f"nothing within {SECONDS:.0f} s"
    return f"{constants.ENDPOINT} does not answer ({reason})" if reason else ""


class _Quiet(logging.Filter):
    """Nothing that the hub's libraries log in one thread; what others log, and other threads, is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is shown."""
        logged_by = {record.name.partition(".")[0], *Path(record.pathname).parts}  # open_clip logs as the root
        return record.thread != self.thread or record.levelno > logging.ERROR or not logged_by & _LIBRARIES


@contextmanager
def cache_alone() -> Iterator[None]:
    """Libraries look into the hub's cache on this machine alone, as with HF_HUB_OFFLINE=1, and log no error of it."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    quiet = _Quiet()
    loggers = [logging.root, *map(logging.getLogger, sorted(_LIBRARIES))]
    handlers = {handler for logger in loggers for handler in logger.handlers}
    if logging.lastResort is not None:
        handlers.add(logging.lastResort)
    for handler in handlers:
        handler.addFilter(quiet)
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
        for handler in handlers:
            handler.removeFilter(quiet)
