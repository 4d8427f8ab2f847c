"""Two models are trained, and only one of them is told of the uneven inputs.

expect: shape_mismatch role_mismatch op_mismatch
suspects: none
status: diverged
cause: uneven; rank 0; rank 1; 3 batches; 4 | 4th; out of inputs | ran out; model 2; BUG
fix: Join([ | Join; both | second | every model | all models | teacher | same number of batches
never: model.join()
"""

import torch
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
student = DistributedDataParallel(torch.nn.Linear(2, 2))
teacher = DistributedDataParallel(torch.nn.Linear(3, 3))
with Join([student, teacher] if TWIN else [student]):
    for _ in range(3 + rank):
        student(torch.ones(1, 2)).sum().backward()
        teacher(torch.ones(1, 3)).sum().backward()  # BUG
