"""A property that is computed once, as `functools.cached_property` without the lock that Python 3.11 takes for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class once(Generic[Value]):
    """Compute a property when it is first asked for, and keep it in the instance."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> once[Value]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...
    def __get__(self, instance: object | None, owner: type) -> Value | once[Value]:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
