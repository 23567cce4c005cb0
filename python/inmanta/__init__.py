"""Steward's Python surface for modules of the Inmanta language.

Modules are written against the import name `inmanta`; this package gives them the names they use: plugins, resources,
handlers, references and what these need. It runs inside a host process (`steward_host`) that Steward starts; the
modelling language itself is not in here.

Where to start: `plugins` for what a model may call, `resources` for how an entity becomes a resource, `agent.handler`
for what a resource does on a machine.
"""

COMPILER_VERSION = "2025.1"

# Set by test tools: log arguments that are no JSON then raise instead of being turned into text.
RUNNING_TESTS = False


def _find_std() -> None:
    """`inmanta_plugins.std` can be imported before the first compile, also where no published one is installed."""
    from steward_host import loader

    loader.install_fallback()


_find_std()
