"""References that are nothing but their arguments, and functions that hand them on."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import unittest
from types import ModuleType

from inmanta import references
from inmanta.execute.util import Unknown
from steward_host import calls, msgpack
from steward_host.purity import Purity
from steward_host.values import Values

HEAD = """
import os
from inmanta import references
from inmanta.references import Reference, reference

@reference("m::Secret")
class Secret(Reference[str]):
    \"""A secret.\"""
    retries: int = 3

    def __init__(self, path: str | Reference[str], key: str = "k", *, version: int | None = None) -> None:
        \"""Keeps them.\"""
        super().__init__()
        self.key = key
        self.path = path
        self.version: int | None = version
        self._client = None
        self._place = path

    def resolve(self, logger):
        return os.environ[self.path]

    def read(self):
        return open(self.path).read()

    def __str__(self):
        return f"Secret {self.path}"

@references.reference("m::Nothing")
class Nothing(references.Reference[int]):
    def resolve(self, logger): return 1

def gives(x): return Secret(x)
def hands(x, y): return Secret(x, key=y)
"""
# Bodies of classes whose references are more than their arguments.
WITH_MORE = {
    "another value": "def __init__(self, path):\n        super().__init__()\n        self.path = path + '/'",
    "another name": "def __init__(self, path):\n        super().__init__()\n        self.other = path",
    "less": "def __init__(self, path, more):\n        super().__init__()\n        self.path = path",
    "more": "def __init__(self, path):\n        super().__init__()\n        self.path = path\n        self.pid = os.getpid()",
    "a call": "def __init__(self, path):\n        super().__init__()\n        self.path = path\n        print(path)",
    "no constructor of the base": "def __init__(self, path):\n        self.path = path",
    "any arguments": "def __init__(self, *path):\n        super().__init__()\n        self.path = path",
    "a hidden value": "def __init__(self, path):\n        super().__init__()\n        self.path = path\n        self._more = os.getpid()",
    "a hidden value of the base": "def __init__(self, path):\n        super().__init__()\n        self.path = path\n        self._model = path",
    "a default that can change": "def __init__(self, path=[]):\n        super().__init__()\n        self.path = path",
    "a hidden argument": "def __init__(self, _path):\n        super().__init__()\n        self._path = _path",
    "a text from outside": "def __str__(self): return os.environ['HOME']",
    "another form": "def serialize(self): return None",
    "other arguments": "@property\n    def arguments(self): return {}",
    "equality": "def __eq__(self, other): return True",
    "an attribute of the class by that name": (
        "path = property(lambda self: 1, lambda self, x: None)\n    def __init__(self, path):\n        super().__init__()\n        self.path = path"
    ),
    "a decorated constructor": "@kept\n    def __init__(self, path):\n        super().__init__()\n        self.path = path",
    "any attribute": "def __getattr__(self, name): return 1",
    "code": "print('made')",
}
HANDED_ON = (
    "return Secret(x)",
    "return Secret(path=x.path, key=f'{x.name}')",
    "secret = Secret(x)\n    return secret",
    "return [Secret(y) for y in x.names if y]",
    "return {y.name: Secret(y.path) for y in x.many}",
    "return {'user': Secret(x), 'more': [Nothing()]}",
    "found = []\n    for y in x:\n        found.append(Secret(y))\n    return found",
    "found: dict = {}\n    for y in x:\n        found[y.name] = Secret(y)\n    return found",
    "inner = Secret(x)\n    return Secret(inner)",
    "if isinstance(x, Reference):\n        return x\n    return Secret(x) if x else Nothing()",
    "return hands(Secret(x), 'a')",
    "return gives(x.name)",
)
MORE = (
    "return Secret(x).resolve(None)",
    "return Secret(x).get(None)",
    "secret = Secret(x)\n    return secret.read()",
    "secret = Secret(x)\n    return str(secret)",
    "secret = Secret(x)\n    return f'{secret}'",
    "return f'{Secret(x)}'",
    "return [y.get(x) for y in [Secret(x)]]",
    "found = []\n    found.append(Secret(x))\n    return found[0].get(x)",
    "found = []\n    found.append(Secret(x))\n    for y in found:\n        y.get(x)\n    return x",
    "found = {}\n    found['a'] = Secret(x)\n    return found.get('a').read()",
    "found = {'a': Secret(x)}\n    return [y.read() for y in found.values()]",
    "make = Secret\n    return make(x)",
    "return list(map(Secret, x))",
    "return gives(x).get(x)",
    "return list(map(gives, x))[0].get(x)",
    "def inner():\n        return Secret(x)\n    return inner().get(x)",
    "return (lambda: Secret(x))().get(x)",
    "a = b = Secret(x)\n    return a.get(x)",
    "a, b = Secret(x), 1\n    return a.get(x)",
    "if (a := Secret(x)):\n        return a.get(x)",
    "yield Secret(x)",
    "a = Secret(x)\n    return len(found := [a]) and found[0].get(x)",
    "isinstance = x.other\n    return isinstance(Secret(x))",
    "return Secret(*x).path",
    "return Secret.read(x)",
    "return {Secret(x): 1}",
    "return Secret(x) == Secret(x)",
    "return calls_back(x).get(x)",
)


class Judging(unittest.TestCase):
    def module(self, text: str) -> tuple[ModuleType, Purity]:
        with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
            file.write(text)
        self.addCleanup(os.unlink, file.name)
        self.addCleanup(setattr, references.reference, "_known", dict(references.reference._known))
        spec = importlib.util.spec_from_file_location("judged", file.name)
        assert spec is not None and spec.loader is not None
        module = sys.modules["judged"] = importlib.util.module_from_spec(spec)
        self.addCleanup(sys.modules.pop, "judged", None)
        spec.loader.exec_module(module)
        return module, Purity([file.name])

    def test_references_that_keep_their_arguments_are_plain(self) -> None:
        module, purity = self.module(HEAD)
        self.assertTrue(purity.is_plain_reference(module.Secret))
        self.assertTrue(purity.is_plain_reference(module.Nothing))
        for other in (references.Reference, references.AttributeReference, str, None):
            self.assertFalse(purity.is_plain_reference(other))
        self.assertFalse(Purity([]).is_plain_reference(module.Secret))

    def test_references_with_more_to_them_are_not(self) -> None:
        for reason, body in WITH_MORE.items():
            with self.subTest(reason):
                text = f"def kept(x): return x\n@reference('m::Other')\nclass Other(Reference[str]):\n    {body}\ndef f(x): return Other(x)\n"
                module, purity = self.module(f"{HEAD}\n{text}")
                self.assertFalse(purity.is_plain_reference(module.Other))
                self.assertFalse(purity.is_pure(module.f))

    def test_classes_that_others_change_or_inherit_are_not_plain(self) -> None:
        other = "@reference('m::Other')\nclass Other(Reference[str]):\n    pass\n"
        for reason, more in {
            "set": "Other.serialize = print",
            "set by a text": "setattr(Other, '__eq__', print)",
            "set later": "def g(): Other.__str__ = print",
            "set for all": "def g(): Reference.serialize = print",
            "registered again": "@reference('m::Other')\nclass Another(Reference[str]): pass",
            "defined again": "@reference('m::Other')\nclass Other(Reference[str]): pass",
            "another decorator": "@reference('m::Other')\n@staticmethod\nclass Kept: pass\nOther = Kept",
        }.items():
            with self.subTest(reason):
                module, purity = self.module(f"{HEAD}\n{other}{more}\n")
                self.assertFalse(purity.is_plain_reference(module.Other))
        module, purity = self.module(f"{HEAD}\n@reference('m::Child')\nclass Child(Secret): pass\n")
        self.assertFalse(purity.is_plain_reference(module.Child))

    def test_functions_that_hand_references_on_only_compute(self) -> None:
        for body in HANDED_ON:
            with self.subTest(body):
                module, purity = self.module(f"{HEAD}\ndef f(x):\n    {body}\n")
                self.assertTrue(purity.is_pure(module.f))
                self.assertFalse(purity.is_pure_getter(module.f))

    def test_functions_that_look_at_references_do_more(self) -> None:
        for body in MORE:
            with self.subTest(body):
                more = "def calls_back(x): return f(x) if x else Secret(x)"
                module, purity = self.module(f"{HEAD}\n{more}\ndef f(x):\n    {body}\n")
                self.assertFalse(purity.is_pure(module.f))
                self.assertFalse(purity.is_pure(module.f), "also when it is asked again")

    def test_functions_that_call_one_another_do_not_know_what_they_get(self) -> None:
        text = "def first(x): return second(x) if x else Secret(x)\ndef second(x): return first(x).get(x)\n"
        for order in (("first", "second"), ("second", "first")):
            module, purity = self.module(f"{HEAD}\n{text}")
            for name in order:
                self.assertFalse(purity.is_pure(getattr(module, name)), order)

    def test_methods_that_give_references_do_more_than_compute(self) -> None:
        text = "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Kept:\n    path: str\n    def secret(self): return Secret(self.path)\n"
        module, purity = self.module(f"{HEAD}\n{text}\ndef f(x): return Kept(x).secret().get(x)\n")
        self.assertFalse(purity.is_plain(module.Kept))
        self.assertFalse(purity.is_pure(module.f))

    def test_arguments_that_are_only_handed_on_may_be_references(self) -> None:
        for head, body, expected in (
            ("x, y", "return Secret(x, y)", True),
            ("x, y", "found = [x]\n    return {'a': found, 'b': y}", True),
            ("x, y", "return hands(x, y)", True),
            ("x, y=None", "if isinstance(x, str):\n        return x\n    return Secret(x) if isinstance(y, str) else y", True),
            ("*x", "return x", True),
            ("x, y", "if isinstance(x, str) and x == '':\n        return None\n    return Secret(x, y)", True),
            ("x, y", "if isinstance(x, (str, int)):\n        return Secret(f'{x}/a', y)\n    return Secret(x, y)", True),
            ("x, y", "return Secret(x.lower() if isinstance(x, str) else x, y)", True),
            ("x, y", "return Secret(x) if y is None else Secret(x, y)", True),
            ("x", "return Secret(x) if x is not None and isinstance(x, str) and x.isdigit() else x", True),
            ("x, y", "return Secret(x.lower() if isinstance(y, str) else x, y)", False),
            ("x", "return Secret(x.lower() if not isinstance(x, str) else x)", False),
            ("x", "return Secret(x if isinstance(x, str) else x.lower())", False),
            ("x", "if isinstance(x, str) or x.lower():\n        return Secret(x)", False),
            ("x", "if x.lower() and isinstance(x, str):\n        return Secret(x)", False),
            ("x", "if isinstance(x, (str, list)):\n        return Secret(f'{x}')\n    return x", False),
            ("x", "if isinstance(x, Reference):\n        return Secret(f'{x}')\n    return x", False),
            ("x, y", "if isinstance(x, str):\n        x = y\n        return Secret(x.lower())\n    return x", False),
            ("x, y", "return Secret([x.lower() for x in y] if isinstance(x, str) else x)", False),
            ("x, str", "return Secret(x.lower() if isinstance(x, str) else x)", False),
            ("x", "return Secret(x) if x == None else x", False),
            ("x, y", "return Secret(f'{x}', y)", False),
            ("x, y", "return Secret(x.lower(), y)", False),
            ("x, y", "return looks(x)", False),
            ("x, y", "return x if y else None", False),
            ("x, y", "return [y for y in x]", False),
            ("x", "def inner():\n        return x\n    return inner()", False),
        ):
            with self.subTest(body):
                module, purity = self.module(f"{HEAD}\ndef looks(x): return Secret(x.name)\ndef f({head}):\n    {body}\n")
                self.assertTrue(purity.is_pure(module.f))
                self.assertIs(purity.passes_references(module.f), expected)

    def test_what_is_kept_of_a_reference_is_all_that_it_is_made_of(self) -> None:
        text = (
            "@reference('m::Pair')\nclass Pair(Reference[str]):\n    def __init__(self, first, second):\n        super().__init__()\n"
            "        self.first = first\n        self.second = second\n"
        )
        module, purity = self.module(f"{HEAD}\n{text}")
        values = Values()
        values.is_plain_reference = purity.is_plain_reference

        def kept(value: object) -> object:
            written = values.by_value(value)
            return None if written is None else _parts(written)

        self.assertEqual(values.by_value(Unknown()), b"u")
        secret = ["m::Secret", "judged.Secret", "string", "Secret p", None, {"key": "k", "path": "p", "version": None}, True]
        self.assertEqual(kept(module.Secret("p")), secret)
        plain = ["m::Nothing", "judged.Nothing", "int", None, None, {}, True]
        pair = ["m::Pair", "judged.Pair", "string", None, None]
        self.assertEqual(kept(module.Pair(module.Nothing(), 1.5)), [*pair, {"first": plain, "second": 1.5}, True])
        # The text of one that has another in it, and what is no data, or not known.
        self.assertIsNone(kept(module.Secret(module.Nothing())))
        self.assertIsNone(kept(module.Pair([1], {})))
        self.assertIsNone(kept(module.Pair(references.AttributeReference(module.Nothing(), "x"), 1)))
        values.is_plain_reference = lambda cls: False
        self.assertIsNone(kept(module.Nothing()))

    def test_arguments_in_frames_that_hold_references_are_seen(self) -> None:
        reference = bytes([msgpack.EXT_REFERENCE]) + b"x"
        for given, expected in (
            (reference, True),
            (([1, ({"a": reference},)],), True),
            (bytes([msgpack.EXT_BIGINT]) + b"1", False),
            ((7, "m::Thing", {}, {"a": reference}), False),
            ((["r"],), False),
            ("r", False),
        ):
            self.assertIs(calls.has_reference(given), expected, given)


def _parts(written: bytes) -> list[object]:
    """What stands in a reference, without the numbers of objects."""

    def plain(value: object) -> object:
        return _parts(b"r" + value) if isinstance(value, bytes) else value

    before = msgpack.ext_decoders[msgpack.EXT_REFERENCE]
    msgpack.ext_decoders[msgpack.EXT_REFERENCE] = lambda payload: bytes(payload)
    try:
        parts, _ = msgpack.unpack(written[1:])
    finally:
        msgpack.ext_decoders[msgpack.EXT_REFERENCE] = before
    number, *shown, equal, given, is_plain = parts
    assert written[:1] == b"r" and isinstance(number, int) and isinstance(equal, int)
    return [*shown, {name: plain(value) for name, value in given.items()}, is_plain]
