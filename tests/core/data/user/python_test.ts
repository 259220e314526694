// Data sets of Python files, with real numpy and torch: samples, threads, resume, mistakes.
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { join } from "paths";
import { resolveSettings } from "../../../../core/settings/resolve.ts";
import { plainPart } from "../../../../core/data/source/source.ts";
import { userData } from "../../../../core/data/user/data.ts";
import { openPythonFile } from "../../../../core/models/user/python.ts";
import { scope, toNumbers } from "../../../../mod.ts";
import { eventsOf, inTemp, run, succeed, TINY } from "../../../integration/program.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { peer } from "../../../peer.ts";
import { assertSentence } from "../../../sentences.ts";

useLibtorch();
const python = Deno.env.get("HPCTRAIN_PYTHON") ?? "python3";
const { config } = resolveSettings({ argv: ["--data-python", python], env: {} });

/** The sources of a file with this text. */
async function sourcesOf(folder: string, text: string, more = {}) {
  const path = join(folder, `own${crypto.randomUUID().slice(0, 8)}.py`);
  Deno.writeTextFileSync(path, text);
  return {
    path,
    open: userData.bind(null, await openPythonFile(path), { ...config.data, ...more }, 7, false),
  };
}

const DATA = (train: string, more = "") =>
  `${more}
def data(settings, seed):
    return dict(task="regression", outputs=2, train=${train})
`;

Deno.test({
  name:
    "samples are what the data set gives: numbers, arrays, tensors, rows made together, drawn by seed and epoch",
  sanitizeOps: false, // the Python processes end with this one
  sanitizeResources: false,
  fn: () =>
    inTemp(async (folder) => {
      const rows = async (text: string, ids: number[], epoch = 0) => {
        const { train } = (await sourcesOf(folder, text)).open();
        const { input, target } = scope(() => {
          const { input, target } = train.raw(plainPart(ids, epoch));
          return {
            input: [input.dtype, [...toNumbers(input)]],
            target: [target.dtype, [...toNumbers(target)]],
          };
        });
        return [input, target];
      };
      const numbers = DATA("[([i, i + 0.5], (i, -i)) for i in range(5)]");
      assertEquals(await rows(numbers, [3, 1]), [["f32", [3, 3.5, 1, 1.5]], ["i64", [3, -3, 1, -1]]]);
      const tensors = DATA(
        "torch.utils.data.TensorDataset(torch.arange(6.0).double().reshape(3, 2).T.bfloat16().float().T, torch.ones(3, 2).half())",
        "import torch",
      );
      assertEquals(await rows(tensors, [2]), [["f32", [4, 5]], ["f32", [1, 1]]]);
      const together = DATA(
        "Rows()",
        `
import numpy as np
class Rows:
    def __len__(self): return 9
    def batch(self, ids, epoch): return np.uint8([[i, epoch] for i in ids]), np.float64([[i, 1] for i in ids])
`,
      );
      assertEquals(await rows(together, [4, 8], 2), [["u8", [4, 2, 8, 2]], ["f32", [4, 1, 8, 1]]]);
      const drawn = DATA(
        "Drawn()",
        `
import random, numpy as np
class Drawn:
    def __len__(self): return 9
    def __getitem__(self, i): return [random.random(), np.random.rand()], (0.0, 0.0)
`,
      );
      const [a, b, again, other] = [
        await rows(drawn, [1, 2]),
        await rows(drawn, [2, 1]),
        await rows(drawn, [1, 2]),
        await rows(drawn, [1, 2], 1),
      ].map(([[, x]]) => x as number[]);
      assertEquals(a, again);
      assertEquals(a, [...b.slice(2), ...b.slice(0, 2)], "whatever was read before");
      assert(a.every((x, i) => x !== other[i]), "another epoch draws anew");
    }),
});

Deno.test({
  name: "mistakes in the file, in a sample and of its process are sentences with their line",
  sanitizeOps: false,
  sanitizeResources: false,
  fn: () =>
    inTemp(async (folder) => {
      const sample = (line: string) =>
        DATA(
          "Own()",
          `
import os
class Own:
    def __len__(self): return 4
    def __getitem__(self, i):
        ${line}
        return [0.0] * 2, [1.0, 2.0]
`,
        );
      const cases: [string, RegExp][] = [
        ["x = 1", /own\w+\.py: it has no function data\(settings, seed\)\.$/],
        [
          "def data(settings, seed):\n    return 3",
          /data\(\) gave 3, and not a dict with task, outputs, train/,
        ],
        ["def data(:", /own\w+\.py:1: .+\.$/],
        ["import nowhere", /own\w+\.py:1: ModuleNotFoundError: No module named 'nowhere'\.$/],
        ["import sys\nsys.exit(3)", /own\w+\.py:2: SystemExit: 3\.$/],
        [
          "import os\nos._exit(3)",
          /has ended while it gave samples; .* Another Python is chosen with --data-python/,
        ],
        [DATA("[]"), /train\.length is the number 0/],
        [DATA('[("a", 1)]'), /a sample is of <U1, and not of numbers\.$/],
        [
          DATA("[(1, 2, 3)]"),
          /a sample has 3 parts, and should be \(input, target\); several inputs go together as/,
        ],
        [DATA("[1.0]"), /train\.batch was asked for 1 samples and gave .* it should give/],
        [sample("assert i < 0, 'none there'"), /own\w+\.py:6: AssertionError: none there\.$/],
      ];
      for (const [text, said] of cases) {
        const { open } = await sourcesOf(folder, text);
        assertMatch(assertThrows(() => open(), Error, undefined, text).message, said);
      }
      const { open } = await sourcesOf(folder, DATA("[([0.0], [1.0, 2.0]), ([0.0, 1.0], [1.0, 2.0])]"));
      const { train } = open();
      const unlike = assertThrows(() => train.raw(plainPart([0, 1], 0)), Error);
      assertSentence("core/data/user/python: sample shape sample", unlike.message);
      const dying = (await sourcesOf(folder, sample("if i == 2: os._exit(9)"))).open().train;
      assertMatch(
        assertThrows(() => dying.raw(plainPart([2], 0)), Error).message,
        /has ended while it gave samples/,
      );
      const missing = await sourcesOf(folder, DATA("[]"), { python: "no-such-python" });
      assertMatch(assertThrows(() => missing.open(), Error).message, /no-such-python has ended/);
    }),
});

Deno.test("a Python data set trains in threads and without, goes on, is predicted, and is known again", () =>
  inTemp(async (cwd) => {
    await succeed(["new", "data", "own.py"], { cwd });
    const wrapper = join(cwd, "own-python"), asked = join(cwd, "asked");
    Deno.writeTextFileSync(wrapper, `#!/bin/sh\ntouch ${asked}\nexec ${python} "$@"\n`, { mode: 0o755 });
    const choice = `--data-python=${wrapper}`;
    const own = ["--data=own.py", choice];
    const flags = [
      ...TINY,
      ...own,
      "--model=mlp",
      "--log-interval=1",
      "--no-wandb",
      "--epochs=2",
      "--scheduler=constant",
    ];
    await succeed([...flags, "--run-name=alone", "--num-workers=0"], { cwd });
    await succeed([...flags, "--run-name=threads", "--num-workers=2", "--max-steps=3"], { cwd });
    const goesOn = ["--run-name=threads", "--resume=auto", "--max-steps=0", "--num-workers=2", "--no-wandb"];
    await succeed(goesOn, { cwd });
    const steps = (name: string) =>
      eventsOf(cwd, name).flatMap(({ kind, loss }) => kind === "step" ? [loss] : []);
    assertEquals(steps("alone").length, 8);
    assertEquals(steps("threads"), steps("alone"), "in threads, and in two halves");

    const checkpoint = "checkpoints/alone_best.pt";
    Deno.removeSync(asked);
    await succeed(["predict", checkpoint, "--out=p.npz"], { cwd });
    Deno.removeSync(asked); // by the Python that the run was made with
    const typed = await run(["eval", checkpoint, "--data=own.py"], { cwd });
    assertMatch(
      typed.stderr,
      /The checkpoint names the Python \S+own-python for .* say so: --data-python \S+own-python\.$/m,
    );
    assertEquals(typed.code, 2);
    assert(![...Deno.readDirSync(cwd)].some(({ name }) => name === "asked"), "and no other one unasked");
    await succeed(["eval", checkpoint, "--data=own.py", choice], { cwd });
    const theirs = peer([
      "-c",
      "import runpy, numpy as np; v = runpy.run_path('own.py')['data'](dict(train_samples=64, val_samples=16), 0)['val']; " +
      "p = np.load('p.npz'); print(p['target'].reshape(-1).tolist() == [v[i][1] for i in p['id']], len(p['id']))",
    ], { cwd }).outputSync();
    assertEquals(new TextDecoder().decode(theirs.stdout).trim(), "True 16");

    Deno.writeTextFileSync(join(cwd, "own.py"), "# changed\n", { append: true });
    const refused = await run(["eval", checkpoint], { cwd });
    assertSentence("core/data/user/python: names own run", refused.stderr);
    assertEquals(refused.code, 2);
  }));

/** Pairs of rows, drawn anew in each epoch, and a model of two inputs: its data, and its losses as PyTorch has them. */
const PAIRS = `
import numpy as np
class Pairs:
    def __len__(self): return 24
    def __getitem__(self, i):
        other = np.random.randint(24)
        return {"left": np.array([i, 1.0]), "right": np.array([[other, 2], [3, 4]]), "same": other}, float(i % 3 == other % 3)
def data(settings, seed): return {"task": "regression", "outputs": 1, "train": Pairs(), "val": None}
`;
const TWIN = `
import json, sys, torch
class Twin(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0); self.a = torch.nn.Linear(2, 3); self.b = torch.nn.Linear(4, 3)
    def forward(self, right, left):
        return (self.a(left).tanh() - self.b(right.flatten(1).float() / 24).tanh()).square().sum(1, keepdim=True)
n = torch.export.Dim("n")
inputs = torch.zeros(2, 2, 2, dtype=torch.int64), torch.zeros(2, 2)
torch.export.save(torch.export.export(Twin(), inputs, dynamic_shapes=({0: n}, {0: n})), "twin.pt2")
`;

Deno.test("several inputs of a sample go to a program's inputs by their names, and pairs are drawn anew in each epoch", () =>
  inTemp(async (cwd) => {
    Deno.writeTextFileSync(join(cwd, "pairs.py"), PAIRS);
    assert(peer(["-c", TWIN], { cwd }).outputSync().success);
    const common = [
      "--data=pairs.py",
      `--data-python=${python}`,
      "--device=cpu",
      "--threads=1",
      "--no-wandb",
      "--seed=5",
    ];
    const flags = [
      ...common,
      "--model=twin.pt2",
      "--batch-size=24",
      "--no-shuffle",
      "--epochs=3",
      "--lr=0",
      "--log-interval=1",
    ];
    await succeed(["train", ...flags, "--run-name=a", "--num-workers=0"], { cwd });
    await succeed(["train", ...flags, "--run-name=b", "--num-workers=2"], { cwd });
    const losses = (name: string) =>
      eventsOf(cwd, name).flatMap(({ kind, loss }) => kind === "step" ? [loss] : []);
    assertEquals(new Set(losses("a")).size, 3, "each epoch has other pairs");
    assertEquals(losses("b"), losses("a"));
    const theirs = peer([
      "-c",
      `${TWIN}
import runpy, numpy as np
sys.path.insert(0, ${
        JSON.stringify(join(new URL("../../../..", import.meta.url).pathname, "core/models/user/templates"))
      })
source = open(sys.path[0] + "/dataset_server.py").read().rsplit("main()", 1)[0]
server = {"__name__": "server"}; exec(source, server)
pairs, model = runpy.run_path("pairs.py")["Pairs"](), Twin()
def row(i, epoch):
    server["seeded"](int(sys.argv[1]), epoch, i)
    return pairs[i]
for epoch in range(3):
    rows = [row(i, epoch) for i in range(24)]
    left, right = (torch.tensor(np.stack([x[k] for x, _ in rows])) for k in ("left", "right"))
    print(torch.nn.functional.mse_loss(model(right, left.float()), torch.tensor([[y] for _, y in rows])).item())`,
      "5",
    ], { cwd }).outputSync();
    assertEquals(
      new TextDecoder().decode(theirs.stdout).trim().split("\n").map(Number),
      losses("a"),
      new TextDecoder().decode(theirs.stderr),
    );
  }));
