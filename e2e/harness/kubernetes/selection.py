# SPDX-License-Identifier: Apache-2.0
"""Selectors of labels and fields, in the form of a query."""

import re

_SET = re.compile(r"(?P<key>\S+)\s+(?P<kind>in|notin)\s+\((?P<values>[^)]*)\)")
_ONE = re.compile(r"(?P<key>[^=!\s]+)\s*(?P<kind>!=|==|=)\s*(?P<value>\S*)")


def selects(selector: str, labels: dict[str, str]) -> bool:
    """Returns whether labels satisfy all parts of a selector."""
    return all(satisfies(part.strip(), labels) for part in parts(selector))


def parts(selector: str) -> list[str]:
    """Splits at commas, except at those within brackets."""
    return [part for part in re.split(r",(?![^(]*\))", selector) if part.strip()]


def satisfies(part: str, labels: dict[str, str]) -> bool:
    if found := _SET.fullmatch(part):
        values = {value.strip() for value in found["values"].split(",")}
        return (labels.get(found["key"]) in values) == (found["kind"] == "in")
    if found := _ONE.fullmatch(part):
        return (labels.get(found["key"]) == found["value"]) == (found["kind"] != "!=")
    return part[1:] not in labels if part.startswith("!") else part in labels


def selects_fields(selector: str, thing: dict) -> bool:
    fields = {}
    for part in parts(selector):
        value = thing
        for key in re.split("[=!]", part)[0].split("."):
            value = value.get(key, {}) if isinstance(value, dict) else {}
        fields[re.split("[=!]", part)[0]] = value if isinstance(value, str) else ""
    return selects(selector, fields)
