"""What functions say of themselves as plugins, when decorators have made them."""

from __future__ import annotations

import functools
import unittest
from typing import Any

from inmanta._signature import MISSING, signature


def plain(text: str, times: int = 2) -> str:
    return text * times


@functools.wraps(plain)
def of_everything(*args: Any, **kwargs: Any) -> Any:
    return plain(*args, **kwargs)


@functools.wraps(plain)
def of_the_same(text, times=3):  # type: ignore[no-untyped-def]  # its annotations are those of the other one
    return plain(text, times)


@functools.wraps(plain)
def of_others(word):  # type: ignore[no-untyped-def]
    return plain(word)


class Signatures(unittest.TestCase):
    def test_a_function_has_the_parameters_of_its_own(self) -> None:
        def found(function: Any) -> list[tuple[str, str, object, object]]:
            arguments, returned = signature(function)
            self.assertIs(returned, str)
            return [(one.name, one.kind, one.annotation, one.default) for one in arguments]

        self.assertEqual(found(plain), [("text", "positional", str, None), ("times", "positional", int, 2)])
        self.assertEqual(found(of_the_same), [("text", "positional", str, None), ("times", "positional", int, 3)])
        self.assertEqual(found(of_others), [("word", "positional", MISSING, None)])
        self.assertEqual(found(of_everything), [("args", "var_positional", MISSING, None), ("kwargs", "var_keyword", MISSING, None)])

    def test_what_is_no_function_of_python_has_none(self) -> None:
        for function in (functools.lru_cache(plain), functools.cache(plain)):
            with self.assertRaisesRegex(TypeError, "unsupported callable"):
                signature(function)


if __name__ == "__main__":
    unittest.main()
