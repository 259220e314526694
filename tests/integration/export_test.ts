// `hpctrain export`: what a run has learned, back in Python: a state dict for the module, and the exported program itself.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { python } from "../core/checkpoint/python.ts";
import { inTemp, run, succeed } from "./program.ts";

const MODULE = `
import torch, torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.conv.weight.data = self.conv.weight.data.to(memory_format=torch.channels_last)
        self.norm = nn.BatchNorm2d(4)
        self.into, self.back = nn.Linear(4, 6, bias=False), nn.Linear(4, 6)
        self.back.weight = self.into.weight  # tied
        self.head = nn.Linear(6, 3)
    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x))).mean((2, 3))
        return self.head(self.into(x) * torch.sigmoid(self.back(x)))
`;
const PREPARE = `${MODULE}
import numpy, os, sys
os.chdir(sys.argv[1])
rng = numpy.random.default_rng(1)
x = rng.normal(size=(48, 2, 6, 6)).astype("float32")
numpy.savez("data.npz", x=x, y=(x[:, 0].mean((1, 2)) > 0).astype("int64") + (x[:, 1, 0, 0] > 1))
net = Net().train()
batch = {"x": {0: torch.export.Dim("batch", min=2)}}
program = torch.export.export(net, (torch.randn(4, 2, 6, 6),), dynamic_shapes=batch)
torch.export.save(program, "net.pt2")
import zipfile
from torch._export.serde.serialize import serialize
parts = serialize(program)
with zipfile.ZipFile("old.pt2", "w") as z:  # as PyTorch 2.7 wrote it
    z.writestr("serialized_exported_program.json", parts.exported_program)
    z.writestr("serialized_state_dict.pt", parts.state_dict)
    z.writestr("serialized_constants.pt", parts.constants)
    z.writestr("serialized_example_inputs.pt", parts.example_inputs)
    z.writestr("version", "8.2")
print("null")
`;
/** The largest difference between the outputs of two states, and of the loaded program's weights from the module's. */
const COMPARE = `${MODULE}
import json, os, sys
os.chdir(sys.argv[1])
from safetensors.torch import load_file
program = torch.export.load("trained.pt2")
state = torch.load("weights.pt", weights_only=True)
net, other, untrained = Net(), Net(), Net()
net.load_state_dict(state, strict=True)
other.load_state_dict(load_file("weights.safetensors"), strict=True)
x = torch.randn(8, 2, 6, 6)
net.train(); other.train(); untrained.train()
ran = program.module()
print(json.dumps({
    "plain": type(state).__name__,
    "names": list(state),
    "weights": max((a.double() - state[n].double()).abs().max().item() for n, a in program.state_dict.items()),
    "outputs": (ran(x) - net(x)).abs().max().item(),
    "safetensors": (other(x) - Net.forward(net, x)).abs().max().item(),
    "learned": (untrained(x) - Net.forward(net, x)).abs().max().item(),
    "statistics": (state["norm.running_mean"] - Net().norm.running_mean).abs().max().item(),
    "strides": list(program.state_dict["conv.weight"].stride()),
    "tied": program.state_dict["into.weight"].data_ptr() == program.state_dict["back.weight"].data_ptr(),
}))
`;
const TRAIN = ["--device=cpu", "--threads=1", "--no-wandb", "--epochs=2", "--batch-size=8", "--lr=0.01"];

Deno.test("an exported program comes back with what was learned, and runs in Python as the module with the state dict does", () =>
  inTemp(async (cwd) => {
    python(PREPARE, cwd);
    await succeed([
      ...["train", "--model=net.pt2", "--data-path=data.npz", "--features=x", "--targets=y", "--run-name=r"],
      ...TRAIN,
    ], { cwd });
    for (const out of ["weights.pt", "weights.safetensors", "trained.pt2"]) {
      await succeed(["export", "checkpoints/r_latest.pt", out], { cwd });
    }
    const found = JSON.parse(python(COMPARE, cwd));
    assertEquals(found.weights, 0);
    assert(found.outputs < 1e-6, `${found.outputs}`);
    assert(found.safetensors < 1e-6, `${found.safetensors}`);
    assert(found.learned > 1e-3, "training changed the weights");
    assert(found.statistics > 1e-3, "and the running statistics");
    assertEquals([found.plain, found.tied], ["OrderedDict", true]);
    assertEquals(found.strides, [18, 1, 6, 2], "as they were: channels last");
    const shown = await succeed(["models", "trained.pt2", "--json"], { cwd });
    assertEquals(JSON.parse(shown.stdout).parameters, 76 + 8 + 24 + 6 + 21);
    const old = await run(["export", "checkpoints/r_latest.pt", "from-old.pt2", "--model=old.pt2"], { cwd });
    assertEquals(old.code, 8);
    assertStringIncludes(old.stderr, "Write the state dict (OUT.pt)");
    // It trains on here, too.
    await succeed([
      ...["train", "--model=trained.pt2", "--data-path=data.npz", "--features=x", "--targets=y"],
      ...["--run-name=again", ...TRAIN],
    ], { cwd });

    await Deno.rename(`${cwd}/net.pt2`, `${cwd}/moved.pt2`);
    const lost = await run(["export", "checkpoints/r_latest.pt", "more.pt2"], { cwd });
    assertEquals(lost.code, 2);
    assertStringIncludes(lost.stderr, "is not there: say where with --model FILE");
    await succeed(["export", "checkpoints/r_latest.pt", "more.pt2", "--model=moved.pt2"], { cwd });
    assertEquals(await Deno.readFile(`${cwd}/more.pt2`), await Deno.readFile(`${cwd}/trained.pt2`));
  }));

/** Its part under no_grad gives nothing: it moves buffers. */
const BANK = `
import json, os, sys, zipfile, numpy, torch, torch.nn as nn
os.chdir(sys.argv[1])
class Bank(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.head = nn.Linear(6, 3)
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("seen", torch.zeros(1))
    def forward(self, x):
        y = self.head(x[:, 0:] - self.mean)
        with torch.no_grad():
            self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
            self.seen.add_(1)
        return y
def graph(path):
    with zipfile.ZipFile(path) as z:
        return json.loads(z.read([n for n in z.namelist() if n.endswith("models/model.json")][0]))
def nodes(json, found):
    for node in json["nodes"]:
        found.append(node)
        for given in node["inputs"]:
            if "as_graph" in given["arg"]: nodes(given["arg"]["as_graph"]["graph"], found)
    return found
`;
const PREPARE_BANK = `${BANK}
rng = numpy.random.default_rng(1)
numpy.savez("data.npz", x=rng.normal(size=(48, 6)).astype("float32"), y=rng.integers(0, 3, 48))
program = torch.export.export(Bank().train(), (torch.randn(4, 6),), dynamic_shapes=({0: torch.export.Dim("batch", min=2)},))
torch.export.save(program, "bank.pt2")
print("null")
`;
const COMPARE_BANK = `${BANK}
program = torch.export.load("trained.pt2")
net = Bank().train()
net.load_state_dict(torch.load("weights.pt", weights_only=True))
x = torch.randn(8, 6)
ran = program.module()
far = (ran(x) - net(x)).abs().max().item()
before, after = graph("bank.pt2"), graph("trained.pt2")
added = 0
for node in nodes(after["graph_module"]["graph"], []):
    if node["outputs"] == [{"as_none": True}]:
        node["outputs"], added = [], added + 1
print(json.dumps({"far": far, "moved": torch.equal(ran.mean, net.mean), "seen": ran.seen.item(), "added": added, "same": before == after}))
`;

Deno.test("a part of forward that only moves buffers comes back in a program that PyTorch loads", () =>
  inTemp(async (cwd) => {
    python(PREPARE_BANK, cwd);
    await succeed([
      ...["train", "--model=bank.pt2", "--data-path=data.npz", "--features=x", "--targets=y", "--run-name=r"],
      ...TRAIN,
    ], { cwd });
    for (const out of ["weights.pt", "trained.pt2"]) {
      await succeed(["export", "checkpoints/r_latest.pt", out], { cwd });
    }
    const { far, moved, seen, added, same } = JSON.parse(python(COMPARE_BANK, cwd));
    assert(far < 1e-6, `${far}`);
    assertEquals([moved, added, same], [true, 1, true]);
    assert(seen > 1, `${seen}`);
    await succeed([
      ...["train", "--model=trained.pt2", "--data-path=data.npz", "--features=x", "--targets=y"],
      ...["--run-name=again", ...TRAIN],
    ], { cwd });
  }));

const MLP = `
import json, os, sys, torch, torch.nn as nn
os.chdir(sys.argv[1])
whole = torch.load("checkpoints/r_latest.pt", weights_only=True)
relu = lambda: nn.Sequential(nn.ReLU(), nn.Dropout(0.0))
net = nn.Sequential(nn.Linear(7, 8), relu(), nn.Linear(8, 8), relu(), nn.Linear(8, 1))
found = {}
for name in ["averages.pt", "raw.pt"]:
    state = torch.load(name, weights_only=True)
    net.load_state_dict(state, strict=True)
    others = whole["hpctrain"]["ema_state_dict"] if name == "averages.pt" else whole["model_state_dict"]
    found[name] = all(torch.equal(state[n], t) for n, t in others.items())
found["differ"] = not torch.equal(torch.load("averages.pt")["0.weight"], torch.load("raw.pt")["0.weight"])
print(json.dumps(found))
`;

Deno.test("the averages of a run with --ema are exported, with --raw the weights; and what can't be done is one sentence", () =>
  inTemp(async (cwd) => {
    const samples = ["--train-samples=64", "--val-samples=16", "--hidden-size=8"];
    await succeed(["train", "--ema=0.9", "--run-name=r", ...samples, ...TRAIN], { cwd });
    const said = await succeed(["export", "checkpoints/r_latest.pt", "averages.pt"], { cwd });
    assertStringIncludes(said.stdout, "(averages)");
    await succeed(["export", "checkpoints/r_latest.pt", "raw.pt", "--raw"], { cwd });
    assertEquals(JSON.parse(python(MLP, cwd)), { "averages.pt": true, "raw.pt": true, differ: true });

    const refused = async (args: string[], sentence: string, code = 2) => {
      const result = await run(["export", ...args], { cwd });
      assertEquals(result.code, code, result.stderr);
      assertStringIncludes(result.stderr, sentence);
    };
    const from = "checkpoints/r_latest.pt";
    await refused([from], "takes a checkpoint and the file to write");
    await refused([from, "raw.pt"], "raw.pt exists already");
    await refused([from, "out.zip"], "its ending must say the format");
    await refused([from, "out.pt", "--model=x.pt2"], "--model names the program for a .pt2 file");
  }));

Deno.test("a model of the zoo is exported as a program, which trains on here", () =>
  inTemp(async (cwd) => {
    const samples = ["--train-samples=64", "--val-samples=16", "--hidden-size=8"];
    await succeed(["train", "--run-name=r", ...samples, ...TRAIN], { cwd });
    const said = await succeed(["export", "checkpoints/r_latest.pt", "r.pt2"], { cwd });
    assertStringIncludes(said.stdout, `Wrote mlp: 7-8-8-1`);
    await succeed(["train", "--model=r.pt2", "--run-name=again", ...samples.slice(0, 2), ...TRAIN], { cwd });
  }));
