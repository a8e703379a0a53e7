"""What an audit says at its end."""

from __future__ import annotations

from dataclasses import replace

from bucketingest.cli.audit.command import Report, _shown

NOTHING = Report("shop.orders", "0/1", "20261128190000000", 10, 1, ("id",), ())


def test_keys_that_were_not_judged_are_in_the_last_line() -> None:
    assert _shown(NOTHING).splitlines()[-1] == "equal"
    changing = replace(NOTHING, changing=3)
    assert _shown(changing).splitlines()[-1] == "equal, but for 3 keys that changed all the while: not judged"
    differs = replace(changing, missing=1, keys=["missing id=7"])
    assert _shown(differs).splitlines()[-1].startswith("DIFFERENT: 1 missing,")
    assert _shown(differs).endswith("not judged")
