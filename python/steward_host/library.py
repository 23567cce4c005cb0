"""What of the standard library, and of `netaddr`, only computes: it gives the same for the same, and changes nothing but what it gives.

None of it looks at the clock, at files or at the network, and none of it calls back but with what it is given. Some of it has settings
that a program can change, or makes objects that have the clock: that holds as long as the project's files do nothing of this kind.
"""

from __future__ import annotations

import ast
import sys

from steward_host import reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# By module, its members, parted by spaces.
MEMBERS = {
    "re": "ASCII DOTALL I IGNORECASE M MULTILINE S VERBOSE X compile escape findall finditer fullmatch match search split sub subn",
    "ipaddress": "AddressValueError IPv4Address IPv4Interface IPv4Network IPv6Address IPv6Interface IPv6Network NetmaskValueError"
    " collapse_addresses ip_address ip_interface ip_network summarize_address_range",
    "math": "ceil comb copysign e exp fabs factorial floor fmod gcd hypot inf isclose isfinite isinf isnan isqrt lcm log log10"
    " log2 nan perm pi pow prod sqrt tau trunc",
    "io": "BytesIO StringIO",
    "itertools": "accumulate chain combinations compress count cycle dropwhile filterfalse groupby islice pairwise"
    " permutations product repeat starmap takewhile zip_longest",
    "functools": "cmp_to_key partial reduce",
    "fnmatch": "filter fnmatch fnmatchcase",
    "operator": "add and_ attrgetter contains eq floordiv ge getitem gt itemgetter le lt mod mul ne neg not_ or_ sub truediv xor",
    "string": "Template ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits octdigits punctuation",
    "textwrap": "dedent fill indent shorten wrap",
    "base64": "b16decode b16encode b32decode b32encode b64decode b64encode b85decode b85encode standard_b64decode"
    " standard_b64encode urlsafe_b64decode urlsafe_b64encode",
    "hashlib": "blake2b blake2s md5 new sha1 sha224 sha256 sha384 sha3_256 sha3_512 sha512",
    "collections": "ChainMap Counter OrderedDict abc defaultdict deque",
    "collections.abc": "Collection Container Hashable Iterable Mapping MutableMapping MutableSequence Sequence Set Sized",
    "contextlib": "closing nullcontext suppress",
    "copy": "copy deepcopy",
    "csv": "DictReader DictWriter QUOTE_ALL QUOTE_MINIMAL QUOTE_NONE QUOTE_NONNUMERIC reader writer",
    "dataclasses": "asdict astuple replace",
    "json": "JSONDecodeError dumps load loads",
    "os": "linesep path sep",
    "posixpath": "basename commonpath commonprefix dirname isabs join normpath sep split splitext",
    "urllib": "parse",
    "urllib.parse": "parse_qs parse_qsl quote quote_plus unquote unquote_plus urlencode urljoin urlparse urlsplit urlunparse urlunsplit",
    # Only with a seed (`seeded`).
    "random": "Random",
    "shlex": "join quote split",
    "uuid": "NAMESPACE_DNS NAMESPACE_OID NAMESPACE_URL NAMESPACE_X500 UUID uuid3 uuid5",
    "bisect": "bisect bisect_left bisect_right insort insort_left insort_right",
    "hmac": "HMAC compare_digest digest new",
    "heapq": "heapify heappop heappush merge nlargest nsmallest",
    "binascii": "a2b_hex b2a_hex crc32 hexlify unhexlify",
    "datetime": "MAXYEAR MINYEAR UTC date datetime time timedelta timezone",
    "decimal": "Decimal InvalidOperation ROUND_CEILING ROUND_DOWN ROUND_FLOOR ROUND_HALF_DOWN ROUND_HALF_EVEN ROUND_HALF_UP ROUND_UP",
    "difflib": "get_close_matches",
    "fractions": "Fraction",
    "html": "escape unescape",
    "pathlib": "Path PosixPath PurePath PurePosixPath PureWindowsPath",
    "socket": "AF_INET AF_INET6 inet_aton inet_ntoa inet_ntop inet_pton",
    "statistics": "mean median",
    "struct": "calcsize pack unpack",
    "tomllib": "TOMLDecodeError load loads",
    "typing": "cast",
    "unicodedata": "category combining normalize",
    "xml": "dom etree sax",
    "xml.dom": "minidom",
    "xml.dom.minidom": "parseString",
    "xml.etree": "ElementTree",
    "xml.etree.ElementTree": "Element ParseError QName SubElement fromstring indent tostring",
    "xml.sax": "saxutils",
    "xml.sax.saxutils": "escape quoteattr unescape",
    "yaml": "BaseLoader CSafeDumper CSafeLoader SafeDumper SafeLoader YAMLError dump dump_all load load_all safe_dump safe_dump_all safe_load safe_load_all",
    "zlib": "adler32 crc32",
    "netaddr": "AddrFormatError EUI IPAddress IPNetwork IPRange IPSet all_matching_cidrs cidr_exclude cidr_merge"
    " iprange_to_cidrs spanning_cidr valid_ipv4 valid_ipv6 valid_mac",
}

# Of the classes of dates, and of their objects: what has the clock, or the place of this machine.
CLOCKS = frozenset("astimezone fromtimestamp localtime now timestamp today utcfromtimestamp utcnow".split())
# By module, attributes that change the settings of all, or that show more than what an object was made of.
_CHANGED_BY = {
    "collections.abc": frozenset(("register",)),
    "csv": frozenset("field_size_limit register_dialect unregister_dialect".split()),
    "datetime": CLOCKS,
    "decimal": frozenset("BasicContext DefaultContext ExtendedContext getcontext localcontext setcontext".split()),
    "xml.etree.ElementTree": frozenset(("register_namespace",)),
    # Some of what these read becomes dates.
    "tomllib": CLOCKS,
    "yaml": CLOCKS.union(
        "add_constructor add_implicit_resolver add_multi_constructor add_multi_representer add_path_resolver add_representer"
        " ignore_aliases yaml_constructors yaml_implicit_resolvers yaml_multi_constructors yaml_multi_representers"
        " yaml_representers".split()
    ),
}
# What only writes what it is given has nothing of its own to show.
_WRITING = frozenset("CSafeDumper SafeDumper YAMLError dump dump_all safe_dump safe_dump_all".split())
# Classes by which `yaml` reads or writes.
_OF_YAML = ("BaseLoader", "CSafeDumper", "CSafeLoader", "SafeDumper", "SafeLoader")


def is_class_of_yaml(value: object) -> bool:
    """Whether it is a class by which `yaml` reads or writes."""
    yaml = sys.modules.get("yaml")
    return yaml is not None and any(getattr(yaml, name, None) is value for name in _OF_YAML)


def has(value: object) -> bool:
    """Whether a function or class is one of them."""
    return module_of(value) is not None


def module_of(value: object) -> str | None:
    """The name of the module of which a function or class is one of them."""
    for name, members in MEMBERS.items():
        module = sys.modules.get(name)
        if module is not None and any(getattr(module, member, None) is value for member in members.split()):
            return name
    return None


class Library:
    """What of it only computes in a project."""

    def __init__(self, trees: Iterable[ast.Module]) -> None:
        """`trees`: of all files of the project."""
        self._trees = [*trees]
        self._known: dict[str, bool] = {}

    def has(self, value: object) -> bool:
        """The same as `has`, as far as the project's files leave it as it is."""
        module = module_of(value)
        return module is not None and self.has_module(module, getattr(value, "__name__", None))

    def has_module(self, name: str, member: str | None = None) -> bool:
        """Whether a module is as it was, and what it gives, or a member of it, is not asked for more."""
        is_writing = name == "yaml" and member in _WRITING
        if name == "pathlib" and member is not None and member.startswith("Pure"):
            # Such a path leads to no file.
            return True
        key = f"{name} for writing" if is_writing else name
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._look_at(name, is_writing)
        return known

    def _look_at(self, name: str, is_writing: bool) -> bool:
        if name == "pathlib":
            return not reading.may_show_more(self._trees, of_paths=True)
        changing = _CHANGED_BY.get(name)
        if changing is None:
            return True
        if is_writing:
            changing = changing - CLOCKS
        if name == "decimal" and not _is_usual_context():
            return False
        # Who asks a class of dates itself is seen where it does.
        asked = {one for tree in self._trees for one in _asked(tree, changing >= CLOCKS)}
        return changing.isdisjoint(asked) and not ("*" in asked and changing >= CLOCKS)

    def changes(self, cls: object, attribute: str) -> bool:
        """Whether an attribute of a class shows more than what it was made of."""
        return attribute in _CHANGED_BY.get(module_of(cls) or "", ())


def _is_usual_context() -> bool:
    import decimal

    context = decimal.getcontext()
    return (context.prec, context.rounding, context.Emin, context.Emax, context.clamp) == (28, "ROUND_HALF_EVEN", -999999, 999999, 0)


def _asked(tree: ast.Module, with_dates: bool) -> Iterator[str]:
    """The names that a file asks of anything, or imports; `*`: some that are not written there."""
    own = names_of(tree, "datetime")[0] if with_dates else {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if not _is_one_of(node.value, own):
                yield node.attr
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.Call):
            yield from asked_by_text(node)


def asked_by_text(call: ast.Call) -> Iterator[str]:
    called = call.func.id if isinstance(call.func, ast.Name) else call.func.attr if isinstance(call.func, ast.Attribute) else ""
    names = call.args
    if called == "getattr":
        names = call.args[1:2] or call.args
    elif called == "reduce":
        names = [given for given in call.args[:1] if isinstance(given, ast.Name) and given.id == "getattr"]
    elif called not in ("attrgetter", "methodcaller"):
        return
    for name in names:
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield from name.value.split(".")
        else:
            yield "*"


def names_of(tree: ast.Module, *modules: str) -> list[dict[str, str]]:
    """The names that stand for modules of Python, or for something of them, and for nothing else in a file; each with what it is
    called in its module, which is nothing for the module itself."""
    imported: dict[str, dict[str, str]] = {module: {} for module in modules}
    others: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                module = alias.name if isinstance(node, ast.Import) else node.module if node.level == 0 else None
                name = alias.asname or alias.name
                is_other = any(name in names for of, names in imported.items() if of != module)
                if module in imported and not is_other:
                    imported[module][name] = "" if isinstance(node, ast.Import) else alias.name
                else:
                    others.add(name)
        else:
            others.update(_set_by(node))
    return [{name: called for name, called in names.items() if name not in others} for names in imported.values()]


def _set_by(node: ast.AST) -> Iterator[str]:
    """The names that a part of a file, which is no import, gives a value."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        if node.name is not None:
            yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest is not None:
        yield node.rest


def called_of(call: ast.Call, names: dict[str, str]) -> str | None:
    """What of a module a call calls, if `names` stand for the module and what it has."""
    if isinstance(call.func, ast.Name):
        return names.get(call.func.id) or None
    is_of_module = isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and names.get(call.func.value.id) == ""
    return call.func.attr if is_of_module else None  # type: ignore[attr-defined]  # it is an attribute


def _is_one_of(node: ast.expr, names: dict[str, str]) -> bool:
    """Whether it is one of the names, or an attribute of one."""
    named = node.value if isinstance(node, ast.Attribute) and node.attr in ("date", "datetime", "time") else node
    return isinstance(named, ast.Name) and named.id in names
