"""What a function says of itself as a plugin: its parameters and what it returns, with their types in the model."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from inmanta.ast.type import Type


class Declared:
    """A parameter or a result, with the type that it is annotated with."""

    __slots__ = ("annotation", "namespace", "_resolved")

    def __init__(self, annotation: object) -> None:
        self.annotation = annotation
        # Where names of types are looked up; set when the plugin is made.
        self.namespace: str | None = None
        self._resolved: Type | None = None

    @property
    def type_expression(self) -> object:
        """The annotation as it is written; without one, the type is any."""
        return "any" if self.annotation is MISSING else self.annotation

    @property
    def resolved_type(self) -> Type:
        """The type in the model."""
        if self._resolved is None:
            from inmanta.ast.type import of_annotation

            self._resolved = of_annotation(self.annotation, self.namespace)
        return self._resolved

    def validate(self, value: object) -> bool:
        """True for a value of the type, False for an Unknown; a RuntimeException says what is wrong with another."""
        from inmanta.execute.util import Unknown

        return not isinstance(value, Unknown) and self.resolved_type.validate(value)


class Argument(Declared):
    """A parameter of a plugin. `kind` is `positional`, `keyword_only`, `var_positional` or `var_keyword`."""

    __slots__ = ("name", "kind", "has_default", "default")

    def __init__(self, name: str, kind: str, annotation: object, has_default: bool, default: object) -> None:
        super().__init__(annotation)
        self.name = name
        self.kind = kind
        self.has_default = has_default
        self.default = default

    arg_name = property(lambda self: self.name)
    arg_type = property(lambda self: self.annotation)
    default_value = property(lambda self: self.default)


class MISSING:
    """Stands for an annotation that is not there."""


def signature(function: Callable[..., Any]) -> tuple[list[Argument], object]:
    """The parameters of a function and its return annotation (MISSING where there is none).

    Reads the code object, which is far cheaper than `inspect`. A function that a decorator has made has the parameters of its own,
    not those of the function that it wraps; `functools.wraps` gives it the annotations of that one, by name.
    """
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__signature__"):
        return _inspected(function)
    innermost = function
    while hasattr(innermost, "__wrapped__"):
        innermost = innermost.__wrapped__
    annotations = {name: _resolve(innermost, hint) for name, hint in function.__annotations__.items()}
    names = code.co_varnames
    defaults = function.__defaults__ or ()
    keyword_defaults = function.__kwdefaults__ or {}
    arguments = []
    first_default = code.co_argcount - len(defaults)
    for index, name in enumerate(names[: code.co_argcount]):
        has_default = index >= first_default
        default = defaults[index - first_default] if has_default else None
        arguments.append(Argument(name, "positional", annotations.get(name, MISSING), has_default, default))
    end = code.co_argcount + code.co_kwonlyargcount
    next_name = end
    if code.co_flags & 0x04:
        name = names[next_name]
        next_name += 1
        arguments.append(Argument(name, "var_positional", annotations.get(name, MISSING), False, None))
    for name in names[code.co_argcount : end]:
        has_default = name in keyword_defaults
        annotation = annotations.get(name, MISSING)
        arguments.append(Argument(name, "keyword_only", annotation, has_default, keyword_defaults.get(name)))
    if code.co_flags & 0x08:
        name = names[next_name]
        arguments.append(Argument(name, "var_keyword", annotations.get(name, MISSING), False, None))
    return arguments, annotations.get("return", MISSING)


def _inspected(function: Callable[..., Any]) -> tuple[list[Argument], object]:
    import inspect

    try:
        found = inspect.signature(function, follow_wrapped=False)
    except ValueError as error:
        # What Python keeps the results of, for example.
        raise TypeError("unsupported callable") from error
    innermost = inspect.unwrap(function)
    kinds: dict[object, str] = {
        inspect.Parameter.VAR_POSITIONAL: "var_positional",
        inspect.Parameter.VAR_KEYWORD: "var_keyword",
        inspect.Parameter.KEYWORD_ONLY: "keyword_only",
    }

    def annotation(value: object) -> object:
        return MISSING if value is inspect.Parameter.empty else _resolve(innermost, value)

    arguments = []
    for parameter in found.parameters.values():
        has_default = parameter.default is not inspect.Parameter.empty
        default = parameter.default if has_default else None
        kind = kinds.get(parameter.kind, "positional")
        arguments.append(Argument(parameter.name, kind, annotation(parameter.annotation), has_default, default))
    return arguments, annotation(found.return_annotation)


def _resolve(function: Callable[..., Any], annotation: object) -> object:
    """Evaluates an annotation that `from __future__ import annotations` has turned into text."""
    code = getattr(function, "__code__", None)
    if not isinstance(annotation, str) or code is None or not code.co_flags & 0x1000000:
        return annotation
    try:
        return eval(annotation, function.__globals__)
    except Exception:
        return annotation
