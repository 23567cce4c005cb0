"""What a plugin asks its context for, and the places of the model."""

from __future__ import annotations

from tests.support import Compiling, instance

PLUGINS = """
    from inmanta.ast import LocatableString, NotFoundException, TypeNotFoundException
    from inmanta.plugins import plugin, Context

    @plugin
    def is_there(ctx: Context, name: "string") -> "any":
        try:
            return ctx.get_resolver().lookup(name).get_value()
        except NotFoundException:
            return "not there"

    @plugin
    def types(ctx: Context) -> "any":
        queue = ctx.get_queue_scheduler()
        found = queue.get_types()
        listed = [name for name in sorted(queue.types) if name.startswith("net::")]
        known = [name in found for name in ("net::Port", "net::mac", "net::types", "net::nothing", "string")]
        same = [ctx.queue is queue, queue.get_compiler().get_plugins()["net::types"] is found["net::types"]]
        return [known, listed, same, found["net::mac"].type_string(), hasattr(queue, "add_running")]

    @plugin
    def places(ctx: Context, port: "net::Port") -> "list":
        port = port._get_instance()
        called = ctx.owner.location
        return [str(port), f"{port}", f"{port!r}", str(port.get_location()), called.file, str(called), str(port.type.location)]

    @plugin
    def type(ctx: Context, name: "string", has_place: "bool") -> "any":
        try:
            return ctx.get_type(LocatableString(name) if has_place else name).get_full_name()
        except (AttributeError, TypeNotFoundException) as error:
            return [error.__class__.__name__, str(error)]
"""


class Contexts(Compiling):
    def setUp(self) -> None:
        self.net = self.host(("net", PLUGINS))
        self.net.entities["net::Port"] = {"name": "net::Port", "attributes": [], "parents": []}
        self.net.entities["net::Port"]["place"] = ["libs/net/model/_init.cf", 1, 8, 1, 12]
        self.net.typedefs["net::mac"] = "string"

    def check(self, expected: object, plugin: str, *args: object) -> None:
        self.assertEqual(self.net.call(f"net::{plugin}", *args), ("result", expected))

    def test_looking_up_a_variable_that_is_not_there_says_so_at_once(self) -> None:
        self.net.variables["net::x"] = 3
        self.check(3, "is_there", "net::x")
        self.check("not there", "is_there", "net::y")

    def test_who_runs_the_model_knows_the_types(self) -> None:
        known, plugins = [True, True, True, False, False], ["net::is_there", "net::places", "net::type", "net::types"]
        self.check([known, sorted(["net::Port", "net::mac", *plugins]), [True, True], "net::mac", False], "types")

    def test_a_type_that_is_none_of_the_model_is_not_found_and_a_text_has_no_place(self) -> None:
        self.check("net::Port", "type", "net::Port", False)
        self.check("net::type", "type", "net::type", False)
        for name in ("string", "net::nothing"):
            self.check(["AttributeError", "'str' object has no attribute 'get_location'"], "type", name, False)
            self.check(["TypeNotFoundException", f"could not find type {name} in namespace __config__"], "type", name, True)

    def test_places_are_cited_as_in_messages(self) -> None:
        self.net.places[3] = [["main.cf", 2], ["libs/net/model/_init.cf", 7]]
        text = "net::Port (instantiated at ./main.cf:2,./libs/net/model/_init.cf:7)"
        place, entity = "./libs/net/model/_init.cf:7", "./libs/net/model/_init.cf:1:8"
        expected = [text, text, "net::Port 000000000003", place, "./main.cf", "./main.cf:3", entity]
        self.check(expected, "places", instance(3, "net::Port"))
