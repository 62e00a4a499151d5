"""Keywords of the last release that go on working for one more, with a warning that says the new one."""

from __future__ import annotations

import warnings
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def renamed_keywords(**new_names: str) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Let a function take its keywords of the last release: old name -> new name."""

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @wraps(function)
        def accepting(*args: Parameters.args, **keywords: Parameters.kwargs) -> Result:
            for old, new in new_names.items():
                if old in keywords and new not in keywords:
                    message = f"{function.__name__}({old}=) is called {new}= now, and goes with the next release"
                    warnings.warn(message, DeprecationWarning, stacklevel=2)
                    keywords[new] = keywords.pop(old)
            return function(*args, **keywords)

        return accepting

    return decorate
