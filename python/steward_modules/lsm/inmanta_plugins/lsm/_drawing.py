"""Draws lifecycles. Source: docs/reference/lsm.md § 2.7."""

from __future__ import annotations

import logging
import shutil
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Record = dict[str, Any]

_LETTERS = {"auto": "A", "api_set_state": "S", "on_update": "U", "on_delete": "D", "resource_based": "R"}
# Graphviz takes milliseconds for a lifecycle.
_SECONDS = 30


def dot(lifecycle: Record) -> str:
    """A lifecycle in the language of Graphviz."""
    lines = [f"digraph {_quoted(lifecycle['name'])} {{"]
    lines += [f"  {_quoted(state['name'])};" for state in lifecycle["states"]]
    for transfer in lifecycle["transfers"]:
        code = "".join(letter for trigger, letter in _LETTERS.items() if transfer[trigger])
        code += "c" * (transfer["config_name"] is not None) + "V" * transfer["validate"]
        for edge, color in (("target", "black"), ("error", "red")):
            if transfer[edge] is not None:
                operation = transfer[f"{edge}_operation"]
                label = code if operation is None else f"{code} [{operation}]"
                ends = f"{_quoted(transfer['source'])} -> {_quoted(transfer[edge])}"
                lines.append(f"  {ends} [label={_quoted(label)}, color={color}];")
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def draw(lifecycle: Record) -> None:
    """Writes `fsm.svg`, or `fsm.dot` where there is no Graphviz."""
    text = dot(lifecycle)
    program = shutil.which("dot")
    if program is not None:
        subprocess.run([program, "-Tsvg", "-o", "fsm.svg"], input=text.encode(), check=True, timeout=_SECONDS)
        return
    with open("fsm.dot", "w", encoding="utf-8") as file:
        file.write(text)
    logging.getLogger("inmanta_plugins.lsm").warning("there is no program `dot` here: the drawing is in fsm.dot")
