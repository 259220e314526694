"""PyTorch's side of the all-reduce benchmark: Gloo, as many queued one behind another as hpctrain queues."""
import json
import sys
import time

import torch
import torch.distributed as dist

ROUNDS, MOST, ROUND_SECONDS = 5, 200, 0.2
torch.set_num_threads(1)
dist.init_process_group("gloo")


def timed(t, times):
    dist.barrier()
    began = time.perf_counter()
    for work in [dist.all_reduce(t, async_op=True) for _ in range(times)]:
        work.wait()
    seconds = torch.tensor([time.perf_counter() - began], dtype=torch.float64)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    return seconds.item()


measured = []
for size in json.loads(sys.argv[1]):
    t = torch.zeros(size // 4)
    timed(t, 2)
    times = max(1, min(MOST, round(ROUND_SECONDS / timed(t, 1))))
    rounds = sorted(timed(t, times) / times for _ in range(ROUNDS))
    measured.append({"bytes": size, "seconds": rounds[ROUNDS // 2]})
if dist.get_rank() == 0:
    print(json.dumps(measured), flush=True)
dist.destroy_process_group()
