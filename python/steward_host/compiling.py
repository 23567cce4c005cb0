"""The host of a compile: loads the modules and calls plugins; what exports ask is in `exporting`.

One request is open at a time. While it is, reading an attribute of an instance asks Steward (`get`) and waits.
"""

from __future__ import annotations

import os
import sys
from functools import partial

from inmanta import plugins, resources
from inmanta.ast import Location, MultiUnsetException, RuntimeException, UnknownException, UnsetException
from inmanta.execute import proxy, runtime
from inmanta.execute.proxy import DynamicProxy
from inmanta.execute.util import Unknown
from inmanta.plugins import PluginMeta
from steward_host import calls, chance, collector, computing, failure, forks, instance_variables, loader, msgpack, resolving
from steward_host.computing import Computing, has_hidden_name
from steward_host.declared import Declared, made
from steward_host.exporting import Exporting
from steward_host.pipe import Closed, Pipe
from steward_host.values import PLAIN, RESULT, Values, description
from steward_host.world import World, variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from inmanta import export
    from inmanta._signature import Argument
    from inmanta.execute.resolver import Result
    from inmanta.module import Project
    from steward_host.attached import Passthrough
    from steward_host.dependencies import Dependencies
    from steward_host.held import Held
    from steward_host.messages import Call, LoadCompile, Numbered, Rerun, Serialize
    from steward_host.output import Output
    from steward_host.purity import Purity

# The only folder that a host in a sandbox may write to.
SCRATCH = os.environ.get("STEWARD_SCRATCH")
# The proxy to the hosts that it may reach.
PROXIES = {name: value for name, value in os.environ.items() if name.lower() in ("http_proxy", "https_proxy")}


class Compiling:
    """State of one compile."""

    def __init__(
        self, pipe: Pipe, output: Output | Passthrough, project: Project | None = None, held: Held | None = None
    ) -> None:
        self._pipe = pipe
        self._held = held
        self._output = output
        # Of a process that has the compile run (`attached`): its project. Such a process has a life of its own.
        self._project = project
        # What module code raised last.
        self.raised: BaseException | None = None
        # Whether the code of a module could not be imported.
        self.is_broken = False
        self.served: dict[str, Callable[[Any], object]] = {
            "call": self.call,
            "calls": self.calls,
            "hold": self.hold,
            "rerun": self.rerun,
            "load_compile": self.load,
            "describe": self.describe,
            "finalize": self.finalize,
        }
        # Whether each compile has a fork of this process, and whether this is one.
        self.forks = False
        self.is_fork = False
        self._files: set[str] = set()
        self._values = Values()
        self._declared = Declared(self._values)
        # The same: each call looks here.
        self._plugins = self._declared.plugins
        # Those of them that were called and need nothing but their arguments; None: it needs more.
        self._plain: dict[str, tuple[plugins.Plugin, list[Argument]] | None] = {}
        # Where what modules log goes.
        self._log: Callable[[str, str], None] = lambda level, text: None
        self._computing = Computing()
        self._values.is_plain = self._computing.is_plain
        self._values.is_plain_reference = self._computing.is_plain_reference
        self._exporting = Exporting(pipe, self._values, self._declared, self._computing, self._fail)
        self.served.update(self._exporting.served)
        runtime.world = World(pipe, None if self._project is None else self._project.project_path)

    # --- requests ----------------------------------------------------------------------------------------------------

    def load(self, request: LoadCompile) -> None:
        """Imports all modules in order and describes what they register."""
        from inmanta import compiler, export, references
        from inmanta.module import Project
        from steward_host import registry

        if self._project is None:
            os.environ.clear()
            if SCRATCH:
                os.environ.update(PROXIES, HOME=SCRATCH, TMPDIR=SCRATCH)
                resolving.end_at(request["project_dir"])
            os.environ.update(request["env"])
            plugins.Runtime.is_hosted = True
            loader.reset_states()
            loader.forget(loader.ROOT)
            PluginMeta.clear()
            resources.resource.reset()
            references.reset()
            export.reset()
            compiler.reset()
        else:
            # What is registered is this process's own, which `ProjectLoader` and `Project.set` look after.
            export.unknown_parameters.clear()
            registry.begin_finalizers()
        plugins.Runtime.values = self._values
        plugins.Runtime.environment_id = request["environment_id"]
        plugins.Runtime.project_dir = request["project_dir"]
        plugins.Runtime.inputs = request.get("inputs") or {}
        # What tests of modules inject is what a compile is given.
        plugins.Runtime.refs = {"facts": plugins.Runtime.inputs.get("facts") or {}}
        self._declared.plugins.clear()
        self._plain.clear()
        self._computing.begin(request.get("computing"))
        plugins.Runtime.plugins = self._declared.plugins
        self._declared.warnings.clear()
        runtime.reset()
        self._exporting.exporter = export.Exporter()
        project = self._project or Project(request["project_dir"])
        project.set_modules(request["modules"])
        Project.set(project, clean=False)
        finder = loader.install(request["modules"], lambda: project.modulepath)
        self._files = finder.paths()
        self._computing.look_at(self._files)
        chance.follow()
        had = forks.open_files()
        read = loader.files_read(request["project_dir"]) if request.get("keep") else None
        depends = self._trace() if request.get("trace") else None
        if self._project is not None:
            _import_std()
        imports = loader.Imports()
        watch = instance_variables.Watch()
        plugins.Runtime.was_asked = False
        with imports, watch:
            for module in request["modules"]:
                for file in module["files"]:
                    try:
                        __import__(file["module"])
                    except (Exception, SystemExit) as error:
                        self.is_broken = True
                        self._pipe.send(
                            "load_failed",
                            {
                                "module": module["name"],
                                "python_module": file["module"],
                                "failure": failure.describe(error, self._files),
                            },
                        )
                        return
        if self._project is None:
            self._attach_logging()
        else:
            registry.restore({*project.modules.known(), "std"})
            registry.keep_finalizers()
        try:
            dataclasses = self._declared.describe_dataclasses(request["modules"])
            names = {module["name"] for module in request["modules"]}
            described = []
            for name, cls in PluginMeta.get_functions().items():
                if name.split("::", 1)[0] in names:
                    described.append(self._declared.plugin(name, cls))
                else:
                    # Of an installed module that a listed one imports: no part of the model, but of Python's world.
                    self._declared.plugins[name] = made(name, cls)
            if "std" not in names:
                described += self._declared.replaced_std()
            classes = self._declared.describe_resources(names)
            # What an import took from one compile's inputs or variables is not so for the next one.
            is_of_one_compile = watch.was_read or plugins.Runtime.was_asked
            is_lasting = depends is not None and not is_of_one_compile and not self._is_asked_later()
        except Exception as error:
            self._pipe.send(
                "load_failed", {"module": "", "python_module": "", "failure": failure.describe(error, self._files)}
            )
            return
        if self._project is None:
            # What was imported stays; the collector need not look at it again.
            collector.resume()
        is_known = read is not None and not read.is_partial
        self._output.before_answer()
        found = None
        if depends is not None:
            depends.end()
            found = depends.found(self._files) if is_lasting else None
            # Steward looks whether the import has written something.
            self._output.mark()
        # It looks at what is of this process alone, so not before what the import has looked at is known.
        self.forks = is_known and not is_of_one_compile and forks.what_forbids(had) is None
        self._pipe.send(
            "loaded",
            {
                "plugins": described,
                "resources": classes,
                "warnings": self._declared.warnings,
                "dataclasses": dataclasses,
                "imports": [list(pair) for pair in imports.found],
                "forks": self.forks,
                "read": sorted(read.stop()) if read is not None else [],
                "depends": found,
            },
        )

    def _trace(self) -> Dependencies:
        from steward_host import bundle
        from steward_host.dependencies import Dependencies

        bundle.end()
        depends = Dependencies()
        depends.begin()
        return depends

    def _is_asked_later(self) -> bool:
        """Whether each compile asks Python something beside calls and values: then it is no use to keep what modules declare."""
        from inmanta import compiler, export

        return bool(
            compiler.has_finalizers()
            or export.has_dependency_managers()
            or export.unknown_parameters
            or export.wanted_functions(self._exporting.exporter)
            or resources.has_own_validation()
        )

    def export_with(self, exporter: export.Exporter) -> None:
        """From now on getters get this exporter."""
        from inmanta import export

        export.unknown_parameters.clear()
        self._exporting.exporter = exporter

    def rerun(self, request: Rerun) -> None:
        """Another compile with the modules that were imported for an earlier one. No answer."""
        config = sys.modules.get("inmanta.config")
        if config is not None:
            # The file of the project may be another one by now.
            config.Config.load_config()
        instance_variables.change(request["env"])
        self._computing.begin(request.get("computing"))
        plugins.Runtime.inputs = request["inputs"]
        plugins.Runtime.refs = {"facts": request["inputs"].get("facts") or {}}

    def calls(self, requests: list[Any]) -> None:
        """Calls plugins, or the getters of resources, one after the other, up to one that fails, or gives what only Python
        knows: Steward may have to ask for that before the next call."""
        self._pipe.begin_answers()
        if type(requests[0][1]) is int:
            self._exporting.render_all(requests)
            return
        self._values.constructs = True
        plain, output, answer, noted = self._plain, self._output, self._pipe.answer, self._computing.noted
        last = requests[-1]
        for request in requests:
            number, name, args, kwargs = request[:4]
            if request[7] is not None:
                if not self._with_open(request):
                    return
                continue
            called = plain.get(name)
            if called is None and name not in plain:
                called = plain[name] = self._plain_of(name)
            if called is None or kwargs or PluginMeta.has_other_ways or len(args) > len(called[1]):
                if not self.call(request[:7], True):
                    return
                continue
            # As in `call` and `_call`, without what such a plugin has no use for.
            try:
                is_hidden = name in noted and self._is_hidden(name, args)
                for index, given in enumerate(args):
                    kind = type(given)
                    if kind is tuple and len(given) > 1:
                        args[index] = proxy.of_argument(calls.value(given), called[1][index].name)
                    elif kind not in PLAIN:
                        args[index] = self._values.argument(calls.value(given), called[1][index], name)
                packed = None
                if name in noted:
                    result, packed = self._noting(number, name, partial(called[0].call, *args), is_hidden)
                else:
                    result = called[0].call(*args)
                if packed is None:
                    packed = calls.text_result(number, result) if type(result) is str else calls.result(number, result)
                is_last = request is last
                if packed is None:
                    packed = self._values.packed(number, DynamicProxy._plain(result))
                    is_last = is_last or self._values.gave_objects
                if output.has_text:
                    output.before_answer()
                answer(packed, is_last)
                if is_last:
                    return
            except Closed:
                raise
            except BaseException as error:
                if not self._fail(number, error, in_frame=True, of_plugin=True):
                    return
        self._pipe.flush()

    def _with_open(self, request: list[Any]) -> bool:
        """Makes a call that names relations that are open, in a guess with what they hold now. For this call only:
        until it is complete, everybody else has to ask for a relation. The answer is that of `call`."""
        number, name, args, kwargs, *place, relations = request
        open_ones = []
        try:
            # With these come the instances whose relations are named. What was read is left as it is later on.
            args[:] = [calls.value(given) for given in args]
            kwargs = [(key, calls.value(given)) for key, given in kwargs]
            for entry in relations.values():
                instance = calls.of_number(entry[0])
                open_ones.append((instance, entry[1]))
                if len(entry) > 2:
                    instance._values[entry[1]] = calls.value(entry[2])
                else:
                    instance._open = (*(instance._open or ()), entry[1])
            if name not in self._plain:
                self._plain[name] = self._plain_of(name)
            return self.call((number, name, args, kwargs, *place), True)
        except Closed:
            raise
        except BaseException as error:
            return self._fail(number, error, in_frame=True, of_plugin=True)
        finally:
            for instance, attribute in open_ones:
                instance._open = None
                instance._values.pop(attribute, None)

    def _plain_of(self, name: str) -> tuple[plugins.Plugin, list[Argument]] | None:
        """A plugin that takes its arguments as they are and needs nothing else, with its parameters; None for any other."""
        plugin = self._plugins[name]
        opts = plugin.opts
        takes_dataclasses = name in self._values.dataclasses
        if opts.get("bin") or opts["emits_statements"]:
            return None

        def find(purity: Purity) -> bool:
            function = _function_of(plugin)
            has_no_use = plugin._context < 0 or purity.leaves_argument(function, plugin._context)
            return not plugin._is_replaced() and has_no_use and purity.is_pure(function)

        self._computing.judge(name, find)
        return None if takes_dataclasses or plugin._context >= 0 else (plugin, plugin.args)

    def _is_hidden(self, name: str, given: list[Any]) -> bool:
        """Whether a plugin may see more by its arguments than what is noted: hidden attributes, if it reads some by names that it
        is given, or what is behind a reference."""
        if has_hidden_name(given):
            return True
        if not any(map(calls.has_reference, given)):
            return False
        return not self._computing.passes_references(name, _function_of(self._plugins[name]))

    def _noting(self, number: int, name: str, call: Callable[[], object], is_hidden: bool) -> tuple[object, bytes | None]:
        """Calls a plugin, and answers with what it has read, or with that it does more than compute; no answer if there is more
        to its result than data. `is_hidden`: what it is given may show it more than what is noted."""
        if not self._computing.noted[name]:
            result = call()
            packed = calls.computed(number, result, False, self._values.object_by_value)
            if packed is not None:
                # A call that waits, or gives more than data, has not reported it.
                self._computing.forget(name)
            return result, packed
        kept = self._computing.kept_files(name, _function_of(self._plugins[name]))
        self._values.lent.clear()
        proxy.begin_reads(keeps_logged=True)
        packed = None
        try:
            result = call()
            reads = proxy.end_reads()
            known: list[Any] | None = None if self._values.has_changed_lent() or is_hidden or kept is None else reads
            if known is not None and kept:
                # As if each call read them first: whether one is the first does not show.
                known = [*kept, *(read for read in known if read not in kept)]
            if known is not None and self._computing.catches(name, _function_of(self._plugins[name])):
                known = [True, *known]
            packed = calls.computed(number, DynamicProxy._plain(result), known, self._values.by_value, proxy.logged())
            return result, packed
        finally:
            # Steward says the rest when it takes the answer.
            proxy.end_reads()
            logged = proxy.end_logged()
            if packed is None:
                for level, text in logged:
                    self._log(level, text)

    def hold(self, _: None) -> None:
        """Steward reads answers that are held. No answer."""
        if self._held is not None:
            self._pipe.hold(self._held)

    def call(self, request: Call, in_frame: bool = False) -> bool:
        """Calls a plugin through the `call` attribute of its class; False: it has failed, or given what ends its frame.

        `in_frame`: it came in a frame of calls, so that a text may go back in its own form.
        """
        number = request[0]
        output = self._output
        goes_on = True
        try:
            self._values.constructs = True
            packed = None
            if in_frame and request[1] in self._computing.noted and not PluginMeta.has_other_ways:
                is_hidden = self._is_hidden(request[1], [*request[2], *(value for _, value in request[3])])
                result, packed = self._noting(number, request[1], partial(self._call, request, True), is_hidden)
            else:
                result = self._call(request, in_frame)
            if in_frame and packed is None:
                packed = calls.text_result(number, result) if type(result) is str else calls.result(number, result)
            if packed is not None:
                pass
            elif type(result) in PLAIN:
                packed = msgpack.pack_behind(RESULT, number, result)
            else:
                packed = self._values.packed(number, DynamicProxy._plain(result))
                goes_on = not self._values.gave_objects
            if output.has_text:
                output.before_answer()
            if in_frame and goes_on:
                self._pipe.answer(packed)
            else:
                self._pipe.send_packed(packed)
            return goes_on
        except Closed:
            raise
        except BaseException as error:
            return self._fail(number, error, in_frame=in_frame, of_plugin=True)

    def _call(self, request: Call, in_frame: bool) -> object:
        # Those of a message by itself are values already, and a tuple among them is an object of Python's.
        decoded = calls.value if in_frame else _as_it_is
        _, name, args, kwargs, file, line, namespace = request
        plugin = self._plugins[name]
        opts = plugin.opts
        if PluginMeta.has_other_ways and plugin._has_other_ways() and not opts["emits_statements"]:
            args[:] = [decoded(value) for value in args]
            kwargs = [(key, decoded(value)) for key, value in kwargs]
            return self._call_in_context(plugin, (*request[:3], kwargs, *request[4:]))
        if opts.get("bin"):
            plugin.check_requirements()
        for index, value in enumerate(args):
            if type(value) not in PLAIN:
                value = decoded(value)
                parameter = plugin.args[index] if index < len(plugin.args) else plugin.var_args
                args[index] = self._values.argument(value, parameter, name)
        if plugin._context >= 0:
            context, outcome = _context(plugin, Location(runtime.world.path(file), line), namespace)
            args.insert(plugin._context, context)
        named = {}
        for key, value in kwargs:
            if type(value) not in PLAIN:
                value = decoded(value)
                value = self._values.argument(value, plugin.kwargs.get(key) or _by_name(plugin, key), name)
            named[key] = value
        result = plugin.call(*args, **named)
        if opts["emits_statements"]:
            if plugin._context < 0:
                raise RuntimeException(None, f"plugin {name} emits statements, so it needs a Context to set its result")
            return [result, outcome.get_value()]
        return result

    def _call_in_context(self, plugin: plugins.Plugin, request: Call) -> object:
        """A call through all methods of a plugin's class, some of which are a module's own."""
        _, _, args, kwargs, file, line, namespace = request
        checked = plugin.check_args(args, dict(kwargs))
        if checked.unknowns and not plugin.is_accept_unknowns():
            return Unknown()
        place = Location(runtime.world.path(file), line)
        context, _ = _context(plugin, place, namespace)
        if plugin._context >= 0:
            checked.args.insert(plugin._context, context)
        return plugin.call_in_context(checked, context.resolver, context.queue, place)

    def describe(self, request: Serialize) -> None:
        """Tells how an object is written that the compiler does not know."""
        number = request["id"]
        try:
            answer = description(self._values.objects[request["object"]], request["object"])
        except Closed:
            raise
        except BaseException as error:
            self._fail(number, error)
            return
        self._pipe.send("described", {"id": number, **answer})

    def finalize(self, request: Numbered) -> None:
        """Runs the finalizers in order, up to the first error, which is the answer; the next request goes on."""
        from inmanta import compiler

        try:
            compiler.finalize()
        except BaseException as error:
            self._fail(request["id"], error)
            return
        self._pipe.send_packed(msgpack.pack_behind(RESULT, request["id"], None))

    # --- answers -----------------------------------------------------------------------------------------------------

    def _fail(
        self,
        number: int,
        error: BaseException,
        field: str | None = None,
        in_frame: bool = False,
        of_plugin: bool = False,
    ) -> bool:
        """Answers with an exception; False unless it is an answer like another."""
        self._output.before_answer()
        self.raised = error
        if isinstance(error, UnknownException):
            unknown = error.unknown if isinstance(error.unknown, Unknown) else Unknown()
            self._pipe.send_packed(msgpack.pack_behind(RESULT, number, unknown))
            return True
        elif isinstance(error, (UnsetException, MultiUnsetException)) and (waited := variables(error)):
            # Behind others of its frame, as a result.
            self._pipe.answer(msgpack.pack({"unset": {"id": number, "variables": waited}}), not in_frame)
            return True
        elif self._project is not None and isinstance(error, (KeyboardInterrupt, GeneratorExit)):
            # Who runs the tests ends them.
            raise error
        else:
            described = failure.describe(error, self._files, of_plugin)
            self._pipe.send("failed", {"id": number, "failure": described, "field": field})
        return False

    def _attach_logging(self) -> None:
        """Sends what modules log to Steward while a request is open; to stderr otherwise."""
        from steward_host.output import Output

        output = self._output
        if "logging" not in sys.modules or not isinstance(output, Output):
            return
        import logging

        log = self._log = output.log

        class Handler(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                text = self.format(record)
                if not proxy.say(record.levelname, text):
                    log(record.levelname, text)

        root = logging.getLogger()
        computing.listener = handler = Handler()
        root.handlers[:] = [handler]
        root.setLevel(logging.INFO)


def _import_std() -> None:
    """Has the Python code of `std` imported, as the reference has with every project: its resource classes are registered
    then. Where something is missing that this code needs, the model can do without."""
    import importlib

    try:
        importlib.import_module("inmanta_plugins.std.resources")
    except ImportError as error:
        import logging

        logging.getLogger(__name__).debug("The Python code of std cannot be imported: %s", error)


def _context(plugin: plugins.Plugin, place: Location, namespace: str) -> tuple[plugins.Context, Result]:
    """The context of a call, and where a plugin that sets its result itself puts it."""
    from inmanta.execute.resolver import QueueScheduler, Resolver, Result

    outcome = Result()
    owner = plugins.Owner(namespace, place)
    return plugins.Context(Resolver(), QueueScheduler(), owner, plugin, outcome), outcome


def _as_it_is(value: Any) -> Any:
    return value


def _function_of(plugin: plugins.Plugin) -> object:
    return getattr(vars(type(plugin)).get("__function__"), "__func__", None)


def _by_name(plugin: plugins.Plugin, name: str) -> Argument | None:
    for argument in plugin.args:
        if argument.name == name:
            return argument
    return plugin.var_kwargs
