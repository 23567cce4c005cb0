"""Types and documentation of attributes, as the catalog has them. Source: docs/reference/lsm.md § 1.3."""

from __future__ import annotations

import re

from inmanta.execute import runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from steward_host.messages import ConditionInfo

PRIMITIVE = frozenset(("string", "int", "number", "float", "bool", "dict", "list"))
# Values pass one of several validations, of which each is recorded in the parameters as it would be alone.
ANY_OF = "steward.any_of"
# The parameters of a number between bounds.
_BOUNDS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def described(text: str) -> dict[str, Any]:
    """The base type of a type, and how values are checked beyond that."""
    name, suffix = _split(text)
    validation: tuple[str, dict[str, Any] | None] | None = None
    is_known = True
    while name not in PRIMITIVE:
        base, condition = runtime.world.condition(name)
        if base is None:
            break
        if condition is None:
            # A base may say something, but not all.
            is_known = False
        elif validation is None and is_known:
            validation = _validation(name, _base_of(base), condition)
        name, below = _split(base)
        suffix = below + suffix
    kind, parameters = validation if validation is not None else (None, None)
    return {
        "type": name + suffix,
        "validation_type": None if kind is None else kind + suffix,
        "validation_parameters": parameters,
    }


def _split(text: str) -> tuple[str, str]:
    """The name of a type, and what makes it nullable or a list."""
    name = text.rstrip("?[]")
    return name, text[len(name) :]


def _base_of(text: str) -> str:
    """The primitive type at the bottom."""
    name, _ = _split(text)
    while name not in PRIMITIVE:
        base, _ = runtime.world.condition(name)
        if base is None:
            return name
        name, _ = _split(base)
    return name


def _validation(name: str, base: str, condition: ConditionInfo) -> tuple[str, dict[str, Any] | None] | None:
    """A condition in the words of the catalog; of several parts the first that says most, for compiles check them all."""
    if condition["validators"]:
        kind, parameters = condition["validators"][0]
        return kind, parameters
    if condition["values"] is not None:
        return "enum", {"names": {str(value): value for value in condition["values"]}, "value": name}
    if condition["patterns"]:
        return "pydantic.constr", {"regex": condition["patterns"][0]}
    if condition["bounds"]:
        parameters = {}
        for operator, bound in condition["bounds"]:
            known = parameters.get(_BOUNDS[operator], bound)
            parameters[_BOUNDS[operator]] = min(known, bound) if operator.startswith("<") else max(known, bound)
        return "pydantic.conint" if base == "int" else "pydantic.confloat", parameters
    found = [_validation(name, base, one) for one in condition["either"]]
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found):
        return None
    return ANY_OF, {"any_of": [{"validation_type": kind, "validation_parameters": of} for kind, of in known]}


_ATTRIBUTE = re.compile(r"^\s*:attr\s+(\w+)\s*:\s*(.*)$")


def documentation(text: str | None) -> tuple[str | None, dict[str, str]]:
    """What the documentation of an entity says of itself and, in lines `:attr name: text`, of its attributes."""
    if text is None:
        return None, {}
    own: list[str] = []
    attributes: dict[str, str] = {}
    current: str | None = None
    for line in text.strip().splitlines():
        found = _ATTRIBUTE.match(line)
        if found is not None:
            current = found[1]
            attributes[current] = found[2].strip()
        elif current is not None and line.strip():
            attributes[current] = f"{attributes[current]} {line.strip()}".strip()
        elif current is None:
            own.append(line.strip())
        else:
            # An empty line ends what is said of an attribute.
            current = None
    return "\n".join(own).strip() or None, attributes
