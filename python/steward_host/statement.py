"""The statement of a model at a place, as the reference names it in its errors: `x = y`, `Construct(A)`, `std::at([1],5)`.

An exception of a compile says where it was "reported": in which statement, with a text of its own that is not quite what is
written. Tests of modules look for parts of that text. Steward's diagnostics have the place, so the statement is read again
there: a small parser of expressions that writes what it reads in the reference's way. What it cannot read has no text, and
the exception then has its place only.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple

    class Node(NamedTuple):
        """A part of a statement: its text, where diagnostics place it, and whether the reference says its column, too."""

        text: str
        at: int
        has_column: bool = False
        # A value that is written out, or a list or dict of such.
        literal: object = None
        is_literal: bool = False
else:
    from collections import namedtuple

    Node = namedtuple("Node", "text at has_column literal is_literal", defaults=(False, None, False))

_TOKEN = re.compile(
    r"""(?P<blank>(?:\s|\#[^\n]*)+)
    |(?P<string>[rf]?(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    |(?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)
    |(?P<name>[A-Za-z_][\w-]*(?:::[A-Za-z_][\w-]*)*)
    |(?P<operator>==|!=|<=|>=|\+=|\*\*|[-+*/%<>=?:.,()\[\]{}])""",
    re.VERBOSE | re.DOTALL,
)
_ATTRIBUTE = re.compile(r"\s+(?P<type>[\w:-]+(?:\[\])?\??)\s+(?P<name>[\w-]+)\s*=\s*(?P<value>.+)$")
_IMPLEMENT = re.compile(r"implement\s+(?P<name>[\w:-]+)")
_INDEX = re.compile(r"index\s+(?P<name>[\w:-]+)\s*\((?P<attributes>[^()]*)\)")
# How many lines above a place its statement may begin.
_MAX_LINES = 30
# Operators from those that bind least.
_LEVELS = (("or",), ("and",), ("==", "!=", "<", ">", "<=", ">=", "in"), ("+", "-"), ("*", "/", "%"), ("**",))
_WORDS = {"true": True, "false": False, "null": None}


class _Unreadable(Exception):
    """No statement, or one that this does not know."""


def at_place(text: str, line: int, column: int, whole: bool = False) -> tuple[str, bool] | None:
    """The statement or expression that a diagnostic at this place is about, and whether the reference says the column, too.

    `whole`: always the statement, whatever part of it is there."""
    starts = [0]
    for ending in re.finditer("\n", text):
        starts.append(ending.end())
    if not 0 < line <= len(starts):
        return None
    place = starts[line - 1] + column - 1
    for above in range(line - 1, max(line - 1 - _MAX_LINES, -1), -1):
        try:
            nodes = _Reader(text, starts[above]).statement()
        except _Unreadable:
            continue
        found = next((node for node in nodes if node.at == place), None)
        if found is not None:
            reported = nodes[0] if whole else found
            return _alone(reported.text), reported.has_column
    return None


def _alone(text: str) -> str:
    """Of an expression that is reported itself: inside of others two kinds have another text."""
    formatted = re.fullmatch(r"StringFormatV2\((.+)\)", text, re.DOTALL)
    negated = re.fullmatch(r"\(not (.+)\)", text, re.DOTALL)
    if formatted is not None:
        return formatted[1]
    return text if negated is None else f"Not({negated[1]})"


def definition_at(text: str, line: int, column: int) -> str | None:
    """What the reference calls the definition at a place: an attribute with a default, an implementation or an index."""
    written = "\n".join(text.split("\n")[line - 1 : line])
    found = _ATTRIBUTE.match(written)
    if found is not None and found.start("name") == column - 1:
        value = at_place(found["value"], 1, 1, whole=True)
        # A list is reported as one, whatever it holds.
        literal = "List()" if found["value"].startswith("[") else literal_text(found["value"]) if value is None else value[0]
        return None if literal is None else f"{found['type']} {found['name']} = {literal}"
    found = _IMPLEMENT.match(written)
    if found is not None and (found.start("name") == column - 1 or " using " in written[found.end() : column - 1]):
        return f"Implement({found['name']})"
    found = _INDEX.match(written)
    if found is not None and column == 1:
        attributes = re.findall(r"[^\s,]+", found["attributes"])
        return f"index {found['name']}({', '.join(attributes)})"
    return None


def literal_text(written: str) -> str | None:
    """A value that is written out, as the reference writes it; None if it is none."""
    try:
        read = _Reader(written, 0).value()
    except _Unreadable:
        return None
    return read.text if read.is_literal else None


def entity_around(text: str, line: int) -> str | None:
    """The entity in whose definition a line is."""
    for written in reversed(text.split("\n")[:line]):
        found = re.match(r"entity\s+([\w-]+)", written)
        if found:
            return f"Entity({found[1]})"
        if written.startswith("end"):
            return None
    return None


class _Reader:
    """Reads one statement; `nodes` are its parts, the statement last."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._next = start
        self.nodes: list[Node] = []
        self._step()
        self._start = self._at

    def _step(self) -> str:
        """Goes to the next token; gives the one before."""
        before = getattr(self, "_token", "")
        while True:
            found = _TOKEN.match(self._text, self._next)
            self._at = self._next
            if found is None:
                self._kind, self._token = "end", ""
                return before
            self._next = found.end()
            if found.lastgroup != "blank":
                self._kind, self._token = str(found.lastgroup), found.group()
                return before

    def _take(self, token: str) -> bool:
        if self._token != token:
            return False
        self._step()
        return True

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise _Unreadable

    def _made(self, text: str, at: int, has_column: bool = False) -> Node:
        node = Node(text, at, has_column)
        self.nodes.append(node)
        return node

    def statement(self) -> list[Node]:
        """The parts of the statement. Of those at one place the larger comes first, and the whole statement before all."""
        start, word = self._at, self._token
        if word == "if":
            self._step()
            self._expression()
            self.nodes.insert(0, Node("If", start))
        elif word == "for":
            self._step()
            name = self._step()
            self._expect("in")
            self._expression()
            self.nodes.insert(0, Node(f"For({name})", start))
        elif word == "import":
            line = self._text[start:].split("\n", 1)[0].partition("#")[0]
            self.nodes.append(Node(" ".join(line.split()), start))
        else:
            self._assignment(start)
            # What was made last has its parts before it, but a whole statement is where it belongs.
            whole = self.nodes[:1] if self.nodes[0].text.count(" = ") else []
            return whole + self.nodes[len(whole) :][::-1]
        return self.nodes[:1] + self.nodes[1:][::-1]

    def value(self) -> Node:
        """The expression that the text is."""
        return self._expression()

    def _assignment(self, start: int) -> None:
        target = self._expression()
        if self._token in ("=", "+="):
            self._step()
            value = self._expression()
            self.nodes.insert(0, Node(f"{target.text} = {value.text}", start))
        elif not self.nodes:
            raise _Unreadable

    def _expression(self) -> Node:
        found = self._binary(0)
        if self._token == "?":
            self._step()
            yes = self._expression()
            self._expect(":")
            no = self._expression()
            return self._made(f"{found.text} ? {yes.text} : {no.text}", found.at, True)
        return found

    def _binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        left = self._negation(level) if _LEVELS[level] == _LEVELS[2] else self._binary(level + 1)
        while self._token in _LEVELS[level] and self._kind != "string":
            at, operator = self._at, self._step()
            right = self._binary(level + 1)
            left = self._made(f"({left.text} {operator} {right.text})", at)
        if level == 2 and self._token == "is":
            self._step()
            self._expect("defined")
            left = self._made(f"{left.text} is defined", left.at)
        return left

    def _negation(self, level: int) -> Node:
        if self._token != "not":
            return self._binary(level + 1)
        at = self._at
        self._step()
        return self._made(f"(not {self._binary(level).text})", at)

    def _unary(self) -> Node:
        found = self._atom()
        while self._token in (".", "["):
            at, opening = self._at, self._step()
            if opening == ".":
                at, name = self._at, self._step()
                found = self._made(f"{found.text}.{name}", at)
            elif self._is_query():
                found = self._query(found, found.at)
            else:
                key = self._expression()
                self._expect("]")
                found = self._made(f"{found.text}[{key.text}]", at)
        return found

    def _is_query(self) -> bool:
        behind = re.match(r"\s*=(?!=)", self._text[self._next :])
        return self._kind == "name" and behind is not None

    def _query(self, found: Node, at: int) -> Node:
        """`[name = value, …]`, behind its bracket."""
        pairs = []
        while not self._take("]"):
            name = self._step()
            self._expect("=")
            value = self._expression()
            pairs.append(f"({name!r}, {value.text})")
            self._take(",")
        return self._made(f"{found.text}[[{', '.join(pairs)}]]", at)

    def _atom(self) -> Node:
        at, kind, token = self._at, self._kind, self._step()
        if kind == "string":
            return self._string(token, at)
        if kind == "number":
            return Node(token, at, literal=float(token) if "." in token else int(float(token)), is_literal=True)
        if kind == "name":
            return self._named(token, at)
        if token == "(":
            found = self._expression()
            self._expect(")")
            return found
        if token == "[":
            return self._list(at)
        if token == "{":
            return self._dict(at)
        raise _Unreadable

    def _string(self, token: str, at: int) -> Node:
        prefix = token[0] if token[0] in "rf" else ""
        body = token[len(prefix) :]
        width = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
        text = body[width:-width]
        if prefix != "r":
            text = re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t", "r": "\r"}.get(found[1], found[1]), text)
        if prefix == "f":
            return self._made(f"StringFormatV2({text!r})", at, True)
        if prefix == "" and re.search(r"\{\{\s*[\w.:-]+\s*\}\}", text):
            return self._made(f"Format({text!r})", at)
        return Node(repr(text), at, literal=text, is_literal=True)

    def _named(self, name: str, at: int) -> Node:
        if name in _WORDS:
            return Node(name, at, literal=_WORDS[name], is_literal=True)
        if self._token != "(":
            if name in ("not", "and", "or", "in", "is", "if", "end", "entity", "implement", "implementation", "typedef", "index"):
                raise _Unreadable
            return self._made(name, at)
        self._step()
        is_constructor = name.rpartition("::")[2][:1].isupper()
        arguments = []
        while not self._take(")"):
            arguments.append(self._argument())
            if not self._take(",") and self._token != ")":
                raise _Unreadable
        text = f"Construct({name})" if is_constructor else f"{name}({','.join(arguments)})"
        return self._made(text, at, not is_constructor)

    def _argument(self) -> str:
        if self._take("**"):
            return f"**{self._expression().text}"
        if self._is_query():
            name = self._step()
            self._expect("=")
            return f"{name}={self._expression().text}"
        return self._expression().text

    def _list(self, at: int) -> Node:
        items = []
        while not self._take("]"):
            items.append(self._expression())
            if self._token == "for":
                return self._made(self._comprehension(items[0].text), at)
            if not self._take(",") and self._token != "]":
                raise _Unreadable
        if all(item.is_literal for item in items):
            values = [item.literal for item in items]
            return Node(repr(values), at, literal=values, is_literal=True)
        return self._made("List()", at)

    def _comprehension(self, value: str) -> str:
        """What stands behind the value, up to the bracket."""
        self._expect("for")
        name = self._step()
        self._expect("in")
        text = f"{value} for {name} in {self._expression().text}"
        if self._take("if"):
            text += f" if {self._expression().text}"
        self._expect("]")
        return f"[{text}]"

    def _dict(self, at: int) -> Node:
        entries = {}
        is_literal = True
        while not self._take("}"):
            key = self._expression()
            self._expect(":")
            value = self._expression()
            entries[str(key.literal)] = value.literal
            is_literal = is_literal and value.is_literal
            if not self._take(",") and self._token != "}":
                raise _Unreadable
        return Node(repr(entries), at, literal=entries, is_literal=True) if is_literal else self._made("Dict()", at)
