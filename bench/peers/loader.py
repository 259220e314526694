"""PyTorch's side of the loader benchmark: DataLoader over the Dataset that a user who cares for speed writes.
Arguments: set, path, workers, and what to do. See bench/loader_worker.ts, which is the other side.
  rounds  reads as many epochs as each line of input says and answers with JSON
  moments reads one epoch and prints its means and mean squares, which the other side must have too
  first   prints how long the first batch took, from the first line of the user's own code that knows of data"""
import json
import re
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset


def mnist(path):
    return datasets.MNIST(path, transform=T.Compose([T.ToTensor(), T.Normalize((0.1307,), (0.3081,))]))


def images(path):
    return datasets.ImageFolder(path, T.Compose([T.ToTensor(), T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]))


def recipe(path):
    return datasets.ImageFolder(path, v2.Compose([
        v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), v2.RandAugment(2, 9), v2.PILToTensor(),
        v2.ToDtype(torch.float32, scale=True), v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), v2.RandomErasing(0.25)]))


class Opened(Dataset):
    """A file that each worker opens for itself, since neither library's handles outlive a fork; its targets are read at once."""

    def __init__(self, path):
        self.path = path
        self.maps = None
        self.parameters = torch.from_numpy(self.open()["parameters"][:])

    def __len__(self):
        return len(self.parameters)

    def __getitem__(self, index):
        if self.maps is None:
            self.maps = self.open()["maps"]
        return torch.from_numpy(self.maps[index]), self.parameters[index]


class Hdf5(Opened):
    def open(self):
        return h5py.File(self.path)


class NetCdf(Opened):
    def open(self):
        file = netCDF4.Dataset(self.path)
        file.set_auto_mask(False)
        return file


def npz(path):
    arrays = numpy.load(path)
    return TensorDataset(torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"]))


SETS = {"mnist": mnist, "imagefolder": images, "recipe": recipe, "hdf5": Hdf5, "netcdf": NetCdf, "npz": npz}


def loader_of(kind, path, workers):
    return DataLoader(SETS[kind](path), batch_size=64, shuffle=True, num_workers=workers, persistent_workers=workers > 0)


def peak_memory():
    with open("/proc/self/status") as status:
        return int(re.search(r"VmHWM:\s*(\d+) kB", status.read())[1]) * 1024


def answer(value):
    print(json.dumps(value), flush=True)


def rounds(make):
    loader = make()
    answer({"ready": True})
    for line in sys.stdin:
        began = time.perf_counter()
        samples = 0
        for _ in range(int(line)):
            for x, _ in loader:
                samples += len(x)
        answer({"seconds": time.perf_counter() - began, "loss": samples, "peak": peak_memory()})


def moments(make):
    samples, input, square, target = 0, 0.0, 0.0, 0.0
    for x, y in make():
        samples += len(x)
        input += x.double().mean().item() * len(x)
        square += x.double().square().mean().item() * len(x)
        target += y.double().mean().item() * len(x)
    types = [{torch.float32: "f32", torch.int64: "i64"}[t.dtype] for t in (x, y)]
    means = {"input": input / samples, "square": square / samples, "target": target / samples}
    answer({"samples": samples, "shape": list(x.shape[1:]), "types": types, **means})


def first(make):
    began = time.perf_counter()
    next(iter(make()))
    answer({"seconds": time.perf_counter() - began})


kind, path, workers, what = sys.argv[1:]
if kind in ("mnist", "imagefolder", "recipe"):  # a program imports what it needs
    from torchvision import datasets, transforms as T
    if kind == "recipe":
        from torchvision.transforms import v2
elif kind == "hdf5":
    import h5py
elif kind == "netcdf":
    import netCDF4
else:
    import numpy
{"rounds": rounds, "moments": moments, "first": first}[what](lambda: loader_of(kind, path, int(workers)))
