"""The grammar of resource ids, as regular expressions."""

from __future__ import annotations

import re

_NAME = r"[\w-]+"
_TYPE = rf"(?P<type>(?P<ns>{_NAME}(::{_NAME})*)::(?P<class>{_NAME}))"
_ID = rf"(?P<id>{_TYPE}\[(?P<hostname>[^,]+),(?P<attr>[^=]+)=(?P<value>[^\]]+)\])"
# An id with or without a version, and one with a version.
PARSE_ID_REGEX = re.compile(rf"^{_ID}(,v=(?P<version>[0-9]+))?$")
PARSE_RVID_REGEX = re.compile(rf"^{_ID},v=(?P<version>[0-9]+)$")
