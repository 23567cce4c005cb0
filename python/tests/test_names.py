"""Names of the reference that Steward does not have: they are imported without a word, and say why when they are used."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import unittest

from inmanta import const, data
from inmanta._absent import NotPartOfSteward
from inmanta._absent_names import NAMES
from inmanta.ast.entity import Entity
from inmanta.server import config
from inmanta.server.protocol import Server, ServerSlice
from tests.support import PACKAGE


class Slice(ServerSlice):
    """A class of a test file that nobody instantiates."""

    own = 1

    def with_server(self, server: Server | None, all: list[Server]) -> Server: ...


class Absent(unittest.TestCase):
    def refused(self, name: str, use) -> None:
        with self.assertRaises(NotPartOfSteward) as raised:
            use()
        self.assertTrue(str(raised.exception).startswith(f"{name} is not part of Steward, because "), raised.exception)

    def test_each_name_of_the_table_is_there(self) -> None:
        for module, names in NAMES.items():
            made = importlib.import_module(module)
            for name, (kind, _) in names.items():
                with self.subTest(module=module, name=name, kind=kind):
                    try:
                        getattr(made, name)
                    except ImportError as error:
                        # What is made with a package that is not installed says so.
                        self.assertIn(error.name, ("pydantic", "pydantic_core", "packaging"))

    def test_classes_can_be_extended_and_annotated_with_and_refuse_the_rest(self) -> None:
        self.assertEqual(Slice.own, 1)
        self.refused("inmanta.server.protocol.Server", Server)
        self.refused("inmanta.server.protocol.ServerSlice", Slice)
        self.refused("inmanta.server.protocol.Server.get_slices", lambda: Server.get_slices)
        self.assertFalse(hasattr(Server, "get_slices"))
        self.assertNotIsInstance(1, Server)

    def test_functions_and_values_refuse_to_be_used(self) -> None:
        from inmanta.data import get_connection_pool
        from inmanta.protocol import methods

        self.refused("inmanta.data.get_connection_pool", get_connection_pool)
        self.refused("inmanta.protocol.methods.create_project", lambda: methods.create_project.x)
        self.refused("inmanta.module.gitprovider", lambda: importlib.import_module("inmanta.module").gitprovider.clone())

    def test_members_that_only_the_reference_has_say_so_and_can_be_replaced(self) -> None:
        self.refused("inmanta.ast.entity.Entity.add_index", lambda: Entity.add_index)
        self.assertFalse(hasattr(Entity, "add_index"))
        try:
            Entity.add_index = 1
            self.assertEqual(Entity.add_index, 1)
        finally:
            del Entity.add_index

    def test_so_does_a_class_of_a_module_that_extends_one_with_such_members(self) -> None:
        own = type("Own", (Entity,), {"__module__": "inmanta_plugins.net"})
        self.refused("inmanta.ast.entity.Entity.add_instance", lambda: own.add_instance)
        self.assertFalse(hasattr(own, "add_instance"))

    def test_plain_data_is_real(self) -> None:
        self.assertEqual(config.server_bind_port.get(), 8888)
        self.assertEqual(const.INMANTA_URN, "urn:inmanta:")
        self.assertEqual(const.Change.created, "created")
        self.assertEqual(const.AgentTriggerMethod.push_full_deploy.value, "push_full_deploy")
        self.assertEqual(data.AUTO_DEPLOY, "auto_deploy")
        with self.assertRaises(data.InvalidSort):
            raise data.InvalidSort("no such column")

    def test_one_class_is_one_class_wherever_it_is_imported_from(self) -> None:
        from inmanta.agent import Agent
        from inmanta.agent.agent_new import Agent as home

        self.assertIs(Agent, home)

    def test_what_the_reference_has_not_either_is_not_there(self) -> None:
        with self.assertRaises(ModuleNotFoundError):
            importlib.import_module("inmanta.nothing_of_this_name")
        self.assertFalse(hasattr(data, "AUTOSTART_AGENT_MAP"))
        self.assertFalse(hasattr(importlib.import_module("inmanta.server.server"), "nothing_of_this_name"))

    def test_a_host_does_not_load_the_table(self) -> None:
        code = "import sys, steward_host.compiling, steward_host.executing; print([n for n in sys.modules if '_absent' in n or '_more' in n])"
        environment = {"PYTHONPATH": PACKAGE, "PYTHONDONTWRITEBYTECODE": "1"}
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        self.assertEqual(ran.stdout, "[]\n")

    @unittest.skipUnless(importlib.util.find_spec("pydantic"), "pydantic is not installed")
    def test_models_of_the_api_have_their_fields(self) -> None:
        from inmanta.data.model import EnvironmentSettingsReponse, LogLine, ResourceComplianceDiff

        line = LogLine(level=10, msg="a", timestamp="2020-01-01T00:00:00")
        self.assertEqual((line.level, line.timestamp.isoformat()), (const.LogLevel.DEBUG, "2020-01-01T00:00:00+00:00"))
        self.assertEqual(EnvironmentSettingsReponse(settings={"a": True}, definition={}).settings, {"a": True})
        change = {"current": 1, "desired": 2}
        found = ResourceComplianceDiff(
            report_only=True, compliance="compliant", last_handler_run="new", last_handler_run_at=None, attribute_diff={"a": change}
        )
        self.assertEqual(found.model_dump()["attribute_diff"], {"a": change})
