"""What PyTorch says of a model: parameters, FLOPs of a forward pass, and the bytes that autograd keeps of it."""
import torch
import torchvision
from common import serve, zoo_models
from torch.utils.flop_counter import FlopCounterMode


def kept(model, x):
    """Each piece of memory once, without the parameters and the input."""
    known = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers(), x]}
    pieces = {}

    def pack(t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in known:
            pieces[storage.data_ptr()] = (storage.nbytes(), t)
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        model(x)
    return sum(size for size, _ in pieces.values())


def answer(case):
    if "torchvision" in case:
        with torch.device("meta"):
            model = getattr(torchvision.models, case["torchvision"])()
    else:
        model = getattr(zoo_models, case["peer"])(**case["sizes"])
    count = sum(p.numel() for p in model.parameters())
    if "shape" not in case:
        return {"parameters": count}
    shape = [2, *case["shape"]]
    x = torch.zeros(shape, dtype=torch.long) if case.get("tokens") else torch.zeros(shape)
    with FlopCounterMode(display=False) as counter:
        model(x)
    return {"parameters": count, "flops": counter.get_total_flops() / 2, "kept": kept(model, x) / 2}


serve(answer)
