"""The exceptions of a compile that Steward ran, made from its diagnostics: as the reference raises them.

A diagnostic has a kind, a text, a place and its causes. The exceptions also say in which statement it was, have absolute
paths, and as their cause what plugins raised. Source: docs/reference/python.md § 2.4, § 7.
"""

from __future__ import annotations

import builtins
import importlib
import os
import re

from inmanta import ast
from steward_host import statement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A place below the project, in the text of a message.
_BELOW = re.compile(r"(?<![\w/.])\./(?=[^\s:]+:\d)")
# The file that an import is missing in, where a message ends with it.
_TO_IMPORT_IN = re.compile(r"(?<= in )(?=[^/\s]\S*\.cf$)")
# The name of a class and a text, as diagnostics tell what Python code raised.
_RAISED = re.compile(r"([A-Za-z_][\w.]*): (.*)", re.DOTALL)
# Attributes of exceptions, as their texts have them.
_ATTRIBUTE = re.compile(r"attribute `(?P<attribute>[^`]+)` (?:on|of) (?:instance )?`(?P<instance>[^`]+)`")
_INCOMPLETE = re.compile(r"The object (?P<instance>.+) is not complete: attribute (?P<attribute>\S+) ")
_NAME = re.compile(
    r"(?:variable|attribute|Namespace) (\S+) not found|Could not find module (\S+)|could not find attribute with name: (\S+) in "
    r"|could not find (?:type )?(\S+)|No match in index on type \S+ with key (.+)",
    re.DOTALL,
)
_NOT_LOADED = re.compile(r"Failed to load module (\S+)")
# The word at which a text stops being a model.
_WORD = re.compile(
    r"Syntax error(?: at token (?P<token>.+)|: (?:Illegal character '(?P<character>.+)'|invalid identifier, (?P<keyword>\S+) is .*))",
    re.DOTALL,
)
_SET_TWICE = re.compile(
    r"value set twice:\n\told value: (?P<old>.*)\n\t\tset at (?P<old_place>.*)\n"
    r"\tnew value: (?P<new>.*)\n\t\tset at (?P<new_place>.*)\n",
    re.DOTALL,
)
_NO_ATTRIBUTE = re.compile(r"no attribute (\S+) on type ")
# What is defined twice.
_TWICE = re.compile(r"(?:Entity|Implementation|TypeConstraint) (\S+) |[^']*'([^']+)'")
_ENDS_EARLY = "Unexpected end of file"
# Tests of modules look for what the reference advises.
_ADVICE = (
    ". Please make sure to add any module v2 requirements with `inmanta module add --v2` and to install all the project's"
    " dependencies with `inmanta project install`."
)
_TYPE = re.compile(r"could not find type (?P<type>\S+) in namespace (?P<ns>\S+)")


class Raised:
    """Makes exceptions for one project."""

    def __init__(self, project_dir: str) -> None:
        self._directory = project_dir
        self._texts: dict[str, str] = {}

    def exception(self, found: dict[str, Any]) -> ast.CompilerException:
        """A diagnostic of the compile contract as the exception that it stands for."""
        from inmanta import module

        cls = _class_of(found["kind"])
        message = self.absolute(found["message"])
        if found["kind"] == "MissingImportException":
            message = _TO_IMPORT_IN.sub(lambda _: os.path.join(self._directory, ""), message)
        if message.startswith("could not locate module with name: "):
            # Of a module that is there: one of its files is missing.
            cls = module.InvalidModuleException
        if found["kind"] == "ModuleNotFoundException" and re.fullmatch(r"Could not find module \S+", message):
            message += _ADVICE
        # The classes have constructors of their own, for those who raise them.
        made: ast.CompilerException = cls.__new__(cls)
        if isinstance(made, ast.RuntimeException):
            ast.RuntimeException.__init__(made, None, message)
        else:
            ast.CompilerException.__init__(made, message)
        _describe(made, message)
        if isinstance(made, ast.DoubleSetException) and isinstance(made.variable, FirstValue) and "values" in found:
            made.variable.value, made.newvalue = found["values"]
        if isinstance(made, ast.DuplicateException):
            self._set_definitions(made, found)
        if found["file"] is not None and found["line"] is not None:
            self._set_place(made, found)
            if "must start with a " in message:
                self._set_misspelt(made, found)
        causes = [self._cause(made, cause) for cause in found.get("causes", ())]
        if isinstance(made, ast.ExplicitPluginException) and not causes:
            # Behind the name of the plugin there is what it raised.
            causes = [ast.PluginException(message.partition("\n")[2])]
        if causes:
            made.__cause__ = causes[0]
            if isinstance(causes[0], ast.RuntimeException) and isinstance(made, ast.RuntimeException):
                _inherit_place(causes[0], made)
        return made

    def absolute(self, message: str) -> str:
        """A message with absolute paths for the places that it names."""
        return _BELOW.sub(lambda _: os.path.join(self._directory, ""), message)

    def warning(self, found: dict[str, Any]) -> Warning:
        """The same of a doubt: the warning that it stands for."""
        from inmanta import module, parser, warnings

        cls = _named(found["kind"], (ast, parser, module, warnings))
        if not isinstance(cls, type) or not issubclass(cls, Warning):
            cls = warnings.InmantaWarning
        if not issubclass(cls, ast.CompilerException):
            plain: Warning = cls(found["message"])
            return plain
        # The places of a shadowed variable are in the text.
        has_place = not issubclass(cls, ast.VariableShadowWarning)
        made = self.exception(found if has_place else {**found, "file": None})
        assert isinstance(made, Warning), "a class is found by its kind"
        if isinstance(made, ast.CompilerRuntimeWarning) and made.location is not None:
            # Of a type that has the name of a built-in one.
            made.set_statement(Reported(f"Type({found['message'].rpartition(' ')[2]})", made.location))
        return made

    def _cause(self, of: ast.CompilerException, found: dict[str, Any]) -> BaseException:
        """What caused an exception: what Python code raised is of its own class, if that can be found."""
        raised = _RAISED.fullmatch(found["message"])
        if isinstance(of, ast.ExternalException) and raised is not None:
            python = _python_exception(raised[1], raised[2])
            if python is not None:
                return python
        return self.exception(found)

    def _set_definitions(self, made: ast.DuplicateException, found: dict[str, Any]) -> None:
        """Both definitions of what is defined twice."""
        other = next((note for note in found.get("notes", ()) if note["file"] is not None), None)
        made.other = None
        if other is None:
            return
        match = _TWICE.match(made.get_message())
        if match is None:
            # What is imported twice has no name in the text, and lines for places.
            twice = re.fullmatch(r"duplicate key in dict (.+)", made.get_message(), re.DOTALL)
            if twice is not None:
                made.other = Reported(twice[1], self._line(other))
                if found["file"] is not None:
                    made.set_statement(Reported(twice[1], self._line(found)))
                return
            made.other = self._import(other)
            if found["file"] is not None:
                made.set_statement(self._import(found))
            return
        name = match[1] or match[2]
        made.other = Reported(name, self._range(other))
        if found["file"] is not None:
            made.set_statement(Reported(name, self._range(found)))

    def _set_misspelt(self, made: ast.CompilerException, found: dict[str, Any]) -> None:
        """The name with the wrong case, which is in the model alone."""
        from inmanta import parser

        lines = self._text(os.path.join(self._directory, found["file"])).split("\n")
        is_whole = found["column"] is not None and found["end_line"] == found["line"] <= len(lines)
        if is_whole and isinstance(made, parser.ParserException):
            made.value = lines[found["line"] - 1][found["column"] - 1 : found["end_column"] - 1]

    def _import(self, found: dict[str, Any]) -> Reported:
        """The import statement at a place."""
        place = self._line(found)
        read = statement.at_place(self._text(place.file), found["line"], found["column"], whole=True)
        return Reported("import" if read is None else read[0], place)

    def _line(self, found: dict[str, Any]) -> ast.Location:
        return ast.Location(os.path.join(self._directory, found["file"]), found["line"])

    def _range(self, found: dict[str, Any]) -> ast.Range:
        numbers = [found[name] for name in ("line", "column", "end_line", "end_column")]
        return ast.Range(os.path.join(self._directory, found["file"]), *numbers)

    def _set_place(self, made: ast.CompilerException, found: dict[str, Any]) -> None:
        file = os.path.join(self._directory, found["file"])
        numbers = [found[name] for name in ("line", "column", "end_line", "end_column")]
        if None in numbers or made.get_message().startswith("Unable to load all plug-ins "):
            made.set_location(ast.Location(file, found["line"]))
            return
        if isinstance(made, ast.RuntimeException) and made.stmt is not None:
            return
        if made.get_message().endswith(_ENDS_EARLY):
            # Behind the end of the line that the reference adds to a text.
            made.set_location(ast.Range(file, numbers[0], 2, numbers[0], 2))
            return
        place = ast.Range(file, *numbers)
        if not isinstance(made, ast.RuntimeException):
            made.set_location(place)
            return
        text = self._text(file)
        if isinstance(made, ast.TypeNotFoundException):
            around = statement.entity_around(text, place.lnr)
            if around is not None:
                made.set_statement(Reported(around, place))
                return
        named = _definition(made, text, found)
        if named is not None:
            has_column = made.get_message().startswith(("Invalid value", "no attribute "))
            made.set_statement(Reported(named.replace("FILE", file), place if has_column else ast.Location(file, place.lnr)))
            return
        defined = statement.definition_at(text, place.lnr, place.start_char)
        if defined is not None:
            is_index = defined.startswith("index ")
            made.set_statement(Reported(defined, ast.Location(file, place.lnr) if is_index else place))
            return
        # A type that is not found is reported with the place of its name, and the whole statement.
        is_type = isinstance(made, ast.TypeNotFoundException)
        read = statement.at_place(text, place.lnr, place.start_char, whole=is_type)
        if read is None:
            made.set_location(place)
        else:
            has_column = read[1] or is_type or made.get_message().startswith(("not all statements executed", "Namespace "))
            made.set_statement(Reported(read[0], place if has_column else ast.Location(file, place.lnr)))

    def _text(self, file: str) -> str:
        if file not in self._texts:
            try:
                with open(file, encoding="utf-8") as source:
                    self._texts[file] = source.read()
            except (OSError, ValueError):
                self._texts[file] = ""
        return self._texts[file]


class Reported(ast.Locatable):
    """A statement of the model: its text and its place."""

    def __init__(self, text: str, location: ast.Location) -> None:
        super().__init__()
        self._text = text
        self.set_location(location)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return self._text


class FirstValue:
    """What a variable had when it got another value."""

    def __init__(self, value: object, location: ast.Location | None) -> None:
        self.value = value
        self.location = location


def _named(name: str, places: tuple[object, ...]) -> Any:
    """What has this name in the first of these modules that has it; None if none has."""
    found = (getattr(place, name, None) for place in places)
    return next((one for one in found if one is not None), None)


def _class_of(kind: str) -> Any:
    """The class of a kind of diagnostics; one that nobody has is an ordinary error of the model."""
    from inmanta import module, parser

    cls = _named(kind, (ast, parser, module))
    is_ours = isinstance(cls, type) and issubclass(cls, ast.CompilerException)
    return cls if is_ours else ast.RuntimeException


def _definition(made: ast.RuntimeException, text: str, found: dict[str, Any]) -> str | None:
    """What some kinds of errors name in place of a statement: the instance that no implementation fits, the typedef whose
    condition a value does not meet, and the attribute in a constructor that an entity does not have."""
    namespace = _namespace(found["file"])
    message = made.get_message()
    written = text.split("\n")[found["line"] - 1] if found["line"] <= text.count("\n") + 1 else ""
    attribute = _NO_ATTRIBUTE.match(message)
    if attribute and written.startswith(attribute[1], found["column"] - 1):
        return attribute[1]
    if namespace is None:
        return None
    if message.startswith("Unable to select implementation for entity "):
        constructor = statement.at_place(text, found["line"], found["column"])
        match = constructor and re.fullmatch(r"Construct\((.+)\)", constructor[0])
        if match:
            name = match[1] if "::" in match[1] else f"{namespace}::{match[1]}"
            return f"{name} (instantiated at FILE:{found['line']})"
    if "does not match constraint" in message:
        typedef = re.match(r"typedef\s+([\w-]+)", written)
        if typedef and found["column"] == typedef.start(1) + 1:
            return f"{namespace}::{typedef[1]}"
    return None


def _namespace(file: str) -> str | None:
    """The namespace of a file of a model."""
    if file == "main.cf":
        return "__config__"
    found = re.search(r"([^/]+)/model/(.+)\.cf$", file)
    if found is None:
        return None
    parts = [found[1], *found[2].split("/")]
    return "::".join(part for part in parts if part != "_init")


def _describe(made: ast.CompilerException, message: str) -> None:
    """The attributes that the class has, as far as the text says them."""
    if isinstance(made, (ast.AttributeException, ast.UnsetException, ast.OptionalValueException)):
        match = _ATTRIBUTE.search(message) or _INCOMPLETE.match(message)
        made.attribute = match and match["attribute"]
        made.instance = match and match["instance"]
    elif isinstance(made, ast.TypeNotFoundException):
        match = _TYPE.match(message)
        made.type = match and match["type"]
        made.ns = ast.Namespace.of(match["ns"]) if match else None
    elif isinstance(made, ast.NotFoundException):
        match = _NAME.search(message)
        made.name = next(filter(None, match.groups()), None) if match else None
    elif isinstance(made, ast.DoubleSetException):
        match = _SET_TWICE.match(message)
        made.variable = FirstValue(match["old"], _place(match["old_place"])) if match else None
        made.newvalue, made.newlocation = (match["new"], _place(match["new_place"])) if match else (None, None)
    else:
        _describe_text(made, message)


def _describe_text(made: ast.CompilerException, message: str) -> None:
    """The attributes of mistakes that are found before a model runs."""
    from inmanta import module, parser

    if isinstance(made, module.ModuleLoadingException):
        match = _NOT_LOADED.match(message)
        made.name = match[1] if match else ""
    elif isinstance(made, parser.ParserException):
        match = _WORD.fullmatch(message)
        made.value = next(filter(None, match.groups()), None) if match else None


def _place(written: str) -> ast.Location | None:
    """The place that a message writes as `file:line` or `file:line:column`."""
    match = re.fullmatch(r"(.+?):(\d+)(?::(\d+))?", written)
    if match is None:
        return None
    line, column = int(match[2]), match[3] and int(match[3])
    return ast.Location(match[1], line) if not column else ast.Range(match[1], line, column, line, column)


def _inherit_place(cause: ast.RuntimeException, of: ast.RuntimeException) -> None:
    """A cause without a place was found by the same statement."""
    if cause.stmt is None and cause.location is None and of.stmt is not None:
        cause.set_statement(of.stmt)


def _python_exception(name: str, text: str) -> BaseException | None:
    """An exception of Python by the name of its class; None if there is no such class."""
    module, _, short = name.rpartition(".")
    cls = getattr(builtins, short, None) if not module else None
    if module:
        try:
            cls = getattr(importlib.import_module(module), short, None)
        except ImportError:
            return None
    if not isinstance(cls, type) or not issubclass(cls, Exception) or issubclass(cls, ast.CompilerException):
        return None
    try:
        return cls(text)
    except TypeError:
        return None
