"""Compiles models with the reference: one JSON request a line on standard input, one JSON answer a line on the output.

Request:  {"files": {path: text}, "export": bool, "env": {name: value}, "alone": bool}
Answer:   {"outcome": "accepted" | "rejected" | "crashed" | "timeout", "output": text,
           "errors": [{"kind", "message", "file", "line", "causes"}], "warnings": [as errors], "model": {...},
           "resources": [...]}

"crashed" is an exception of Python itself (a ZeroDivisionError, say), none of the reference's; its only error names the
exception. The reference is imported once; each case runs in a fork of this process. Three quarters of the time of a case
are the copies that the system makes of what a new fork touches, so a fork serves many cases and puts back what each of them
has changed in the reference. A case that is to be run alone has a fork to itself.
"""

import argparse
import functools
import gc
import importlib
import inspect
import json
import linecache
import logging
import math
import os
import resource
import shutil
import signal
import sys
import tempfile
import warnings

TIMEOUT_SECONDS = 8
MEMORY_BYTES = 3 << 30
# No collector runs, so that what they leave behind adds up.
CASES_OF_A_FORK = 40

# What the reference finds in its environment; the case's own variables come on top.
KEPT_VARIABLES = ("PATH", "HOME", "LANG", "VIRTUAL_ENV")

PYPROJECT = "[build-system]\nrequires = ['setuptools']\nbuild-backend = 'setuptools.build_meta'\n"

requests, answers = sys.stdin, os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)

import inmanta.agent.handler  # noqa: E402
import inmanta.compiler  # noqa: E402
import inmanta.export  # noqa: E402
import inmanta.loader  # noqa: E402
import inmanta.module  # noqa: E402
import inmanta.parser.plyInmantaParser as parser  # noqa: E402
import inmanta_plugins  # noqa: E402
import inmanta_plugins.std  # noqa: E402
import inmanta_plugins.std.resources  # noqa: E402
from inmanta.ast import CompilerException, MultiException, Range  # noqa: E402
from inmanta.ast.attribute import RelationAttribute  # noqa: E402
from inmanta.ast.entity import Entity  # noqa: E402
from inmanta.execute.runtime import Instance  # noqa: E402
from inmanta.execute.util import NoneValue, Unknown  # noqa: E402
from inmanta.plugins import PluginMeta  # noqa: E402
from inmanta.references import Reference, mutator, reference  # noqa: E402
from inmanta.warnings import InmantaWarning  # noqa: E402

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)


def in_order(list_python_files):
    """The reference imports the files of a module as the file system lists them, so that the first one that fails differs from
    disk to disk. Here a package comes before what is in it, and files come by their names, as ours."""

    def listed(directory):
        return sorted(list_python_files(directory), key=lambda path: path.removesuffix(".py").removesuffix("__init__"))

    return listed


inmanta.loader.list_python_files = in_order(inmanta.loader.list_python_files)


def plain(value):
    """The value of an attribute or a variable, as the compile contract writes it."""
    if value is None or isinstance(value, NoneValue):
        return None
    if isinstance(value, Unknown):
        return {"$unknown": True}
    if isinstance(value, Instance):
        return {"$instance": value.type.get_full_name()}
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, Reference):
        return {"$reference": value.type}
    return {"$object": True}


def relation(value):
    """The value of a relation: how many instances, and whether there are unknown ones."""
    if value is None or isinstance(value, NoneValue):
        items = []
    else:
        items = value if isinstance(value, list) else [value]
    count = sum(isinstance(item, Instance) for item in items)
    unknown = any(isinstance(item, Unknown) for item in items)
    return {"$count": count, "$unknown": True} if unknown else {"$count": count}


def model(types, root):
    """The dump of the compile contract."""
    entities = {}
    for entity in {id(found): found for found in types.values() if isinstance(found, Entity)}.values():
        attributes = entity.get_all_attributes()
        instances = [instance for instance in entity.get_all_instances() if instance.type is entity]
        if instances:
            entities[entity.get_full_name()] = [
                {
                    name: (relation if isinstance(attribute, RelationAttribute) else plain)(instance.slots[name].value)
                    for name, attribute in attributes.items()
                }
                for instance in instances
            ]
    variables = {}
    waiting = root.children()
    while waiting:
        namespace = waiting.pop()
        name = namespace.get_full_name()
        if name == "std" or name.startswith("std::"):
            continue
        waiting.extend(namespace.children())
        if namespace.scope is not None:
            slots = namespace.scope.slots.items()
            variables[name] = {name: plain(slot.value) for name, slot in slots if slot.hasValue}
    return {"entities": entities, "variables": variables}


def described(error):
    if isinstance(error, MultiException):
        return [one for cause in error.get_causes() for one in described(cause)]
    found = {"kind": type(error).__name__, "message": str(error), "file": None, "line": None, "causes": []}
    if isinstance(error, CompilerException):
        location = error.get_location()
        found["message"] = error.get_message()
        if location is not None:
            found["file"], found["line"] = location.file, location.lnr
        found["column"] = location.start_char if isinstance(location, Range) else None
        found["causes"] = [one for cause in error.get_causes() for one in described(cause)]
    return [found]


def warned(found):
    """Its own warnings, each once."""
    described_once = []
    for one in found:
        if not isinstance(one.message, InmantaWarning):
            continue
        if isinstance(one.message, CompilerException):
            (warning,) = described(one.message)
        else:
            warning = {"kind": type(one.message).__name__, "message": str(one.message), "file": None, "line": None, "causes": []}
        if warning not in described_once:
            described_once.append(warning)
    return described_once


def compiled(directory, export):
    """The answer for a project, without what it printed."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        answer = compiled_with_warnings(directory, export)
    return {**answer, "warnings": warned(found)}


def compiled_with_warnings(directory, export):
    try:
        project = inmanta.module.Project(directory)
        inmanta.module.Project.set(project, clean=False)
        # A server that knows no fact.
        types, root = inmanta.compiler.do_compile(refs={"facts": {}})
        answer = {"outcome": "accepted", "errors": [], "model": model(types, root)}
        if export:
            path = os.path.join(directory, "resources.json")
            options = argparse.Namespace(json=path, depgraph=False, soft_delete=False)
            inmanta.export.Exporter(options).run(types, root)
            with open(path, encoding="utf-8") as file:
                answer["resources"] = json.load(file)
        return answer
    except CompilerException as error:
        return {"outcome": "rejected", "errors": described(error)}
    except inmanta.export.DependencyCycleException as error:
        return {"outcome": "rejected", "errors": described(error)}
    except Exception as error:
        # Its own exceptions say something about the model; those of Python, about its code.
        is_own = type(error).__module__.split(".")[0] == "inmanta"
        return {"outcome": "rejected" if is_own else "crashed", "errors": described(error)}


def write(directory, files):
    """Modules of the second generation in `libs` count as installed."""
    for path, text in files.items():
        path = os.path.join(directory, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    libs = os.path.join(directory, "libs")
    for module in sorted(os.listdir(libs)) if os.path.isdir(libs) else []:
        home = os.path.join(libs, module)
        if not os.path.exists(os.path.join(home, "setup.cfg")):
            continue
        package = os.path.join(home, "inmanta_plugins", module)
        os.makedirs(package, exist_ok=True)
        for path, text in [
            (os.path.join(package, "__init__.py"), ""),
            (os.path.join(home, "pyproject.toml"), PYPROJECT),
        ]:
            if not os.path.exists(path):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
        sys.path.insert(0, home)
        inmanta_plugins.__path__.append(os.path.join(home, "inmanta_plugins"))


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def case(directory, request):
    """Compiles a case, and leaves its answer and what it printed in its directory."""
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    signal.alarm(TIMEOUT_SECONDS)
    for name in list(os.environ):
        if name not in KEPT_VARIABLES:
            del os.environ[name]
    os.environ.update(request.get("env") or {})
    output = os.open(os.path.join(directory, ".output"), os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    os.dup2(output, 1)
    os.close(output)
    write(directory, request["files"])
    os.chdir(directory)
    answer = compiled(directory, request.get("export"))
    sys.stdout.flush()
    signal.alarm(0)
    with open(os.path.join(directory, ".answer"), "w", encoding="utf-8") as file:
        json.dump(answer, file)


class Kept:
    """What a case changes in the reference, as it is now."""

    def __init__(self):
        self.registries = [
            (known, dict(known))
            for known in (
                PluginMeta._PluginMeta__functions,
                reference._reference_classes,
                mutator._mutator_classes,
                inmanta.resources.resource._resources,
                inmanta.agent.handler.Commander._Commander__command_functions,
            )
        ]
        self.paths = [(path, list(path)) for path in (sys.path, sys.meta_path, inmanta_plugins.__path__)]
        self.modules = set(sys.modules)

    def put_back(self):
        inmanta.loader.PluginModuleFinder.reset()
        inmanta.compiler.Finalizers.reset_finalizers()
        for known, before in self.registries:
            known.clear()
            known.update(before)
        for path, before in self.paths:
            path[:] = before
        for name in [name for name in sys.modules if name.startswith("inmanta_plugins.") and name not in self.modules]:
            del sys.modules[name]
            parent, _, last = name.rpartition(".")
            if parent in sys.modules and hasattr(sys.modules[parent], last):
                delattr(sys.modules[parent], last)
        sys.path_importer_cache.clear()
        importlib.invalidate_caches()
        linecache.clearcache()


def serve_many(directory, told, done):
    """Reads requests until there are no more."""
    limit()
    kept = Kept()
    for line in told:
        case(directory, json.loads(line))
        kept.put_back()
        done.write("done\n")
        done.flush()


class Shared:
    """The fork that serves several cases."""

    def __init__(self, directory):
        self.directory = directory
        self.pid = None

    def run(self, line):
        """Whether a case is done; it is not if its fork has ended."""
        if self.pid is None:
            self.start()
        self.left -= 1
        self.told.write(line)
        self.told.flush()
        is_done = self.done.readline() == "done\n"
        if not is_done or self.left == 0:
            self.end()
        return is_done

    def start(self):
        told, self.told = (os.fdopen(end, mode) for end, mode in zip(os.pipe(), "rw"))
        self.done, done = (os.fdopen(end, mode) for end, mode in zip(os.pipe(), "rw"))
        self.left = CASES_OF_A_FORK
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.told.close()
                self.done.close()
                serve_many(self.directory, told, done)
            finally:
                sys.stdout.flush()
                os._exit(0)
        told.close()
        done.close()

    def end(self):
        self.told.close()
        self.done.close()
        os.waitpid(self.pid, 0)
        self.pid = None


def read(path):
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def run_alone(directory, request):
    """Forks, so that neither what a case leaves behind nor its end is ours; the status of the fork."""
    pid = os.fork()
    if pid == 0:
        try:
            limit()
            case(directory, request)
        finally:
            sys.stdout.flush()
            os._exit(0)
    return os.waitpid(pid, 0)[1]


def run(directory, line, shared):
    request = json.loads(line)
    # One that ended a fork shows alone how.
    if request.get("alone") or not shared.run(line):
        status = run_alone(directory, request)
    else:
        status = 0
    text = read(os.path.join(directory, ".answer"))
    if text:
        answer = json.loads(text)
    elif os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        answer = {"outcome": "timeout", "errors": []}
    else:
        answer = {"outcome": "crashed", "errors": [{"kind": f"status {status}", "message": "", "causes": []}]}
    answer["output"] = read(os.path.join(directory, ".output"))
    return answer


def keep_the_syntax_tree_of_std(directory):
    """Parses std once: what the reference's cache would give, without a cache of what changes."""
    cached, uncached = parser.cache_manager.cache, parser.cache_manager.un_cache

    def is_std(namespace):
        return namespace.get_full_name().split("::")[0] == "std"

    parser.cache_manager.attach_to_project(directory)
    parser.cache_manager.attach_to_project = lambda _: None
    parser.cache_manager.cache = lambda space, *rest: cached(space, *rest) if is_std(space) else None
    parser.cache_manager.un_cache = lambda space, *rest: uncached(space, *rest) if is_std(space) else None


def keep_the_lines_of_std():
    """Finds where the plugins of std are in their file once, not in each fork, where it is a quarter of the time."""
    inspect.getsourcelines = functools.cache(inspect.getsourcelines)
    for plugin in PluginMeta.get_functions().values():
        inspect.getsourcelines(plugin.__function__)


def main():
    with tempfile.TemporaryDirectory(prefix="steward-oracle-") as scratch:
        keep_the_syntax_tree_of_std(scratch)
        keep_the_lines_of_std()
        # No fork lives long enough to need the collector, which would touch, and so copy, all that they share.
        gc.disable()
        gc.freeze()
        directory = os.path.join(scratch, "project")
        shared = Shared(directory)
        for line in requests:
            json.dump(run(directory, line, shared), answers)
            answers.write("\n")
            answers.flush()
        if shared.pid is not None:
            shared.end()


if __name__ == "__main__":
    main()
