"""Secrets do not leave the process of a handler: neither in differences nor in what it logs."""

from __future__ import annotations

import io
import json
import unittest

from inmanta.resources import Id, Resource
from steward_host import hidden
from steward_host.hidden import is_secret
from tests.support import Host, Modules

SECRET = 'hunter2 "quoted" ünlaut'
OLD = "the-old-secret"

HANDLERS = f"""
from inmanta.agent.handler import CRUDHandler, SkipResource, provider
from inmanta.references import Reference, reference
from inmanta.resources import PurgeableResource, resource

@reference("vault::Secret")
class Secret(Reference[str]):
    def __init__(self, name):
        super().__init__()
        self.name = name
    def resolve(self, logger):
        value = {{"text": {SECRET!r}, "short": "on", "pem": "first line of it\\\\nsecond line of it", "long": "0123456789" * 900}}[self.name]
        logger.info("resolved to %(value)s", value=value)
        return value

@resource("vault::Row", agent="a", id_attribute="name")
class Row(PurgeableResource):
    fields = ("name", "value", "nested", "plain", "api_token", "how")

@provider("vault::Row", name="row")
class Handler(CRUDHandler[Row]):
    def read_resource(self, ctx, resource):
        if resource.how == "raise":
            raise ValueError("cannot log in with " + repr(resource.value))
        if resource.how == "skip":
            raise SkipResource("not with " + resource.value)
        ctx.info("logging in with %(login)s", login={{"user": "me", "with": [resource.value], "value": "old one", resource.value: 1}})
        resource.value = {OLD!r}
        resource.nested = {{"a": "x"}}
        resource.plain = "was"
        resource.api_token = "token-there"
    def update_resource(self, ctx, changes, resource):
        ctx.info("it was %(old)s; as JSON: %(text)s", old=changes["value"]["current"], text=__import__("json").dumps(resource.value))
        ctx.set_updated()
    def calculate_diff(self, ctx, current, desired):
        changes = super().calculate_diff(ctx, current, desired)
        changes["content"] = {{"current": None, "desired": "password=" + desired.value + ";"}}
        return changes
"""


def exported(secret: str | None, **fields: object) -> dict:
    """A resource whose `value` a reference fills, and an item of `nested`."""
    references, mutators = [], []
    if secret is not None:
        known = "efae775f-2fbc-3e6f-96bf-112f413cfb6e"
        references = [{"id": known, "type": "vault::Secret", "args": [{"type": "literal", "name": "name", "value": secret}]}]
        for destination in ("value", "nested.'a'"):
            arguments = [
                {"type": "resource", "name": "resource", "id": "vault::Row[a,name=r]"},
                {"type": "reference", "name": "value", "id": known},
                {"type": "literal", "name": "destination", "value": destination},
            ]
            mutators.append({"type": "core::Replace", "args": arguments})
    made = {"name": "r", "value": None, "nested": {"a": None}, "plain": "is", "api_token": "token-wanted", "how": ""}
    common = {"purged": False, "purge_on_delete": False, "requires": [], "send_event": False}
    return {**common, **made, "id": "vault::Row[a,name=r],v=4", "references": references, "mutators": mutators, **fields}


class Login(Resource):
    fields = ("name", "password")


class Secrets(unittest.TestCase):
    def setUp(self) -> None:
        self.host = Host(self, "executor")
        self.host.load_executor(Modules(self).write("vault", HANDLERS))

    def test_what_a_reference_fills_is_in_no_difference_and_in_no_line(self) -> None:
        for dry_run in (False, True):
            outcome = self.host.deploy(exported("text"), dry_run=dry_run)
            self.assertEqual(outcome["status"], "dry" if dry_run else "deployed")
            both = {"current": "(hidden)", "desired": "(hidden)"}
            self.assertEqual(outcome["changes"]["value"], both)
            self.assertEqual(outcome["changes"]["nested"], both)
            self.assertEqual(outcome["changes"]["api_token"], both)
            # Nothing is no secret, and what has none is shown as it is.
            self.assertEqual(outcome["changes"]["content"], {"current": None, "desired": "password=(hidden);"})
            self.assertEqual(outcome["changes"]["plain"], {"current": "was", "desired": "is"})
            text = json.dumps(outcome, ensure_ascii=False)
            for secret in ("hunter2", "quoted", OLD, "token-there", "token-wanted"):
                self.assertNotIn(secret, text)
            said = {line["msg"]: line["kwargs"] for line in outcome["logs"]}
            self.assertEqual(said["resolved to (hidden)"], {"value": "(hidden)"})
            login = {"user": "me", "with": ["(hidden)"], "value": "(hidden)", "(hidden)": 1}
            self.assertIn({"login": login}, said.values())
        # Of a deployment, what is logged about the differences.
        said = {line["msg"]: line["kwargs"] for line in self.host.deploy(exported("text"))["logs"]}
        changes = said["Calling update_resource"]["changes"]
        self.assertEqual(changes["value"], both)
        self.assertEqual(changes["plain"], {"current": "was", "desired": "is"})
        self.assertIn('it was (hidden); as JSON: "(hidden)"', said)

    def test_texts_of_exceptions_do_not_tell_a_secret(self) -> None:
        for how, status in (("raise", "failed"), ("skip", "skipped")):
            outcome = self.host.deploy(exported("text", how=how))
            self.assertEqual(outcome["status"], status)
            self.assertNotIn("hunter2", json.dumps(outcome))
            outcome = self.host.deploy(exported("text", how=how), dry_run=True)
            self.assertNotIn("hunter2", json.dumps(outcome))

    def test_a_line_of_a_secret_and_the_beginning_of_a_long_one_are_secret_too(self) -> None:
        outcome = self.host.deploy(exported("pem", how="raise"))
        self.assertNotIn("line of it", json.dumps(outcome))
        outcome = self.host.deploy(exported("long", how="raise"))
        (line,) = [line for line in outcome["logs"] if "cannot log in" in line["msg"]]
        self.assertIn("characters were cut", line["msg"])
        # What is left of the last piece is shorter than a piece.
        self.assertNotIn("0123456789" * 7, json.dumps(outcome))

    def test_a_short_secret_is_hidden_where_it_stands_alone(self) -> None:
        outcome = self.host.deploy(exported("short"))
        said = {line["msg"]: line["kwargs"] for line in outcome["logs"]}
        self.assertEqual(said["resolved to on"], {"value": "(hidden)"})
        self.assertEqual(outcome["changes"]["value"]["desired"], "(hidden)")

    def test_without_references_only_names_hide(self) -> None:
        outcome = self.host.deploy(exported(None, value="plain text"))
        self.assertEqual(outcome["changes"]["value"], {"current": OLD, "desired": "plain text"})
        self.assertEqual(outcome["changes"]["api_token"], {"current": "(hidden)", "desired": "(hidden)"})

    def test_what_is_printed_in_a_run_is_without_its_secrets(self) -> None:
        resource = Login(Id("vault::Login", "a", "name", "r", 2))
        resource.populate({"name": "r", "password": "hunter2", "send_event": False})
        secrets = hidden.of(resource)
        assert secrets is not None
        secrets.learn([("password", "the old one", "hunter2")])
        self.addCleanup(setattr, hidden.Printed, "secrets", None)
        text = io.StringIO()
        stream = hidden.Printed(text)
        print("before", "hunter2", file=stream)
        hidden.Printed.secrets = secrets
        print("it is", "hunter2", "and was", ["the old one"], file=stream)
        stream.writelines(["hunter2", "\n"])
        self.assertEqual(text.getvalue(), "before hunter2\nit is (hidden) and was ['(hidden)']\n(hidden)\n")
        self.assertFalse(stream.closed)

    def test_mutators_that_make_no_sense_do_not_stop_the_report(self) -> None:
        for mutators in (5, [5], [{"args": 5}], [{"args": [5]}], [{"args": [{"name": "destination", "value": "["}]}]):
            outcome = self.host.deploy(exported(None, mutators=mutators))
            self.assertEqual(outcome["status"], "failed", mutators)

    def test_a_name_is_read_by_its_words(self) -> None:
        for name in ("password", "db_password", "dbPassword", "api-token", "private_key", "sshKey", "APIKey"):
            self.assertTrue(is_secret(name), name)
        for name in ("Authorization", "Set-Cookie", "psk", "pre_shared_key", "snmp_community"):
            self.assertTrue(is_secret(name), name)
        for name in ("authorization_mode", "cookie_domain", "bgp_community"):
            self.assertFalse(is_secret(name), name)
        for name in ("content", "key", "passwords_file_mode_x", "tokenizer", "path", "public_key"):
            self.assertFalse(is_secret(name), name)


if __name__ == "__main__":
    unittest.main()
