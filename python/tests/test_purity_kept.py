"""Which functions only compute though something is kept: what they make once, what decorators make of them, chance with a seed."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import unittest
from types import ModuleType
from unittest import mock

from inmanta.execute import proxy
from steward_host import opened
from steward_host.computing import Computing
from steward_host.purity import Purity

HEAD = """
import collections, functools, json, os, random, re, time
from collections import defaultdict
from random import Random
from typing import Dict
from inmanta.plugins import plugin
HERE = os.path.dirname(__file__)
NAMES = {"a": ["b"]}
COUNTS = []
"""
# Functions that make a value once, and whether it shows that they keep it.
LAZY = (
    "if _kept is None:\n        _kept = {str(i): [i] for i in range(3)}\n    return _kept",
    "if not _kept:\n        _kept = json.loads('{\"a\": [1]}')\n    return _kept",
    "if _kept is not None:\n        return _kept\n    found = {}\n    for i in range(3):\n        found[i] = [i, {'a': i}]\n    _kept = found\n    return _kept",
    "if _kept is None:\n        with open(os.path.join(HERE, 'x.json')) as file:\n            _kept = json.load(file)\n    return _kept",
    "if _kept is None:\n        found = defaultdict(list)\n        for one in 'abc':\n            found[one].append(one)\n        _kept = dict(found)\n    return _kept",
    "if _kept is None:\n        _kept = made()\n    return _kept",
)
NOT_LAZY = (
    "if _kept is None:\n        _kept = map(str, range(3))\n    return _kept",
    "if _kept is None:\n        _kept = {'a': (i for i in range(3))}\n    return _kept",
    "if _kept is None:\n        _kept = {'a': re.finditer('a', 'aa')}\n    return _kept",
    "if _kept is None:\n        _kept = {'a': random.random()}\n    return _kept",
    "if _kept is None:\n        _kept = {'a': time.time()}\n    return _kept",
    "if _kept is None:\n        _kept = defaultdict(list)\n    return _kept",
    "if _kept is None:\n        _kept = {'a': defaultdict(list)}\n    return _kept",
    "if _kept is None:\n        _kept = NAMES\n    return _kept",
    "if _kept is None:\n        _kept = {'a': NAMES['a']}\n    return _kept",
    "if _kept is None:\n        _kept = [0]\n    _kept[0] += 1\n    return _kept",
    "if _kept is None:\n        _kept = [0]\n    _kept = [1]\n    return _kept",
    "if _kept is None:\n        _kept = {}\n    _kept['a'] = 1\n    return _kept",
    "if _kept is None:\n        _kept = given()\n    return _kept",
    "if _kept == 1:\n        _kept = {}\n    return _kept",
    "_kept = {}\n    return _kept",
    "if _kept is None:\n        COUNTS.append(1)\n        _kept = {}\n    return _kept",
    "if _kept is None:\n        _kept = Own()\n    return _kept",
    "if _kept is None:\n        _kept = iter([1])\n    return _kept",
    "if _kept is None:\n        _kept = zip('a', 'b')\n    return _kept",
    "if _kept is None:\n        _kept = {'a': lambda: 1}\n    return _kept",
    "if _kept is None:\n        _kept = {'a': made}\n    return _kept",
)
# What plugins do with such a value, and whether they only read it.
READING = (
    "return kept().get(x, {})",
    "return kept()[x]['a'].upper() + '-' + f'{kept()[x]}'",
    "found = kept().get(x)\n    if found is None:\n        return 'none'\n    return found['city'] + ', '",
    "return {name: len(one) for name, one in kept().items() if x in one}",
    "return [name.upper() for name in sorted(kept())],  sorted(kept().keys())",
    "found = dict(kept())\n    found['x'] = x\n    return found",
    "return json.dumps(kept()[x])",
    "return {'all': kept()[x], 'first': kept()['a']}",
    "return {name: one * 2 for name, one in kept().items()}",
    "return [one * 2 for one in kept().values()]",
)
NOT_READING = (
    "kept()[x] = 1",
    "kept().clear()",
    "kept().setdefault(x, [])",
    "kept()[x].append(1)",
    "found = kept().get(x)\n    found.append(1)",
    "found = kept()\n    found[x] = 1",
    "for one in kept().values():\n        one.clear()",
    "found = dict(kept())\n    found[x].append(1)",
    "x.keep(kept())",
    "global _kept\n    _kept = None",
    "return _kept",
    "del kept()[x]",
    "found = kept()[x] + kept()['a']\n    found[0].clear()",
    "found = kept()[x] * 2\n    found[0].clear()",
    "found = {name: one * 2 for name, one in kept().items()}\n    found[x][0].clear()",
    "found = [*kept().values()]\n    found[0].clear()",
    "return kept.__name__",
    "return [one for one in map(list.pop, kept().values())]",
)
# Functions whose results Python keeps.
CACHED = (
    "@functools.lru_cache(maxsize=None)\ndef kept(): return {'a': [1]}",
    "@functools.cache\ndef kept():\n    found = {}\n    for one in re.findall('[a-z]', 'abc'):\n        found[one] = found.get(one, 0) + 1\n    return found",
    "@functools.cache\ndef kept():\n    found: Dict[str, int] = {}\n    found['a'] = 1\n    return found",
)
NOT_CACHED = (
    "@functools.lru_cache\ndef kept(): return map(str, range(3))",
    "@functools.lru_cache\ndef kept():\n    yield 1",
    "@functools.lru_cache\ndef kept(): return defaultdict(list)",
    "@functools.lru_cache\ndef kept(): return {'a': random.random()}",
    "@functools.lru_cache\ndef kept(): return json.load(open(os.path.join(HERE, 'x.json')))",
    "@functools.lru_cache\n@functools.wraps(len)\ndef kept(): return {'a': [1]}",
)
# Decorators, and whether what they make of a function only computes.
DECORATORS = (
    "def deco(function): return function",
    "def deco(function):\n    @functools.wraps(function)\n    def wrapper(*args, **kwargs):\n        return function(*args, **kwargs)\n    return wrapper",
    "def deco(function):\n    def wrapper(x):\n        if not x:\n            raise ValueError(f'{function.__name__} needs a value')\n        return function(x)\n    return wrapper",
    "def made(times):\n    def decorate(function):\n        @functools.wraps(function)\n        def wrapper(x):\n            for _ in range(times):\n"
    "                try:\n                    return function(x)\n                except KeyError:\n                    continue\n            return None\n"
    "        return wrapper\n    return decorate\ndeco = made(3)",
    "FOUND = {}\ndef deco(function):\n    FOUND[function.__name__] = function\n    return function",
)
NOT_DECORATORS = (
    "def deco(function): return lambda x: function(x)",
    "def deco(function):\n    def wrapper(x):\n        COUNTS.append(x)\n        return function(x)\n    return wrapper",
    "def deco(function):\n    kept = []\n    def wrapper(x):\n        kept.append(x)\n        return len(kept)\n    return wrapper",
    "def deco(function):\n    kept = {}\n    def wrapper(x):\n        if x not in kept:\n            kept[x] = function(x)\n        return kept[x]\n    return wrapper",
    "def deco(function):\n    n = 0\n    def wrapper(x):\n        nonlocal n\n        n += 1\n        return f'{n}'\n    return wrapper",
    "def deco(function):\n    n = 0\n    def more():\n        nonlocal n\n        n += 1\n    def wrapper(x):\n        return f'{n}'\n    wrapper.more = more\n    return wrapper",
    "def deco(function):\n    def wrapper(x):\n        return f'{time.time()}'\n    return wrapper",
    "def deco(function):\n    def wrapper(x):\n        wrapper.calls = 1\n        return function(x)\n    return wrapper",
    "def deco(function):\n    def wrapper(x):\n        return function(x)\n    wrapper.__code__ = (lambda x: function).__code__\n    return wrapper",
    "def deco(function):\n    clock = time.time\n    def wrapper(x):\n        return f'{clock()}'\n    return wrapper",
    "def steps(function):\n    n = 1\n    def wrapper(x):\n        return f'{n}'\n    yield wrapper\n    n = 2\n    yield None\nSTEPS = steps(None)\ndef deco(function): return next(STEPS)",
    "def deco(function):\n    def wrapper(x):\n        return function(x)\n    return wrapper\ndef change(): f.__closure__[0].cell_contents = len",
)
# Tables that decorators fill, and whether nobody does so later.
REGISTERING = (
    "def renders(vendor):\n    def keep(function):\n        FOUND[vendor] = function\n        return function\n    return keep",
    "def renders(vendor):\n    def keep(function):\n        assert vendor not in FOUND\n        FOUND[vendor] = function\n        return function\n    return keep",
)
NOT_REGISTERING = (
    "def renders(vendor):\n    def keep(function):\n        FOUND[vendor] = function\n        return function\n    return keep\ndef later(): renders('b')(a)",
    "def renders(vendor):\n    def keep(function):\n        FOUND[vendor] = function\n        return function\n    return keep\nlater = renders('b')",
    "def renders(vendor):\n    def keep(function):\n        FOUND[vendor] = function\n        return function\n    COUNTS.append(keep)\n    return keep",
    "def renders(vendor):\n    def keep(function):\n        FOUND[vendor] = function\n        def wrapper(x):\n            FOUND[x] = function\n            return function(x)\n"
    "        return wrapper\n    return keep",
    "def renders(vendor):\n    def keep(function):\n        FOUND[vendor] = function\n        return function\n    return keep\ndef g():\n    @renders('b')\n    def h(x): return x",
    "def renders(vendor):\n    def keep(function):\n        FOUND[vendor] = function\n        return function\n    return keep\ndef g(): FOUND.clear()",
    "def renders(vendor):\n    def keep(function):\n        FOUND[vendor] = function\n        return function\n    return keep\ndef g(): return globals()['renders']",
)
CHANCE = (
    "return random.Random(x).random()",
    "chance = random.Random(f'a{x}')\n    return ''.join(chance.choice('abc') for _ in range(3))",
    "chance: Random = Random('a' + x)\n    return chance.randint(1, 3) + chance.sample([1, 2], 1)[0]",
    "return Random(n).uniform(1, 2) + Random(n + 1).random() + Random('%s' % x).random() + Random(str(x)).random() + Random(3).random()",
)
NO_CHANCE = (
    "return random.random()",
    "return random.Random().random()",
    "return random.Random(None).random()",
    "return random.Random(y).random()",
    "return random.Random(x or None).random()",
    "return random.Random(made()).random()",
    "return random.Random(x, 2).random()",
    "return random.Random(x=x).random()",
    "chance = random.Random(x)\n    chance.seed()\n    return chance.random()",
    "chance = random.Random(x)\n    return COUNTS.count(chance)",
    "x = None\n    return random.Random(x).random()",
    "def inner(x): return random.Random(x).random()\n    return inner(None)",
    "return [kind().random() for kind in [Random]]",
    "return random.SystemRandom(x).random()",
    "chance = random\n    return chance.Random(x).random()",
    "chance = random.Random(x)\n    def inner():\n        nonlocal chance\n        chance = y\n    inner()\n    return chance.random()",
)
TYPED = 'x: "string", n: "int" = 1, y: "string?" = None'


class Judging(unittest.TestCase):
    def setUp(self) -> None:
        patched = mock.patch("inmanta.plugins.plugin", lambda function: function)
        patched.start()
        self.addCleanup(patched.stop)

    def module(self, text: str) -> tuple[ModuleType, Purity]:
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        path = os.path.join(self.folder, "kept.py")
        with open(path, "w") as file:
            file.write(HEAD + text)
        with open(os.path.join(self.folder, "x.json"), "w") as file:
            file.write('{"a": {"city": "Ghent"}}')
        spec = importlib.util.spec_from_file_location("kept", path)
        assert spec is not None and spec.loader is not None
        module = sys.modules["kept"] = importlib.util.module_from_spec(spec)
        self.addCleanup(sys.modules.pop, "kept", None)
        spec.loader.exec_module(module)
        return module, Purity([path])

    def check(self, text: str, is_pure: bool) -> None:
        with self.subTest(text):
            module, purity = self.module(text)
            self.assertIs(purity.is_pure(module.f), is_pure)

    def lazy(self, body: str, use: str = "return kept().get(x, {})") -> str:
        made = "def made():\n    return {'a': [1]}\nGIVEN = [1]\ndef given(): return GIVEN\nclass Own: pass\n"
        return f"_kept = None\n{made}def kept():\n    global _kept\n    {body}\n@plugin\ndef f({TYPED}):\n    {use}\n"

    def test_what_is_made_once_does_not_show(self) -> None:
        for bodies, is_pure in ((LAZY, True), (NOT_LAZY, False)):
            for body in bodies:
                self.check(self.lazy(body), is_pure)

    def test_what_is_made_once_is_only_read(self) -> None:
        for uses, is_pure in ((READING, True), (NOT_READING, False)):
            for use in uses:
                # What is in a file is not known.
                self.check(self.lazy(LAZY[3], use), is_pure)
        self.check(self.lazy(LAZY[0]) + "def g(): return kept()\n", False)
        self.check(self.lazy(LAZY[0]) + "def g():\n    global _kept\n    _kept = {}\n", False)
        self.check(self.lazy(LAZY[0]) + "KEPT = kept\n", False)
        self.check(self.lazy(LAZY[0]) + "def g(): return globals()\n", False)
        self.check(self.lazy(LAZY[0]).replace("_kept = None", "_kept = None\n_kept = None", 1), False)
        self.check(self.lazy(LAZY[0]).replace("def kept()", "def kept(y=1)").replace("[i]", "[y]"), False)
        self.check(self.lazy(LAZY[0]).replace("@plugin\n", ""), False)

    def test_a_value_that_follows_from_the_code_is_known(self) -> None:
        made = "if _kept is None:\n        _kept = {'a': {'size': 1, 'all': [1]}}\n    return _kept"
        self.check(self.lazy(made, "return {'found': [{'size': kept()['a']['size']}]}['found'][0]"), True)
        self.check(self.lazy(made, "found = {'size': kept()['a']['size']}\n    return found"), True)
        self.check(self.lazy(made, "found = {'all': kept()['a']['all']}\n    found['all'].clear()"), False)
        # Of what is in a file nobody knows it.
        self.check(self.lazy(LAZY[3], "found = {'size': kept()['a']['size']}\n    return found"), False)

    def test_a_plugin_may_make_it_itself(self) -> None:
        text = f"_kept = None\n@plugin\ndef f({TYPED}):\n    global _kept\n    if _kept is None:\n        _kept = {{str(i): [i] for i in range(9)}}\n    "
        self.check(text + "return _kept.get(x, [])\n", True)
        self.check(text + "_kept[x] = 1\n", False)
        self.check(text.replace("[i]", "[x]") + "return _kept.get(x, [])\n", False)
        reading = text.replace("{str(i): [i] for i in range(9)}", "json.load(open(os.path.join(HERE, 'x.json')))")
        self.check(reading + "return _kept.get(x, [])\n", False)

    def test_what_python_keeps_is_only_read(self) -> None:
        for texts, is_pure in ((CACHED, True), (NOT_CACHED, False)):
            for text in texts:
                self.check(f"{text}\n@plugin\ndef f({TYPED}):\n    return kept().get(x, {{}})\n", is_pure)
        for uses, is_pure in ((READING, True), (NOT_READING, False)):
            for use in uses:
                if "_kept" not in use:
                    self.check(f"{CACHED[0]}\n@plugin\ndef f({TYPED}):\n    {use}\n", is_pure)
        of_text = "@functools.lru_cache\ndef kept(text: str): return {'a': [text]}\n@plugin\n"
        self.check(f"{of_text}def f({TYPED}):\n    return kept(x)['a'][0]\n", True)
        self.check(f"{of_text.replace(': str', '')}def f({TYPED}):\n    return kept(x)['a'][0]\n", False)

    def test_files_of_which_something_is_kept_are_noted_for_each_call(self) -> None:
        opened.hear()
        module, purity = self.module(self.lazy(LAZY[3]) + f"@plugin\ndef g({TYPED}):\n    return x\n")
        self.assertTrue(purity.is_pure(module.f))
        self.assertEqual(purity.keepers_of(module.f), [module.kept])
        self.assertEqual(purity.keepers_of(module.g), [])
        for is_before in (False, True):
            with self.subTest(is_before):
                module, purity = self.module(self.lazy(LAZY[3]) + f"@plugin\ndef g({TYPED}):\n    return x\n")
                if is_before:
                    # Some other function was the first, and what it read was not noted.
                    module.kept()
                computing = Computing()
                computing.begin({})
                computing.look_at({str(module.__file__)})
                for _ in range(2):
                    found = computing.kept_files("f", module.f)
                    names = None if found is None else [os.path.basename(str(name)) for _, name in found]
                    self.assertEqual(names, None if is_before else ["x.json"])
                self.assertEqual(computing.kept_files("g", module.g), [])
                self.assertFalse(proxy.is_noting())
        module, purity = self.module(self.lazy(LAZY[3]).replace("x.json", "y.json"))
        computing = Computing()
        computing.begin({})
        computing.look_at({str(module.__file__)})
        self.assertIsNone(computing.kept_files("f", module.f))

    def test_decorators_make_functions_that_only_compute(self) -> None:
        function = "@deco\ndef f(x):\n    return x.lower()\n"
        for texts, is_pure in ((DECORATORS, True), (NOT_DECORATORS, False)):
            for text in texts:
                self.check(f"{text}\n{function}", is_pure)
                self.check(f"{text}\n@deco\ndef inner(x):\n    return x.lower()\ndef f(x): return inner(x)\n", is_pure)
        for text in DECORATORS:
            self.check(f"{text}\n{function.replace('x.lower()', 'str(time.time())')}", False)

    def test_what_decorated_functions_catch_is_known(self) -> None:
        caught = "def deco(function):\n    @functools.wraps(function)\n    def wrapper(x):\n        try:\n            return function(x)\n        except {}:\n            return None\n    return wrapper\n"
        for kind, is_catching in (("Exception", True), ("KeyError", False)):
            module, purity = self.module(caught.replace("{}", kind) + "@deco\ndef f(x): return x.name\n")
            self.assertTrue(purity.is_pure(module.f))
            self.assertIs(purity.catches(module.f), is_catching)
        inner = "@deco\ndef f(x):\n    try: return x.name\n    except Exception: return 1\n"
        module, purity = self.module(DECORATORS[1] + "\n" + inner)
        self.assertTrue(purity.catches(module.f))
        for last, is_catching in (("pass", False), ("done = True", False), ("return 1", True), ("x.close()", True)):
            module, purity = self.module(f"def f(x):\n    try:\n        return x.name\n    finally:\n        {last}\n")
            self.assertIs(purity.catches(module.f), is_catching)

    def test_tables_may_be_filled_by_decorators(self) -> None:
        for texts, is_pure in ((REGISTERING, True), (NOT_REGISTERING, False)):
            for text in texts:
                self.check(f"FOUND = {{}}\n{text}\n@renders('a')\ndef a(x): return x.upper()\ndef f(x, y): return FOUND[y](x)\n", is_pure)
        self.check(f"FOUND = {{}}\n{REGISTERING[0]}\n@renders('a')\ndef a(x): return time.time()\ndef f(x, y): return FOUND[y](x)\n", False)

    def test_chance_with_a_seed_is_none(self) -> None:
        for bodies, is_pure in ((CHANCE, True), (NO_CHANCE, False)):
            for body in bodies:
                self.check(f"def made(): return None\n@plugin\ndef f({TYPED}):\n    {body}\n", is_pure)
        self.check("def f(x: str):\n    return random.Random(x).random()\n", False)
        for arguments, is_pure in (
            ('x: "string" = None', False),
            ('y: "int", x: "string" = None', False),
            ('y: "int", *, x: "string" = None, z: "int" = 1', False),
            ('y: "int" = None, *, x: "string", z: "int" = None', True),
            ('x: "string" = "a"', True),
            ('x: "string", y: "int" = None', True),
        ):
            self.check(f"@plugin\ndef f({arguments}):\n    return random.Random(x).random()\n", is_pure)
        self.check(f"@plugin\ndef f({TYPED}):\n    return random.Random(x).random()\ndef g(): return f(None)\n", False)
        self.check("def str(x): return None\n@plugin\ndef f(x: 'string'):\n    return random.Random(str(x)).random()\n", False)

    def test_arguments_that_nobody_reads_are_known(self) -> None:
        for body, is_left in (
            ("return x", True),
            ("return f'{context}'", False),
            ("return (lambda: context)()", False),
            ("return locals()", False),
            ("del context", False),
        ):
            with self.subTest(body):
                module, purity = self.module(f"def f(context, x):\n    {body}\n")
                self.assertIs(purity.leaves_argument(module.f, 0), is_left)
        self.assertFalse(purity.leaves_argument(len, 0))
        self.assertFalse(purity.leaves_argument(module.f, 2))


if __name__ == "__main__":
    unittest.main()
