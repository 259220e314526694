"""The script's data: which tensors of a loader's batches the model was given, and so what a sample is."""

import base64
import collections
import collections.abc
import os
import sys

import torch

from .seen import S, odd, place

LOADERS = []  # (loader, the script's line), in the order in which the script makes them
RECENT = collections.deque(maxlen=2)  # (loader, batch), the last one first: accelerate reads one ahead
FIELDS = {"loader": None, "how": None}  # by the program's input: where it lies in a batch, and what is made of it
OPENED = {}  # files of data that the script opened to read, in their order
ENDINGS = (".npy", ".npz", ".csv", ".tsv", ".txt", ".bin")


def watch_data():
    loads = torch.utils.data.DataLoader.__init__

    def load(self, *args, **kwargs):
        loads(self, *args, **kwargs)
        LOADERS.append((self, place()))

    torch.utils.data.DataLoader.__init__ = load
    taken = torch.utils.data.dataloader._BaseDataLoaderIter
    begun, went = taken.__init__, taken.__next__

    def begin(self, loader):
        begun(self, loader)
        self._hpctrain_loader = loader

    def go_on(self):
        batch = went(self)
        RECENT.appendleft((self._hpctrain_loader, batch))
        return batch

    taken.__init__, taken.__next__ = begin, go_on

    def opened(event, args):
        if event == "open" and isinstance(args[0], str) and args[0].endswith(ENDINGS) and "w" not in (args[1] or "r"):
            OPENED.setdefault(os.path.abspath(args[0]))

    sys.addaudithook(opened)


def leaves(tree, path=()):
    """The tensors of a batch, by their place in it."""
    if torch.is_tensor(tree):
        yield path, tree
    elif isinstance(tree, collections.abc.Mapping):
        for key in tree:
            yield from leaves(tree[key], (*path, key))
    elif isinstance(tree, (list, tuple)):
        for k, one in enumerate(tree):
            yield from leaves(one, (*path, k))


def same(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0))


def made_of(field, t):
    """A loader's tensor with another type or sides, sample by sample."""
    if field.shape[0] != t.shape[0] or field.numel() != t.numel():
        return False
    return same(field.cpu().reshape(t.shape).to(t.dtype), t)


def batch_seen(graph):
    """Which of the last batch's tensors the program's inputs are; a place is kept for as long as each batch agrees with it."""
    if graph is S.first:  # its tensors are let go
        made = next(call.out for call in graph.keeps_alive if isinstance(call.function, torch.nn.Module))
        graph.sides = next((list(t.shape) for _, t in leaves(made) if t.dim() > 0), [])
    if FIELDS["how"] is False or not RECENT:
        return
    inputs = [(graph.names[i], t.detach().cpu()) for i, t in enumerate(graph.values) if t.dim() and i not in graph.drawn and t.layout == torch.strided]
    for loader, batch in RECENT:
        found = places_in(batch, inputs)
        if None not in found.values():
            FIELDS.update(how=FIELDS["how"] or found, loader=loader)
            return
    name = next(name for name, at in places_in(RECENT[0][1], inputs).items() if at is None)
    FIELDS.update(how=False, why=f"the input {name} is no tensor of the loader's batches as it is")


def places_in(batch, inputs):
    """Where each input lies in a batch; null where it does not."""
    known, fields, found = FIELDS["how"], dict(leaves(batch)), {}
    for name, t in inputs:
        places = [known[name]["path"]] if known else list(fields)
        at = next((p for p in places if p in fields and fields[p].dim() > 0 and made_of(fields[p], t)), None)
        found[name] = None if at is None else {"path": at, "shape": list(t.shape[1:]), "dtype": str(t.dtype).removeprefix("torch.")}
    return found


def sample_of(batch, how):
    fields, made = dict(leaves(batch)), {}
    for name, one in how.items():
        field = fields[one["path"]].cpu()
        made[name] = field.reshape(field.shape[0], *one["shape"]).to(getattr(torch, one["dtype"]))
    return made


def samples(loader, ids, dataset=None):
    """As the model would be given them."""
    how, dataset = FIELDS["how"], dataset or loader.dataset
    each = [sample_of(loader.collate_fn([dataset[i]]), how) for i in ids]
    return {name: torch.cat([one[name] for one in each]) for name in how}


def is_reshaped(loader, dataset):
    """What lies in files has not the sides that the model is given."""
    fields = dict(leaves(loader.collate_fn([dataset[0]])))
    return any(list(fields[one["path"]].shape[1:]) != one["shape"] for one in FIELDS["how"].values())


def size_of(loader):
    """Samples of a batch, also where the batches are another sampler's, as accelerate's are."""
    return loader.batch_size or getattr(loader.batch_sampler, "batch_size", None)


def shuffles(loader):
    sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
    return isinstance(sampler, torch.utils.data.RandomSampler) or bool(getattr(sampler, "shuffle", False))


def is_random(loader):
    """A sample that is read again is another one."""
    if "Random" in repr(getattr(loader.dataset, "transform", "")):
        return True
    one = samples(loader, [0])
    return any(not same(one[name], t) for _ in range(7) for name, t in samples(loader, [0]).items())


def validating(loader):
    """The other loader whose samples the model could be given."""
    for other, where in LOADERS:
        if other.dataset is loader.dataset or not hasattr(other.dataset, "__len__") or len(other.dataset) == 0:
            continue
        try:
            samples(other, [0])
        except Exception:  # noqa: BLE001
            continue
        return other, where
    return None, ""


def told(t):
    t = t.contiguous()
    return {
        "shape": list(t.shape),
        "dtype": str(t.dtype).removeprefix("torch."),
        "bytes": base64.b64encode(t.view(torch.uint8).numpy().tobytes() if t.dim() else b"").decode(),
    }


def ends(loader, dataset):
    count = len(dataset)
    ids = sorted({0, min(1, count - 1), count - 1})
    return {"ids": ids, "fields": {name: told(t) for name, t in samples(loader, ids, dataset).items()}}


def data():
    """What is told of it. Where it is not in files that may be read here, it is copied; where its samples are drawn, it can't be."""
    from .copied import around, copy
    from .known import known_files, known_tokens

    if not FIELDS["how"]:
        tokens = known_tokens()
        why = FIELDS.get("why", "the batches come from no DataLoader")
        return {"known": tokens, "why": "" if tokens else why, "shuffle": True}
    loader, how = FIELDS["loader"], FIELDS["how"]
    if not hasattr(loader.dataset, "__len__") or not hasattr(loader.dataset, "__getitem__") or size_of(loader) is None:
        return {"known": None, "why": "its Dataset has no samples by their number", "shuffle": True}
    other, where = validating(loader)
    known, quiet = known_files(loader, other)
    if known and is_reshaped(loader, quiet):
        known, quiet = None, loader.dataset
    random = is_random(loader)
    found = {
        "samples": len(loader.dataset),
        "shuffle": shuffles(loader),
        "per_epoch": len(loader),
        "validation": {"samples": len(other.dataset), "where": where} if other else None,
        "random": random,
        "known": known,
        "why": "",
        "around": around(loader, other, how),
    }
    if known or not random:
        found["ends"] = ends(loader, quiet)
        if other and not is_random(other):
            found["validation"]["ends"] = ends(other, other.dataset)
    return found if known or random else found | copy(loader, other)


def read_data():
    """Data that can't be read again is no reason to end."""
    try:
        return data()
    except Exception as error:  # noqa: BLE001
        odd(f"the script's data: reading it again ended with {type(error).__name__}: {error}")
        return {"known": None, "why": "reading it again failed", "shuffle": True}
