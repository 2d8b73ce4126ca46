"""Every Lua script opens with what it takes and what it returns."""

from __future__ import annotations

from importlib import resources

import pytest

SCRIPTS = sorted(
    item.name for item in resources.files("shared.redisio").joinpath("lua").iterdir() if item.name.endswith(".lua")
)


@pytest.mark.parametrize(
    "name", [name for name in SCRIPTS if name not in {"prelude.lua", "firing.lua", "rows.lua", "ended.lua"}]
)
def test_a_script_opens_with_its_contract(name: str) -> None:
    text = resources.files("shared.redisio").joinpath("lua", name).read_text(encoding="utf-8")
    header = [line for line in text.splitlines() if line.startswith("--")]
    assert text.startswith("--")
    assert all(any(word in line for line in header) for word in ("KEYS", "returns"))
    assert "ARGV[" not in text or any("ARGV" in line for line in header)
