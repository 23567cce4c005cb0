"""The Python side of the module `std`, as `inmanta_plugins.std`, for projects without the published package.

Calls of a model go to the compiler's own plugins, unless a module has put something else in their place. These functions
are for Python code: they check no types, and give and raise what Python gives and raises. What depends on the compile asks
the compiler (`_project`), which is there in a compile only; references work in an executor too. What needs jinja2
(`JinjaDynamicProxy`) is in the published package alone.
"""

from __future__ import annotations

from inmanta._std import EnvironmentReference, FactReference, IntReference
from inmanta.plugins import deprecated, plugin

from . import _lists, _network, _project, _text, _values
from ._project import FileMarker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

# The functions of Python that have another name than their plugin.
_RENAMED = {
    "assert_function": "assert",
    "getattribute": "getattr",
    "list_len": "len",
    "printf": "print",
    "type_of": "type",
}
_ALLOW_UNKNOWN = frozenset(("getattribute", "is_unknown"))
# Deprecated ones, with what replaces them.
_REPLACED_BY = {
    "contains": "the `<key> in <dict>` construct",
    "dict_get": "using the `<dict>[<key>]` construct",
    "equals": "the `==` binary operator",
    "filter": "using a list comprehension",
    "get_env_int": "int(std::get_env(...))",
    "invert": "the `not` unary operator",
    "select": "using a list comprehension",
}


def _register(*parts: ModuleType) -> list[str]:
    """Makes plugins of this module of all functions of its parts; their names in Python."""
    names = []
    for part in parts:
        for name, function in vars(part).items():
            if name[0] == "_" or getattr(function, "__module__", None) != part.__name__ or isinstance(function, type):
                continue
            function.__module__ = "inmanta_plugins.std"
            plugin(_RENAMED.get(name, name), allow_unknown=name in _ALLOW_UNKNOWN)(function)
            if name in _REPLACED_BY:
                deprecated(function, replaced_by=_REPLACED_BY[name])
            globals()[name] = function
            names.append(name)
    return names


__all__ = [
    "EnvironmentReference",
    "FactReference",
    "FileMarker",
    "IntReference",
    *_register(_text, _lists, _values, _network, _project),
]
