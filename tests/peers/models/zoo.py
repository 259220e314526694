"""The zoo's models in plain PyTorch: initial weights, forward in both modes, gradients, as prints."""
import torch
import torch.nn.functional as F
from common import made, serve, show, zoo_models


def loss_of(case, output, target):
    if case["task"] == "regression":
        return F.mse_loss(output, target)
    if case["task"] == "language":
        return F.cross_entropy(output.view(-1, output.size(-1)), target.view(-1))
    return F.cross_entropy(output, target)


def answer(case):
    torch.manual_seed(1)
    model = getattr(zoo_models, case["peer"])(**case["sizes"])
    state = {name: show(t) for name, t in model.state_dict().items()}
    torch.manual_seed(2)
    if case.get("redraw"):
        for p in model.parameters():
            torch.nn.init.normal_(p, 0, 0.05)
    x, target = made(case["input"]), made(case["target"])
    if case.get("channelsLast"):
        n, c, h, w = x.shape
        x = x.contiguous(memory_format=torch.channels_last).as_strided(x.shape, (c * h * w, 1, w * c, c))
    torch.manual_seed(3)
    output = model(x)
    loss = loss_of(case, output, target)
    loss.backward()
    result = {
        "state": list(state.items()),
        "input": show(x),
        "train": show(output),
        "loss": show(loss),
        "gradients": [[name, show(p.grad)] for name, p in model.named_parameters()],
        "buffers": [[name, show(b)] for name, b in model.named_buffers() if name in state],
    }
    model.eval()
    result["eval"] = show(model(x))
    return result


torch.backends.mha.set_fastpath_enabled(False)  # inference only, and other arithmetic than training's
serve(answer)
