"""Whether the Hugging Face hub answers: asked once, for seconds, where its own library asks six times in a minute."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

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


@contextmanager
def cache_alone() -> Iterator[None]:
    """Libraries look into the hub's cache on this machine alone, as with HF_HUB_OFFLINE=1, and log no error of it."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    level = logging.root.manager.disable
    constants.HF_HUB_OFFLINE = True
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
        logging.disable(level)
