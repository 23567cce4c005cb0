"""Frames with calls: the format that Steward writes, and the values in it."""

import fcntl
import marshal
import os
import select
import tempfile
import threading
import unittest
from unittest import mock

from inmanta.execute import proxy, runtime
from steward_host import calls, compiling, forks, msgpack
from steward_host.held import BYTES as held_bytes, Held
from steward_host.pipe import Pipe


class CallsTest(unittest.TestCase):
    def setUp(self) -> None:
        runtime.reset()

    def test_this_python_reads_what_steward_writes(self) -> None:
        self.assertTrue(calls.works())

    def test_values_that_python_has_are_themselves(self) -> None:
        for given in (None, True, 1, 2.5, "a", [1, "b"], {"k": [None]}):
            self.assertIs(calls.value(given), given)

    def test_an_instance_is_one_handle_that_keeps_what_is_known_of_it(self) -> None:
        plain = calls.value((7, "m::Host"))
        told = calls.value((7, "m::Host", {"name": "h"}))
        others = {"site": (8, "m::Site"), "peers": ([(7, "m::Host"), (9, "m::Host", {}, {"peers": ([(7, "m::Host")],)})],)}
        more = calls.value((7, "m::Host", {}, others))
        self.assertIs(plain, told)
        self.assertIs(plain, more)
        self.assertEqual(plain._values["name"], "h")
        self.assertEqual(plain._values["site"].id, 8)
        self.assertIs(plain._values["peers"][0], plain)
        other = plain._values["peers"][1]
        self.assertEqual(other.id, 9)
        self.assertIs(other._values["peers"][0], plain)

    def test_containers_with_instances_are_gone_through(self) -> None:
        found = calls.value(({"a": (1, "m::Host"), "b": ([(2, "m::Host")],), "c": [3]},))
        self.assertEqual((found["a"].id, found["b"][0].id, found["c"]), (1, 2, [3]))

    def test_results_of_data_have_a_form_of_their_own(self) -> None:
        for result in (None, True, -5, 1 << 70, 1.5, ["a", [None]], {"k": {"\u00e9": [1]}}):
            packed = calls.result(9, result)
            assert packed is not None
            self.assertEqual(packed[:9], b"\xc0" + (9).to_bytes(8, "big"))
            self.assertEqual(marshal.loads(packed[9:]), result)

    def test_results_with_more_to_them_are_left_to_message_pack(self) -> None:
        class Text(str):
            pass

        mean: list[object] = [(1,), b"x", {1: 2}, {"k": (1,)}, 1j, {1}, Text("a"), ["\ud800"], ..., [runtime.Instance(1, "m::Host")]]
        for result in mean:
            self.assertIsNone(calls.result(9, result), repr(result))
        # What begins as half of a character does, or only looks so.
        for result in (["\ud55c"], {"\ud55c": [237]}, 237, [0xED00]):
            self.assertIsNotNone(calls.result(9, result), repr(result))

    def test_what_a_call_has_logged_goes_along(self) -> None:
        def answer(logged: list[tuple[str, str]]) -> object:
            packed = calls.computed(9, "a", [(1, "name")], lambda value: None, logged)
            return packed and marshal.loads(packed[9:])

        self.assertEqual(answer([]), ("a", [(1, "name")]))
        self.assertEqual(answer([("INFO", "b"), ("ERROR", "\u00e9")]), ("a", [(1, "name")], ["INFO", "b", "ERROR", "\u00e9"]))
        self.assertIsNone(answer([("INFO", "\ud800")]))

    def test_what_is_said_is_kept_while_that_is_wanted(self) -> None:
        self.assertFalse(proxy.say("INFO", "a"))
        proxy.begin_reads(keeps_logged=True)
        self.assertTrue(proxy.say("INFO", "b"))
        self.assertEqual((proxy.end_reads(), proxy.logged()), ([], [("INFO", "b")]))
        self.assertEqual((proxy.end_logged(), proxy.end_logged()), ([("INFO", "b")], []))
        proxy.begin_reads()
        self.assertFalse(proxy.say("INFO", "c"))
        self.assertIsNone(proxy.end_reads(), "it has to be called again")

    def test_fields_of_a_resource_have_a_form_of_their_own(self) -> None:
        identity = {"entity_type": "m::Host", "agent": "a", "attribute": "name", "value": "v"}
        packed = calls.rendered(3, [1, ["a"]], identity, [None])
        assert packed is not None
        self.assertEqual(packed[:9], b"\xc2" + (3).to_bytes(8, "big"))
        self.assertEqual(marshal.loads(packed[9:]), ([1, ["a"]], ("m::Host", "a", "name", "v"), (None,)))
        self.assertIsNone(calls.rendered(3, [runtime.Instance(1, "m::Host")], None, []))

    def test_what_an_older_format_can_not_say_is_no_surprise(self) -> None:
        # What a Python whose `marshal` differs would find: no answer, and MessagePack is used.
        real, calls.loads = calls.loads, lambda data: marshal.loads(b"N")
        try:
            self.assertFalse(calls.works())
        finally:
            calls.loads = real


class BlockingTest(unittest.TestCase):
    def test_a_pipe_blocks_again_whatever_module_code_has_made_of_it(self) -> None:
        incoming, outgoing = os.pipe()
        for number in (incoming, outgoing):
            os.set_blocking(number, False)
        writer, reader = Pipe(-1, outgoing), Pipe(incoming, -1)
        # More than a pipe takes, so that the writer has to wait; and a reader that is there before there is anything to read.
        body = msgpack.pack({"printed": {"line": "x" * (1 << 20)}})
        thread = threading.Timer(0.05, writer.send_packed, [body])
        thread.start()
        name, fields = reader.receive()
        thread.join()
        self.assertEqual((name, len(fields["line"])), ("printed", 1 << 20))


    def test_a_fork_leaves_the_files_that_all_forks_have_as_they_were(self) -> None:
        kept = os.pipe()
        pipe = Pipe(*kept)
        before = [fcntl.fcntl(number, fcntl.F_GETFL) for number in kept]
        with mock.patch.object(forks, "end_with"):
            # The second one finds what the first one has left, and says so by how it ends.
            if forks.is_child(pipe):
                now = [fcntl.fcntl(number, fcntl.F_GETFL) for number in kept]
                is_first = os.path.getsize(self.told.name) == 0
                with open(self.told.name, "a") as told:
                    told.write("same " if now == before else "changed ")
                for number in kept:
                    fcntl.fcntl(number, fcntl.F_SETFL, os.O_NONBLOCK | os.O_DIRECT)
                os._exit(forks.DONE if is_first else 0)
        with open(self.told.name) as told:
            self.assertEqual(told.read(), "same same ")

    def setUp(self) -> None:
        self.told = tempfile.NamedTemporaryFile()
        self.addCleanup(self.told.close)


@unittest.skipUnless(hasattr(os, "memfd_create"), "this system has no such memory")
class HeldTest(unittest.TestCase):
    def test_answers_lie_in_memory_until_they_are_sent_together(self) -> None:
        incoming, outgoing = os.pipe()
        pipe = Pipe(incoming, outgoing)
        held = Held.made()
        pipe.hold(held)
        pipe.begin_answers()
        pipe.answer(b"first")
        pipe.answer(b"second")
        frames = b"\0\0\0\5first\0\0\0\6second"
        self.assertEqual(os.pread(held.descriptor, 23, 0), frames + bytes(4))
        self.assertEqual(select.select([incoming], [], [], 0)[0], [])
        pipe.send("bye")
        self.assertEqual(os.read(incoming, 100), frames + b"\0\0\0\4\xa3bye")
        pipe.begin_answers()
        self.assertEqual(os.pread(held.descriptor, 4, 0), bytes(4))

    def test_what_the_memory_has_no_room_for_is_sent_at_once_behind_the_others(self) -> None:
        incoming, outgoing = os.pipe()
        fcntl.fcntl(outgoing, fcntl.F_SETPIPE_SZ, 2 * held_bytes)
        pipe = Pipe(incoming, outgoing)
        pipe.hold(Held.made())
        pipe.begin_answers()
        pipe.answer(b"small")
        pipe.answer(bytes(held_bytes - 10))
        got = b""
        while len(got) < held_bytes + 3:
            got += os.read(incoming, 1 << 17)
        self.assertEqual(got[:9], b"\0\0\0\5small")
        self.assertEqual(len(got), 9 + 4 + held_bytes - 10)


if __name__ == "__main__":
    unittest.main()


class Open(unittest.TestCase):
    def test_arguments_of_a_call_with_open_relations_are_read_once(self) -> None:
        host = compiling.Compiling.__new__(compiling.Compiling)
        host._plain = {"m::f": None}
        called: list[list[object]] = []
        host.call = lambda request, in_frame: called.append(list(request)) or True
        read: list[bytes] = []
        with mock.patch.dict(msgpack.ext_decoders, {99: lambda payload: read.append(payload) or payload.decode()}):
            self.assertTrue(host._with_open([1, "m::f", [b"ca", ([b"cb"],), 3], [["k", b"cc"]], "main.cf", 2, "m", {}]))
            [(_, _, args, kwargs, *_)] = called
            # As `call` reads them.
            self.assertEqual([calls.value(given) for given in args], ["a", ["b"], 3])
            self.assertEqual([(key, calls.value(given)) for key, given in kwargs], [("k", "c")])
        self.assertEqual(read, [b"a", b"b", b"c"])
