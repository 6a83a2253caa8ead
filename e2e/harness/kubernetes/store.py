# SPDX-License-Identifier: Apache-2.0
"""The objects of an API server, and what happened to them."""

import copy
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .pod import now

Key = tuple[str, str, str]  # the plural of its kind, its namespace, its name


class Missing(Exception):
    """There is no such object."""


class Exists(Exception):
    """There is one already."""


@dataclass(frozen=True)
class Event:
    version: int
    kind: str
    plural: str
    thing: dict


class Store:
    """Every change is an event with the next version. A test makes a few thousand at most."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._things: dict[Key, dict] = {}
        self._events: list[Event] = []
        self._version = 1
        self._is_over = False

    def create(self, key: Key, thing: dict) -> dict:
        with self._changed:
            if key in self._things:
                raise Exists(key)
            made = {"creationTimestamp": now(), "uid": str(uuid.uuid4()), "namespace": key[1]}
            thing["metadata"] |= made
            if key[0] == "pods":
                thing.setdefault("status", {"phase": "Pending"})
            self._put("ADDED", key, thing)
            return thing

    def read(self, key: Key) -> dict:
        with self._changed:
            if key not in self._things:
                raise Missing(key)
            return copy.deepcopy(self._things[key])

    def change(self, key: Key, changed: Callable[[dict], dict]) -> dict:
        with self._changed:
            thing = changed(self.read(key))
            self._put("MODIFIED", key, thing)
            return thing

    def delete(self, key: Key, grace_s: int | None) -> dict:
        """Removes an object. A pod that a node has is marked, and the kubelet removes it when it
        has ended."""
        with self._changed:
            thing = self.read(key)
            spec = thing.get("spec", {})
            if key[0] != "pods" or grace_s == 0 or "nodeName" not in spec:
                del self._things[key]
                self._put("DELETED", key, thing)
                return thing
            grace_s = spec.get("terminationGracePeriodSeconds", 30) if grace_s is None else grace_s
            marks = {"deletionTimestamp": now(), "deletionGracePeriodSeconds": grace_s}
            return self.change(key, lambda pod: pod | {"metadata": pod["metadata"] | marks})

    def list(self, plural: str, namespace: str | None) -> tuple[list[dict], int]:
        """Returns objects, and the version up to which they are complete."""
        with self._changed:
            things = [
                copy.deepcopy(thing)
                for key, thing in sorted(self._things.items())
                if key[0] == plural and namespace in (None, key[1])
            ]
            return things, self._version

    def events(self, since: int, timeout_s: float) -> Iterator[Event]:
        """Yields events after a version, until none comes for some time."""
        at = 0
        while True:
            with self._changed:
                has_more = self._changed.wait_for(
                    lambda seen=at: self._is_over or len(self._events) > seen, timeout_s
                )
                if self._is_over or not has_more:
                    return
                found, at = self._events[at:], len(self._events)
            yield from (event for event in found if event.version > since)

    def close(self) -> None:
        """Ends all watches."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _put(self, kind: str, key: Key, thing: dict) -> None:
        self._version += 1
        thing["metadata"]["resourceVersion"] = str(self._version)
        if kind != "DELETED":
            self._things[key] = copy.deepcopy(thing)
        self._events.append(Event(self._version, kind, key[0], copy.deepcopy(thing)))
        self._changed.notify_all()
