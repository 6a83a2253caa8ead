# SPDX-License-Identifier: Apache-2.0
"""A stand-in for kube-apiserver that starts at once: objects, selectors, patches, watches, and pods
that end gracefully. It validates nothing and has no controllers. `make conformance` runs the same
tests against kube-apiserver."""

import http.server
import json
import re
import socketserver
import threading
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from . import patches
from .api import Api
from .daemonset import DaemonSet
from .network import PodNetwork, within
from .selection import selects, selects_fields
from .statefulset import StatefulSet
from .store import Exists, Key, Missing, Store

PATH = re.compile(
    r"/(api|apis/[^/]+)/[^/]+(/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[^/]+)(/(?P<name>[^/]+)(/(?P<part>[^/]+))?)?"
)
WATCH_TIMEOUT_S = 20
LISTS = {"pods": "PodList", "configmaps": "ConfigMapList", "services": "ServiceList"}


class ApiServer:
    """Listens in the hub of a network, for clients without a password."""

    stateful_set, daemon_set = StatefulSet, DaemonSet

    def __init__(self, network: PodNetwork, _: Path):
        self._store = Store()
        server = within(network.hub, lambda: Listener((network.address, 0), Request))
        server.store = self._store
        self._server = server
        self.api = Api(network.hub, network.address, server.server_address[1])
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()

    def clear(self) -> None:
        """Removes what makes pods: there is nothing of this kind."""

    def stop(self) -> None:
        self._store.close()
        self._server.shutdown()
        self._server.server_close()


class Listener(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    store: Store

    def server_bind(self) -> None:
        # Without the look-up of a name that HTTPServer makes.
        socketserver.TCPServer.server_bind(self)


class Request(http.server.BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server: Listener

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def do_PUT(self) -> None:
        self._answer(lambda key, query, body: self._store.change(key, lambda _: body))

    def do_PATCH(self) -> None:
        self._answer(self._patch)

    def do_DELETE(self) -> None:
        self._answer(self._delete)

    @property
    def _store(self) -> Store:
        return self.server.store

    def _answer(self, action) -> None:
        url = urlsplit(self.path)
        found = PATH.fullmatch(url.path)
        length = int(self.headers.get("Content-Length") or 0)
        content = self.rfile.read(length)
        if found is None:
            self._send(404, status(404, url.path))
            return
        body = json.loads(content) if content else {}
        name = found["name"] or (
            body.get("metadata", {}).get("name") if isinstance(body, dict) else ""
        )
        self._namespace, self._part = found["namespace"], found["part"]
        key = (found["plural"], found["namespace"] or "", name or "")
        try:
            answer = action(key, dict(parse_qsl(url.query)), body)
        except Missing:
            self._send(404, status(404, f"{key[0]} {key[2]!r} not found"))
        except Exists:
            self._send(409, status(409, f"{key[0]} {key[2]!r} exists"))
        else:
            if answer is not None:
                self._send(201 if self.command == "POST" else 200, answer)

    def _get(self, key: Key, query: dict[str, str], _: dict) -> dict | None:
        if key[2]:
            return self._store.read(key)
        if query.get("watch") in ("true", "1"):
            # An answer without the upgrade makes Spark's client watch by plain HTTP.
            return {} if "Upgrade" in self.headers else self._watch(key[0], query)
        things, version = self._store.list(key[0], self._namespace)
        items = [thing for thing in things if is_wanted(thing, query)]
        kind = {"kind": LISTS.get(key[0], "List"), "apiVersion": "v1"}
        return kind | {"metadata": {"resourceVersion": str(version)}, "items": items}

    def _watch(self, plural: str, query: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        since = query.get("resourceVersion")
        if since in (None, "", "0"):
            things, since = self._store.list(plural, self._namespace)
            for thing in things:
                self._tell("ADDED", thing, query)
        try:
            for event in self._store.events(int(since), WATCH_TIMEOUT_S):
                if event.plural == plural:
                    self._tell(event.kind, event.thing, query)
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True  # the client no longer watches

    def _tell(self, kind: str, thing: dict, query: dict[str, str]) -> None:
        is_here = self._namespace in (None, thing["metadata"]["namespace"])
        if is_here and is_wanted(thing, query):
            line = json.dumps({"type": kind, "object": thing}).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()

    def _post(self, key: Key, _: dict, body: dict) -> dict:
        if self._part == "binding":
            node = body["target"]["name"]
            return self._store.change(
                key, lambda pod: pod | {"spec": pod["spec"] | {"nodeName": node}}
            )
        return self._store.create(key, body)

    def _patch(self, key: Key, _: dict, body) -> dict:
        apply = patches.of(self.headers["Content-Type"])
        try:
            return self._store.change(key, lambda thing: apply(thing, body))
        except Missing:
            if not patches.may_create(self.headers["Content-Type"]):
                raise
            return self._store.create(key, body)

    def _delete(self, key: Key, query: dict[str, str], body: dict) -> dict:
        grace_s = body.get("gracePeriodSeconds")
        if key[2]:
            return self._store.delete(key, grace_s)
        things, _ = self._store.list(key[0], self._namespace)
        for thing in things:
            if is_wanted(thing, query):
                metadata = thing["metadata"]
                self._store.delete((key[0], metadata["namespace"], metadata["name"]), grace_s)
        return {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def _send(self, code: int, answer: dict) -> None:
        content = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def is_wanted(thing: dict, query: dict[str, str]) -> bool:
    labels = thing["metadata"].get("labels", {})
    is_labelled = selects(query.get("labelSelector", ""), labels)
    return is_labelled and selects_fields(query.get("fieldSelector", ""), thing)


def status(code: int, text: str) -> dict:
    kind = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return kind | {
        "code": code,
        "message": text,
        "reason": {404: "NotFound", 409: "AlreadyExists"}[code],
    }
