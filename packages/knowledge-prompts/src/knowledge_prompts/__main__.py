"""Start ``prompts``, also as ``python -m knowledge_prompts``; without its extra, say so in one line."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; exit with status 2 if the extra ``cli`` is not installed."""
    try:
        from knowledge_prompts.cli import console
    except ModuleNotFoundError as error:
        sys.stderr.write(f"prompts: {error}\n")
        raise SystemExit(2) from None
    console()


if __name__ == "__main__":
    main()
