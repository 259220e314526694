// A program without a dimension for the batch: a net on one graph, with masks of the nodes to train and to validate with.
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { join } from "paths";
import { eventsOf, inTemp, succeed } from "../../../integration/program.ts";
import { peer } from "../../../peer.ts";

const GRAPH = `
import numpy as np, torch
N, F, C = 60, 8, 3
rng = np.random.default_rng(0)
y = rng.integers(0, C, N)
x = (np.eye(C)[y] @ rng.normal(size=(C, F)) + rng.normal(size=(N, F))).astype("f4")
source, end = rng.integers(0, N, (2, 400))
kept = (y[source] == y[end]) | (rng.random(400) < 0.2)
part = rng.random(N)
np.savez("graph.npz", x=x, edge_index=np.stack([source[kept], end[kept]]), y=y, train_mask=part < 0.6, val_mask=part >= 0.6)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = torch.nn.Linear(F, 16), torch.nn.Linear(16, C)

    def forward(self, x, edge_index):
        def spread(h):
            near = torch.zeros_like(h).index_add(0, edge_index[1], h[edge_index[0]])
            count = torch.zeros(len(h)).index_add(0, edge_index[1], torch.ones(edge_index.shape[1]))
            return h + near / count.clamp(min=1)[:, None]
        return self.b(spread(self.a(spread(x)).relu()))

g = {name: torch.tensor(array) for name, array in np.load("graph.npz").items()}
net = Net()
torch.export.save(torch.export.export(net, (g["x"], g["edge_index"])), "net.pt2")
torch.set_num_threads(1)
optimizer, train, val = torch.optim.SGD(net.parameters(), 0.1), g["train_mask"], g["val_mask"]
for _ in range(8):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(g["x"], g["edge_index"])[train], g["y"][train])
    loss.backward()
    optimizer.step()
    scores = net(g["x"], g["edge_index"])[val]
    print(loss.item(), (scores.argmax(1) == g["y"][val]).float().mean().item())
`;

const DATA = `
import numpy as np
graph = np.load("graph.npz")
class Nodes:
    def __init__(self, mask): self.mask = graph[mask]
    def __len__(self): return 1
    def __getitem__(self, i):
        inputs = {"x": graph["x"], "edge_index": graph["edge_index"]}
        return inputs, np.where(self.mask, graph["y"], -100)
def data(settings, seed):
    return {"task": "segmentation", "outputs": 3, "train": Nodes("train_mask"), "val": Nodes("val_mask")}
`;

Deno.test("a net on a whole graph learns its nodes of the training mask and is judged by the others, as in PyTorch", () =>
  inTemp(async (cwd) => {
    Deno.writeTextFileSync(join(cwd, "nodes.py"), DATA);
    const { success, stdout, stderr } = peer(["-c", GRAPH], { cwd }).outputSync();
    assert(success, new TextDecoder().decode(stderr));
    const theirs = new TextDecoder().decode(stdout).trim().split("\n").map((line) =>
      line.split(" ").map(Number)
    );
    const python = Deno.env.get("HPCTRAIN_PYTHON") ?? "python3";
    for (const [name, ...compile] of [["a", "--no-compile"], ["b", "--compile=exact"]]) {
      const flags =
        `--model=net.pt2 --data=nodes.py --data-python=${python} --batch-size=1 --epochs=8 --optimizer=sgd --lr=0.1 ` +
        "--set=training.optimizer.momentum=0 --weight-decay=0 --scheduler=constant --device=cpu --threads=1 --log-interval=1 " +
        `--num-workers=0 --no-wandb --run-name=${name}`;
      await succeed(["train", ...flags.split(" "), ...compile], { cwd });
      const events = eventsOf(cwd, name);
      const losses = events.flatMap(({ kind, loss }) => kind === "step" ? [loss as number] : []);
      const accuracies = events.flatMap(({ kind, metrics }) =>
        kind === "eval" ? [(metrics as { accuracy: number }).accuracy] : []
      );
      assertEquals([losses.length, accuracies.length], [8, 8]);
      losses.forEach((loss, i) => assertAlmostEquals(loss, theirs[i][0], 1e-6));
      accuracies.forEach((accuracy, i) => assertAlmostEquals(accuracy, theirs[i][1], 1e-6));
    }
  }));
