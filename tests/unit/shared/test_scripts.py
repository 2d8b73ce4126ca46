"""Every Lua script opens with what it takes and what it returns."""

from __future__ import annotations

from importlib import resources

import pytest

SCRIPTS = sorted(
    item.name for item in resources.files("shared.redisio").joinpath("lua").iterdir() if item.name.endswith(".lua")
)


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name != "prelude.lua"])
def test_a_script_opens_with_its_contract(name: str) -> None:
    text = resources.files("shared.redisio").joinpath("lua", name).read_text(encoding="utf-8")
    header = text.split("\n\n", 1)[0] + text.split("\n\n", 2)[1]
    assert text.startswith("--")
    for word in ("KEYS", "ARGV", "returns"):
        assert word in text.split("\nlocal ", 1)[0] or word in header
