"""The bytecode of what hosts import, in one file."""

from __future__ import annotations

import os
import shutil
import tempfile
import unittest

from tests.support import PACKAGE, Host, Modules

CODE = """
import logging
import sys
from inmanta import const
from inmanta.plugins import plugin

@plugin
def loaded_by(name: "string") -> "string":
    module = sys.modules[name]
    spec = module.__spec__
    assert (module.__file__, module.__cached__) == (spec.origin, spec.cached), spec
    assert module.__file__.endswith(".py") and module.__cached__.endswith(".pyc"), spec
    return type(spec.loader).__module__

@plugin
def constant(name: "string") -> "string":
    return str(getattr(const, name, "none"))
"""
BUNDLE = "steward_host.bundle"
PYTHON = "_frozen_importlib_external"


class Bundle(unittest.TestCase):
    def setUp(self) -> None:
        self.cache = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.cache)
        self.package = PACKAGE

    def host(self, code: str = CODE) -> Host:
        variables = {"STEWARD_PYCACHE": self.cache}
        host = Host(self, "compile", package=self.package, environment=variables)
        modules = Modules(self).write("shown", code)
        request = {"modules": modules.described, "project_dir": modules.path, "env": {}, "environment_id": None}
        self.assertEqual(host.ask("load_compile", request)[0], "loaded")
        return host

    def call(self, host: Host, plugin: str, *args: object) -> object:
        name, answer = host.ask(
            "call",
            {"id": 1, "plugin": f"shown::{plugin}", "args": list(args), "kwargs": [], "file": "main.cf", "line": 1, "namespace": ""},
        )
        assert name == "result" and answer is not None, answer
        return answer["value"]

    def one_file(self) -> str:
        files = [name for name in os.listdir(self.cache) if name.startswith("bundle-")]
        self.assertEqual(len(files), 1, files)
        return os.path.join(self.cache, files[0])

    def test_a_host_takes_from_one_file_what_the_one_before_imported(self) -> None:
        for expected in (PYTHON, BUNDLE):
            host = self.host()
            for name in ("inmanta.plugins", "steward_host.host", "logging", "inmanta"):
                self.assertEqual(self.call(host, "loaded_by", name), expected, name)
            # Code of others is never in it.
            self.assertEqual(self.call(host, "loaded_by", "inmanta_plugins.shown"), "steward_host.loader")
            self.assertEqual(host.stop(), 0)
            written = os.stat(self.one_file())
        self.host().stop()
        self.assertEqual(os.stat(self.one_file()), written, "it is written again though nothing was new")

    def test_a_source_that_changed_is_read_again(self) -> None:
        self.package = os.path.join(self.cache, "package")
        for name in ("inmanta", "steward_host", "steward_std"):
            shutil.copytree(os.path.join(PACKAGE, name), os.path.join(self.package, name))
        for _ in range(2):
            host = self.host()
            self.assertEqual(self.call(host, "constant", "ADDED"), "none")
            host.stop()
        source = os.path.join(self.package, "inmanta", "const.py")
        with open(source, "a", encoding="utf-8") as file:
            file.write("\nADDED = 7\n")
        for expected in (PYTHON, BUNDLE):
            host = self.host()
            self.assertEqual(self.call(host, "constant", "ADDED"), "7")
            self.assertEqual(self.call(host, "loaded_by", "inmanta.const"), expected)
            host.stop()

    def test_a_folder_that_a_module_puts_in_front_comes_first(self) -> None:
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        with open(os.path.join(folder, "colorsys.py"), "w", encoding="utf-8") as file:
            file.write("own = True\n")
        self.host(CODE + "import colorsys\nassert not hasattr(colorsys, 'own')\n").stop()
        self.host(CODE + f"sys.path.insert(0, {folder!r})\nimport colorsys\nassert colorsys.own\n").stop()

    def test_a_broken_file_is_as_good_as_none(self) -> None:
        self.host().stop()
        size = os.path.getsize(self.one_file())
        for left in (size // 2, 40, 3, 0):
            os.truncate(self.one_file(), left)
            self.assertEqual(self.host().stop(), 0)
            host = self.host()
            self.assertEqual(self.call(host, "loaded_by", "inmanta.plugins"), BUNDLE)
            self.assertEqual(host.stop(), 0)
