"""Reads checkpoints: PyTorch's format, safetensors, and folders of shards. Nothing in a file is executed."""

import base64
import io
import json
import os
import pickle
import struct
import zipfile
from collections import OrderedDict

import numpy as np


class Checkpoint:
    """What a checkpoint holds, as dicts, lists, numbers and numpy arrays."""

    def __init__(self, path, tree):
        self.path = path
        self.tree = tree

    @property
    def weights(self):
        """Name -> array, as validation saw them: the averages where the run kept some (--ema)."""
        averages = self._own.get("ema_state_dict")
        return {**self.last_weights, **(averages or {})}

    @property
    def last_weights(self):
        """Name -> array, as the last step left them."""
        return dict(self.tree.get("model_state_dict", {}))

    def state_dict(self):
        """The weights as torch's tensors, for `load_state_dict`."""
        import torch

        return OrderedDict((name, torch.from_numpy(np.array(x))) for name, x in self.weights.items())

    @property
    def config(self):
        """The run's settings, by section: config["training"]["epochs"]."""
        return self.tree.get("config", {})

    @property
    def epoch(self):
        return self.tree.get("epoch")

    @property
    def step(self):
        return (self._own.get("cursor") or {}).get("step")

    @property
    def val_loss(self):
        return self.tree.get("val_loss")

    @property
    def run(self):
        """The name of the run."""
        return self._own.get("run")

    @property
    def normalisation(self):
        """The mean and the deviation that samples are seen through, or None."""
        return self._own.get("normalisation")

    @property
    def _own(self):
        return self.tree.get("hpctrain") or {}

    def __repr__(self):
        return f"<Checkpoint {self.path}: {len(self.last_weights)} tensors, epoch {self.epoch}, step {self.step}>"


def checkpoint(path):
    """Reads a checkpoint of any format that hpctrain writes."""
    path = os.fspath(path)
    if os.path.isdir(path):
        tree = _sharded(path)
    elif path.endswith(".safetensors"):
        tree = _safetensors(path)
    else:
        tree = _pytorch(path)
    if "model_state_dict" not in tree:  # a bare state dict, as `hpctrain export` writes it
        tree = {"model_state_dict": tree}
    return Checkpoint(path, tree)


# ---- PyTorch's format: a zip with a pickle, which is read with nothing but the constructors of tensors.

_STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "BFloat16Storage": "bf16",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "<i1",
    "ByteStorage": "<u1",
    "BoolStorage": "?",
    "ComplexFloatStorage": "<c8",
    "ComplexDoubleStorage": "<c16",
}


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, path, bytes_of):
        super().__init__(file)
        self._path, self._bytes_of, self._storages = path, bytes_of, {}

    def find_class(self, module, name):
        if module == "collections" and name == "OrderedDict":
            return OrderedDict
        if module == "torch._utils" and name == "_rebuild_tensor_v2":
            return _tensor
        if module == "torch._utils" and name == "_rebuild_parameter":
            return lambda data, *_: data
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        raise pickle.UnpicklingError(
            f"{self._path}: {module}.{name} is no part of a checkpoint that hpctrain writes; "
            "torch.load reads files of other programs"
        )

    def persistent_load(self, what):
        _, dtype, key, _, _ = what
        if key not in self._storages:
            self._storages[key] = _numbers(self._bytes_of(key), dtype)
        return self._storages[key]


def _tensor(storage, offset, size, stride, *_):
    strides = [n * storage.itemsize for n in stride]
    last = offset + sum((n - 1) * step for n, step in zip(size, stride)) if 0 not in size else 0
    if offset < 0 or min(stride, default=0) < 0 or last >= max(len(storage), 1):
        raise ValueError("a tensor reaches beyond its storage")
    return np.lib.stride_tricks.as_strided(storage[offset:], size, strides).copy()


def _pytorch(path):
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile:
        raise ValueError(f"{path} is no checkpoint: expected .pt (a zip), .safetensors or a folder .ckpt") from None
    with archive:
        [pickled] = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        folder = pickled[: -len("data.pkl")]
        bytes_of = lambda key: archive.read(f"{folder}data/{key}")  # noqa: E731
        return _Unpickler(io.BytesIO(archive.read(pickled)), path, bytes_of).load()


# ---- Safetensors: a header of JSON; what is no tensor is in its metadata.

_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "bf16",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "<i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "<u1",
    "BOOL": "?",
    "C64": "<c8",
}
_TREE = "hpctrain_tree"


def _header(file):
    (length,) = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(length))
    return header.pop("__metadata__", {}), header, 8 + length


def _tensors(path):
    with open(path, "rb") as file:
        metadata, header, start = _header(file)
        found = {}
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            file.seek(start + begin)
            found[name] = _numbers(file.read(end - begin), _DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return metadata, found


def _safetensors(path):
    metadata, tensors = _tensors(path)
    return _decoded(json.loads(metadata[_TREE]), tensors) if _TREE in metadata else tensors


def _sharded(folder):
    with open(os.path.join(folder, "model.safetensors.index.json"), encoding="utf-8") as file:
        index = json.load(file)
    tensors = {}
    for name in sorted(set(index["weight_map"].values())):
        tensors.update(_tensors(os.path.join(folder, os.path.basename(name)))[1])
    return _decoded(json.loads(index["metadata"][_TREE]), tensors)


def _decoded(value, tensors):
    """Values that JSON can't express are objects with one key that begins with a dollar."""
    again = lambda x: _decoded(x, tensors)  # noqa: E731
    if isinstance(value, list):
        return [again(x) for x in value]
    if not isinstance(value, dict):
        return value
    what = next(iter(value)) if len(value) == 1 else ""
    content = value.get(what)
    if what == "$tensor":
        return tensors[content]
    if what == "$ordered":
        return OrderedDict((again(k), again(v)) for k, v in content)
    if what == "$dict":
        return {again(k): again(v) for k, v in content}
    if what == "$tuple":
        return tuple(again(x) for x in content)
    if what == "$set":
        return set(again(x) for x in content)
    if what == "$float":
        return float(content)
    if what == "$int":
        return int(content)
    if what == "$bytes":
        return base64.b64decode(content)
    return {k: again(v) for k, v in value.items()}


def _numbers(data, dtype):
    if dtype != "bf16":
        return np.frombuffer(data, dtype)
    upper = np.frombuffer(data, "<u2").astype("<u4") << 16  # numpy has no bfloat16
    return upper.view("<f4")
