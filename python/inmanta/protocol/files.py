"""The file store as an executor sees it: a directory of contents, each under its SHA-1.

Steward writes what `Exporter.upload_file` was given; here it is read, and what handlers upload is added.
"""

from __future__ import annotations

import os

from inmanta.protocol.common import Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def answer(directory: str, method: str, arguments: dict[str, Any]) -> Result | None:
    """The answer of the API method, or None if it has nothing to do with files."""
    if method == "stat_files":
        missing = [name for name in arguments.get("files") or () if _content(directory, name) is None]
        return Result(200, {"files": missing})
    if method not in ("get_file", "stat_file", "upload_file"):
        return None
    name = str(arguments.get("id"))
    if method == "upload_file":
        return _upload(directory, name, arguments.get("content") or "")
    content = _content(directory, name)
    if content is None:
        return Result(404, {"message": f"there is no file {name}"})
    if method == "stat_file":
        return Result(200, None)
    import base64

    return Result(200, {"content": base64.b64encode(content).decode("ascii")})


def path_of(directory: str, name: str) -> str | None:
    """Where a content is kept; None if the name is no SHA-1."""
    if len(name) != 40 or not set(name) <= set("0123456789abcdef"):
        return None
    return os.path.join(directory, name[:2], name)


def _content(directory: str, name: str) -> bytes | None:
    from inmanta.util import hash_file

    path = path_of(directory, name)
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError:
        return None
    # A content that is not what its name says is none.
    return content if hash_file(content) == name else None


def _upload(directory: str, name: str, encoded: str) -> Result:
    import base64
    import binascii

    from inmanta.util import hash_file

    path = path_of(directory, name)
    try:
        content = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        return Result(400, {"message": f"the content is not base64: {error}"})
    if path is None or hash_file(content) != name:
        return Result(400, {"message": f"{name} is not the SHA-1 of the content"})
    # For the server's user only, whatever the umask is: handlers make files of the host with theirs.
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    fresh = f"{path}.{os.getpid()}"
    with open(fresh, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(content)
    os.replace(fresh, path)
    return Result(200, None)
