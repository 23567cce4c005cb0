"""The host of a compile, over real pipes: what it loads and describes."""

from __future__ import annotations

import os
import py_compile
import sys
import unittest
from unittest import mock

from steward_host import loader
from tests.support import Compiling, Host, Modules


class Loading(Compiling):
    def test_the_collector_works_as_always_once_the_modules_are_imported(self) -> None:
        code = "import gc\nfrom inmanta.plugins import plugin\n{}\n@plugin\ndef thresholds() -> 'list':\n    return list(gc.get_threshold())\n"
        import gc

        self.assertEqual(self.host(("net", code.format(""))).call("net::thresholds"), ("result", list(gc.get_threshold())))
        own = self.host(("net", code.format("gc.set_threshold(7, 8, 9)")))
        self.assertEqual(own.call("net::thresholds")[1][0], 7)

    def test_hello_says_who_we_are(self) -> None:
        host = Host(self, "compile")
        self.assertEqual(host.hello["protocol"], 5)
        self.assertEqual(host.hello["pid"], host.process.pid)
        self.assertEqual(host.stop(), 0)

    def test_the_host_ends_with_its_pipe(self) -> None:
        host = Host(self, "compile")
        host.process.stdin.close()
        self.assertEqual(host.process.wait(timeout=10), 0)

    def test_the_environment_is_the_given_one(self) -> None:
        host = self.host(
            ("net", "import os\nfrom inmanta.plugins import plugin\n@plugin\ndef env() -> 'dict':\n    return dict(os.environ)\n"),
            env={"A": "ä"},
        )
        self.assertEqual(host.call("net::env"), ("result", {"A": "ä"}))

    def test_signatures_are_described(self) -> None:
        self.host(
            (
                "net",
                """
                import collections.abc, typing, numbers, dataclasses
                from typing import Annotated, Any, Literal
                from inmanta.plugins import plugin, Context, ModelType, deprecated
                from inmanta.references import Reference

                @dataclasses.dataclass(frozen=True)
                class Pair:
                    a: str

                class Secret(Reference[str]):
                    pass

                @deprecated(replaced_by="net::new")
                @plugin("old", commands=["ls"], allow_unknown=True)
                def function(a: "string[]?", ctx: Context, b: "net::Port" = None, *rest: "any", c: "int" = 1, **more: "dict"):
                    "What it does."

                @plugin
                def native(
                    a: str, b: int | None, c: list[str], d: collections.abc.Mapping[str, int], e: Literal["x", 1],
                    f: Annotated[Any, ModelType["net::Port"]], g: object, h: Any, i: float | Reference[float], j: dict,
                    k: typing.Sequence[bool], l: numbers.Number, m: Pair, n: typing.Optional[str], o: Secret,
                ) -> None: ...

                @plugin
                def wrong(a: set[str], b: dict[int, str], c, d: 5, e: "net::Port", f: bytes) -> tuple[str, ...]: ...
                """,
            )
        )
        old, native, wrong = self.loaded["plugins"]
        self.assertEqual(old["name"], "net::old")
        self.assertEqual((old["takes_context"], old["allow_unknown"], old["commands"]), (True, True, ["ls"]))
        self.assertEqual((old["deprecated"], old["docstring"], old["returns"]), ("net::new", "What it does.", "any"))
        self.assertEqual(
            old["parameters"],
            [
                {"name": "a", "kind": "positional", "annotation": {"model": "string[]?"}, "has_default": False},
                {"name": "b", "kind": "positional", "annotation": {"model": "net::Port"}, "has_default": True},
                {"name": "rest", "kind": "var_positional", "annotation": {"model": "any"}, "has_default": False},
                {"name": "c", "kind": "keyword_only", "annotation": {"model": "int"}, "has_default": True},
                {"name": "more", "kind": "var_keyword", "annotation": {"model": "dict"}, "has_default": False},
            ],
        )
        text = {"model": "string"}
        self.assertEqual(
            {parameter["name"]: parameter["annotation"] for parameter in native["parameters"]},
            {
                "a": text,
                "b": {"union": [{"model": "int"}, "null"]},
                "c": {"list": text},
                "d": {"dict": {"model": "int"}},
                "e": {"literal": ["x", 1]},
                "f": {"model": "net::Port"},
                "g": "any",
                "h": "any",
                "i": {"union": [{"model": "float"}, {"reference": {"model": "float"}}]},
                "j": {"dict": "any"},
                "k": {"list": {"model": "bool"}},
                "l": {"model": "numbers.Number"},
                "m": {"model": "net::Pair"},
                "n": {"union": [text, "null"]},
                "o": {"reference": text},
            },
        )
        self.assertEqual((native["returns"], native["deprecated"]), ("null", None))
        self.assertEqual(
            [parameter["annotation"] for parameter in wrong["parameters"]],
            [
                {"bad": "invalid type set[str], set is not supported on the plugin boundary"},
                {"bad": "invalid type dict[int, str], the keys of any dict should be 'str', got <class 'int'> instead"},
                "missing",
                {"bad": "Bad annotation in plugin net::wrong for d, expected str or python type but got int (5)"},
                {"model": "net::Port"},
                "any",
            ],
        )
        self.assertEqual(wrong["returns"], "any")
        self.assertEqual(len(self.loaded["warnings"]), 2)

    def test_postponed_annotations_are_evaluated(self) -> None:
        self.host(
            (
                "net",
                """
                from __future__ import annotations
                from inmanta.plugins import plugin, Context
                @plugin
                def f(ctx: Context, a: str, b: "string?") -> list[int]: ...
                """,
            )
        )
        (described,) = self.loaded["plugins"]
        self.assertTrue(described["takes_context"])
        annotations = [parameter["annotation"] for parameter in described["parameters"]]
        self.assertEqual(annotations, [{"model": "string"}, {"model": "string?"}])
        self.assertEqual(described["returns"], {"list": {"model": "int"}})

    def test_who_imports_whom_is_noted_however_it_is_done(self) -> None:
        self.host(
            ("a", ""),
            ("b", "import importlib\ndef load(name):\n    return importlib.import_module(f'inmanta_plugins.{name}')\n"),
            ("c", "from inmanta_plugins import a\nimport json, os.path\n"),
            ("d", "from ..b import load\nload('a')\n"),
            ("e", "def later():\n    import inmanta_plugins.a\nimport inmanta_plugins.c as c\n"),
            ("f", "from inmanta_plugins.f import *\n__import__('inmanta_' + 'plugins.b')\n"),
        )
        found = [tuple(pair) for pair in self.loaded["imports"]]
        self.assertEqual(found, [("c", "a"), ("d", "b"), ("b", "a"), ("e", "c"), ("f", "b")])

    def test_a_module_that_cannot_be_imported_is_named(self) -> None:
        modules = Modules(self).write("good", "").write("bad", "import good_heavens\n")
        host = Host(self, "compile")
        name, body = host.ask(
            "load_compile", {"modules": modules.described, "project_dir": "/", "env": {}, "environment_id": None}
        )
        self.assertEqual(name, "load_failed")
        self.assertEqual((body["module"], body["python_module"]), ("bad", "inmanta_plugins.bad"))
        self.assertEqual(body["failure"]["type_name"], "ModuleNotFoundError")
        self.assertEqual((body["failure"]["file"], body["failure"]["line"]), (modules.described[1]["files"][0]["path"], 1))
        self.assertNotIn("steward_host", body["failure"]["traceback"])

    def test_a_syntax_error_has_its_place(self) -> None:
        modules = Modules(self).write("bad", "x = 1\ny = (\n")
        host = Host(self, "compile")
        _, body = host.ask(
            "load_compile", {"modules": modules.described, "project_dir": "/", "env": {}, "environment_id": None}
        )
        self.assertEqual((body["failure"]["type_name"], body["failure"]["line"]), ("SyntaxError", 2))

    def test_loading_again_forgets_the_first_project(self) -> None:
        host = self.host(
            ("one", "from inmanta.plugins import plugin\n@plugin\ndef f(): ...\ndef inmanta_reset_state(): print('reset')\n")
        )
        self.assertEqual([plugin["name"] for plugin in self.loaded["plugins"]], ["one::f"])
        again = host.load(Modules(self).write("two", "from inmanta.plugins import plugin\n@plugin\ndef g(): ...\n"))
        self.assertEqual([plugin["name"] for plugin in again["plugins"]], ["two::g"])
        host.close()
        self.assertIn("reset", host.printed)

    def test_plugins_of_other_packages_are_refused(self) -> None:
        from inmanta.plugins import plugin

        def f() -> None: ...

        with self.assertRaisesRegex(Exception, "inmanta_plugins"):
            plugin(f)

    def test_a_class_that_can_be_no_resource_fails_where_it_is(self) -> None:
        for code, message in (
            ("@resource('net::Port', agent='a', id_attribute='n')\nclass Port:\n    fields = ('n',)", "no subclass of Resource"),
            ("class Port(Resource):\n    fields = ('n', 5)", "The fields of Port should be names, got 5"),
        ):
            with self.assertRaises(AssertionError) as raised:
                self.host(("net", f"from inmanta.resources import resource, Resource\n{code}\n"))
            (refused,) = raised.exception.args
            self.assertIn(message, refused["failure"]["message"])
            self.assertEqual(refused["python_module"], "inmanta_plugins.net")

    def test_the_code_of_an_installed_package_is_where_its_other_files_are(self) -> None:
        modules = Modules(self).write("net", "x = 1\n")
        installed = os.path.join(modules.path, "site-packages")
        root = os.path.join(installed, "inmanta_plugins", "net")
        os.makedirs(root)
        with mock.patch.object(sys, "path", [*sys.path, installed]):
            self.assertEqual(loader.as_installed(modules.described), modules.described)
            for code, expected in (("x = 1\n", root), ("x = 2\n", modules.described[0]["root"])):
                with open(os.path.join(root, "__init__.py"), "w", encoding="utf-8") as out:
                    out.write(code)
                (found,) = loader.as_installed(modules.described)
                self.assertEqual(found["root"], expected)
                self.assertEqual(
                    found["files"],
                    [{"module": "inmanta_plugins.net", "path": os.path.join(expected, "__init__.py"), "package": True}],
                )
        # Elsewhere it is installed in place, and may change.
        os.rename(installed, os.path.join(modules.path, "checkout"))
        with mock.patch.object(sys, "path", [*sys.path, os.path.join(modules.path, "checkout")]):
            self.assertEqual(loader.as_installed(modules.described), modules.described)

    def test_a_module_without_sources_is_loaded(self) -> None:
        code = "from inmanta.plugins import plugin\nBY = 2\n@plugin\ndef times(x: int) -> int:\n    return BY * x\n"
        modules = Modules(self).write("net", code).write("own", code)
        (file,) = modules.described[0]["files"]
        source, file["path"] = file["path"], file["path"] + "c"
        py_compile.compile(source, cfile=file["path"], dfile="inmanta_plugins/net/__init__.py", doraise=True)
        os.remove(source)
        host = Host(self, "compile")
        request = {"modules": modules.described, "project_dir": "/", "env": {}, "environment_id": None, "computing": {}}
        host.ask("load_compile", request)
        # What it might change of the other module nobody can tell.
        for name in ("net::times", "own::times"):
            self.assertEqual(host.call(name, 3), ("result", 6))

    def test_parts_of_packages_are_there_without_being_imported(self) -> None:
        code = """
            import concurrent, email, http, importlib, logging, urllib
            from inmanta.plugins import plugin
            LATER = logging.handlers.RotatingFileHandler.__name__
            @plugin
            def parts() -> "list":
                return [
                    concurrent.futures.Future.__name__, email.utils.quote("x"), http.client.OK.phrase,
                    importlib.util.find_spec("nowhere"), importlib.metadata.__name__, logging.config.__name__,
                    urllib.parse.quote("a b"), urllib.request.__name__, hasattr(urllib, "robotparser"), LATER,
                ]
            """
        self.assertEqual(
            self.host(("net", code)).call("net::parts"),
            (
                "result",
                ["Future", "x", "OK", None, "importlib.metadata", "logging.config", "a%20b", "urllib.request", False]
                + ["RotatingFileHandler"],
            ),
        )

    def test_resource_classes_are_described(self) -> None:
        self.host(
            (
                "net",
                """
                from inmanta.resources import resource, PurgeableResource, ManagedResource
                @resource("net::Port", agent="host.name", id_attribute="uri")
                class Port(PurgeableResource, ManagedResource):
                    fields = ("uri", "speed", "mapped")
                    map = {"mapped": lambda exporter, o: 1}
                    @staticmethod
                    def get_uri(exporter, o): return o.name
                """,
            )
        )
        (described,) = self.loaded["resources"]
        self.assertEqual((described["entity"], described["agent"], described["id_attribute"]), ("net::Port", "host.name", "uri"))
        self.assertEqual(described["identify"], "value")
        self.assertEqual(
            [(field["name"], field["getter"]) for field in described["fields"]],
            [
                ("send_event", False),
                ("receive_events", False),
                ("references", False),
                ("mutators", False),
                ("report_only", False),
                ("purged", False),
                ("purge_on_delete", False),
                ("managed", False),
                ("uri", True),
                ("speed", False),
                ("mapped", True),
            ],
        )


if __name__ == "__main__":
    unittest.main()
