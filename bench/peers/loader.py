"""PyTorch's side of the loader benchmark: DataLoader over the Dataset that a user who cares for speed writes.
Arguments: set, path, workers, and what to do, as loader_tasks.py has it. See bench/loader_worker.ts, which is the other side."""
import sys

import torch
from loader_tasks import TASKS
from torch.utils.data import DataLoader, Dataset, TensorDataset


def mnist(path):
    return datasets.MNIST(path, transform=T.Compose([T.ToTensor(), T.Normalize((0.1307,), (0.3081,))]))


def images(path):
    return datasets.ImageFolder(path, T.Compose([T.ToTensor(), T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]))


def recipe(path, policies=True):
    return datasets.ImageFolder(path, v2.Compose([
        v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), *([v2.RandAugment(2, 9)] if policies else []), v2.PILToTensor(),
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


SETS = {"mnist": mnist, "imagefolder": images, "recipe": recipe, "crops": lambda path: recipe(path, False), "hdf5": Hdf5, "netcdf": NetCdf, "npz": npz}


def loader_of(kind, path, workers):
    return DataLoader(SETS[kind](path), batch_size=64, shuffle=True, num_workers=workers, persistent_workers=workers > 0)


kind, path, workers, what = sys.argv[1:]
if kind in ("mnist", "imagefolder", "recipe", "crops"):  # a program imports what it needs
    from torchvision import datasets, transforms as T
    if kind in ("recipe", "crops"):
        from torchvision.transforms import v2
elif kind == "hdf5":
    import h5py
elif kind == "netcdf":
    import netCDF4
else:
    import numpy
TASKS[what](lambda: loader_of(kind, path, int(workers)))
