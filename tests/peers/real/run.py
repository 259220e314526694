"""Exports the real models, trains them eagerly as hpctrain is told to, and compares what it predicts.

Its arguments are the files beside it that have the models. Commands, as lines of JSON on standard input; each is answered by a line on standard output.
  {"what": "names"}
  {"what": "export", "name", "folder", "steps"}: NAME.pt2, NAME.npz
  {"what": "train", "name", "folder", "steps", "seeds"}: NAME.pt2, NAME.npz; losses in f32 and under autocast
  {"what": "predicted", "name", "folder", "weights", "file"}: the checkpoint's weights loaded strictly, and how far off
"""
import importlib
import json
import os
import struct
import sys
import time
import traceback
import warnings

import numpy as np
import torch

sys.path.insert(0, os.path.dirname(__file__))
from case import loss_of, made, predicted  # noqa: E402

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what libraries print is no answer
warnings.filterwarnings("ignore")
torch.version.cuda = None  # torchaudio refuses to be imported beside another CUDA's PyTorch; here all is on the CPU
torch.set_num_threads(1)
# Another arithmetic than training's, and one that no graph has.
torch.backends.mha.set_fastpath_enabled(False)
models = {}


def case_of(name):
    if not models:
        for module in map(importlib.import_module, sys.argv[1:]):
            models.update({key: (module.LIBRARY, case) for key, case in module.MODELS.items()})
    return models[name][1] if name else None


def built(case):
    torch.manual_seed(1)
    return case.build().float().train()


def data_of(case, steps):
    """Samples for so many batches."""
    random = np.random.default_rng(5)
    columns = {name: made(spec, steps * case.batch, random) for name, spec in case.inputs.items()}
    target = None if case.target is None else made(case.target, steps * case.batch, random)
    return columns, target


def given(case, columns, target, part):
    """The arguments of forward for some samples."""
    inputs = {name: torch.from_numpy(values[part]) for name, values in columns.items()}
    if case.labels:
        inputs[case.labels] = torch.from_numpy(target[part])
    return inputs


def export(case, arguments, path):
    batch = torch.export.Dim("batch", min=2)
    shapes = {name: {0: batch} if isinstance(value, torch.Tensor) else None for name, value in arguments.items()}
    tried = [("any", dict(dynamic_shapes=shapes)), ("any", dict(
        dynamic_shapes={n: s and {0: torch.export.Dim.DYNAMIC} for n, s in shapes.items()})), (str(case.batch), {})]
    for i, (sizes, options) in enumerate(tried):
        torch.manual_seed(1)
        try:
            program = torch.export.export(built(case), (), kwargs=arguments, **options)
        except Exception:  # a model that fixes its batch
            if i == len(tried) - 1:
                raise
            continue
        torch.export.save(program, path)
        return sizes


def complex_in(model):
    return any(p.is_complex() for p in model.parameters())


def bits(loss):
    return struct.pack(">f", loss.item()).hex()


def trained(case, columns, target, steps, seeds, half):
    model = built(case)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-2, momentum=0.9, fused=not complex_in(model))
    losses = []
    for step in range(steps):
        part = slice(step * case.batch, (step + 1) * case.batch)
        torch.manual_seed(int(seeds[step]))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            output = model(**given(case, columns, target, part))
            loss = loss_of(case, output, None if target is None else torch.from_numpy(target[part]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(bits(loss))
    return losses, model


def exported(name, folder, steps):
    """NAME.pt2 and NAME.npz, and what a run is told of them."""
    case = case_of(name)
    columns, target = data_of(case, steps)
    first = given(case, columns, target, slice(0, case.batch))
    arrays = {**columns, **({} if target is None else {case.labels or "target": target})}
    np.savez(os.path.join(folder, f"{name}.npz"), **arrays)
    sizes = export(case, first, os.path.join(folder, f"{name}.pt2"))
    return {
        "batch": case.batch, "sizes": sizes, "judge": case.judge, "features": list(case.inputs),
        "target": None if target is None else case.labels or "target",
    }


def train(name, folder, steps, seeds):
    case = case_of(name)
    began = time.perf_counter()
    told = exported(name, folder, steps)
    seconds = time.perf_counter() - began
    columns, target = data_of(case, steps)
    losses, model = trained(case, columns, target, steps, seeds, False)
    halves, _ = trained(case, columns, target, steps, seeds, True)
    weights = {key: value for key, value in model.state_dict().items() if isinstance(value, torch.Tensor)}  # neuraloperator's has more
    torch.save(weights, os.path.join(folder, f"{name}.eager.pt"))
    return {
        **told, "losses": losses, "halves": halves,
        "parameters": sum(p.numel() for p in model.parameters()), "seconds": round(seconds, 1),
    }


def far(ours, theirs):
    """The largest difference, in units of the largest number."""
    most = max(float(theirs.abs().max()) if theirs.numel() else 0.0, 1e-30)
    return float((ours.double() - theirs.double()).abs().max()) / most if theirs.numel() else 0.0


def compare(name, folder, steps, weights, file):
    """The checkpoint in the module, strictly; its distance from Python's own weights; the predictions' from the module's."""
    case = case_of(name)
    columns, target = data_of(case, steps)
    model = built(case)
    state = torch.load(weights, weights_only=True)["model_state_dict"]
    model.load_state_dict(state, strict=True)
    eager = torch.load(os.path.join(folder, f"{name}.eager.pt"), weights_only=True)
    apart = max((far(state[key].float(), eager[key].float()) for key in eager), default=0.0)
    if file is None:
        return {"weights": apart, "predicted": None, "drawn": False}
    ours = torch.from_numpy(np.load(file)["prediction"])
    model.eval()

    def evaluated(seed):
        torch.manual_seed(seed)
        parts = [slice(step * case.batch, (step + 1) * case.batch) for step in range(steps)]
        return torch.cat([predicted(model(**given(case, columns, target, part))).float() for part in parts])

    with torch.no_grad():
        theirs, again = evaluated(0), evaluated(1)
    if ours.numel() != theirs.numel():
        raise ValueError(f"predictions of shape {list(ours.shape)}, PyTorch's are {list(theirs.shape)}")
    # What a model draws in evaluation is drawn anew each time, in PyTorch as well: no two predictions are the same.
    drawn = not torch.equal(theirs, again)
    return {"weights": apart, "predicted": None if drawn else far(ours.reshape(theirs.shape), theirs), "drawn": drawn}


def answer(asked):
    what = asked.pop("what")
    if what == "names":
        case_of(None)
        return {"names": [[name, library] for name, (library, _) in models.items()]}
    return {"train": train, "export": exported, "predicted": compare}[what](**asked)


for line in sys.stdin:
    try:
        found = answer(json.loads(line))
    except Exception as error:
        lines = [text for text in str(error).splitlines() if text.strip()]
        found = {"error": f"{type(error).__name__}: {lines[0] if lines else ''}", "trace": traceback.format_exc()[-3000:]}
    answers.write(json.dumps(found) + "\n")
    answers.flush()
