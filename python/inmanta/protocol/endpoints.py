"""Clients of the REST API: `SyncClient("agent").get_file(hash)`, `await Client("compiler").get_param(...)`.

The endpoint's name picks its options, section `<name>_rest_transport`: host, port, token, ssl. When neither host nor
port is set, calls of an executor travel over its pipe to the server that it works for. Elsewhere there is no server to ask,
and every call raises `NoServer`, a ConnectionRefusedError.
"""

from __future__ import annotations

from inmanta import _without
from inmanta.config import Config, is_bool
from inmanta.protocol._methods import ABSENT, METHODS
from inmanta.protocol.common import ClientCall, Result, json_encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from ssl import SSLContext
    from typing import Any

    from inmanta.plugins import Ask, PassOn

    # HTTP method, path with its query, environment, arguments of the body.
    Request = tuple[str, str, str | None, dict[str, object] | None]


class NoServer(ConnectionRefusedError):
    """No server is configured for an endpoint."""


def _named(method: str, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
    """All arguments of a call by their names."""
    names = METHODS[method][2].split()
    if len(args) > len(names):
        raise TypeError(f"{method}() takes {len(names)} positional arguments but {len(args)} were given")
    twice = [name for name in names[: len(args)] if name in kwargs]
    if twice:
        raise TypeError(f"{method}() got multiple values for the argument {', '.join(twice)}")
    return {**dict(zip(names, args)), **kwargs}


def _known_to_server(ask: Ask, method: str, arguments: dict[str, Any], found: Result) -> Result:
    """The answer about files of which `found` says that they are not here: on another machine than the server's, they are there."""
    if method == "stat_files":
        missing = (name for name in found._result["files"] if _asked(ask, "stat_file", {"id": name}) is None)
        return Result(200, {"files": list(missing)})
    return (_asked(ask, method, arguments) if found.code == 404 else None) or found


def _asked(ask: Ask, method: str, arguments: dict[str, Any]) -> Result | None:
    """The answer of the server about a file; None if it has no such file, or nobody is there to ask."""
    from inmanta.protocol import files

    # What is no name of a content is one nowhere.
    answer = ask(method, arguments) if files.path_of("", str(arguments.get("id"))) else None
    return None if answer is None or answer[0] == 404 else Result(*answer)


def _given(endpoint: str, method: str, arguments: dict[str, Any]) -> Result | None:
    """What is known without a server: inputs of a compile, files of an executor. None: it is not."""
    from inmanta.plugins import Runtime

    if Runtime.files_dir is not None:
        from inmanta.protocol import files

        found = files.answer(Runtime.files_dir, method, arguments)
        if found is not None:
            return found if Runtime.ask is None else _known_to_server(Runtime.ask, method, arguments, found)
    if Runtime.ask is not None:
        answer = Runtime.ask(method, arguments)
        if answer is not None:
            return Result(*answer)
    if endpoint != "compiler":
        return None
    inputs = Runtime.inputs
    if method == "get_param":
        resource, name = str(arguments.get("resource_id") or ""), str(arguments.get("id"))
        values = inputs.get("facts", {}).get(resource, {}) if resource else inputs.get("parameters", {})
        if name in values:
            return Result(200, {"parameter": {"name": name, "value": values[name], "resource_id": resource}})
    elif method == "get_facts":
        facts = inputs.get("facts", {}).get(str(arguments.get("rid")))
        if facts is not None:
            return Result(200, {"data": [{"name": name, "value": value} for name, value in facts.items()]})
    elif method == "get_environment":
        environment = inputs.get("environment", {})
        if environment.get("name"):
            return Result(200, {"environment": {"id": environment.get("id"), "name": environment["name"]}})
    return None


def _flat(arguments: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The arguments of a query: an object is written as an argument for each of its fields, `filter.state`."""
    for name, value in arguments.items():
        if isinstance(value, dict):
            yield from _flat({f"{name}.{key}": inner for key, inner in value.items()})
        else:
            yield name, value


def _request(method: str, arguments: dict[str, object]) -> Request:
    """The request that a call is."""
    import urllib.parse

    verb, path, _ = METHODS[method]
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    missing = [name for name in names if name not in arguments]
    if missing:
        raise TypeError(f"{method}() needs the argument {', '.join(missing)}")
    for name in names:
        path = path.replace("{" + name + "}", urllib.parse.quote(str(arguments.pop(name)), safe=""))
    environment = str(arguments.pop("tid")) if "tid" in arguments else None
    given = {name: value for name, value in arguments.items() if value is not None}
    if verb not in ("GET", "HEAD", "DELETE"):
        return verb, path, environment, given
    query = urllib.parse.urlencode(dict(_flat(given)), doseq=True)
    return verb, f"{path}?{query}" if query else path, environment, None


def _pass_on(over_pipe: PassOn, request: Request) -> Result:
    """The server's answer to a request that travels over the pipe of an executor."""
    import json

    verb, path, environment, arguments = request
    # What HTTP would make of the arguments.
    body = None if arguments is None else json.loads(json_encode(arguments))
    code, answer = over_pipe(verb, path, environment, body)
    return Result(code, answer, lambda link: _pass_on(over_pipe, ("GET", link, environment, None)))


class _Transport:
    """Calls over HTTP, if a server is configured, else over the pipe of an executor."""

    def __init__(self, endpoint: str, timeout: float = 120.0) -> None:
        self.endpoint_name = endpoint
        self._section = f"{endpoint}_rest_transport"
        self._timeout = timeout

    def _get_client_config(self) -> str:
        """The address of the server."""
        scheme = "https" if is_bool(Config.get(self._section, "ssl", False)) else "http"
        host = Config.get(self._section, "host", "localhost")
        return f"{scheme}://{host}:{Config.get(self._section, 'port', 8888)}"

    def call(self, method: str, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Result:
        if method in ABSENT:
            return Result(404, {"message": f"The server has no call {method}: {ABSENT[method]}"})
        if method not in METHODS:
            raise AttributeError(f"method {method} is not one that this client knows")
        arguments = _named(method, args, kwargs)
        given = _given(self.endpoint_name, method, arguments)
        if given is not None:
            return given
        from inmanta.plugins import Runtime

        request = _request(method, arguments)
        if Config.is_set(self._section, "host") or Config.is_set(self._section, "port"):
            return self._send(request)
        if Runtime.pass_on is not None:
            return _pass_on(Runtime.pass_on, request)
        raise NoServer(f"{method}: no server is configured for {self.endpoint_name}")

    def _send(self, request: Request) -> Result:
        import json
        import urllib.error
        import urllib.request

        verb, path, environment, arguments = request
        headers = {"Accept": "application/json"}
        if environment is not None:
            headers["X-Inmanta-tid"] = environment
        token = Config.get(self._section, "token")
        if token:
            headers["Authorization"] = f"Bearer {token}"
        body = None
        if arguments is not None:
            headers["Content-Type"] = "application/json"
            body = json_encode(arguments).encode()
        sent = urllib.request.Request(self._get_client_config() + path, data=body, headers=headers, method=verb)
        try:
            with urllib.request.urlopen(sent, timeout=self._timeout, context=self._ssl_context()) as response:
                code, data = response.status, response.read()
                if response.headers.get_content_type() == "text/html":
                    return Result(code, data.decode("utf-8", "replace"))
        except urllib.error.HTTPError as error:
            code, data = error.code, error.read()
        except urllib.error.URLError as error:
            return Result(503, {"message": str(error.reason)})
        except OSError as error:
            return Result(503, {"message": str(error)})
        try:
            answer = json.loads(data) if data else None
            # A link is a path of the server that was asked.
            return Result(code, answer, lambda link: self._send(("GET", link, environment, None)))
        except ValueError:
            return Result(code, {"message": data.decode("utf-8", "replace")})

    def _ssl_context(self) -> SSLContext | None:
        if not is_bool(Config.get(self._section, "ssl", False)):
            return None
        import ssl

        authority = Config.get(self._section, "ssl_ca_cert_file")
        return ssl.create_default_context(cafile=None if authority is None else str(authority))


@_without(
    "add_background_task add_call_target call_targets close get_request_timeout is_running is_stopped name stop"
)
class Client:
    """Calls API methods from async code: `result = await client.get_param(tid=…, id=…)`."""

    def __init__(self, name: str, timeout: float = 120.0, with_rest_client: bool = True, **kwargs: object) -> None:
        self.endpoint_name = name
        self.timeout = timeout
        self._transport_instance = _Transport(name, timeout)

    def __getattr__(self, method: str) -> Callable[..., ClientCall]:
        if method.startswith("_"):
            raise AttributeError(method)

        async def call(args: tuple[object, ...], kwargs: dict[str, object]) -> Result:
            import asyncio

            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(None, self._transport_instance.call, method, args, kwargs)

        return lambda *args, **kwargs: ClientCall(call(args, kwargs))


class SyncClient:
    """Calls API methods and waits; needs no event loop."""

    def __init__(
        self, name: str | None = None, timeout: float = 120.0, client: Client | None = None, ioloop: object = None
    ) -> None:
        if name is None:
            if client is None:
                raise Exception("Either name or client needs to be provided.")
            name = client.endpoint_name
        self.name = name
        self.timeout = timeout
        self._transport_instance = _Transport(self.name, timeout)

    def __getattr__(self, method: str) -> Callable[..., Result]:
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda *args, **kwargs: self._transport_instance.call(method, args, kwargs)


class SessionClient(Client):
    """The client of an agent's session."""

    def __init__(self, name: str, sid: object = None, timeout: float = 120.0) -> None:
        super().__init__(name, timeout)
        self._sid = sid


class TypedClient(Client):
    """A client whose calls give the payload, or raise."""

    def __getattr__(  # type: ignore[override]  # what a call gives is just what differs
        self, method: str
    ) -> Callable[..., Coroutine[Any, Any, Any]]:
        call = super().__getattr__(method)
        return lambda *args, **kwargs: call(*args, **kwargs).value()

if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
