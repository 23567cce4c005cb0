"""The former place of `inmanta.util.dict_path`."""

from inmanta.util.dict_path import *  # noqa: F403
from inmanta.util.dict_path import to_path as to_path
from inmanta.util.dict_path import to_wild_path as to_wild_path
