# SPDX-License-Identifier: Apache-2.0
"""A client of an API server: objects are dicts, as in their JSON."""

import http.client
import json
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlencode

from .network import within

PODS, SERVICES = "/api/v1/pods", "/api/v1/services"
TIMEOUT_S = 30
MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """An answer that is none of the codes 2xx."""

    def __init__(self, status: int, text: str):
        super().__init__(f"{status}: {text}")
        self.status = status


@dataclass(frozen=True)
class Api:
    """An API server at an address within a network. With a token it speaks TLS, and its
    certificate is not checked: it is one that it made for itself."""

    network: str
    address: str
    port: int
    token: str | None = None

    @property
    def master(self) -> str:
        """Returns the value of `spark.master`."""
        scheme = "https" if self.token else "http"
        return f"k8s://{scheme}://{self.address}:{self.port}"

    def get(self, path: str, **query: str) -> dict:
        try:
            return self._ask("GET", path, query=query)
        except OSError as error:
            # Clients of Kubernetes ask again what changes nothing. The test's output shows it.
            print(f"GET {path}: {error!r}; asked again", file=sys.stderr)
            return self._ask("GET", path, query=query)

    def items(self, path: str, **query: str) -> list[dict]:
        return self.get(path, **query)["items"]

    def post(self, path: str, body: dict) -> dict:
        return self._ask("POST", path, body)

    def patch(self, path: str, body: dict) -> dict:
        return self._ask("PATCH", path, body, MERGE)

    def delete(self, path: str, grace_s: int | None = None) -> dict:
        body = {"kind": "DeleteOptions", "apiVersion": "v1"}
        return self._ask(
            "DELETE", path, body | ({} if grace_s is None else {"gracePeriodSeconds": grace_s})
        )

    def watch(self, path: str, version: str) -> "Watch":
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "20"}
        return Watch(*self._send("GET", path, None, MERGE, query))

    def _ask(
        self, method: str, path: str, body=None, kind: str = "application/json", query=None
    ) -> dict:
        connection, response = self._send(method, path, body, kind, query or {})
        try:
            return json.loads(response.read())
        finally:
            connection.close()

    def _send(self, method: str, path: str, body, kind: str, query: dict[str, str]):
        connection = Connection(self)
        headers = {"Accept": "application/json", "Content-Type": kind}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        content = None if body is None else json.dumps(body)
        try:
            connection.request(
                method, f"{path}?{urlencode(query)}" if query else path, content, headers
            )
            response = connection.getresponse()
            if response.status >= 300:
                raise ApiError(response.status, response.read().decode(errors="replace")[:2000])
        except BaseException:
            connection.close()
            raise
        return connection, response


class Watch:
    """Events after a version, until the server or `stop` ends them."""

    def __init__(self, connection: "Connection", response: http.client.HTTPResponse):
        self._connection = connection
        self._response = response

    def __iter__(self) -> Iterator[tuple[str, dict]]:
        try:
            for line in self._response:
                event = json.loads(line)
                yield event["type"], event["object"]
        finally:
            self._connection.close()

    def stop(self) -> None:
        """Lets the thread that waits for events go on: its connection is at its end."""
        with suppress(OSError):  # it has ended meanwhile
            # Not that of TLS, which another thread may not call.
            socket.socket.shutdown(self._connection.wire, socket.SHUT_RDWR)


class Connection(http.client.HTTPConnection):
    """A connection from within the server's network."""

    def __init__(self, api: Api):
        super().__init__(api.address, api.port, timeout=TIMEOUT_S)
        self._api = api

    def connect(self) -> None:
        within(self._api.network, super().connect)
        if self._api.token:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self.sock = context.wrap_socket(self.sock)
        self.wire = self.sock


def name_of(thing: dict) -> str:
    return thing["metadata"]["name"]


def path_of(pod: dict) -> str:
    """Returns the path of a pod."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{name_of(pod)}"
