"""Hosts of agents as forks of one process, spoken to as the executor does: over a socket, with open files."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import unittest

from steward_host import msgpack
from tests.support import ACTION, PACKAGE, Modules, ext_codec

MODULE = """
import os
import time
from inmanta.agent.handler import CRUDHandler, provider
from inmanta.resources import PurgeableResource, resource

SEEN = []

@resource("net::Row", agent="host", id_attribute="name")
class Row(PurgeableResource):
    fields = ("name",)

@provider("net::Row", name="row")
class RowHandler(CRUDHandler):
    def read_resource(self, ctx, resource):
        SEEN.append(resource.name)
        if resource.name != "quiet":
            print("printed by", resource.name)
        ctx.info("seen %(seen)s by %(agent)s", seen=SEEN, agent=self._agent.name)
        if resource.name == "slow":
            time.sleep(1)
        if resource.name == "die":
            os._exit(3)
"""


class Peer:
    """One end of a socket with frames."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end

    def send(self, message: object, files: tuple[int, ...] = ()) -> None:
        body = msgpack.pack(message)
        socket.send_fds(self.socket, [len(body).to_bytes(4, "big") + body], list(files))

    def read(self) -> object:
        size = int.from_bytes(self._bytes(4), "big")
        return msgpack.unpack(self._bytes(size))[0]

    def _bytes(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            chunk = self.socket.recv(size - len(found))
            if not chunk:
                raise EOFError
            found += chunk
        return found


class Host(Peer):
    def __init__(self, case: unittest.TestCase, zygote: Peer, agent: str) -> None:
        ours, theirs = socket.socketpair()
        super().__init__(ours)
        case.addCleanup(ours.close)
        self.printed, errors = os.pipe()
        # Where the executor notes that it reads what was printed.
        self.reads = os.memfd_create("reads")
        zygote.send({"fork": {"agent": agent}}, (theirs.fileno(), errors, self.reads))
        theirs.close()
        os.close(errors)
        case.addCleanup(os.close, self.printed)
        case.addCleanup(os.close, self.reads)
        self.pid = zygote.read()["forked"]["pid"]

    def deploy(self, name: str) -> str:
        """What the handler logged."""
        self.give(name)
        logs = json.loads(self.read()["deployed"])["outcome"]["logs"]
        return next(line["msg"] for line in logs if line["msg"].startswith("seen"))

    def give(self, name: str, ahead: bool = False) -> None:
        fields = {"name": name, "purged": False, "purge_on_delete": False, "report_only": False, "references": []}
        resource = {**fields, "mutators": [], "receive_events": True, "send_event": True, "requires": []}
        resource["id"] = f"net::Row[host,name={name}],v=1"
        task = {"id": 1, "resource": resource, "requires": {}, "dry_run": False, "reason": "a test"}
        self.send({"deploy": json.dumps({**task, "action_id": ACTION, "dependency_changed": False, "ahead": ahead})})

    def has_printed(self) -> bool:
        return bool(json.loads(self.read()["deployed"])["printed"])

    def has_answered(self) -> bool:
        """Whether there is an answer, or soon."""
        return bool(select.select([self.socket], [], [], 0.3)[0])


class Zygote(unittest.TestCase):
    def start(self, code: str) -> tuple[Peer, dict]:
        ext_codec()
        ours, theirs = socket.socketpair()
        program = [sys.executable, "-I", "-u", os.path.join(PACKAGE, "steward_host", "__main__.py"), "executor"]
        self.process = subprocess.Popen(program, stdin=theirs, stdout=theirs)
        theirs.close()
        self.addCleanup(self.process.wait)
        self.addCleanup(ours.close)
        zygote = Peer(ours)
        zygote.read()
        modules = Modules(self).write("net", code).described
        load = {"modules": modules, "environment_id": "e", "agent": "first", "files": None}
        zygote.send({"load_executor": load})
        return zygote, zygote.read()["handlers"]

    def test_hosts_have_their_own_globals_agent_and_output(self) -> None:
        zygote, handlers = self.start(MODULE)
        self.assertIsNone(handlers["no_forks"])
        one, two = Host(self, zygote, "one"), Host(self, zygote, "two")
        self.assertEqual(one.deploy("a"), "seen ['a'] by one")
        self.assertEqual(two.deploy("b"), "seen ['b'] by two")
        self.assertEqual(one.deploy("c"), "seen ['a', 'c'] by one")
        self.assertEqual(os.read(one.printed, 1000), b"printed by a\nprinted by c\n")
        self.assertEqual(os.getpgid(one.pid), one.pid)
        one.send("stop")
        self.assertEqual(one.read(), "bye")
        zygote.send({"reap": {"pid": one.pid}})
        self.assertEqual(zygote.read(), {"reaped": {"status": "exit status: 0"}})

    def test_hosts_draw_what_a_process_would_that_has_imported_the_modules_itself(self) -> None:
        head = "import random\nrandom.seed(42)\nSEEDED, OTHER = random.Random(7), random.Random()\n"
        drawn = "SEEN.append([one.random() for one in (random, SEEDED, OTHER)])"
        zygote, _ = self.start(head + MODULE.replace("SEEN.append(resource.name)", drawn))
        seen = [Host(self, zygote, "host").deploy("quiet") for _ in range(2)]
        one, two = (json.loads(line.removeprefix("seen ").removesuffix(" by host"))[0] for line in seen)
        self.assertEqual(one[:2], [0.6394267984578837, 0.32383276483316237])
        self.assertEqual(two[:2], one[:2])
        self.assertNotEqual(two[2], one[2])

    def test_a_host_goes_on_by_itself_unless_something_was_printed(self) -> None:
        zygote, _ = self.start(MODULE)
        host = Host(self, zygote, "one")
        for name, ahead in [("quiet", False), ("quiet", True), ("a", True), ("b", True), ("quiet", True)]:
            host.give(name, ahead)
        # Two that print nothing, and the first one that does.
        self.assertEqual([host.has_printed() for _ in range(3)], [False, False, True])
        self.assertFalse(host.has_answered())
        self.assertEqual(os.read(host.printed, 1000), b"printed by a\n")
        host.send("go_on")
        self.assertTrue(host.has_printed())
        self.assertFalse(host.has_answered())
        # It is read while the host runs: what is not there any more was printed, too.
        os.pwrite(host.reads, b"1", 0)
        self.assertEqual(os.read(host.printed, 1000), b"printed by b\n")
        host.send("go_on")
        self.assertFalse(host.has_printed())
        # What somebody reads during a run makes the host wait after it, though nothing is there when it ends.
        os.pwrite(host.reads, b"2", 0)
        host.give("quiet")
        self.assertFalse(host.has_printed(), "it was read before the run began")
        host.give("slow")
        time.sleep(0.2)
        os.pwrite(host.reads, b"3", 0)
        self.assertEqual(os.read(host.printed, 1000), b"printed by slow\n")
        self.assertTrue(host.has_printed())

    def test_how_a_host_ended_is_told_when_it_is_asked_for(self) -> None:
        zygote, _ = self.start(MODULE)
        host = Host(self, zygote, "one")
        with self.assertRaises(EOFError):
            host.deploy("die")
        zygote.send({"reap": {"pid": host.pid}})
        self.assertEqual(zygote.read(), {"reaped": {"status": "exit status: 3"}})
        host = Host(self, zygote, "two")
        os.kill(host.pid, signal.SIGKILL)
        zygote.send({"reap": {"pid": host.pid}})
        self.assertEqual(zygote.read(), {"reaped": {"status": "signal: 9 (SIGKILL)"}})
        zygote.send({"reap": {"pid": host.pid}})
        self.assertEqual(zygote.read(), {"reaped": {"status": None}})

    def test_hosts_end_with_their_zygote(self) -> None:
        zygote, _ = self.start(MODULE)
        host = Host(self, zygote, "one")
        self.process.kill()
        with self.assertRaises(EOFError):
            host.read()

    def test_threads_and_connections_forbid_forks(self) -> None:
        for head, reason in (
            (
                "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True, name='poll').start()\n",
                "^started the thread poll$",
            ),
            ("import socket\none = socket.socket()\n", r"^opened socket:\[\d+\]$"),
            (
                "import sqlite3, tempfile\nfolder = tempfile.TemporaryDirectory()\n"
                "database = sqlite3.connect(folder.name + '/x.db')\ndatabase.execute('CREATE TABLE t (a)')\n",
                "^opened /.*/x.db for writing$",
            ),
            ("import subprocess\nsleeps = subprocess.Popen(['sleep', '9'], stdin=subprocess.DEVNULL)\n", "^started a process$"),
            ("import socket\npair = socket.socketpair()\n", r"^opened socket:\[\d+\], socket:\[\d+\]$"),
            ("import asyncio\nloop = asyncio.new_event_loop()\n", "^opened (anon_inode:|socket:)"),
            ("import _thread, time\n_thread.start_new_thread(time.sleep, (9,))\n", "^started a thread$"),
        ):
            with self.subTest(head):
                _, handlers = self.start(head + MODULE)
                self.assertEqual(handlers["types"], ["net::Row"])
                self.assertRegex(handlers["no_forks"], reason)

    def test_files_that_are_read_or_only_grow_are_shared(self) -> None:
        head = (
            "import tempfile\nfolder = tempfile.TemporaryDirectory()\ngrown = open(folder.name + '/log', 'a')\n"
            "read = open(__file__)\nnothing = open('/dev/null', 'w')\n"
        )
        _, handlers = self.start(head + MODULE)
        self.assertIsNone(handlers["no_forks"])


if __name__ == "__main__":
    unittest.main()
