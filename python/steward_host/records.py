"""Diagnostics of an attached compile that the reference writes to its log, and does not warn of: tests read them as records."""

from __future__ import annotations

import logging
import re

# What the compiler says, the logger that the reference uses for it, and what is logged there, with the groups as arguments.
_RECORDS = (
    (
        re.compile(r"after flattening, the resource (.+) requires nothing, although the model has it require (.*): there may be a mistake"),
        "inmanta.resources",
        "Resource %s requires %s in the model, but after flattening it requires nothing: there may be a mistake in `provides`",
    ),
    (
        re.compile(r"resource (.+) is part of ResourceSet (.+) but will not be exported"),
        "inmanta.export",
        "Resource %s is in the resource set %s and will not be exported",
    ),
    (
        re.compile(r"Environment variable (.+) doesn't exist, returning unknown"),
        "inmanta_plugins.std",
        "Environment variable %s doesn't exist: its value is unknown",
    ),
    (
        re.compile(r"Module (\S+) is installed as a V1 module and a V2 module"),
        "inmanta.module",
        "Module %s is installed as a V1 module and a V2 module, and the V1 module is ignored",
    ),
)

def log(message: str) -> bool:
    """Logs a warning of the compiler, if the reference logs it; whether it is none that is issued."""
    for pattern, name, text in _RECORDS:
        found = pattern.match(message)
        if found is not None:
            logging.getLogger(name).warning(text, *found.groups())
            return True
    return False
