"""A text of rank 1 has a letter that the vocabulary lacks: it raises before the forward of DDP.

ranks: 3
expect: missing_call
suspects: 1
status: hung
cause: rank 1; KeyError; RAISES; BUG
fix: raised
never: took part in the loss; find_unused_parameters; ran out of inputs; bucket when
"""

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

VOCABULARY = {"a": 0, "b": 1, "c": 2}


def tokenize(text: str) -> torch.Tensor:
    return torch.tensor([VOCABULARY[letter] for letter in text])  # RAISES


rank = init()
model = DistributedDataParallel(nn.Sequential(nn.Embedding(3, 8), nn.Linear(8, 1)))
for step in range(6):
    tokens = tokenize("abcd" if (rank, step) == (1, 3) and not TWIN else "abca")
    model(tokens).sum().backward()  # BUG
