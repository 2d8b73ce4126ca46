"""What importing the package costs and does."""

from __future__ import annotations

import subprocess
import sys

import worker


def test_importing_worker_loads_neither_rq_nor_redis() -> None:
    code = "import sys, worker; worker.retry_middleware; print({'rq', 'redis', 'scheduler'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_worker_has_the_middleware_by_name() -> None:
    assert set(worker.__all__) == {"timeout_middleware", "rate_limit_middleware", "retry_middleware"}
    assert all(callable(getattr(worker, name)) for name in worker.__all__)
