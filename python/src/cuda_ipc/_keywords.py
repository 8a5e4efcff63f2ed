"""Says which keyword was meant by one that a call does not have."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, TypeVar, cast

Call = TypeVar("Call", bound=Callable[..., Any])
Type = TypeVar("Type", bound=type)

#: The flag of a coroutine function. To load `inspect` for it takes milliseconds.
_IS_COROUTINE = 0x80


def explains_keywords(call: Call) -> Call:
    """A call whose TypeError for an unknown keyword names the nearest one."""
    code = getattr(call, "__code__", None)
    if code is not None and code.co_flags & _IS_COROUTINE:

        async def awaited(*args: Any, **keywords: Any) -> Any:
            try:
                return await call(*args, **keywords)
            except TypeError:
                _check(call, keywords)
                raise

        return cast(Call, functools.update_wrapper(awaited, call))

    def called(*args: Any, **keywords: Any) -> Any:
        try:
            return call(*args, **keywords)
        except TypeError:
            _check(call, keywords)
            raise

    return cast(Call, functools.update_wrapper(called, call))


def class_explains_keywords(of: Type) -> Type:
    """Wraps the public methods, also inherited ones. Not for calls of each message: it costs."""
    for base in reversed(of.__mro__):
        for name, call in list(vars(base).items()):
            if isinstance(call, FunctionType) and not name.startswith("_"):
                setattr(of, name, explains_keywords(call))
    return of


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean "slots"?` or ""."""
    from difflib import get_close_matches  # of errors alone

    by_lower = {one.lower(): one for one in known}
    near = get_close_matches(word.lower(), by_lower, 1)
    return f' Did you mean "{by_lower[near[0]]}"?' if near else ""


def _check(call: Callable[..., Any], keywords: dict[str, Any]) -> None:
    """Raises TypeError for the first unknown keyword."""
    from inspect import Parameter, signature

    parameters = signature(call).parameters.values()
    named = [one.name for one in parameters if one.kind is not Parameter.VAR_KEYWORD]
    if len(named) < len(parameters):
        return
    known = [name for name in named if name != "self"]
    for word in keywords:
        if word not in known:
            meant = _meant(word, known) or f" It takes: {', '.join(known)}."
            raise TypeError(f'{call.__name__}() has no argument "{word}".{meant}') from None


def _meant(word: str, known: list[str]) -> str:
    # As in TypeScript, where times are in milliseconds.
    snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", word).lower()
    if snake in known:
        return f' Did you mean "{snake}"?'
    seconds = re.sub(r"_?(ms|seconds|secs?|s)$", "", snake)
    if seconds in known and seconds.endswith(("timeout", "idle", "spin")):
        return f' Did you mean "{seconds}" (in seconds)?'
    return did_you_mean(snake, known)
