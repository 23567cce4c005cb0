"""Which functions only compute, by their texts."""

from __future__ import annotations

import importlib.util
import os
import tempfile
import textwrap
import unittest
from types import ModuleType

from steward_host.purity import Purity

PURE = '''
import hashlib, ipaddress, json, re
from ipaddress import ip_network
from inmanta.plugins import PluginException

PREFIX = "vpn"
NAMES = ("a", "b")
WORD = re.compile("[a-z]+")

def slug(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")

def nested(site, number=3):
    ends = [f"{end.device.name}/{end.port}" for end in site.endpoints if end.port != number]
    if not ends:
        raise PluginException(f"{site.name} has no end")
    try:
        return PREFIX + ": " + ", ".join(sorted(ends, key=lambda end: end.lower()))
    except ValueError as error:
        return str(error)

def networks(addresses):
    """Text."""
    found: "list[str]" = []
    for address in addresses:
        found.append(str(ip_network(f"{address}/30", strict=False)))
        found[0] = found[0].upper()
    first, *rest = found
    return {"first": first, "rest": rest, "hash": hashlib.sha256(json.dumps(found).encode()).hexdigest()}

def calls_others(text):
    return slug(text) if WORD.match(text) else NAMES[0]

def counts(number):
    return 1 if number < 2 else number * counts(number - 1)

def with_attribute(item):
    return getattr(item, "name", None)
'''

IMPURE = {
    "clock": ("import time", "return time.time()"),
    "imported inside": ("", "import time\n    return time.time()"),
    "chance": ("import random", "return random.random()"),
    "file": ("", "return open(x).read()"),
    "print": ("", "print(x)\n    return x"),
    "identity": ("", "return id(x)"),
    "hash": ("", "return hash(x)"),
    "variables": ("import os", "return os.environ[x]"),
    "logging": ("import logging\nLOGGER = logging.getLogger(__name__)", "LOGGER.info(x)\n    return x"),
    "a dict of the module": ("KNOWN = {}", "return KNOWN.get(x)"),
    "a list of the module": ("KNOWN = []", "KNOWN.append(x)\n    return len(KNOWN)"),
    "global": ("N = 0", "global N\n    N += 1\n    return N"),
    "a name that another function sets": ("N = 0\ndef other():\n    global N\n    N = 1", "return N"),
    "a name that is set twice": ("N = 0\nN = 1", "return N"),
    "a name that is set from outside": ("N = 0\nimport sys\nsys.modules[__name__].N = 2", "return N"),
    "a kept function attribute": ("def other(): return 1\nother.kept = {}", "return other.kept"),
    "an impure function": ("import time\ndef other(): return time.time()", "return other()"),
    "each calls the other": ("import time\ndef other(x): f(x); return time.time()", "return other(x)"),
    "another decorator": ("import functools", "return x"),
    "a default that can change": ("", "return x"),
    "an attribute that is set": ("", "x.name = 1\n    return x"),
    "a hidden attribute": ("", "return x.__class__"),
    "code that another file gives it": ("def other(): f.__code__ = other.__code__", "return x"),
    "a plugin whose call is another": ("def other(): f.__plugin__.call = other", "return x"),
    "a hidden attribute by its name": ("", "return getattr(x, '_get_instance')()"),
    "an attribute by a name that is made": ("", "return getattr(x, '_' + x.name)"),
    "a function that reads any attribute": ("", "return list(map(getattr, [x], ['_get_instance']))"),
    "a module as a value": ("import re", "y = re\n    return y.sub('a', 'b', x)"),
    "something else of a module": ("import re", "re.purge()\n    return x"),
    "a class": ("class Kept: n = 0", "Kept.n\n    return x"),
    "a function within": ("", "def inner(): return x\n    return inner()"),
    "a generator": ("", "yield x"),
    "a file that is closed": ("", "with x as y: return y"),
    "the library's own memory": ("import functools\n@functools.lru_cache\ndef other(x): return x", "return other(x)"),
    "all exceptions are caught": ("", "try: return x.name\n    except Exception: return 1"),
    "any exception is caught": ("", "try: return x.name\n    except: return 1"),
    "an exception is lost": ("", "try: return x.name\n    finally: return 1"),
    "another exception by a known name": ("ValueError = Exception", "try: return x.name\n    except ValueError: return 1"),
    "code": ("", "return eval(x)"),
    "another exception": ("class Own(Exception): pass", "raise Own(x)"),
}
HEADS = {"another decorator": "@functools.lru_cache\ndef f(x):", "a default that can change": "def f(x, y=[]):"}


class Judging(unittest.TestCase):
    def module(self, text: str) -> tuple[ModuleType, Purity]:
        with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
            file.write(text)
        self.addCleanup(os.unlink, file.name)
        spec = importlib.util.spec_from_file_location("judged", file.name)
        assert spec is not None and spec.loader is not None
        import sys

        module = sys.modules["judged"] = importlib.util.module_from_spec(spec)
        self.addCleanup(sys.modules.pop, "judged", None)
        spec.loader.exec_module(module)
        return module, Purity([file.name])

    def test_plain_code_only_computes(self) -> None:
        module, purity = self.module(textwrap.dedent(PURE))
        for name in ("slug", "nested", "networks", "calls_others", "counts", "with_attribute"):
            with self.subTest(name):
                self.assertTrue(purity.is_pure(getattr(module, name)))

    def test_whatever_touches_anything_else_does_more(self) -> None:
        for reason, (before, body) in IMPURE.items():
            with self.subTest(reason):
                head = HEADS.get(reason, "def f(x):")
                module, purity = self.module(f"{before}\n{head}\n    {body}\n")
                self.assertFalse(purity.is_pure(module.f))
                self.assertFalse(purity.is_pure(module.f), "also when it is asked again")

    def test_what_is_no_function_of_the_files_does_more(self) -> None:
        module, _ = self.module(PURE)
        self.assertFalse(Purity([]).is_pure(module.slug))
        self.assertFalse(Purity([]).is_pure(len))
        self.assertFalse(Purity([module.__file__ or ""]).is_pure(lambda x: x))

    def test_getters_only_compute_without_the_exporter(self) -> None:
        text = """
class Port:
    map = {"kind": lambda _, port: port.kind}

    @staticmethod
    def get_label(exporter, port):
        return f"{port.device}/{port.number}"

    @classmethod
    def get_place(cls, _, port):
        return port.site.name

    @staticmethod
    def get_file(exporter, port):
        return exporter.upload_file(port.name)

    @classmethod
    def get_own(cls, _, port):
        return cls.prefix + port.name

    @staticmethod
    def get_all(exporter, port):
        return [getattr(e, "name") for e in (port, exporter)]
"""
        module, purity = self.module(text)
        port = module.Port
        for getter in (port.get_label, port.get_place, port.map["kind"]):
            with self.subTest(getter=getter):
                self.assertTrue(purity.is_pure_getter(getter))
        for getter in (port.get_file, port.get_own, port.get_all, None, "name", len):
            with self.subTest(getter=getter):
                self.assertFalse(purity.is_pure_getter(getter))

    def test_of_two_functions_in_one_line_none_is_known(self) -> None:
        module, purity = self.module("import time\nf, g = lambda x: x, lambda x: time.time()\n")
        self.assertFalse(purity.is_pure(module.f))
        self.assertFalse(purity.is_pure(module.g))
