"""torch's ``distributed_test``, whose tests come in its wheel, with ranks that are processes.

As ``test/distributed/test_distributed_spawn.py`` of torch makes them of it.
"""

from __future__ import annotations

from typing import Any

import torch.testing._internal.distributed.distributed_test as base


class TestDistBackendWithSpawn(
    base.TestDistBackend,
    base.DistributedTest._DistTestBase,  # type: ignore[misc]  # both are TestCases when combined
):
    def setUp(self) -> Any:
        super().setUp()
        self._spawn_processes()
