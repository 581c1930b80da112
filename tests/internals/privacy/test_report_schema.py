"""More of tests/privacy/test_report_schema.py: what only private names show."""

from skdpfl.privacy.spending.report import EVENTS
from tests.privacy.test_report_schema import SCHEMA


def test_every_event_is_described():
    kinds = SCHEMA["$defs"]["event"]["anyOf"]
    assert {name for kind in kinds for name in kind["properties"]["event"]["enum"]} == {*EVENTS}
