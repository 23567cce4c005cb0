"""Paths, held to the table that the tests of the service inventory use, too. What it expects is what the reference does."""

import copy
import json
import pathlib
import unittest

from inmanta.util import dict_path

TABLE = pathlib.Path(__file__).parents[2] / "fixtures" / "dict_paths.json"


def kind_of(error: Exception) -> str:
    """The word that the table has for an error."""
    kinds = (
        (dict_path.InvalidPathException, "invalid"),
        (dict_path.ContainerStructureException, "structure"),
        (KeyError, "key"),
        (IndexError, "index"),
        (NotImplementedError, "unsupported"),
    )
    return next(word for kind, word in kinds if isinstance(error, kind))


def run(case: dict, container: object) -> object:
    """What a case gives."""
    text, value = case["path"], case.get("value")
    match case["do"]:
        case "get":
            return dict_path.to_path(text).get_element(container)
        case "construct":
            return dict_path.to_path(text).get_element(container, construct=True)
        case "set":
            return dict_path.to_path(text).set_element(container, value)
        case "set_existing":
            return dict_path.to_path(text).set_element(container, value, construct=False)
        case "remove":
            return dict_path.to_path(text).remove(container)
        case "elements":
            return dict_path.to_wild_path(text).get_elements(container)
        case "resolve":
            return [path.to_str() for path in dict_path.to_wild_path(text).resolve_wild_cards(container)]
        case "text":
            return dict_path.ComposedPath(path=dict_path.to_path(text).get_path_sections()).to_str()
        case _:
            return dict_path.WildComposedPath(path=dict_path.to_wild_path(text).get_path_sections()).to_str()


class DictPathTable(unittest.TestCase):
    #: lsm 106, 107, 108, 109, 110, 111
    def test_paths_do_what_the_table_says(self) -> None:
        table = json.loads(TABLE.read_text())
        for case in table["cases"]:
            given = case["in"] if "in" in case else table["container"]
            container = copy.deepcopy(given)
            with self.subTest(do=case["do"], path=case["path"]):
                try:
                    gives = copy.deepcopy(run(case, container))
                except Exception as error:
                    self.assertEqual(kind_of(error), case.get("error"))
                    continue
                self.assertNotIn("error", case)
                if "gives" in case:
                    self.assertEqual(gives, case["gives"])
                self.assertEqual(container, case.get("leaves", given))


if __name__ == "__main__":
    unittest.main()
