"""torch's ``distributed_test``, whose tests come in its wheel, with ranks that are processes.

As ``test/distributed/test_distributed_spawn.py`` of torch makes them of it.
"""

from __future__ import annotations

import torch.testing._internal.distributed.distributed_test as base


class TestDistBackendWithSpawn(base.TestDistBackend, base.DistributedTest._DistTestBase):
    def setUp(self) -> None:
        super().setUp()  # type: ignore[no-untyped-call]
        self._spawn_processes()
