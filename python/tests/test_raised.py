"""Exceptions of a compile as the reference raises them: the statement, its place, the attributes and the cause."""

from __future__ import annotations

import os
import tempfile
import unittest

from inmanta import ast, module, parser
from steward_host.raised import Raised
from steward_host.statement import at_place, entity_around

# A model, line and column of a diagnostic, what the reference calls the statement, whether it says the column.
STATEMENTS = [
    ('std::assert(false, "the message")', 1, 1, "std::assert(false,'the message')", True),
    ("x = y", 1, 1, "x = y", False),
    ('a.x = "b"', 1, 1, "a.x = 'b'", False),
    ("a.b += 1", 1, 1, "a.b = 1", False),
    ('A(x="a")', 1, 1, "Construct(A)", False),
    ("a = m::A(x=[A(),A()])", 1, 5, "Construct(m::A)", False),
    ('x = A[n="b"]', 1, 5, "A[[('n', 'b')]]", False),
    ("std::at([1], 5)", 1, 1, "std::at([1],5)", True),
    ("f([1, 2], {'a': 1}, [x])", 1, 1, "f([1, 2],{'a': 1},List())", True),
    ('f(a=1, **d)', 1, 1, "f(a=1,**d)", True),
    ("f(not a and b or c)", 1, 1, "f((((not a) and b) or c))", True),
    ("f(a + b * 2 == c)", 1, 1, "f(((a + (b * 2)) == c))", True),
    ('if "a":\nend', 1, 1, "If", False),
    ("for x in 3:\nend", 1, 1, "For(x)", False),
    ("import a::b as c  # why", 1, 1, "import a::b as c", False),
    ('x = 1 + "a"', 1, 7, "(1 + 'a')", False),
    ('x = "{0}" % 3', 1, 11, "('{0}' % 3)", False),
    ('x = "{{ nope }}"', 1, 5, "Format('{{ nope }}')", False),
    ('x = f"a{x}b"', 1, 5, "'a{x}b'", True),
    ('f(f"a{x}b")', 1, 1, "f(StringFormatV2('a{x}b'))", True),
    ("x = not a", 1, 5, "Not(a)", False),
    ("x = [y.z for y in a if not y.b]", 1, 5, "[y.z for y in a if (not y.b)]", False),
    ("x = a.b.foo", 1, 9, "a.b.foo", False),
    ('y = x["b"]', 1, 6, "x['b']", False),
    ("x = a ? b : c", 1, 5, "a ? b : c", True),
    ("x = A(\n  a = f(\n    b),\n)", 2, 7, "f(b)", True),
]


def diagnostic(kind: str, message: str, place: tuple[int, int] | None = None, causes: list = []) -> dict[str, object]:
    line, column = place or (None, None)
    found = {"kind": kind, "message": message, "severity": "error", "file": "main.cf" if place else None}
    return {**found, "line": line, "column": column, "end_line": line, "end_column": column, "causes": causes}


class Statements(unittest.TestCase):
    def test_a_statement_is_named_as_the_reference_names_it(self) -> None:
        for text, line, column, name, has_column in STATEMENTS:
            with self.subTest(text):
                self.assertEqual(at_place("# above\n" + text, line + 1, column), (name, has_column))

    def test_what_is_no_statement_has_no_name(self) -> None:
        for text in ("", "x = ", "entity A:\n", "§", "f(", '"""a'):
            with self.subTest(text):
                self.assertIsNone(at_place(text, 1, 1))
        self.assertIsNone(at_place("x = y", 7, 1))

    def test_a_type_is_looked_for_by_its_entity(self) -> None:
        text = "entity A:\nend\nentity B extends A:\n    nope x\nend\nx = 1"
        self.assertEqual([entity_around(text, line) for line in (4, 6)], ["Entity(B)", None])


class Exceptions(unittest.TestCase):
    def raised(self, model: str, found: dict[str, object]) -> ast.CompilerException:
        with tempfile.TemporaryDirectory() as directory:
            self.directory = directory
            with open(os.path.join(directory, "main.cf"), "w") as file:
                file.write(model)
            return Raised(directory).exception(found)

    def test_it_says_the_statement_and_absolute_paths(self) -> None:
        message = "value set twice:\n\told value: 1\n\t\tset at ./main.cf:1\n"
        error = self.raised("a = 1\na = 2", diagnostic("DoubleSetException", message, (2, 1)))
        path = os.path.join(self.directory, "main.cf")
        self.assertEqual(str(error), f"{message.replace('./main.cf', path)} (reported in a = 2 ({path}:2))")
        self.assertEqual((str(error.stmt), error.location.lnr, error.location.file), ("a = 2", 2, path))
        self.assertNotIsInstance(error.location, ast.Range)

    def test_it_names_the_instance_without_an_implementation_and_the_typedef_of_a_condition(self) -> None:
        model = "typedef t as string matching self == 'a'\nentity A:\nend\nA()"
        error = self.raised(model, diagnostic("TypingException", "Unable to select implementation for entity A", (4, 1)))
        path = os.path.join(self.directory, "main.cf")
        self.assertEqual(str(error.stmt), f"__config__::A (instantiated at {path}:4)")
        message = "Invalid value 'b', does not match constraint `(self == 'a')`"
        error = self.raised(model, diagnostic("RuntimeException", message, (1, 9)))
        self.assertEqual(str(error), f"{message} (reported in __config__::t ({os.path.join(self.directory, 'main.cf')}:1:9))")

    def test_the_cause_is_what_was_raised(self) -> None:
        cause = diagnostic("PythonException", "AssertionError: the message")
        found = diagnostic("ExternalException", "Exception in plugin std::assert", (1, 1), [cause])
        error = self.raised("std::assert(false)", found)
        self.assertIsInstance(error.__cause__, AssertionError)
        self.assertEqual(str(error.__cause__), "the message")
        self.assertTrue(error.format_trace(indent=" ").endswith("\ncaused by:\n AssertionError: the message\n"))

    def test_a_class_that_is_not_there_leaves_its_name(self) -> None:
        cause = diagnostic("PythonException", "nothing_of_this_name.Error: the message")
        found = diagnostic("ExternalException", "Exception in plugin a::b", (1, 1), [cause])
        self.assertIn("nothing_of_this_name.Error", str(self.raised("a::b()", found).__cause__))

    def test_attributes_are_told(self) -> None:
        error = self.raised("x = y", diagnostic("NotFoundException", "variable y not found", (1, 1)))
        self.assertEqual(error.name, "y")
        names = {
            "Namespace m::n not found.\nTry importing it with `import m::n`": "m::n",
            "could not find attribute with name: y in type m::A": "y",
            "No match in index on type m::A with key x=1, y='b c'": "x=1, y='b c'",
        }
        for text, name in names.items():
            with self.subTest(text):
                self.assertEqual(self.raised("x = y", diagnostic("NotFoundException", text, (1, 1))).name, name)
        message = "Could not set attribute `x` on instance `m::A (instantiated at ./main.cf:1)`"
        error = self.raised("A(x=1)", diagnostic("AttributeException", message, (1, 1)))
        self.assertEqual(error.attribute, "x")
        error = self.raised("x = y", diagnostic("TypeNotFoundException", "could not find type a in namespace m::n", (1, 1)))
        self.assertEqual((error.type, error.ns.get_full_name()), ("a", "m::n"))

    def test_a_variable_of_two_values_tells_both_and_their_places(self) -> None:
        message = "value set twice:\n\told value: 1\n\t\tset at ./main.cf:1\n\tnew value: x\ny\n\t\tset at ./main.cf:2:5\n"
        error = self.raised("a = 1\na = 'x'", diagnostic("DoubleSetException", message, (2, 1)))
        path = os.path.join(self.directory, "main.cf")
        self.assertEqual((error.variable.value, str(error.variable.location)), ("1", f"{path}:1"))
        self.assertEqual((error.newvalue, str(error.newlocation)), ("x\ny", f"{path}:2:5"))
        again = ast.DoubleSetException(error.variable, None, error.newvalue, error.newlocation)
        self.assertEqual(again.get_message(), message.replace("./main.cf", path))
        self.assertIsNone(again.root_ns)

    def test_values_that_are_data_are_themselves(self) -> None:
        message = "value set twice:\n\told value: 1\n\t\tset at ./main.cf:1\n\tnew value: [1, 'x']\n\t\tset at ./main.cf:2\n"
        found = {**diagnostic("DoubleSetException", message, (2, 1)), "values": [1, [1, "x"]]}
        error = self.raised("a = 1\na = [1, 'x']", found)
        self.assertEqual((error.variable.value, error.newvalue), (1, [1, "x"]))

    def test_what_is_no_model_tells_the_word_and_what_is_no_module_the_name(self) -> None:
        words = {
            "Syntax error at token =": "=",
            "Syntax error: Illegal character '§'": "§",
            "Syntax error: invalid identifier, end is a reserved keyword": "end",
            "Syntax error: Unexpected end of file": None,
        }
        for message, word in words.items():
            self.assertEqual(self.raised("x = =", diagnostic("ParserException", message, (1, 5))).value, word)
        error = parser.ParserException(ast.Location("a.cf", 3), "=")
        self.assertEqual((str(error), error.value), ("Syntax error at token = (a.cf:3)", "="))
        error = self.raised("import a::b", diagnostic("ModuleLoadingException", "Failed to load module a::b", (1, 1)))
        self.assertEqual(error.name, "a::b")
        error = module.ModuleLoadingException("a", None, module.ModuleNotFoundException("no a"))
        self.assertEqual((str(error), [str(cause) for cause in error.get_causes()]), ("Failed to load module a", ["no a"]))

    def test_of_what_is_defined_twice_both_definitions_are_told(self) -> None:
        note = diagnostic("", "the other definition is here", (1, 8))
        message = "Entity __config__::A is already defined"
        found = {**diagnostic("DuplicateException", message, (3, 8)), "notes": [{**note, "file": "main.cf"}]}
        error = self.raised("entity A:\nend\nentity A:\nend\n", found)
        path = os.path.join(self.directory, "main.cf")
        self.assertEqual(str(error), f"{message} (original at ({path}:3:8)) (duplicate at ({path}:1:8))")
        self.assertEqual((str(error.stmt), str(error.other)), ("__config__::A", "__config__::A"))
        self.assertEqual((error.location.lnr, error.other.get_location().lnr), (3, 1))
        self.assertEqual(str(ast.DuplicateException(None, None, "a text")), "a text")
        message = "Two import statements have the same name"
        found = {**diagnostic("DuplicateException", message, (2, 8)), "notes": [{**note, "file": "main.cf"}]}
        error = self.raised("import std\nimport std\n", found)
        path = os.path.join(self.directory, "main.cf")
        self.assertEqual(str(error), f"{message} (original at ({path}:2)) (duplicate at ({path}:1))")
        error = self.raised("x = 1\n", diagnostic("DuplicateException", message, (1, 1)))
        self.assertIn(message, str(error))

    def test_the_end_of_a_file_is_where_the_reference_has_it(self) -> None:
        error = self.raised("entity A\n", diagnostic("ParserException", "Syntax error: Unexpected end of file", (3, 1)))
        path = os.path.join(self.directory, "main.cf")
        self.assertEqual(str(error), f"Syntax error: Unexpected end of file ({path}:3:2)")
        self.assertEqual((error.location.start_char, error.location.end_char), (2, 2))

    def test_a_module_that_is_nowhere_comes_with_advice(self) -> None:
        cause = diagnostic("ModuleNotFoundException", "Could not find module nothere")
        found = diagnostic("ModuleLoadingException", "Failed to load module nothere", (1, 1), [cause])
        error = self.raised("import nothere", found)
        self.assertEqual(str(error.stmt), "import nothere")
        self.assertRegex(str(error.__cause__), r"^Could not find module nothere\. Please .*`inmanta project install`\.$")

    def test_an_attribute_that_an_entity_does_not_have_is_reported_with_its_name(self) -> None:
        found = diagnostic("TypingException", "no attribute nope on type m::A", (1, 10))
        error = self.raised("A(n='a', nope=1)", found)
        self.assertEqual(str(error.stmt), "nope")
        self.assertTrue(str(error).endswith("(reported in nope (%s:1:10))" % os.path.join(self.directory, "main.cf")), str(error))

    def test_of_a_type_that_is_not_found_the_whole_statement_is_reported(self) -> None:
        message = "could not find type a::h in namespace a"
        error = self.raised("x = a::h('a')", diagnostic("TypeNotFoundException", message, (1, 5)))
        self.assertEqual(str(error), f"{message} (reported in x = a::h('a') ({os.path.join(self.directory, 'main.cf')}:1:5))")
        error = self.raised("implement A using b", diagnostic("TypeNotFoundException", message, (1, 11)))
        self.assertEqual(str(error.stmt), "Implement(A)")

    def test_of_an_index_and_an_implementation_that_is_not_found_the_statement_is_reported(self) -> None:
        text = "Attribute 'c' referenced in index is not defined in entity m::A"
        error = self.raised("index A(b,  c)", diagnostic("NotFoundException", text, (1, 1)))
        self.assertEqual(str(error), f"{text} (reported in index A(b, c) ({os.path.join(self.directory, 'main.cf')}:1))")
        text = "could not find type nope in namespace __config__"
        error = self.raised("implement A using b, nope", diagnostic("TypeNotFoundException", text, (1, 22)))
        self.assertEqual(str(error.stmt), "Implement(A)")

    def test_a_namespace_that_is_not_there_is_reported_with_its_column(self) -> None:
        text = "Namespace a not found.\nTry importing it with `import a`"
        error = self.raised("x = a::b", diagnostic("NotFoundException", text, (1, 5)))
        self.assertTrue(str(error).endswith(f"(reported in a::b ({os.path.join(self.directory, 'main.cf')}:1:5))"))

    def test_a_name_with_the_wrong_case_is_the_value(self) -> None:
        found = diagnostic("ParserException", "Syntax error: Invalid identifier: Entity names must start with a capital", (1, 8))
        error = self.raised("entity abc:\nend", {**found, "end_column": 11})
        self.assertEqual(error.value, "abc")

    def test_a_key_that_is_given_twice_names_itself(self) -> None:
        found = diagnostic("DuplicateException", "duplicate key in dict a", (1, 5))
        error = self.raised("x = {'a': 1, 'a': 2}", {**found, "notes": [diagnostic("", "", (1, 5))]})
        self.assertEqual(str(error.other), "a")

    def test_a_default_of_the_wrong_type_is_reported_with_its_attribute(self) -> None:
        for value, written in (("'a'", "'a'"), ("[1, 2]", "List()"), ("true", "true")):
            model = f"entity A:\n    int n = {value}\nend"
            error = self.raised(model, diagnostic("RuntimeException", "Invalid value, expected int", (2, 9)))
            self.assertEqual(str(error.stmt), f"int n = {written}")

    def test_a_statement_that_never_runs_is_reported_with_its_column(self) -> None:
        error = self.raised("a = b", diagnostic("RuntimeException", "not all statements executed: [b]", (1, 5)))
        self.assertTrue(str(error).endswith("main.cf:1:5))"), str(error))

    def test_the_file_that_an_import_is_missing_in_has_an_absolute_path(self) -> None:
        message = "could not find type b::A in namespace b.\nTry importing the module with `import b` in main.cf"
        error = self.raised("b::A()", diagnostic("MissingImportException", message, (1, 1)))
        self.assertTrue(error.get_message().endswith(f" in {os.path.join(self.directory, 'main.cf')}"), error.get_message())

    def test_broken_code_has_a_line_and_no_column(self) -> None:
        message = "Unable to load all plug-ins for module a:\n\tValueError while loading plugin module inmanta_plugins.a: no"
        error = self.raised("import a", diagnostic("CompilerException", message, (1, 1)))
        self.assertTrue(str(error).endswith("main.cf:1)"), str(error))

    def test_places_have_a_representation(self) -> None:
        self.assertEqual(repr(ast.Range("f", 1, 2, 3, 4)), "Range(f:1:2)")
        self.assertEqual(ast.Location("f", 1), ast.Location("f", 1))
