"""The published JSON schema describes what ``PrivacySpent.to_dict`` writes."""

import json
from pathlib import Path

import pytest

from tests.privacy.test_spent import EDITS, REPORTED, as_json

FILE = Path(__file__).parents[2] / "docs" / "_static" / "privacy_spent.schema.json"
SCHEMA = json.loads(FILE.read_text())
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "number": (int, float),
    "integer": int,
}
#: edits that only computing the prices, or comparing two numbers, can find
CONSISTENT = {
    *(name for name in EDITS if name.startswith(("less", "more"))),
    "a silo without a cost",
    "a silo too many",
    *(name for name in EDITS if name.endswith(("no float holds", "count, too"))),
}


def is_a(value, name):
    """Return whether a JSON value has a type; true is no number."""
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def fits(value, schema):
    """Return whether a value fits a schema, for the keywords that ours uses."""
    known = {"$schema", "$defs", "$ref", "title", "description", "type", "enum", "anyOf", "minimum"}
    known |= {"maximum", "items", "minItems", "required", "properties", "additionalProperties"}
    assert {*schema} <= known
    if "$ref" in schema:
        return fits(value, SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")])
    if "anyOf" in schema:
        return any(fits(value, one) for one in schema["anyOf"])
    if "enum" in schema:
        return any(type(value) is type(one) and value == one for one in schema["enum"])
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(is_a(value, name) for name in names):
        return False
    if "minimum" in schema:
        return schema["minimum"] <= value <= schema.get("maximum", float("inf"))
    if isinstance(value, list) and "items" in schema:
        enough = len(value) >= schema.get("minItems", 0)
        return enough and all(fits(one, schema["items"]) for one in value)
    if isinstance(value, dict):
        inside = {*schema["required"]} <= {*value} <= {*schema["properties"]}
        return inside and all(fits(value[k], schema["properties"][k]) for k in value)
    return True


@pytest.mark.parametrize("cost", REPORTED.values(), ids=REPORTED)
def test_what_is_written_fits(cost):
    assert fits(as_json(cost), SCHEMA)


@pytest.mark.parametrize("name", [name for name in EDITS if name not in CONSISTENT])
def test_what_is_refused_does_not_fit(name):
    report = as_json(REPORTED["outsider"])
    EDITS[name](report)
    assert not fits(report, SCHEMA)
