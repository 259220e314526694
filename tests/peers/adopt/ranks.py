"""Two ranks that the script starts itself, with DistributedDataParallel and a sampler that divides the samples."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def work(rank, place):
    dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=2)
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 5), torch.randint(0, 3, (64,)))
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    model = DistributedDataParallel(torch.nn.Linear(5, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        for features, target in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(features), target).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    import os

    torch.multiprocessing.spawn(work, (os.path.abspath("meeting"),), nprocs=2)
