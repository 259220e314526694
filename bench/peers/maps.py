"""xarray's and pandas's side of the maps benchmark. Arguments: kind, path, way, what, and the folders of zarr-python, pyarrow and
xbatcher, which this Python may lack. bench/maps.ts starts it. Ways to read maps:
  each-0, each-2     a DataLoader with so many workers, which takes each sample from its file by xarray
  batch-0, batch-2   the same, which takes a batch's samples at once (__getitems__); of many files by open_mfdataset
  xbatcher           its generator of samples, in a DataLoader
What is as bench/peers/loader.py has it; `open` reads a table, or opens data, and prints the seconds and the memory that it took."""
import glob
import json
import re
import sys
import time

kind, path, way, what, packages = sys.argv[1:]
sys.path.extend(packages.split(":"))

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


def files_of(path):
    return sorted(glob.glob(f"{path}/*.nc"))


def opened():
    """Without dask where it is one store: each read goes to the file at once, which is faster for single samples."""
    return xr.open_zarr(path, chunks=None) if kind == "zarr" else xr.open_mfdataset(files_of(path), decode_times=False)


class Each(Dataset):
    """A worker opens the files for itself, since the libraries' handles do not outlive a fork; targets are read at once."""

    def __init__(self):
        self.variables = None
        parts = self.open()
        self.starts = np.cumsum([0] + [part.sizes["time"] for part in parts])
        self.parameters = torch.from_numpy(np.concatenate([part.parameters.values for part in parts]))
        for part in parts:
            part.close()

    def open(self):
        return [opened()] if kind == "zarr" else [xr.open_dataset(file, decode_times=False) for file in files_of(path)]

    def __len__(self):
        return len(self.parameters)

    def __getitem__(self, index):
        if self.variables is None:
            self.variables = [part.maps.variable for part in self.open()]
        part = np.searchsorted(self.starts, index, "right") - 1
        return torch.from_numpy(self.variables[part][index - self.starts[part]].values), self.parameters[index]


class Together(Dataset):
    def __init__(self):
        self.maps = None
        data = opened()
        self.parameters = torch.from_numpy(data.parameters.values)
        data.close()

    def __len__(self):
        return len(self.parameters)

    def __getitems__(self, indices):
        if self.maps is None:
            self.maps = opened().maps
        return torch.from_numpy(self.maps.isel(time=indices).values), self.parameters[indices]


class Batcher(Dataset):
    def __init__(self):
        data = opened()
        self.parameters = torch.from_numpy(data.parameters.values)
        self.batches = xbatcher.BatchGenerator(data[["maps"]], {"time": 1}, preload_batch=False)

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        return torch.from_numpy(self.batches[index].maps.values[0]), self.parameters[index]


def loader_of():
    name, _, workers = way.partition("-")
    workers = int(workers or 0)
    if workers > 0 and kind == "netcdf":
        dask.config.set(scheduler="synchronous")  # its threads would not outlive the fork, and each worker is a thread itself
    options = {"batch_size": 64, "shuffle": True, "num_workers": workers, "persistent_workers": workers > 0}
    if name == "batch":
        options["collate_fn"] = lambda batch: batch
    return DataLoader({"each": Each, "batch": Together, "xbatcher": Batcher}[name](), **options)


def memory(name):
    with open("/proc/self/status") as status:
        return int(re.search(rf"{name}:\s*(\d+) kB", status.read())[1]) * 1024


def answer(value):
    print(json.dumps(value), flush=True)


def rounds():
    loader = loader_of()
    answer({"ready": True})
    for line in sys.stdin:
        began = time.perf_counter()
        samples = 0
        for _ in range(int(line)):
            for x, _ in loader:
                samples += len(x)
        answer({"seconds": time.perf_counter() - began, "loss": samples, "peak": memory("VmHWM")})


def moments():
    samples, input, square, target = 0, 0.0, 0.0, 0.0
    for x, y in [table()] if kind == "parquet" else loader_of():
        samples += len(x)
        input += x.double().mean().item() * len(x)
        square += x.double().square().mean().item() * len(x)
        target += y.double().mean().item() * len(x)
    means = {"input": input / samples, "square": square / samples, "target": target / samples}
    answer({"samples": samples, "shape": list(x.shape[1:]), "types": ["f32" if t.dtype == torch.float32 else "?" for t in (x, y)], **means})


def table():
    frame = pandas.read_parquet(path)
    target = torch.from_numpy(frame.pop("y").to_numpy(dtype="float32"))
    return torch.from_numpy(frame.to_numpy(dtype="float32")), target[:, None]


def open_all():
    before = memory("VmRSS")
    began = time.perf_counter()
    found = table() if kind == "parquet" else xr.open_mfdataset(files_of(path))
    answer({"seconds": time.perf_counter() - began, "memory": memory("VmHWM") - before})
    del found


if kind == "parquet":
    import pandas
    import pyarrow.parquet
else:
    import dask
    import xarray as xr
    if way == "xbatcher":
        import xbatcher
{"rounds": rounds, "moments": moments, "open": open_all}[what]()
