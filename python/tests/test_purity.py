"""Which functions only compute, by their texts."""

from __future__ import annotations

import importlib.util
import logging
import os
import tempfile
import textwrap
import unittest
from types import ModuleType

from steward_host import computing
from steward_host.computing import Computing, has_hidden_name
from steward_host.purity import Purity

PURE = '''
import hashlib, ipaddress, json, os, os.path, re, shlex, urllib, urllib.parse, uuid
from inmanta.execute.util import Unknown
from ipaddress import ip_network
from inmanta.plugins import PluginException

PREFIX = "vpn"
NAMES = ("a", "b")
WORD = re.compile("[a-z]+")

def slug(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")

def nested(site, number=3):
    ends = [f"{end.device.name}/{end.port}" for end in site.endpoints if end.port != number]
    if not ends:
        raise PluginException(f"{site.name} has no end")
    try:
        return PREFIX + ": " + ", ".join(sorted(ends, key=lambda end: end.lower()))
    except ValueError as error:
        return str(error)

def networks(addresses):
    """Text."""
    found: "list[str]" = []
    for address in addresses:
        found.append(str(ip_network(f"{address}/30", strict=False)))
        found[0] = found[0].upper()
    first, *rest = found
    return {"first": first, "rest": rest, "hash": hashlib.sha256(json.dumps(found).encode()).hexdigest()}

def calls_others(text):
    return slug(text) if WORD.match(text) else NAMES[0]

def counts(number):
    return 1 if number < 2 else number * counts(number - 1)

def with_attribute(item):
    return getattr(item, "name", None)

PORTS = {"http": 80, "https": 443}
SPEEDS = [10, 100]

class NoPort(PluginException):
    """No such port."""

def looks_up(name, all_names):
    if name not in PORTS and name not in ["x"]:
        raise NoPort(f"{name} is none of {sorted(PORTS)}")
    return PORTS[name] + PORTS.get(name, 0) + sum(v for _, v in PORTS.items()) + len(SPEEDS)

def within(items):
    def named():
        for item in items:
            yield item.name
    found = list(named())
    del found[0]
    return found

def matches(item):
    match item:
        case str() as text:
            return text
        case [first, *_]:
            return first
        case {"name": name}:
            return name
        case _:
            return None

def asks(item):
    try:
        where = os.path.join("/etc", urllib.parse.quote(item.name), shlex.quote(item.name))
        return isinstance(item, (str, Unknown)) or where + str(ipaddress.ip_address(item.name))
    except (ipaddress.AddressValueError, json.JSONDecodeError):
        return uuid.uuid5(uuid.NAMESPACE_DNS, item.name).hex
'''

# Functions of tables in tables, and whether they only read them.
TABLES_HEAD = """
import json
NAMES = {"cisco": {"ge": "GigabitEthernet", "te": ["TenGigE", "Te"]}, "juniper": {"ge": "ge-", "te": ["xe-"]}}
RANGES = [("a", 1, [1, 2]), ("b", 11, [3])]
FLAT = {"a": [1, 2], "b": [3]}
PLAIN = {"a": {"a": 1}, "b": {"a": 2}}
"""
TABLES = (
    "return NAMES[x]['ge'] + NAMES.get(x, {}).get('ge', 'eth')",
    "return NAMES['cisco']['te'][0].lower()",
    "return NAMES[x]['te'][y] if x in NAMES and y in NAMES[x] else None",
    "for name, low, numbers in RANGES:\n        if low <= x and x in numbers:\n            return name",
    "names = NAMES[x]\n    if not names:\n        return 1\n    return names['ge'], names.get('ge'), len(names['te']), f'{names}'",
    "names = NAMES.get(x) or NAMES['cisco']\n    return [one for one in names['te']]",
    "for vendor, names in sorted(NAMES.items()):\n        for kind, shown in names.items():\n            if isinstance(shown, str):\n                return vendor + kind",
    "return {k: max(v) for k, v in FLAT.items()}".replace("max(v)", "len(v)"),
    "return [*FLAT['a'], *FLAT.get(x, [])]",
    "return [name for at, (name, low, _) in enumerate(RANGES) if at == low]",
    "first, *rest = [len(v) for v in FLAT.values()]\n    return first",
    "return [*NAMES] + list(NAMES.keys()) + list(RANGES[0][2])",
    "a, b = FLAT['a']\n    return a + b",
    "return ','.join(FLAT['a']) + ' {}'.format(NAMES[x]['te']) + '{ge}'.format(**NAMES[x]) + '%s' % NAMES[x]",
    "return {k: v['ge'] for k, v in NAMES.items() if v['te'] and k != x}",
    "names = dict(NAMES[x])\n    names['ge'] = y\n    names.update({'a': y})\n    del names['te']\n    return names['ge']",
    "names = NAMES[x].copy()\n    names['te'] = [y]\n    return names['te'][0]",
    "numbers = FLAT['a'].copy()\n    numbers.append(y)\n    return numbers",
    "return NAMES.get(x, NAMES['cisco'])['ge']",
    "return max(NAMES.values(), key=lambda v: v['ge'])['ge']",
    "return [name for name, names in sorted(NAMES.items(), key=lambda one: one[1]['ge'], reverse=True)]",
    "from json import dumps\n    return dumps(NAMES[x])",
    "numbers = {}\n    numbers.update(PLAIN.get(x, {}))\n    numbers['a'] = 3\n    return numbers",
    "numbers = dict(PLAIN[x])\n    numbers['a'] += 3\n    return numbers",
)
NOT_TABLES = (
    "names = dict(NAMES[x])\n    names['te'].append(y)",
    "names = dict(NAMES[x])\n    names['te'] += [y]",
    "names = dict(NAMES[x])\n    names.get('te').append(y)",
    "names = NAMES[x].copy()\n    names.pop('te').append(y)",
    "names = dict(NAMES[x])\n    return names",
    "names = dict(RANGES)\n    names['a'].append(y)",
    "names = dict(NAMES)\n    for one in names.values():\n        one['ge'] = y",
    "names = y\n    names.update(NAMES[x])",
    "numbers = y\n    numbers.update(PLAIN[x])",
    "numbers = {}\n    numbers = y\n    numbers.update(PLAIN[x])",
    "found = NAMES.get(x, NAMES['cisco'])\n    found['ge'] = y",
    "return y.get(x, NAMES['cisco'])",
    "found = max(NAMES.values(), key=lambda v: v['ge'])\n    found['ge'] = y",
    "return max(NAMES.values(), key=lambda v: v['te'].append(y) or 1)['ge']",
    "return max(NAMES.values(), key=lambda v, w=[]: w.append(v) or 1)['ge']",
    "return y.join(NAMES[x])",
    "return y.format(NAMES[x])",
    "return y % NAMES[x]",
    "return NAMES[x]",
    "return [NAMES[x]]",
    "return {'a': NAMES[x]}",
    "return {**NAMES}",
    "return [*RANGES]",
    "return list(RANGES)",
    "return dict(NAMES)",
    "return NAMES.copy()",
    "names = NAMES[x]\n    names['ge'] = y",
    "names = NAMES[x]\n    del names['ge']",
    "names = NAMES[x]\n    names |= {'a': 'b'}",
    "names = NAMES[x]\n    names['ge'] += y",
    "names = NAMES[x]['te']\n    names += [y]",
    "NAMES[x]['te'] = y",
    "NAMES[x]['te'][0] = y",
    "NAMES[x]['te'].append(y)",
    "NAMES[x].setdefault('te', y)",
    "NAMES.get(x).update(y)",
    "for names in NAMES.values():\n        names.clear()",
    "for name, low, numbers in RANGES:\n        numbers.append(1)",
    "for one in RANGES:\n        one[2].append(1)",
    "other = names = NAMES[x]\n    other.clear()",
    "names = NAMES[x]\n    other = names\n    other.clear()",
    "names = NAMES[x]\n    def inner():\n        names.clear()\n    inner()",
    "names = NAMES[x]\n    x.keep(names)",
    "return sorted(RANGES)",
    "return max(RANGES)",
    "return [numbers for _, _, numbers in RANGES]",
    "(names := NAMES[x]).clear()",
    "match NAMES[x]:\n        case names: names.clear()",
    "first, *rest = RANGES\n    rest[0][2].clear()",
    "return FLAT[x] if x else FLAT.get(y)",
)

IMPURE = {
    "clock": ("import time", "return time.time()"),
    "imported inside": ("", "import time\n    return time.time()"),
    "chance": ("import random", "return random.random()"),
    "print": ("", "print(x)\n    return x"),
    "identity": ("", "return id(x)"),
    "hash": ("", "return hash(x)"),
    "variables": ("import os", "return os.environ[x]"),
    "logging": ("import logging\nLOGGER = logging.getLogger(__name__)", "LOGGER.info(x)\n    return x"),
    "a dict of the module that is changed": ("KNOWN = {}", "KNOWN.setdefault(x, len(KNOWN))\n    return KNOWN[x]"),
    "a dict of the module that another function sets": ("KNOWN = {}\ndef g(): KNOWN[1] = 2", "return KNOWN.get(x)"),
    "a dict of the module that another function gets": ("KNOWN = {}\ndef g(): return KNOWN", "return KNOWN.get(x)"),
    "a dict of the module by another name": ("KNOWN = {}\nOTHER = KNOWN", "return KNOWN.get(x)"),
    "a dict of the module under a method's name": ("KNOWN = {}\nkeep = KNOWN.update", "return KNOWN.get(x)"),
    "a list of the module that a function gives back": ("KNOWN = [1]", "found = sum([], KNOWN)\n    found.append(x)\n    return found"),
    "the greater list of the module": ("A = [1]\nB = [2]", "found = max(A, B)\n    found.append(x)\n    return found"),
    "a dict by a text": ("KNOWN = {}\ndef g(x): globals()['KNOWN'][x] = 1", "return KNOWN.get(x)"),
    "a dict of dicts": ("KNOWN = {1: {}}", "known = KNOWN[1]\n    known[x] = 1\n    return len(known)"),
    "a dict that is deleted from": ("KNOWN = {1: 2}", "del KNOWN[x]\n    return 1"),
    "a class that is made": ("from inmanta.execute.util import Unknown", "return Unknown(x).source"),
    "a class that is asked": ("from inmanta.execute.proxy import DynamicProxy", "return DynamicProxy.unwrap(x)"),
    "a library's variables": ("import os", "return os.path.expanduser(x)"),
    "a module of a module as a value": ("import os", "y = os.path\n    return y.join(x)"),
    "the folder": ("import os.path", "return os.path.abspath(x)"),
    "a function within that is decorated": ("import functools", "@functools.lru_cache\n    def g(): return x\n    return g()"),
    "an exception with a memory": ("class Own(Exception):\n    def __init__(self, x): KNOWN.append(x)\nKNOWN = []", "raise Own(x)"),
    "a match by a property": ("class Own:\n    @property\n    def n(self): return open(self.m)", "match x:\n        case Own(n=1): return 1"),
    "a list of the module": ("KNOWN = []", "KNOWN.append(x)\n    return len(KNOWN)"),
    "global": ("N = 0", "global N\n    N += 1\n    return N"),
    "a name that another function sets": ("N = 0\ndef other():\n    global N\n    N = 1", "return N"),
    "a name that is set twice": ("N = 0\nN = 1", "return N"),
    "a package whose name is set in between": ("import os\nos = print\nimport os.path", "return os.path.basename(x)"),
    "a package whose name another one has at once": ("import os, json as os", "return os.dumps(x)"),
    "a package whose name another one has": ("import os\nimport json as os", "return os.dumps(x)"),
    "a name that is set from outside": ("N = 0\nimport sys\nsys.modules[__name__].N = 2", "return N"),
    "a name that is set by a text": ("N = 0\nimport sys\ndef g(): setattr(sys.modules[__name__], 'N', 2)", "return N"),
    "a kept function attribute": ("def other(): return 1\nother.kept = {}", "return other.kept"),
    "an impure function": ("import time\ndef other(): return time.time()", "return other()"),
    "each calls the other": ("import time\ndef other(x): f(x); return time.time()", "return other(x)"),
    "another decorator": ("import functools", "return x"),
    "a default that can change": ("", "return x"),
    "an attribute that is set": ("", "x.name = 1\n    return x"),
    "a hidden attribute": ("", "return x.__class__"),
    "code that another file gives it": ("def other(): f.__code__ = other.__code__", "return x"),
    "a plugin whose call is another": ("def other(): f.__plugin__.call = other", "return x"),
    "a hidden attribute by its name": ("", "return getattr(x, '_get_instance')()"),
    "an attribute by a name that is made": ("", "return getattr(x, '_' + x.name)"),
    "a function that reads any attribute": ("", "return list(map(getattr, [x], ['_get_instance']))"),
    "a module as a value": ("import re", "y = re\n    return y.sub('a', 'b', x)"),
    "something else of a module": ("import re", "re.purge()\n    return x"),
    "a class": ("class Kept: n = 0", "y = Kept\n    return x"),
    "a context that is set": ("", "with x as x.y: return 1"),
    "a context of another library": ("import tempfile", "with tempfile.TemporaryFile() as y: return 1"),
    "a generator that ends whenever": ("def g(x):\n    try: yield x\n    finally: x.append(1)", "return next(g(x))"),
    "a generator within that ends whenever": (
        "from contextlib import contextmanager\n@contextmanager\ndef g(x):\n    def h():\n        try: yield 1\n        finally: x.append(1)\n    yield next(h())",
        "with g(x) as y: return y",
    ),
    "a context manager that does more": (
        "from contextlib import contextmanager\n@contextmanager\ndef g(x):\n    print(x)\n    yield x",
        "with g(x) as y: return y",
    ),
    "another decorator by this name": (
        "def contextmanager(f): return open\n@contextmanager\ndef g(x): yield x",
        "with g(x) as y: return y",
    ),
    "a class of exceptions that is given": ("", "try: return 1 // x\n    except x.kind: return 1"),
    "a class of exceptions that looks": ("class Own(Exception):\n    def __init__(self): print(1)", "try: return x\n    except Own: return 1"),
    "the text of what is caught": ("", "try: return x.name\n    except Exception as e: return str(e)"),
    "the text of what is caught of an optional value": (
        "from inmanta.ast import OptionalValueException",
        "try: return x.name\n    except OptionalValueException as e: return str(e)",
    ),
    "the text of what is caught and raised": ("", "try: return x.name\n    except Exception as e: raise ValueError(str(e))"),
    "the text that another function reads": (
        "from inmanta.plugins import PluginException\ndef g(x):\n    try: return x.name\n    except Exception as e: raise PluginException(str(e))",
        "try: return g(x)\n    except PluginException as e: return e.message",
    ),
    "the text of what is caught for people": (
        "import logging\nLOGGER = logging.getLogger(__name__)",
        "try: return x.name\n    except Exception: LOGGER.debug('a', exc_info=True)",
    ),
    "what is printed into a text that may be none": ("import io", "out = io.StringIO() if x else None\n    print(x, file=out)"),
    "what is printed into what is given": ("import io", "print(x, file=x)"),
    "what is printed into an attribute of what is given": ("import io", "print(x, file=x.out)"),
    "what is printed with more": ("import io", "out = io.StringIO()\n    print(x, file=out, **x)"),
    "what is printed after another value": ("import io", "out = io.StringIO()\n    if x: out = None\n    print(x, file=out)"),
    "print as a value": ("import io", "out = io.StringIO()\n    print(x, file=out)\n    return list(map(print, x))"),
    "print by another name": ("import io", "show = print\n    show(x)"),
    "the library's own memory": ("import functools\n@functools.lru_cache\ndef other(x): return x", "return other(x)"),
    "a constant of a class that is set": ("class Own: n = 1\ndef g(): Own.n = 2", "return Own.n"),
    "a list of a class": ("class Own: n = []", "return Own.n"),
    "a property of a class": ("class Meta(type):\n    n = property(id)\nclass Own(metaclass=Meta): n = 1", "return Own.n"),
    "an Unknown that is asked": ("from inmanta.execute.util import Unknown", "return str(Unknown(x))"),
    "code": ("", "return eval(x)"),
}
# Functions that read files or variables of the environment, and what one of them, or another function of the project, may do with them.
READING_HEAD = """
import csv, json, os, pathlib
from os import environ, getenv
from pathlib import Path, PurePath
HERE = Path(__file__).parent
FOLDER = os.path.dirname(__file__)
def load(name):
    with open(os.path.join(FOLDER, name)) as file: return json.load(file)
"""
READING = (
    "return open(x).read()",
    "with open(os.path.join(FOLDER, x), 'r', encoding='utf-8') as file: return [*csv.reader(file)]",
    "with open(x, mode='rb') as file: return 1",
    "return load(x)['a'] + len(list(map(load, [x])))",
    "return (HERE / 'a' / x).read_text(encoding='utf-8') + Path(__file__).name",
    "with (HERE / x).open() as file: return json.load(file)",
    "with pathlib.Path(x).with_suffix('.json').open('rb') as file: return json.load(file)",
    "from pathlib import Path as P\n    return P(x).read_bytes().hex()",
    "return PurePath(x).name + x.replace('a', 'b') + str(x.port) + f'{x.group}'",
    "try: return open(x).read()\n    except FileNotFoundError: return ''",
    "return os.environ.get('REGION', 'eu') + os.environ['A'] + os.getenv('B')",
    "return environ.get('REGION') if 'REGION' in environ else getenv('A', x)",
    "import os\n    return os.environ.get('REGION', x)",
)
NOT_READING = (
    "open(x, 'w').write('a')",
    "return open(x, x).read()",
    "return open(x, mode=x).read()",
    "return open(x, opener=x).read()",
    "return open(*x).read()",
    "return open(x, **x).read()",
    "return list(map(open, [x]))",
    "y = open\n    return y(x)",
    "return Path(x).cwd()",
    "return list(map(Path.exists, [x]))",
    "return HERE.exists()",
    "return HERE.owner()",
    "y = HERE.owner\n    return y()",
    "return (HERE / x).replace(x)",
    "return (HERE / x).open('w')",
    "return (HERE / x).open(x)",
    "return (HERE / x).write_text('a')",
    "return sorted(HERE.iterdir())",
    "return HERE.resolve()",
    "return getattr(HERE, 'stat')()",
    "return open(x).fileno()",
    "return os.environ[x]",
    "return os.environ.get(x, 1)",
    "return os.getenv(x)",
    "return os.environ['HOME'] + os.environ['SHLVL']",
    "return os.environ.get('inmanta_instance_id')",
    "return dict(os.environ)",
    "return os.environ",
    "return environ",
    "return list(map(os.getenv, [x]))",
    "return 'STEWARD_SCRATCH' in os.environ",
)
# What another function may do, after which these are not understood.
NOT_READING_ANY_MORE = {
    "def g(x): return x.exists()": "return HERE.read_text() + Path(x).read_text()",
    "def g(x): return x.group()": "return HERE.read_text()",
    "def g(x, name): return getattr(x, name)": "return HERE.read_text()",
    "def g(x): return x.fileno()": "return open(x).read()",
    "def g(x): return x.detach()": "return open(x).read()",
    "open = print": "return open(x)",
    "os.environ['A'] = 'b'": "return os.environ['B']",
    "def g(x): os.environ.update(x)": "return os.environ['B']",
    "def g(x): os.environ.pop('A', None)": "return os.getenv('B')",
    "def g(x): del environ[x]": "return environ.get('B')",
    "def g(x): os.putenv('A', x)": "return environ.get('B')",
    "variables = os.environ": "return os.environ['B']",
    "def g(x): x(os.environ)": "return os.environ['B']",
    "def g(): return getattr(os, 'environ')": "return os.environ['B']",
    "from os import environ as variables": "return os.environ['B']",
    "class Own:\n    def shown(self): return open(self.a).read()": "return Own().shown()",
    "from functools import cache\n@cache\ndef kept(a: str): return open(a).read().strip()": "return kept(x)",
    "from functools import cache\n@cache\ndef kept(a: str): return str(load(a))": "return kept(x)",
    "from functools import cache\n@cache\ndef kept(a: str): return str(HERE)": "return kept(x)",
    "from functools import cache\n@cache\ndef kept(a: str): return Path(a).read_text().strip()": "return kept(x)",
}
# Functions that import when they run, and others.
IMPORTING = (
    "from ipaddress import ip_address\n    return str(ip_address(x) + 1)",
    "import uuid\n    return str(uuid.uuid5(uuid.NAMESPACE_DNS, x))",
    "import os.path\n    return os.path.join('a', x)",
    "import os.path as p\n    return p.join('a', x)",
    "from collections.abc import Mapping\n    return isinstance(x, Mapping)",
    "import hashlib, json as j\n    def g(y): return hashlib.md5(j.dumps(y).encode()).hexdigest()\n    return g(x)",
    "if x:\n        from re import sub\n        return sub('a', 'b', x)\n    return x",
)
NOT_IMPORTING = (
    "import random\n    return random.random()",
    "from os import listdir\n    return listdir(x)",
    "from re import nothing\n    return x",
    "import subprocess\n    return x",
    "import re\n    re = x\n    return re.sub('a', 'b')",
    "from . import other\n    return x",
    "if x:\n        from re import sub\n    else:\n        from shlex import quote as sub\n    return sub(x)",
    "import re\n    def g(re): return re.sub('a', 'b')\n    return g(x)",
    "import re\n    y = re\n    return y.sub('a', 'b', x)",
    "import json\n    json.dumps = x\n    return x",
    "def g():\n        import this_module_is_nowhere\n    return x",
    "import re\n    def g(x):\n        global re\n        return x\n    return g(x)",
    "def g():\n        import re\n    return re.sub('a', 'b', x)",
    "from inmanta.execute.util import Unknown\n    return Unknown(x)",
)
HEADS = {"another decorator": "@functools.lru_cache\ndef f(x):", "a default that can change": "def f(x, y=[]):"}

# Functions that catch what says that an attribute has no value, and that let it through.
CATCHING_HEAD = """
import contextlib, ipaddress
from contextlib import contextmanager, suppress
from inmanta.ast import OptionalValueException
from inmanta.plugins import PluginException
class Own(PluginException): pass
class Quiet:
    def __enter__(self): return self
    def __exit__(self, *more): return True
class Counted:
    n = 0
    def __enter__(self):
        self.n += 1
        return self
    def __exit__(self, *more):
        self.n -= 1
@contextmanager
def section(lines, name):
    lines.append(name)
    try:
        yield lines
    finally:
        lines.append("end " + name)
def lost(x):
    try: return x.name
    except Exception: return None
"""
CATCHING = (
    "try: return x.name\n    except Exception: return 1",
    "try: return x.name\n    except: return 1",
    "try: return x.name\n    finally: return 1",
    "try: return x.name\n    except Exception as e:\n        if x: return 1\n        raise",
    "for y in x:\n        try: return x.name\n        except Exception:\n            continue",
    "try: return x.name\n    except Exception as e: raise PluginException(str(e)) from e",
    "try: return x.name\n    except Exception as e: raise Own(f'{x}: {e}')",
    "try: return sorted(x, key=len)\n    except Exception: return []",
    "try: return [y for y in x]\n    except Exception: return []",
    "with suppress(Exception): return x.name",
    "with contextlib.suppress(KeyError, Exception): return x.name",
    "with Quiet(): return x.name",
    "lines = []\n    with section(lines, 'a') as out: out.append(x.name)\n    return lines",
    "return lost(x)",
    "return list(map(lost, x))",
    "return [(lambda y: lost(y))(y) for y in x]",
)
NOT_CATCHING = (
    "try: return x.name\n    except OptionalValueException: return None",
    "try: return x.name\n    except (KeyError, OptionalValueException): return None",
    "with contextlib.suppress(KeyError, OptionalValueException): return x.name",
    "try: return x.name\n    except ValueError: return 1",
    "try: return x.name\n    except (KeyError, ipaddress.AddressValueError, Own) as e: return str(e)",
    "try: return x.name\n    except Exception: raise",
    "try: return int(x)\n    except Exception as e: return str(e)",
    "try: return str(ipaddress.ip_network(x + '/24'))\n    except Exception: return None",
    "with suppress(KeyError): return x['a']",
    "with Counted() as c: return c.n + x.n",
    "with contextlib.nullcontext(x) as y: return y.name",
)


# What a function may do with a table of its module, and after what somebody may have changed it.
TABLE_HEAD = """
import operator, random, socket, struct, typing, unicodedata, zlib
from typing import cast
BASE = {"kind": "port"}
NAMES = ["a", "b"]
"""
READ_TABLES = (
    "return {**BASE, 'name': x}",
    "return BASE | {'name': x}",
    "return {'name': x} | BASE",
    "return dict(**BASE, name=x)",
    "return NAMES + [x]",
    "return [*NAMES, x] * 2",
    "return dict(zip(NAMES, BASE))",
    "return x if not NAMES else ', '.join(NAMES)",
    "return cast('str', x).upper() + typing.cast('str', NAMES[0])",
    "return struct.unpack('!I', socket.inet_aton(x))[0] + zlib.crc32(unicodedata.normalize('NFKD', x).encode())",
)
CHANGED_TABLES = (
    "return BASE or {}",
    "return NAMES if x else []",
    "y = BASE\n    y['name'] = x\n    return y",
    "return x.join(NAMES)",
    "return operator.setitem(BASE, 'name', x)",
    "return cast('dict', BASE)",
    "return [BASE] + [x]",
    "return {'more': BASE}",
    "return socket.gethostbyname(x)",
    "return random.choice(NAMES)",
)


# Functions that read attributes whose names are texts: `x` and `names` are given to them, and `name`, which need not be given.
SPOKEN_HEAD = """
import functools, operator
from functools import reduce
from operator import attrgetter
FIELDS = ("name", "kind")
LABELS = {"Name": "name", "Kind": "kind"}
HIDDEN = ("name", "_kind")
def slug(x): return x.lower()
"""
SPOKEN = (
    "return getattr(x, name)",
    "return getattr(x, name, None) if hasattr(x, name) else name.upper()",
    "return [getattr(x, field) for field in FIELDS]",
    "return {label: str(getattr(x, field)) for label, field in LABELS.items()}",
    "return {name: slug(name) + getattr(x, name) for name in names}",
    "return [getattr(y, n) for y in x.many for n in sorted(set(names))]",
    "for at, n in enumerate(names):\n        x = getattr(x, n)\n    return x",
    "for part in name.split('.'):\n        x = getattr(x, part)\n    return x",
    "return reduce(getattr, name.split('.'), x)",
    "return functools.reduce(getattr, names, x)",
    "parts = name.split('/')\n    return getattr(x, parts[0]) if len(parts) > 1 else None",
    "return [getattr(x, n) for n in more]",
    "n = 'kind' if names else 'name'\n    return getattr(x, n)",
    "return getattr(x, names['field'])",
    "return getattr(x, LABELS['Name'])",
    "return [getattr(x, n) for n in ['a', 'b']]",
    "return sorted(x.many, key=attrgetter('name', 'site.kind'))",
    "return sorted(x.many, key=operator.attrgetter('name'))",
    "def inner():\n        return getattr(x, name)\n    return inner()",
)
NOT_SPOKEN = (
    "return getattr(x, name)",
    "return getattr(x, '_' + names)",
    "return getattr(x, f'_{names}')",
    "return getattr(x, names[1:])",
    "return getattr(x, names.lower())",
    "return getattr(x, x.name)",
    "return [getattr(x, n) for n in x.names]",
    "return [getattr(x, n) for n in HIDDEN]",
    "return [getattr(x, n) for n in ['a', '_b']]",
    "n = 'a'\n    n += names\n    return getattr(x, n)",
    "n = 'a'\n    n = '_b'\n    return getattr(x, n)",
    "for part in names.split('x'):\n        x = getattr(x, part)\n    return x",
    "for part in names.split(x):\n        x = getattr(x, part)\n    return x",
    "parts = names.split('.')\n    parts.append('_' + x.name)\n    return [getattr(x, part) for part in parts]",
    "parts = names.split('.')\n    others = parts\n    others.append(x.name)\n    return [getattr(x, part) for part in parts]",
    "parts = ['a']\n    slug(parts)\n    return [getattr(x, part) for part in parts]",
    "parts = [['a']]\n    parts[0].append(x.name)\n    return [getattr(x, n) for part in parts for n in part]",
    "parts = ['a']\n    parts[0] = x.name\n    return getattr(x, parts[0])",
    "return [getattr(x, n) for n in rest]",
    "a, b = 'a', x.name\n    a = b\n    b = a\n    return getattr(x, a)",
    "for n in names.split('.'):\n        y = n[1:]\n        x = getattr(x, y)\n    return x",
    "return getattr(slug, names)",
    "return getattr(functools, names)",
    "return getattr(LABELS, names)",
    "return (lambda n: getattr(x, n))(x.name)",
    "def inner(n):\n        return getattr(x, n)\n    return inner(x.name)",
    "match x:\n        case [n]: return getattr(x, n)",
    "sorted = x.other\n    return [getattr(x, n) for n in sorted(names)]",
    "getattr = x.other\n    return getattr(x, names)",
    "return reduce(getattr, x.names, x)",
    "return reduce(x.function, [getattr], x)",
    "return list(map(getattr, [x], names))",
    "return attrgetter(names)(x)",
    "return operator.attrgetter('_name')(x)",
    "return operator.attrgetter('site.__class__')(x)",
    "return list(map(attrgetter, names))",
    "get = operator.attrgetter\n    return get(names)(x)",
)


# What functions do with more of Python's library, and what shows them, or their project, more than what is noted.
LIBRARY_HEAD = """
import bisect, collections, collections.abc, copy, csv, datetime, decimal, enum, functools, heapq, io, json, operator, os, tomllib, yaml
import xml.dom.minidom
import xml.etree.ElementTree as ET
from copy import deepcopy
from datetime import date, datetime as moment
from typing import Generic, NamedTuple, TypeVar
from inmanta.plugins import PluginException
T = TypeVar('T')
DASHES = str.maketrans({" ": "_", "/": "-"})
BASE = {"kind": {"name": "port"}, "tags": ["a"]}
FLAT = {"kind": "port"}
EPOCH = date(1970, 1, 1)
PRICE = decimal.Decimal("0.1")
NUMBERS = [1]
def shown(text, x): return text + x.name
"""
OF_LIBRARY = (
    "return x.strip().translate(DASHES)",
    "return x.translate(str.maketrans('ab', 'cd'))",
    "out = {}\n    for y in x.many:\n        out.setdefault(y.kind, {})[y.name] = y.port\n    return out",
    "out = {}\n    out.setdefault(x, {}).setdefault('a', {})['b'] = 1\n    out.get(x)['c'] += 1\n    return out",
    "out = copy.deepcopy(BASE)\n    out['kind']['name'] = x\n    return out",
    "out = deepcopy(BASE['kind'])\n    out['name'] = x\n    return out",
    "out = copy.copy(FLAT)\n    out['name'] = x\n    return out",
    "out = json.loads(json.dumps(BASE))\n    out['tags'].append(x)\n    return out",
    "return json.dumps(BASE, indent=2, sort_keys=True) + json.dumps(FLAT)",
    "return type(x).__name__",
    "return 'list' if type(x) in (list, tuple) else 'dict' if type(x) is dict else type(x.y).__name__",
    "return isinstance(x, (collections.abc.Mapping, list))",
    "return [*map(functools.partial(shown, 'a'), x)] + heapq.nsmallest(2, x) + [bisect.bisect([1, 2], x.number)]",
    "return sorted(x, key=functools.cmp_to_key(lambda a, b: operator.or_(a.number, b.number)))",
    "return datetime.datetime.strptime(x, '%Y-%m-%d').strftime('%d/%m/%Y')",
    "return moment.strptime(x, '%Y').isoformat() + moment(2020, 1, 1).isoformat()",
    "return (datetime.date.fromisoformat(x) - datetime.date(1970, 1, 1)).days",
    "return float(decimal.Decimal(x).quantize(decimal.Decimal('0.01'), rounding=decimal.ROUND_UP))",
    "root = ET.Element('a', {'b': x})\n    root.text = x\n    ET.SubElement(root, 'c').text = x\n    ET.indent(root)\n    return ET.tostring(root).decode()",
    "return xml.dom.minidom.parseString(x).toprettyxml()",
    "one, two = Pair(x, 1), Point(a=x, b=2)\n    return one.a + str(one._replace(b=3)) + two.shown() + str(two._asdict())",
    "return Open(x).shown() if Open(x) == Open('a') else [Open(y).name for y in x]",
    "found = Open(x)\n    found.names.append(x)\n    return found.names",
    "return x.__class__.__name__ + str(callable(x))",
    "return yaml.load(x, Loader=yaml.SafeLoader)['a'] + yaml.dump({'a': x}, Dumper=yaml.SafeDumper)",
    "out = io.StringIO()\n    csv.writer(out, quoting=csv.QUOTE_ALL).writerow([x])\n    return out.getvalue()",
    "return (Perm.R | Perm.W).value",
    "return Stripped(' a ').name",
    "return Boxed(x).item",
    "try:\n        raise Coded(1, x)\n    except Coded as e:\n        return e.code",
    "def inner():\n        try:\n            while True: yield next(it)\n        except StopIteration: pass\n    it = iter(x)\n    return list(inner())",
)
NOT_OF_LIBRARY = (
    "return yaml.load(x, Loader=yaml.UnsafeLoader)",
    "return yaml.SafeLoader.DEFAULT_TAGS",
    "known = yaml.SafeLoader\n    return known.DEFAULT_TAGS",
    "return x.load(x, Loader=yaml.SafeLoader)",
    "csv.register_dialect(x)",
    "return x.__class__",
    "return x.__class__.__mro__",
    "return x.__name__",
    "return Loud(x).name",
    "raise Unheard(x)",
    "return x.keep(DASHES)",
    "return x.translate(DASHES, DASHES)",
    "BASE.setdefault(x, {})['a'] = 1",
    "BASE.get(x)['a'] = 1",
    "BASE.get(x).setdefault('a', {})['a'] = 1",
    "out = {}\n    out.setdefault('a', BASE)['b'] = x\n    return out",
    "out = {}\n    out.setdefault('a', BASE['kind'])['b'] = x\n    return out",
    "x.get('a').b = 1",
    "out = copy.copy(BASE)\n    out['kind']['name'] = x\n    return out",
    "copy = x\n    return copy.deepcopy(BASE)",
    "return json.dumps(BASE, default=x.keep)",
    "return json.dumps(FLAT, cls=x.keep)",
    "json = x\n    return json.dumps(BASE)",
    "return type(x)",
    "return type(x)(1)",
    "return type(x).__mro__",
    "return type(x).mro()",
    "return type('A', (), {})",
    "return type('A', (), {}) == x",
    "kind = type\n    return kind(x)",
    "return type(*x).__name__",
    "type = x\n    return type(x).__name__",
    "return collections.abc.Mapping.register(x)",
    "return datetime.datetime.now().isoformat()",
    "return datetime.date.today().isoformat()",
    "return date.today().isoformat()",
    "return moment.fromtimestamp(x).isoformat()",
    "today = moment.now\n    return today()",
    "return date(2020, 1, 1).today()",
    "return moment(2020, 1, 1).timestamp()",
    "return moment(2020, 1, 1).astimezone().isoformat()",
    "return decimal.getcontext().prec",
    "decimal.getcontext().prec = 3\n    return decimal.Decimal(x)",
    "ET.register_namespace('a', x)\n    return ET.tostring(ET.Element(x))",
    "x.text = 1",
    "root = x\n    root.text = 1",
    "root = ET.Element('a')\n    root = x\n    root.text = 1",
    "for root in x:\n        root.text = 1",
    "root = ET.Element('a')\n    for root in x:\n        root.text = 1",
    "root = ET.Element('a')\n    def inner(root):\n        root.text = 1\n    inner(x)",
    "root = ET.Element('a')\n    root.tag = x",
    "root = ET.Element('a')\n    root.text, x.text = 'a', 'b'",
    "root = ET.Element('a')\n    root.text = x.text = 'b'",
    "return ET.parse(x)",
    "return ET.dump(x)",
    "found = Open(x)\n    found.name = 1\n    return found",
    "return Unequal(x)",
    "return hash(Pair(x, 1))",
    "return Noisy(x, 1).shown()",
    "return x._fields_set",
    "return functools.partial(getattr, x)(x.name)",
    "return functools.partial(open, x)()",
    "heapq.heappush(NUMBERS, x.number)\n    return len(NUMBERS)",
    "bisect.insort(NUMBERS, x.number)\n    return len(NUMBERS)",
    "return functools.partial(NUMBERS.append, 1)()",
)
# What some file of the project may do, after which less is known.
CHANGING = {
    "def g(x): yaml.SafeLoader.add_constructor('a', x)": "return yaml.load(x, Loader=yaml.SafeLoader)",
    "def g(x): csv.register_dialect('a', x)": "return list(csv.reader(x))",
    "def g(x): return x.today()": "return date(2020, 1, 1).isoformat()",
    "def g(date): return date.today()": "return date(2020, 1, 1).isoformat()",
    "def g(x, name): return getattr(x, name)()": "return date(2020, 1, 1).isoformat()",
    "def g(x): return getattr(x, 'today')()": "return date(2020, 1, 1).isoformat()",
    "from operator import attrgetter\ng = attrgetter('a.today')": "return date(2020, 1, 1).isoformat()",
    "from functools import reduce\ndef g(x): return reduce(getattr, x, x)": "return date(2020, 1, 1).isoformat()",
    "def g(x): return x.today() # read": "return tomllib.loads(x)['a']",
    "def g(): decimal.getcontext().prec = 3": "return str(decimal.Decimal(x))",
    "def g(): decimal.setcontext(1)": "return str(decimal.Decimal(x))",
    "def g(x): decimal.setcontext(x)": "return str(PRICE * 2)",
    "from decimal import localcontext": "return str(decimal.Decimal(x))",
    "def g(x): ET.register_namespace('a', x)": "return ET.tostring(ET.Element(x))",
    "class Other:\n    def translate(self, table): table['a'] = 1": "return x.translate(FLAT)",
    "def g(x): x.translate = print": "return x.translate(FLAT)",
    "translate = print": "return x.translate(FLAT)",
    "def deepcopy(x): return x": "return len(deepcopy(FLAT))",
    "def g(): Open.__init__ = print": "return Open(x).name",
    "def g(): Pair.__new__ = print": "return Pair(x, 1).a",
    "def g(): collections.abc.Mapping.register(dict)": "return isinstance(x, collections.abc.Mapping)",
}
LIBRARY_TAIL = """
from dataclasses import dataclass, field
Pair = collections.namedtuple("Pair", "a b")
class Point(NamedTuple):
    a: str
    b: int = 1
    def shown(self): return f"{self.a}{self.b}"
class Noisy(NamedTuple):
    a: str
    b: int = 1
    def shown(self): return open(self.a).read()
@dataclass
class Open:
    name: str
    names: list = field(default_factory=list)
    def shown(self): return self.name
@dataclass(frozen=True, eq=False)
class Unequal:
    name: str
class Perm(enum.IntFlag):
    R = 4
    W = 2
@dataclass
class Stripped:
    name: str
    def __post_init__(self): self.name = self.name.strip()
@dataclass
class Loud:
    name: str
    def __post_init__(self): os.environ["NAME"] = self.name
class Boxed(Generic[T]):
    def __init__(self, item: T): self.item: T = item
class Coded(PluginException):
    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code
class Unheard(Exception):
    def __init__(self, text): os.environ["TEXT"] = text
"""


# Classes whose objects a function makes for itself: functions `f` that use them, and bodies of the class after which they do more.
OWN_HEAD = """
import os
class Document:
    \"""Lines.\"""
    kind = "text"
    size: int

    def __init__(self, name, *, level=1):
        self.name = name
        self.level: int = level
        self._lines = []
        self.counts = {}

    def add(self, line):
        self._lines.append(line)
        self.counts[line] = self.counts.get(line, 0) + 1
        self.level += 1
        return self

    @property
    def last(self):
        return self._lines[-1]

    @staticmethod
    def shown(line):
        return line.upper()

    @classmethod
    def of(cls, item):
        return cls(item.name)

    def __str__(self):
        return self._header() + ", ".join(self._lines)

    def _header(self):
        return self.kind + Document.kind

class Longer(Document):
    def __init__(self, name):
        super().__init__(name, level=2)
        self.more = None

    def add(self, line):
        self.more = line
        return super().add(line)
"""
OWN_OBJECTS = (
    "doc = Document(x.name)\n    for line in x.lines:\n        doc.add(line)\n    return str(doc) + doc.last",
    "return str(Longer(x).add('a').add('b'))",
    "return isinstance(x, Document)",
    "return Document.shown(x) + Document.kind",
    "return Document(x).of(x).name",
)
NOT_OWN_OBJECTS = (
    "Document(x).level = 1",
    "doc = Document(x)\n    doc.level = 1",
    "return Document(x)._lines",
    "return Document",
    "return list(map(Document, x))",
    "return Document.add(x, 1)",
    "return Document.add(Document, 1)",
    "make = Document\n    return make(x)",
    "return add(x, 1)",
    "return super().name",
    "Document.kind = x",
)
# Statements of a class after which its objects are more than what a function makes of them.
NOT_OWN = (
    "lines = []\n    def add(self): self.lines.append(1)",
    "lines = []\n    def all(self): return self.lines",
    "lines = []\n    others = lines",
    "lines = []\n    def all(self): return getattr(self, 'lines')",
    "lines = []\n    def all(self, name): return getattr(self, name)",
    "lines = []\n    def all(self): return {**self.more(self.lines)}",
    "lines = [os]",
    "lines = [[]]",
    "__slots__ = ('__dict__', 'a')",
    "__slots__ = tuple('a')",
    "def __exit__(self, *more): os.remove('x')",
    "@abstractmethod\n    def keep(self): return os.getpid()",
    "@contextmanager\n    def keep(self):\n        yield os.getpid()",
    "def keep(self): print(self.a)",
    "def keep(self): print(self.a, file=self.a)",
    "lines = os",
    "def now(self): return os.getpid()",
    "def keep(self): self.__class__.n = 1",
    "def keep(self): type(self).n = 1",
    "def keep(self, other): other.n = 1",
    "def keep(self, other):\n        self = other\n        self.n = 1",
    "def keep(self, other):\n        for self in other: self.n = 1",
    "def keep(self, others):\n        def inner(self): self.n = 1\n        return [inner(o) for o in others]",
    "def keep(self, others): return [(lambda self: self._a)(o) for o in others]",
    "def keep(self): del self.n",
    "def keep(self): self.__dict__['n'] = 1",
    "def keep(self): self.__n = 1",
    "@staticmethod\n    def keep(other): other.n = 1",
    "@classmethod\n    def keep(cls): cls.n = 1",
    "@property\n    def n(self): return os.getpid()",
    "@os.register\n    def keep(self): return 1",
    "def __setattr__(self, name, value): os.environ[name] = value",
    "def __getattr__(self, name): return os.environ[name]",
    "def __new__(cls): return os",
    "def __del__(self): os.remove('x')",
    "def __init_subclass__(cls): os.remove('x')",
    "def keep(self, n=[]): n.append(1)",
    "def keep(self): super().__setattr__('a', 1)",
    "def keep(self): return super(Own, self).a",
    "def keep(self): return super()",
    "keep = lambda self: os.getpid()",
    "for n in range(3): pass",
)
# Others after which they are not.
OWN_PARTS = (
    "__slots__ = ('a',)",
    "__slots__ = 'a'",
    "lines = []",
    "lines = {'a': 1}\n    def get(self): return self.lines[self.a] + Own.lines.get(self.a, 2)",
    "lines: 'ClassVar[dict]' = {'a': 1}\n    def get(self): return [*self.lines] if self.a in self.lines else len(self.lines)",
    "def __enter__(self): return self\n    def __exit__(self, *more): self.a = None",
    "@abstractmethod\n    def keep(self): ...",
    "@contextmanager\n    def keep(self):\n        self._kept = 1\n        try:\n            yield self\n        finally:\n            self._kept = 0",
    "def keep(self):\n        self.out = io.StringIO()\n        print(self.a, file=self.out)\n        return self.out.getvalue()",
    "def keep(self):\n        with contextlib.closing(io.StringIO()) as out:\n            out.write(self.a)\n            return out.getvalue()",
)

# Functions whose results Python keeps, and those whose results somebody may change, or mistake for others.
KEPT = (
    "@functools.lru_cache(maxsize=None)\ndef kept(a: str) -> str: return str(ip_network(a).netmask)",
    "@functools.cache\ndef kept(a: 'string'): return ip_network(a)",
    "@cache\ndef kept(a: str): return a.lower() if a else None",
    "@lru_cache\ndef kept(a: str):\n    if a == 'x': return 1\n    return f'{a}', '%s' % a + 'b', len(a), ','.join(a)",
)
NOT_KEPT = (
    "@cache\ndef kept(a: str): return [a]",
    "@cache\ndef kept(a: str): return a.split()",
    "@cache\ndef kept(a: str):\n    b = [a]\n    return b",
    "@cache\ndef kept(a: str): return a",
    "@cache\ndef kept(a: int): return str(a)",
    "@cache\ndef kept(a): return str(a)",
    "@cache\ndef kept(a: str, *more): return str(a)",
    "@cache\ndef kept(a: str): return open(a).read()",
    "@cache\ndef kept(a: str): return a.lower()\nclass Other:\n    def lower(self): return []",
    "@cache\ndef kept(a: str, str: str): return str(a)",
    "@cache\ndef kept(a: str): yield a.lower()",
    "@cache\ndef kept(a: str): return (lambda: [a])()",
    "@print_it\n@cache\ndef kept(a: str): return a.lower()",
    "@cache\ndef kept(a: str): return a.lower()\ndef g(): kept.__wrapped__ = print",
    "@lru_cache(maxsize=len(os.listdir()))\ndef kept(a: str): return a.lower()",
)

# Dicts of functions, and what is done with these.
DISPATCH_HEAD = """
import os
def upper(x): return x.upper()
def lower(x): return x.lower()
def noisy(x): os.environ["x"] = x
def kept(x): return x
kept.memory = {}
def looks(x):
    try: return x.name
    except Exception: return 1
CALLS = {"upper": upper, "lower": lower, "shout": lambda x: x.upper() + "!"}
NOISY = {"upper": upper, "noisy": noisy}
CARRYING = {"upper": upper, "kept": kept}
LOOKING = {"upper": upper, "looks": looks}
"""
DISPATCHING = (
    "return CALLS[x](y)",
    "return CALLS.get(x)(y) if x in CALLS else sorted(CALLS)",
    "call = CALLS.get(x)\n    if call is None:\n        raise ValueError(', '.join(sorted(CALLS)))\n    return call(y)",
    "call = CALLS[x]\n    return [call(one) for one in y]",
    "return LOOKING[x](y)",
)
NOT_DISPATCHING = (
    "return NOISY[x](y)",
    "return CARRYING[x](y)",
    "return CALLS[x]",
    "return CALLS[x].name",
    "return CALLS.get(x, y)(y)",
    "call = CALLS[x]\n    return call.memory",
    "call = CALLS[x]\n    return [call]",
    "call = CALLS[x]\n    other = call\n    return other.memory",
    "for call in CALLS.values(): call.memory",
    "return [call for call in CALLS.values()]",
    "return {**CALLS}",
    "CALLS[x] = y",
    "return list(map(CALLS.get, x))",
)

# Dicts in which a plugin keeps what it gave.
OWN_CACHE = """
from inmanta.plugins import plugin
KEPT: dict[str, str] = {}
@plugin
def f(x: "string", y: str = "a") -> "string":
    BODY
"""
OWN_CACHES = (
    "if (x, y) not in KEPT:\n        KEPT[x, y] = x + y\n    return KEPT[(x, y)]",
    "if (x, y) not in KEPT:\n        made = x\n        KEPT[(x, y)] = made + y\n    return KEPT[(x, y)]",
    "if (x, y) in KEPT:\n        return KEPT[x, y]\n    made = x + y\n    KEPT[x, y] = made\n    return made",
    "if (x, y) in KEPT: return KEPT[x, y]\n    KEPT[x, y] = x + y\n    return KEPT[x, y]",
    "made = KEPT.get((x, y))\n    if made is None:\n        made = KEPT[x, y] = x + y\n    return made",
    "made = KEPT.get((x, y))\n    if made is None:\n        made = x + y\n        KEPT[x, y] = made\n    return made",
)
NOT_OWN_CACHES = (
    "if x not in KEPT:\n        KEPT[x] = x + y\n    return KEPT[x]",
    "if (x, y) not in KEPT:\n        KEPT[x, y] = x + y\n        return 1\n    return KEPT[x, y]",
    "if (x, y) not in KEPT:\n        KEPT[x, y] = x + y\n    else:\n        x = y\n    return KEPT[x, y]",
    "if (x, y) not in KEPT:\n        KEPT[x, y] = x + y\n    return KEPT[y, x]",
    "if (x, y) not in KEPT:\n        KEPT[x, y] = x + y\n    return len(KEPT)",
    "if (x, y) not in KEPT:\n        KEPT[x, y] = len(KEPT)\n    return KEPT[x, y]",
    "if (x, y) in KEPT: return KEPT[x, y]\n    made = x + y\n    KEPT[x, y] = made + x\n    return made",
    "if (x, y) in KEPT: return 1\n    KEPT[x, y] = x + y\n    return KEPT[x, y]",
    "x = y\n    if (x, y) not in KEPT:\n        KEPT[x, y] = x + y\n    return KEPT[x, y]",
    "if (x, y) not in KEPT:\n        x = y\n        KEPT[x, y] = x + y\n    return KEPT[x, y]",
    "made = KEPT.get((x, y))\n    if made is None:\n        made = KEPT[x, y] = x + y\n    return KEPT",
    "made = KEPT.get((x, y))\n    if made is not None:\n        made = KEPT[x, y] = x + y\n    return made",
    "KEPT[x, y] = x\n    return KEPT.get((x, y))",
)

# Values of a module that nobody changes.
CONSTANT_HEAD = """
import datetime, os, string, enum
from collections import namedtuple
from dataclasses import dataclass
from typing import Any, Dict
class Kind(enum.Enum):
    A = "a"
    B = "b"
    @property
    def metric(self): return METRICS[self]
@dataclass(frozen=True)
class Rule:
    name: str
    kind: Kind = Kind.A
@dataclass
class Open:
    name: str
Pair = namedtuple("Pair", "a b")
METRICS = {Kind.A: 1, Kind.B: 2}
RULES = [Rule("a"), Rule("b", Kind.B)]
NESTED = {"x": {"rule": Rule("a"), "pair": Pair(1, 2)}}
FIRST = Rule("a")
PAIR = Pair("a", (1, 2))
LINE = string.Template("$a")
EPOCH = datetime.date(1970, 1, 1)
OPEN = Open("a")
OPENS = {"a": Open("a")}
SHARED = Rule([])
LISTS = Pair([], 1)
"""
CONSTANTS = (
    "return Kind(x).metric + METRICS.get(Kind.A, 0)",
    "return next((rule.kind.value for rule in RULES if rule.name == x), None)",
    "return NESTED[x]['rule'].name + NESTED[x]['pair'].b",
    "return FIRST.name + FIRST.kind.name + PAIR.a + str(PAIR[1])",
    "return LINE.substitute(a=x)",
    "return (datetime.date.fromisoformat(x) - EPOCH).days",
    "def walk(node: Dict[str, Any], depth: int = 1) -> Dict[str, Any]:\n        return node\n    return walk(x)",
)
NOT_CONSTANTS = (
    "return OPEN.name",
    "return OPENS[x].name",
    "return SHARED.name",
    "return LISTS.a",
    "return EPOCH.today()",
    "return FIRST._name",
    "return Dict",
    "return Dict[str, x]()",
    "return Any",
    "def walk(node: os.environ) -> Any:\n        return Any\n    return walk(x)",
)


class Judging(unittest.TestCase):
    def module(self, text: str, *others: str | None) -> tuple[ModuleType, Purity]:
        with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
            file.write(text)
        self.addCleanup(os.unlink, file.name)
        spec = importlib.util.spec_from_file_location("judged", file.name)
        assert spec is not None and spec.loader is not None
        import sys

        module = sys.modules["judged"] = importlib.util.module_from_spec(spec)
        self.addCleanup(sys.modules.pop, "judged", None)
        spec.loader.exec_module(module)
        return module, Purity([file.name, *filter(None, others)])

    def test_plain_code_only_computes(self) -> None:
        module, purity = self.module(textwrap.dedent(PURE))
        for name in ("slug", "nested", "networks", "calls_others", "counts", "with_attribute", "looks_up", "within", "matches", "asks"):
            with self.subTest(name):
                self.assertTrue(purity.is_pure(getattr(module, name)))

    def test_whatever_touches_anything_else_does_more(self) -> None:
        for reason, (before, body) in IMPURE.items():
            with self.subTest(reason):
                head = HEADS.get(reason, "def f(x):")
                module, purity = self.module(f"{before}\n{head}\n    {body}\n")
                self.assertFalse(purity.is_pure(module.f))
                self.assertFalse(purity.is_pure(module.f), "also when it is asked again")

    def test_files_and_variables_are_read(self) -> None:
        for bodies, is_pure in ((READING, True), (NOT_READING, False)):
            for body in bodies:
                with self.subTest(body):
                    module, purity = self.module(f"{READING_HEAD}\ndef f(x):\n    {body}\n")
                    self.assertIs(purity.is_pure(module.f), is_pure)
        for more, body in NOT_READING_ANY_MORE.items():
            with self.subTest(more):
                module, purity = self.module(f"{READING_HEAD}\n{more}\ndef f(x):\n    {body}\n")
                self.assertFalse(purity.is_pure(module.f))

    def test_what_a_function_imports_is_known(self) -> None:
        for bodies, is_pure in ((IMPORTING, True), (NOT_IMPORTING, False)):
            for body in bodies:
                with self.subTest(body):
                    module, purity = self.module(f"def f(x):\n    {body}\n")
                    self.assertIs(purity.is_pure(module.f), is_pure)

    def test_what_may_go_on_without_a_value_is_known(self) -> None:
        for bodies, is_catching in ((CATCHING, True), (NOT_CATCHING, False)):
            for body in bodies:
                with self.subTest(body):
                    module, purity = self.module(f"{CATCHING_HEAD}\ndef f(x):\n    {body}\ndef g(x): return f(x)\n")
                    for function in (module.f, module.g):
                        self.assertTrue(purity.is_pure(function))
                        self.assertIs(purity.catches(function), is_catching)

    def test_a_name_that_may_stand_for_more_catches(self) -> None:
        body = "def f(x):\n    try: return x.name\n    except ValueError: return 1\n"
        for head, is_catching in {
            "": False,
            "from inmanta.ast import *": True,
            "ValueError = Exception": True,
            "from builtins import Exception as ValueError": True,
            "class ValueError(Exception): pass": False,
        }.items():
            with self.subTest(head):
                module, purity = self.module(f"{head}\n{body}")
                self.assertIs(purity.catches(module.f), is_catching)

    def test_methods_and_properties_catch_wherever_they_run(self) -> None:
        for part in ("@property\n    def shown(self): return lost(self.item)", "def __str__(self): return lost(self.item)"):
            with self.subTest(part):
                own = f"from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Own:\n    item: str\n    {part}\n"
                module, purity = self.module(f"{CATCHING_HEAD}{own}def f(x, name): return getattr(x, name) + str(x)\n")
                self.assertTrue(purity.catches(module.f))

    def test_tables_are_read_in_expressions(self) -> None:
        for bodies, is_pure in ((READ_TABLES, True), (CHANGED_TABLES, False)):
            for body in bodies:
                with self.subTest(body):
                    module, purity = self.module(f"{TABLE_HEAD}\ndef f(x):\n    {body}\n")
                    self.assertEqual(purity.is_pure(module.f), is_pure)

    def test_tables_in_tables_are_followed(self) -> None:
        for body in TABLES:
            with self.subTest(body):
                module, purity = self.module(f"{TABLES_HEAD}\ndef f(x, y):\n    {body}\n")
                self.assertTrue(purity.is_pure(module.f))
        for body in NOT_TABLES:
            with self.subTest(body):
                module, purity = self.module(f"{TABLES_HEAD}\ndef f(x, y):\n    {body}\ndef g(x): return len(NAMES[x]) + len(RANGES[x]) + len(FLAT) + len(PLAIN[x])\n")
                self.assertFalse(purity.is_pure(module.f))
                self.assertFalse(purity.is_pure(module.g))

    def test_what_a_plugin_returns_of_a_table_is_copied(self) -> None:
        from unittest import mock

        text = f"from inmanta.plugins import plugin\n{TABLES_HEAD}\n@plugin\ndef f(x: str) -> list:\n    return FLAT[x]\n"
        other, _ = self.module("def g(m): m.f('a').clear()\n")
        reads, _ = self.module("def g(m): m.FLAT['a'].clear()\n")
        with mock.patch("inmanta.plugins.plugin", lambda function: function):
            for more, expected in (("", True), ("def g(x): f(x).clear()", False), ("def g(m): m.f('a').clear()", False), ("h = f", False)):
                with self.subTest(more):
                    module, purity = self.module(f"{text}{more}\n")
                    self.assertIs(purity.is_pure(module.f), expected)
            for returned in ("{**FLAT, 'c': [1]}", "[FLAT[x], *RANGES]", "FLAT[x] or [FLAT]", "FLAT if x else (1, {'a': NAMES})"):
                with self.subTest(returned):
                    module, purity = self.module(text.replace("return FLAT[x]", f"return {returned}"))
                    self.assertTrue(purity.is_pure(module.f))
            for returned in ("list(RANGES)", "{**FLAT}.pop(x)", "dict(**FLAT)", "[[FLAT[x]][0].pop()]", "(lambda: FLAT)()"):
                with self.subTest(returned):
                    module, purity = self.module(text.replace("return FLAT[x]", f"return {returned}"))
                    self.assertFalse(purity.is_pure(module.f))
            for file in (other.__file__, reads.__file__):
                module, purity = self.module(text, file)
                self.assertFalse(purity.is_pure(module.f))
            module, purity = self.module(text.replace("import plugin", "import plugin as p").replace("@plugin", "@p"))
            self.assertFalse(purity.is_pure(module.f))

    def test_more_of_what_modules_do_only_computes(self) -> None:
        head = (
            "import ipaddress, uuid\nfrom inmanta.plugins import PluginException\nfrom inmanta.execute.util import Unknown\n"
            "PRIVATE = ipaddress.ip_network('10.0.0.0/8')\nSPACE = uuid.UUID('6ba7b810-9dad-11d1-80b4-00c04fd430c8')\n"
            "class Names:\n    PREFIX = 'net'\nclass Wrong(PluginException): pass\n"
        )
        for body in (
            "try:\n        return str(ipaddress.ip_address(x))\n    except Exception as error:\n        raise PluginException('no')",
            "return ipaddress.ip_address(x) in PRIVATE",
            "return str(uuid.uuid5(SPACE, x))",
            "return Names.PREFIX + x",
            "try:\n        return int(x)\n    except Exception as error:\n        text = str(error)\n        raise PluginException(text) from error",
            "try:\n        return int(x)\n    except:\n        raise Wrong('x')",
            "try:\n        return int(x)\n    except Exception:\n        raise",
            "if isinstance(x, Unknown):\n        return Unknown(source=None)\n    return x",
            "return Unknown() if x else [Unknown(x)]",
            "out = {'a': {'b': {}}}\n    out['a']['b'][x] = 1\n    return out",
        ):
            with self.subTest(body):
                module, purity = self.module(f"{head}def f(x):\n    {body}\n")
                self.assertTrue(purity.is_pure(module.f))

    def test_more_of_the_library_only_computes(self) -> None:
        for bodies, is_pure in ((OF_LIBRARY, True), (NOT_OF_LIBRARY, False)):
            for body in bodies:
                with self.subTest(body):
                    module, purity = self.module(f"{LIBRARY_HEAD}\n{LIBRARY_TAIL}\ndef f(x):\n    {body}\n")
                    self.assertIs(purity.is_pure(module.f), is_pure)

    def test_what_a_project_does_with_the_library_counts_for_all(self) -> None:
        for more, body in CHANGING.items():
            text = f"{LIBRARY_HEAD}\n{LIBRARY_TAIL}\ndef f(x):\n    {body}\n"
            with self.subTest(more=more, body=body):
                module, purity = self.module(f"{text}{more}\n")
                self.assertFalse(purity.is_pure(module.f))
                module, purity = self.module(text)
                self.assertTrue(purity.is_pure(module.f))
        # What only writes texts shows no date.
        text = f"{LIBRARY_HEAD}\n{LIBRARY_TAIL}\ndef f(x): return yaml.safe_dump([x]) + yaml.dump(x, Dumper=yaml.SafeDumper)\n"
        for more in ("def g(x, name): return getattr(x, name)()", "def g(x): return x.today()"):
            module, purity = self.module(f"{text}{more}\n")
            self.assertTrue(purity.is_pure(module.f))
        # Who asks the clock itself is seen.
        text = f"{LIBRARY_HEAD}\ndef f(x): return date(2020, 1, 1).isoformat()\ndef g(x): return date.today(), datetime.datetime.now(), moment.now()\n"
        module, purity = self.module(text)
        self.assertTrue(purity.is_pure(module.f))
        self.assertFalse(purity.is_pure(module.g))

    def test_objects_that_a_function_makes_for_itself_may_change(self) -> None:
        tail = "\ndef uses(x): return str(Longer(x))\nadd = Document.add\n"
        for bodies, is_pure in ((OWN_OBJECTS, True), (NOT_OWN_OBJECTS, False)):
            for body in bodies:
                with self.subTest(body):
                    module, purity = self.module(f"{OWN_HEAD}\n{tail}def f(x):\n    {body}\n")
                    for _ in range(2):
                        self.assertIs(purity.is_pure(module.f), is_pure)
                    if is_pure:
                        self.assertTrue(purity.is_pure(module.uses))

    def test_classes_whose_objects_are_more_are_not_used(self) -> None:
        own = "class Own:\n    def __init__(self, a):\n        self.a = a\n\n    {}\n\ndef f(x): return Own(x).a\n"
        module, purity = self.module(f"import os\n{own.format('pass')}")
        self.assertTrue(purity.is_pure(module.f))
        head = "import contextlib, io, os\nfrom abc import ABC, abstractmethod\nfrom contextlib import contextmanager\ndef register(f): return f\n"
        for parts, is_known in ((NOT_OWN, False), (OWN_PARTS, True)):
            for part in parts:
                with self.subTest(part):
                    text = own.replace("{}", part).replace("os.register", "register")
                    module, purity = self.module(f"{head}{text}")
                    self.assertIs(purity.is_pure(module.f), is_known)
        module, purity = self.module(f"{head}{own.format('pass').replace('class Own:', 'class Own(ABC):')}")
        self.assertTrue(purity.is_pure(module.f))
        for head in ("class Own(dict):", "class Own(Other):", "@register\nclass Own:", "class Own(metaclass=Meta):"):
            with self.subTest(head):
                more = "class Other:\n    kept = [os]\nclass Meta(type): pass\ndef register(c): return c\n"
                module, purity = self.module(f"import os\n{more}{own.format('pass').replace('class Own:', head)}")
                self.assertFalse(purity.is_pure(module.f))
        for more in ("Own = Own", "def g(): Own.a = 1\ndef h(): Own.__init__ = g", "def g(): global Own"):
            with self.subTest(more):
                module, purity = self.module(f"import os\n{own.format('pass')}{more}\n")
                self.assertFalse(purity.is_pure(module.f))

    def test_results_that_nobody_can_change_may_be_kept(self) -> None:
        head = "import functools, os\nfrom functools import cache, lru_cache\nfrom ipaddress import ip_network\ndef print_it(f): return f\n"
        for texts, is_pure in ((KEPT, True), (NOT_KEPT, False)):
            for text in texts:
                with self.subTest(text):
                    module, purity = self.module(f"{head}{text}\ndef f(x): return kept(x)\n")
                    self.assertIs(purity.is_pure(module.f), is_pure)

    def test_functions_are_taken_from_tables_to_be_called(self) -> None:
        for bodies, is_pure in ((DISPATCHING, True), (NOT_DISPATCHING, False)):
            for body in bodies:
                with self.subTest(body):
                    module, purity = self.module(f"{DISPATCH_HEAD}\ndef f(x, y):\n    {body}\n")
                    self.assertIs(purity.is_pure(module.f), is_pure)
                    if is_pure:
                        self.assertIs(purity.catches(module.f), "LOOKING" in body)
        for more in ("CALLS['noisy'] = noisy", "def g(): CALLS.update(a=noisy)", "def g(): return CALLS", "upper.more = 1"):
            with self.subTest(more):
                module, purity = self.module(f"{DISPATCH_HEAD}\ndef f(x, y): return CALLS[x](y)\n{more}\n")
                self.assertFalse(purity.is_pure(module.f))

    def test_a_plugin_may_keep_what_it_gave(self) -> None:
        from unittest import mock

        patched = mock.patch("inmanta.plugins.plugin", lambda function: function)
        patched.start()
        self.addCleanup(patched.stop)
        for bodies, is_pure in ((OWN_CACHES, True), (NOT_OWN_CACHES, False)):
            for body in bodies:
                with self.subTest(body):
                    module, purity = self.module(OWN_CACHE.replace("BODY", body))
                    self.assertIs(purity.is_pure(module.f), is_pure)
        text = OWN_CACHE.replace("BODY", OWN_CACHES[0])
        for changed in (
            text + "def g(x): return f(x)\n",
            text + "def g(): return KEPT\n",
            text + "KEPT['a'] = 'b'\n",
            text + "import sys\ndef g(): return getattr(sys.modules[__name__], 'KEPT')\n",
            text + "def g(): return globals()\n",
            text.replace("= {}", "= {('a', 'b'): 'c'}"),
            text.replace("= {}", "= dict(a=1)"),
            text.replace('x: "string"', "x: 'int'"),
            text.replace('x: "string"', "x"),
            text.replace('y: str = "a"', "*y: str"),
            text.replace("@plugin\n", ""),
        ):
            with self.subTest(changed):
                module, purity = self.module(changed)
                self.assertFalse(purity.is_pure(module.f))

    def test_values_that_nobody_can_change_are_read(self) -> None:
        for bodies, is_pure in ((CONSTANTS, True), (NOT_CONSTANTS, False)):
            for body in bodies:
                with self.subTest(body):
                    module, purity = self.module(f"{CONSTANT_HEAD}\ndef f(x):\n    {body}\n")
                    self.assertIs(purity.is_pure(module.f), is_pure)

    def test_objects_that_can_be_changed_are_not_kept(self) -> None:
        module, purity = self.module(f"{LIBRARY_HEAD}\n{LIBRARY_TAIL}\n")
        for name in ("Pair", "Point", "Open", "Unequal", "Noisy"):
            with self.subTest(name):
                self.assertFalse(purity.is_plain(getattr(module, name)))

    def test_what_a_logger_says_for_people_is_noted(self) -> None:
        head = "import logging\nLOGGER = logging.getLogger('judged')\n"
        root = logging.getLogger()
        before = root.handlers[:]
        self.addCleanup(lambda: root.handlers.__setitem__(slice(None), before))
        computing.listener = logging.NullHandler()
        self.addCleanup(setattr, computing, "listener", None)
        root.handlers[:] = [computing.listener]  # type: ignore[list-item]
        body = "if not x:\n        LOGGER.warning('no %s', x)\n    LOGGER.info('got')\n    return x"
        for more, expected in (
            ("", True),
            ("LOGGER.propagate = False", False),
            ("def g(): LOGGER.disabled = True", False),
            ("def g(): LOGGER.addHandler(print)", False),
            ("def g(): logging.disable()", False),
            ("def g(): logging.getLogger().handlers.clear()", True),
            ("LOGGER.info = print", False),
        ):
            with self.subTest(more):
                module, purity = self.module(f"{head}{more}\ndef f(x):\n    {body}\n")
                self.assertIs(purity.is_pure(module.f), expected)
                vars(module.LOGGER).pop("info", None)
                module.LOGGER.propagate, module.LOGGER.disabled = True, False
        root.handlers.append(logging.NullHandler())
        module, purity = self.module(f"{head}\ndef f(x):\n    {body}\n")
        self.assertFalse(purity.is_pure(module.f), "somebody else hears it, too")

    def test_what_is_no_function_of_the_files_does_more(self) -> None:
        module, _ = self.module(PURE)
        self.assertFalse(Purity([]).is_pure(module.slug))
        self.assertFalse(Purity([]).is_pure(len))
        self.assertFalse(Purity([module.__file__ or ""]).is_pure(lambda x: x))

    def test_getters_only_compute_without_the_exporter(self) -> None:
        text = """
class Port:
    prefix = "p"
    own: list = []
    map = {"kind": lambda _, port: port.kind}

    @staticmethod
    def get_label(exporter, port):
        return f"{port.device}/{port.number}"

    @classmethod
    def get_place(cls, _, port):
        return port.site.name

    @staticmethod
    def get_file(exporter, port):
        return exporter.upload_file(port.name)

    @classmethod
    def get_own(cls, _, port):
        return cls.own + port.name

    @staticmethod
    def get_table(exporter, port):
        return TABLE["a"][port.name]

    @classmethod
    def get_prefix(cls, _, port):
        return cls.prefix + Port.prefix + port.name

    @staticmethod
    def get_all(exporter, port):
        return [getattr(e, "name") for e in (port, exporter)]

    @staticmethod
    def get_columns(exporter, port):
        return [getattr(port, column) for column in COLUMNS] + [Port.joined(port)]

    @classmethod
    def get_joined(cls, _, port):
        return cls.joined(port)

    @classmethod
    def get_kept(cls, _, port):
        return cls.kept(port)

    @classmethod
    def get_class(cls, _, port):
        return cls.joined(cls)

    @staticmethod
    def get_given(exporter, port):
        return named(port, port.name)

    @staticmethod
    def joined(port):
        return "/".join(port.names)

    @staticmethod
    def kept(port):
        return KEPT.append(port.name)

KEPT = []
TABLE = {"a": {"b": "c"}}
COLUMNS = ("name", "kind")

def named(port, name):
    return getattr(port, name)
"""
        module, purity = self.module(text)
        port = module.Port
        for getter in (port.get_label, port.get_place, port.map["kind"], port.get_columns, port.get_table, port.get_prefix, port.get_joined):
            with self.subTest(getter=getter):
                self.assertTrue(purity.is_pure_getter(getter))
        for getter in (port.get_file, port.get_own, port.get_all, port.get_kept, port.get_class, port.get_given, None, "name", len):
            with self.subTest(getter=getter):
                self.assertFalse(purity.is_pure_getter(getter))

    def test_what_a_logger_says_for_debugging_is_heard_by_nobody(self) -> None:
        head = "import logging\nLOGGER = logging.getLogger('judged')\n"
        for more, body, expected in (
            ("", "LOGGER.debug('got %s', x)", True),
            ("", "LOGGER.debug(f'{x.name}', exc_info=True)", True),
            ("", "LOGGER.info('got %s', x)", False),
            ("", "LOGGER.warning('got %s', x)", False),
            ("", "say = LOGGER.debug\n    say(x)", False),
            ("", "return LOGGER", False),
            ("", "LOGGER.debug(print(x))", False),
            ("", "logging.debug('got')", False),
            ("LOGGER.setLevel(10)", "LOGGER.debug('got %s', x)", False),
            ("LOGGER.addFilter(print)", "LOGGER.debug('got %s', x)", False),
            ("LOGGER.level = 10", "LOGGER.debug('got %s', x)", False),
            ("def g(): logging.basicConfig(level=10)", "LOGGER.debug('got %s', x)", False),
            ("from logging import basicConfig", "LOGGER.debug('got %s', x)", False),
            ("LOGGER.debug = print", "LOGGER.debug('got %s', x)", False),
        ):
            with self.subTest(more=more, body=body):
                module, purity = self.module(f"{head}{more}\ndef f(x):\n    {body}\n    return x\n")
                self.assertIs(purity.is_pure(module.f), expected)
                vars(module.LOGGER).pop("debug", None)
                module.LOGGER.setLevel(0)
                module.LOGGER.filters.clear()
        logging.getLogger("judged").setLevel(logging.DEBUG)
        self.addCleanup(logging.getLogger("judged").setLevel, logging.NOTSET)
        module, purity = self.module(f"{head}\ndef f(x):\n    LOGGER.debug(x)\n")
        self.assertFalse(purity.is_pure(module.f), "somebody else listens")

    def test_functions_in_one_line_are_told_apart(self) -> None:
        text = "import time\nf, g, h = lambda x: x.name, lambda x: time.time(), lambda x: sorted(x, key=lambda y: y.name)\n"
        module, purity = self.module(text)
        self.assertTrue(purity.is_pure(module.f))
        self.assertFalse(purity.is_pure(module.g))
        self.assertTrue(purity.is_pure(module.h))
        module, purity = self.module("import time\nf = lambda x: [lambda y: time.time(), x][1]\ng = f(1)\n")
        self.assertFalse(purity.is_pure(module.f))

    def test_attributes_may_have_names_that_are_given(self) -> None:
        for text in SPOKEN:
            with self.subTest(text):
                module, purity = self.module(f"{SPOKEN_HEAD}\ndef f(x, names, name='a', *more, **rest):\n    {text}\n")
                self.assertTrue(purity.is_pure(module.f))
        for text in NOT_SPOKEN:
            with self.subTest(text):
                module, purity = self.module(f"{SPOKEN_HEAD}\ndef f(x, names, name='_a', *more, **rest):\n    {text}\n")
                self.assertFalse(purity.is_pure(module.f))

    def test_who_asks_for_any_attribute_is_not_called_by_others(self) -> None:
        text = """
def any_of(x, name): return getattr(x, name)
def f(x): return any_of(x, x.name)
def g(x): return any_of(x, "name")
def calls_itself(x, name, n): return getattr(x, name) if n else calls_itself(x, "_" + name, 1)
def calls_back(x, name): return through(x) + getattr(x, name)
def through(x): return calls_back(x, x.name)
def fixed(x, kind): return [getattr(x, name) for name in ("a", "b") if name != kind]
def h(x): return fixed(x, x.name)
"""
        module, purity = self.module(text)
        for name, expected in {"any_of": True, "f": False, "g": False, "calls_itself": False, "calls_back": False, "through": False,
                               "fixed": True, "h": True}.items():  # fmt: skip
            with self.subTest(name):
                self.assertIs(purity.is_pure(getattr(module, name)), expected)

    def test_words_that_begin_with_an_underscore_are_hidden_names(self) -> None:
        for shown in ("", "a_b", "a.b_c", "a__b_", ["a", ("b",), 1], {"a": "b"}, (7, "_entity", {"_a": "_b"}), b"_", None, 1.5):
            with self.subTest(shown):
                self.assertFalse(has_hidden_name(shown))
        for hidden in ("_", "_a", "a._b", "a-__b", "a b _c", ["a", ["_b"]], (["a", "_b"],), {"_a": 1}, ({"a": ([" _b"],)},)):
            with self.subTest(hidden):
                self.assertTrue(has_hidden_name(hidden))

    def test_what_another_file_of_the_project_has_is_known_too(self) -> None:
        import sys

        other, _ = self.module("import time\nLIMIT = 3\ndef slug(x): return x.lower()\ndef now(x): return time.time()\n")
        sys.modules["other"] = other
        self.addCleanup(sys.modules.pop, "other", None)
        text = "import other\ndef f(x): return other.slug(x) + str(other.LIMIT)\ndef g(x): return other.now(x)\n"
        module, purity = self.module(text, other.__file__)
        self.assertTrue(purity.is_pure(module.f))
        self.assertFalse(purity.is_pure(module.g))
        module, purity = self.module(text)
        self.assertFalse(purity.is_pure(module.f), "the other file is none of the project's")

    def test_a_table_that_another_file_may_change_is_none(self) -> None:
        other, _ = self.module("from judged import KNOWN\n" if False else "def f(m): m.KNOWN['a'] = 1\n")
        text = "KNOWN = {'a': 2}\ndef f(x): return KNOWN[x]\n"
        module, purity = self.module(text, other.__file__)
        self.assertFalse(purity.is_pure(module.f))
        module, purity = self.module(text)
        self.assertTrue(purity.is_pure(module.f))

    def test_dataclasses_and_enumerations_of_the_project_are_plain(self) -> None:
        text = """
import dataclasses, os
from dataclasses import dataclass, field
from enum import Enum, StrEnum

class Kind(Enum):
    A = "a"
    B = "b"

class Text(StrEnum):
    C = "c"

    @classmethod
    def of(cls, given):
        return cls.C if given else cls("c")

    def __str__(self):
        return self.value.upper()

@dataclass(frozen=True, kw_only=True)
class Base:
    name: str
    kind: Kind = Kind.A.value
    tags: list[str] = field(default_factory=list)

@dataclasses.dataclass(frozen=True)
class Range(Base):
    \"""A range.\"""
    first: int

    @property
    def last(self) -> int:
        return self.first + 9

    def moved(self, by=1):
        return dataclasses.replace(self, first=self.first + by)

    @staticmethod
    def at(first):
        return Range(name=Text.C, first=first)

    @classmethod
    def parse(cls, text):
        name, first = text.split("/")
        return cls(name=name, first=int(first))

    def __str__(self):
        return f"{self.name}/{self.first}"

def makes(x):
    made = Range(name=Kind[x].value, first=3)
    return made.last, isinstance(made, Range), dataclasses.asdict(made.moved()), Kind.B.name, Kind(x)

def parses(x):
    return str(Range.parse(x)), Text.of(x).value, [kind.value for kind in Kind], f"{Range.parse(x)}"

@dataclass
class Open:
    name: str

@dataclass(frozen=True)
class Kept:
    name: str
    def save(self):
        os.environ["x"] = self.name

@dataclass(frozen=True)
class Reads:
    name: str
    @classmethod
    def read(cls): return cls(os.environ["x"])

@dataclass(frozen=True)
class Shown:
    name: str
    def __str__(self): return os.environ["x"]

@dataclass(frozen=True)
class Keeps:
    name: str
    @classmethod
    def read(cls):
        cls.newest = cls("x")
        return cls.newest

def reads(x): return Reads.read()
def shows(x): return str(Shown(x))
def keeps(x): return Keeps.read()

@dataclass(frozen=True)
class Own:
    name: str
    def __post_init__(self): os.environ["x"] = self.name

@dataclass(frozen=True)
class Child(Own):
    pass

class Loud(Enum):
    A = "a"
    @classmethod
    def _missing_(cls, value): os.environ["x"] = value

@dataclass(frozen=True)
class Sharing:
    names: list = field(default_factory=lambda: [os])

@dataclass(frozen=True)
class Patched:
    name: str
    def upper(self): return self.name.upper()

def patches(): Patched.upper = print

@dataclass(frozen=True)
class Caching:
    name: str
    known = {}
    def number(self): return self.known.setdefault(self.name, len(self.known))

@dataclass(frozen=True)
class Asking:
    name: str
    value = lambda self: os.environ[self.name]

def caches(x): return Caching(x).number()
def asks(x): return Asking(x).value()

class Plain:
    name = 1
"""
        module, purity = self.module(text)
        for name in ("Kind", "Text", "Base", "Range"):
            with self.subTest(name):
                self.assertTrue(purity.is_plain(getattr(module, name)))
        self.assertTrue(purity.is_pure(module.makes))
        self.assertTrue(purity.is_pure(module.parses))
        for name in ("reads", "shows", "keeps", "caches", "asks"):
            with self.subTest(name):
                self.assertFalse(purity.is_pure(getattr(module, name)))
        for name in ("Open", "Kept", "Reads", "Shown", "Keeps", "Own", "Child", "Loud", "Sharing", "Patched", "Plain", "Caching", "Asking", "os"):
            with self.subTest(name):
                self.assertFalse(purity.is_plain(getattr(module, name)))
        self.assertFalse(purity.is_plain(Exception))
        self.assertFalse(Purity([]).is_plain(module.Range))

    def test_what_was_taken_for_plain_on_the_way_to_a_refusal_is_looked_at_again(self) -> None:
        text = """
import os
from dataclasses import dataclass

@dataclass(frozen=True)
class First:
    name: str
    def second(self): return Second(self.name)
    def own(self): return os.environ[self.name]

@dataclass(frozen=True)
class Second:
    name: str
    def own(self): return First(self.name).own()

@dataclass(frozen=True)
class Third:
    name: str
    def own(self): return reads(self.name)

def reads(x): return Third(x), os.environ[x]
def uses(x): return Second(x).own()
def uses_third(x): return Third(x).own()
"""
        module, purity = self.module(text)
        self.assertFalse(purity.is_plain(module.First))
        self.assertFalse(purity.is_plain(module.Second))
        self.assertFalse(purity.is_pure(module.uses))
        self.assertFalse(purity.is_pure(module.reads))
        self.assertFalse(purity.is_plain(module.Third))
        self.assertFalse(purity.is_pure(module.uses_third))

    def test_a_verdict_is_found_once(self) -> None:
        computing = Computing()
        found: list[Purity] = []

        def find(purity: Purity) -> bool:
            found.append(purity)
            return len(found) == 2

        computing.judge("m::a", find)
        self.assertEqual((found, computing.noted), ([], {}), "nobody wants to know")
        computing.begin({"m::known": True, "m::other": False})
        for _ in range(2):
            for name in ("m::a", "m::b", "m::known", "m::other"):
                computing.judge(name, find)
            computing.forget("m::a")
        self.assertEqual(len(found), 2)
        self.assertEqual(computing.noted, {"m::b": True, "m::known": True})
