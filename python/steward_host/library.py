"""What of the standard library, and of `netaddr`, only computes: it gives the same for the same, and changes nothing but what it gives.

None of it looks at the clock, at files, at the network, or at settings that a program can change (as `decimal` has them), and none of
it calls back but with what it is given.
"""

from __future__ import annotations

import sys

# By module, its members, parted by spaces.
MEMBERS = {
    "re": "ASCII DOTALL I IGNORECASE M MULTILINE S VERBOSE X compile escape findall finditer fullmatch match search split sub subn",
    "ipaddress": "AddressValueError IPv4Address IPv4Interface IPv4Network IPv6Address IPv6Interface IPv6Network NetmaskValueError"
    " collapse_addresses ip_address ip_interface ip_network summarize_address_range",
    "math": "ceil comb copysign e exp fabs factorial floor fmod gcd hypot inf isclose isfinite isinf isnan isqrt lcm log log10"
    " log2 nan perm pi pow prod sqrt tau trunc",
    "itertools": "accumulate chain combinations compress count cycle dropwhile filterfalse groupby islice pairwise"
    " permutations product repeat starmap takewhile zip_longest",
    "functools": "reduce",
    "fnmatch": "filter fnmatch fnmatchcase",
    "operator": "add attrgetter contains eq ge getitem gt itemgetter le lt mul ne sub",
    "string": "Template ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits octdigits punctuation",
    "textwrap": "dedent fill indent shorten wrap",
    "base64": "b16decode b16encode b32decode b32encode b64decode b64encode b85decode b85encode standard_b64decode"
    " standard_b64encode urlsafe_b64decode urlsafe_b64encode",
    "hashlib": "blake2b blake2s md5 sha1 sha224 sha256 sha384 sha3_256 sha3_512 sha512",
    "collections": "Counter OrderedDict defaultdict deque",
    "dataclasses": "asdict astuple replace",
    "json": "JSONDecodeError dumps loads",
    "os": "path sep",
    "posixpath": "basename commonpath commonprefix dirname isabs join normpath sep split splitext",
    "urllib": "parse",
    "urllib.parse": "parse_qs parse_qsl quote quote_plus unquote unquote_plus urlencode urljoin urlparse urlsplit urlunparse urlunsplit",
    "shlex": "join quote split",
    "uuid": "NAMESPACE_DNS NAMESPACE_OID NAMESPACE_URL NAMESPACE_X500 UUID uuid3 uuid5",
    "binascii": "a2b_hex b2a_hex crc32 hexlify unhexlify",
    "datetime": "timedelta",
    "difflib": "get_close_matches",
    "fractions": "Fraction",
    "html": "escape unescape",
    "pathlib": "PurePath PurePosixPath PureWindowsPath",
    "socket": "AF_INET AF_INET6 inet_aton inet_ntoa inet_ntop inet_pton",
    "statistics": "mean median",
    "struct": "calcsize pack unpack",
    "typing": "cast",
    "unicodedata": "category combining normalize",
    "zlib": "adler32 crc32",
    "netaddr": "AddrFormatError EUI IPAddress IPNetwork IPRange IPSet all_matching_cidrs cidr_exclude cidr_merge"
    " iprange_to_cidrs spanning_cidr valid_ipv4 valid_ipv6 valid_mac",
}


def has(value: object) -> bool:
    """Whether a function or class is one of them."""
    for name, members in MEMBERS.items():
        module = sys.modules.get(name)
        if module is not None and any(getattr(module, member, None) is value for member in members.split()):
            return True
    return False
