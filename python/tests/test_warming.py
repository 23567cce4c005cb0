"""What is done before hosts are forked, so that they need not do it."""

from __future__ import annotations

import os
import unittest

from inmanta import resources
from inmanta.agent.handler import Commander
from steward_host import hidden, warming


class Warming(unittest.TestCase):
    def test_resources_are_deployed_and_nothing_stays(self) -> None:
        def left() -> tuple[object, ...]:
            kinds = list(resources.resource.get_entity_resources())
            handlers, fields = list(Commander.get_handlers()), list(hidden._secret_fields)
            return kinds, handlers, fields, os.listdir("/proc/self/task"), os.listdir("/proc/self/fd")

        warming.warm_up()
        before = left()
        changes = warming.warm_up()
        self.assertEqual(changes, ["updated", "nochange", "nochange"] * 4)
        self.assertEqual(left(), before)
