"""Which forms of PyTorch's operations torch.export writes for the models of a library, and for how many of them.

Arguments: a file beside this one, and how many seconds it may take. A line of JSON for each model on standard output: its name, and its forms ("aten.add.Tensor")
or what went wrong. A form counts where the program that was exported for training has it, or what run_decompositions() makes of that.
"""

import importlib
import json
import os
import signal
import sys
import time
import warnings

import torch

LONGEST = 60

sys.path[:0] = [
    os.path.dirname(__file__),
    os.path.join(os.path.dirname(__file__), "../real"),
    os.path.join(os.path.dirname(__file__), ".."),
]
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what libraries print is no answer
warnings.filterwarnings("ignore")
os.environ["HF_HUB_OFFLINE"] = "1"
torch.version.cuda = None  # torchaudio refuses to be imported beside another CUDA's PyTorch
torch.set_num_threads(1)
torch.backends.mha.set_fastpath_enabled(False)


def forms(program):
    """Of PyTorch's own operations. Graphs inside of graphs, as of torch.no_grad, count as well."""
    return {
        str(node.target)
        for part in program.graph_module.modules()
        if isinstance(part, torch.fx.GraphModule)
        for node in part.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload) and node.target.namespace == "aten"
    }


def batched(value):
    """Any number of samples, where the model allows it."""
    if isinstance(value, torch.Tensor):
        return {0: torch.export.Dim.AUTO} if value.ndim > 0 else None
    if isinstance(value, (list, tuple)):
        return type(value)(map(batched, value))
    return {key: batched(each) for key, each in value.items()} if isinstance(value, dict) else None


def exported(model, args, kwargs):
    shapes = tuple(map(batched, args)) if not kwargs else None
    for dynamic in ([shapes] if shapes else []) + [None]:
        try:
            return torch.export.export(model, args, kwargs, dynamic_shapes=dynamic)
        except Exception:
            if dynamic is None:
                raise


def seen(build):
    torch.manual_seed(1)
    made = build()
    if not isinstance(made, torch.export.ExportedProgram):
        model, args, *kwargs = made
        made = exported(model.train(), args if isinstance(args, tuple) else (args,), kwargs[0] if kwargs else {})
    found = forms(made)
    try:
        found |= forms(made.run_decompositions())
    except Exception:  # the program for training is what counts most
        pass
    return sorted(found)


def late(*_):
    raise TimeoutError(f"more than {LONGEST} s")


def main(library, seconds):
    signal.signal(signal.SIGALRM, late)
    end = time.monotonic() + seconds
    for name, build in importlib.import_module(library).models():
        if time.monotonic() > end:
            break
        signal.alarm(LONGEST)
        try:
            found = {"forms": seen(build)}
        except BaseException as error:  # libraries raise what they like
            if isinstance(error, KeyboardInterrupt):
                raise
            found = {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:150] if str(error).strip() else ''}"}
        finally:
            signal.alarm(0)
        answers.write(json.dumps({"library": library, "model": name, **found}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
