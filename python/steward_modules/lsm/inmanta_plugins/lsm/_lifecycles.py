"""Rules for lifecycles. Source: docs/reference/lsm.md § 3.1.2."""

from __future__ import annotations

from collections import Counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Record = dict[str, Any]

_TRIGGERS = ("auto", "api_set_state", "on_update", "on_delete", "resource_based")
# Of these, an instance in a state knows one way to go.
_SINGLE = ("on_update", "on_delete", "resource_based", "auto")


def problems(lifecycle: Record) -> list[str]:
    """What is wrong with a lifecycle, in words."""
    name = lifecycle["name"]
    found = [*_of_states(lifecycle)]
    by_name = {state["name"]: state for state in lifecycle["states"]}
    for transfer in lifecycle["transfers"]:
        found += _of_transfer(transfer, by_name)
    for trigger in _SINGLE:
        sources = Counter(transfer["source"] for transfer in lifecycle["transfers"] if transfer[trigger])
        found += [f"{n} transfers {trigger} leave {state}: one at most can" for state, n in sources.items() if n > 1]
    same = ("source", "target", "validate", "error")
    wishes = Counter(tuple(one[name] for name in same) for one in lifecycle["transfers"] if one["api_set_state"])
    found += [f"{n} transfers api_set_state lead from {source} to {target}, and do the same" for (source, target, *_), n in wishes.items() if n > 1]
    return [f"lifecycle {name}: {problem}" for problem in found]


def _of_states(lifecycle: Record) -> Iterator[str]:
    names = Counter(state["name"] for state in lifecycle["states"])
    yield from (f"{n} states are named {name}" for name, n in names.items() if n > 1)
    left = {transfer["source"] for transfer in lifecycle["transfers"]}
    for state in lifecycle["states"]:
        if state["deleted"] and state["export_resources"]:
            yield f"{state['name']} is deleted, so it can not export resources"
        if state["deleted"] and state["name"] in left:
            yield f"{state['name']} is deleted, so no transfer can leave it"


def _of_transfer(transfer: Record, states: dict[str, Record]) -> Iterator[str]:
    what = f"{transfer['source']} -> {transfer['target']}"
    triggers = [trigger for trigger in _TRIGGERS if transfer[trigger]]
    if not triggers:
        yield f"{what} has no trigger"
    if transfer["resource_based"] and len(triggers) > 1:
        yield f"{what} is resource_based, so it can have no other trigger"
    if transfer["config_name"] is not None and not transfer["auto"]:
        yield f"{what} has the config_name {transfer['config_name']}, which only auto transfers can have"
    if transfer["validate"] and transfer["error"] is None:
        yield f"{what} validates, so it needs an error state"
    if transfer["validate"] and not (transfer["auto"] or transfer["api_set_state"]):
        yield f"{what} validates, which only auto and api_set_state transfers can"
    for edge in ("target", "error"):
        if transfer[f"{edge}_same_desired_state"] and transfer[edge] is not None:
            source, end = states[transfer["source"]], states[transfer[edge]]
            for flag in ("export_resources", "purge_resources"):
                if source[flag] != end[flag]:
                    yield f"{source['name']} -> {end['name']} keeps the desired state, but the states differ in {flag}"
