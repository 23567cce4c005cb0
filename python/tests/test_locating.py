"""Where Python finds modules, in processes of its own: the answer is about the Python that is asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest

from tests.support import PACKAGE

MAIN = os.path.join(PACKAGE, "steward_host", "__main__.py")


class Locating(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = os.path.realpath(directory.name)

    def write(self, path: str, text: str = "") -> str:
        path = os.path.join(self.directory, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return os.path.dirname(path)

    def run_python(self, *arguments: str, path: list[str]) -> str:
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(path)}
        command = [sys.executable, "-s", *arguments]
        return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout

    def located(self, *names: str, path: list[str]) -> dict[str, object]:
        said = self.run_python(MAIN, "locate", *names, path=path)
        located: dict[str, object] = json.loads(said.splitlines()[-1])
        return located

    def test_modules_are_in_every_folder_of_the_path(self) -> None:
        one = self.write("one/inmanta_plugins/a/__init__.py")
        two = self.write("two/inmanta_plugins/b/__init__.py")
        located = self.located("a", "b", "c", path=[os.path.join(self.directory, name) for name in ("one", "two")])
        self.assertEqual(located["path"], [os.path.dirname(one), os.path.dirname(two)])
        self.assertEqual(located["modules"], {"a": one, "b": two, "c": None})

    def test_what_seems_to_be_installed_is_told_without_being_asked_for(self) -> None:
        package = self.write("site/inmanta_plugins/two_words/__init__.py")
        for name in ("inmanta_module_two_words-1.0.dist-info/METADATA", "inmanta_module_gone-1.0.dist-info/METADATA"):
            self.write(f"site/{name}")
        located = self.located(path=[os.path.join(self.directory, "site")])
        self.assertEqual(located["modules"], {"two_words": package, "gone": None})

    def test_a_finder_is_asked_that_no_file_tells_of(self) -> None:
        package = self.write("hidden/m/__init__.py")
        finder = f"""
            import importlib.util, sys
            class Finder:
                @classmethod
                def find_spec(cls, name, path=None, target=None):
                    if name == "inmanta_plugins.m":
                        return importlib.util.spec_from_file_location(name, {package + "/__init__.py"!r})
            sys.meta_path.append(Finder)
            print("something else")
        """
        lines = finder.splitlines()
        self.write("site/sitecustomize.py", "\n".join(line[12:] for line in lines))
        located = self.located("m", path=[os.path.join(self.directory, "site")])
        self.assertEqual(located, {"path": [], "modules": {"m": package}})

    def test_std_can_be_imported_before_the_first_compile_and_a_published_one_counts(self) -> None:
        script = "import inmanta, inmanta_plugins.std as std; print(std.__file__)"
        said = self.run_python("-c", script, path=[PACKAGE])
        self.assertEqual(said.strip(), os.path.join(PACKAGE, "steward_std", "__init__.py"))
        published = self.write("site/inmanta_plugins/std/__init__.py")
        said = self.run_python("-c", script, path=[PACKAGE, os.path.join(self.directory, "site")])
        self.assertEqual(said.strip(), os.path.join(published, "__init__.py"))

    def test_modules_that_come_to_the_path_later_are_found(self) -> None:
        self.write("later/inmanta_plugins/m/__init__.py")
        later = os.path.join(self.directory, "later")
        script = f"import inmanta, inmanta_plugins.std, sys; sys.path.append({later!r}); import inmanta_plugins.m as m; print(m.__name__)"
        self.assertEqual(self.run_python("-c", script, path=[PACKAGE]).strip(), "inmanta_plugins.m")

    def test_modules_of_the_older_kind_are_found_in_the_folders_that_are_named(self) -> None:
        self.write("libs/m/module.yml", "name: m\n")
        self.write("libs/m/plugins/__init__.py")
        self.write("libs/m/plugins/sub.py", "NAME = 'sub'\n")
        libs = os.path.join(self.directory, "libs")
        script = f"""
from inmanta.loader import PluginModuleFinder
PluginModuleFinder.configure_module_finder([{libs!r}])
import inmanta_plugins.m.sub as sub
print(sub.NAME)
import sys
del sys.modules["inmanta_plugins.m"]
PluginModuleFinder.reset()
try:
    import inmanta_plugins.m
except ModuleNotFoundError as error:
    print(error.name)
"""
        said = self.run_python("-c", script, path=[PACKAGE])
        self.assertEqual(said.split(), ["sub", "inmanta_plugins.m"])


if __name__ == "__main__":
    unittest.main()
