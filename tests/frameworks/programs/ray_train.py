import os
import tempfile

import on_ray
import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint


def train(config):
    if config["traced"]:
        import collectrace

        collectrace.enable(config["logs"])
    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(0)
    model = ray.train.torch.prepare_model(torch.nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.utils.data.TensorDataset(torch.randn(24, 8))
    loader = ray.train.torch.prepare_data_loader(torch.utils.data.DataLoader(data, batch_size=4))
    for epoch in range(2):
        for (x,) in loader:
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        os.write(1, f"LOSS {rank} {epoch} {float(loss.detach()).hex()}\n".encode())
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if rank == 0:
                torch.save(model.module.state_dict(), f"{folder}/model.pt")
                checkpoint = Checkpoint.from_directory(folder)
            ray.train.report({"loss": float(loss)}, checkpoint=checkpoint)


on_ray.fit(train)
