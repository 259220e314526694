// Scripts of PyTorch's in the habits that they are written in: each is adopted as it is, and its first steps are trained here.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { filesIn, inTemp, run, succeed } from "./program.ts";
import { peer } from "../peer.ts";
import { assertSentence } from "../sentences.ts";

const SCRIPTS = new URL("../peers/adopt/", import.meta.url).pathname;
const PYTHON = Deno.env.get("HPCTRAIN_PYTHON") ?? "python3";
const env = { OMP_NUM_THREADS: "1" };

const adopt = (cwd: string, script: string, ...more: string[]) =>
  run(["adopt", "--steps=8", ...more, "--", PYTHON, join(SCRIPTS, `${script}.py`)], { cwd, env });

/** What each is told to have, and how close its steps are here. */
const ADOPTED = {
  plain: [/nll_loss/, /^ {2}optimizer +Adadelta, 1 group/m, /^ {2}dropout +off/m, "bits"],
  vae: [/binary_cross_entropy/, /^ {2}optimizer +Adam, 1 group/m, /^ {2}dropout +off/m, "bits"],
  gpt: [/^ {2}batches +2 for each step/m, /not moved over/, /how the learning rate goes on/, "bits"],
  segmentation: [/one_hot/, /^ {2}optimizer +RMSprop, 1 group/m, /list of 64 samples/, "bits"],
  siamese: [/binary_cross_entropy/, /^(?![^]*turns)[^]*Adadelta, 2 groups/, /361 parameters/, "bits"],
  contrastive: [/Sequential, .*Sequential, .*cross_entropy/, /SGD, 1 group/, /^ {2}dropout +off/m, "bits"],
  wrapped: [/^ {2}batches +2 for each step/m, /Sequential, 548 parameters/, "close"],
  teacher: [/Net, Net, Linear/, /^ {2}after +weights/m, /^(?![^]*Not read: how)/, "bits"],
  gan: [/^ {2}turns +netD, netG/m, /Adam, 2 groups/, "bits"],
  validated: [/clip_value|cross_entropy/, /^(?![^]*Not read)/, /copied to adopted.data: 64 samples/, "bits"],
  nodes: [/nodes, edges, .* never change and are parts of the program/, "close"],
  recurrent: [/Net, nll_loss/, /Adam, 1 group/, /copied to adopted.data: 200 samples/, "bits"],
} as const;

for (const [script, [...said]] of Object.entries(ADOPTED)) {
  Deno.test(`${script}.py is adopted as it is, and its losses here are the script's`, () =>
    inTemp(async (cwd) => {
      const { code, stdout, stderr } = await adopt(cwd, script);
      assertEquals(code, 0, stdout + stderr);
      const close = said.pop() as string;
      for (const part of said) assertMatch(stdout, part as RegExp);
      assertMatch(
        stdout,
        close === "bits"
          ? /^(8|16) of \1 losses have equal bits\.$/m
          : /^(8|16) of \1 losses (have equal bits|are equal to 1e-6)\.$/m,
      );
      const made = filesIn(join(cwd, "adopted"));
      for (const name of ["model.pt2", "run.yaml", "steps.npz"]) assert(made.includes(name), name);
      // What was written is a run's: another one begins from it.
      const data = stdout.includes("not moved over")
        ? ["--data-path=adopted/steps.npz", "--validation-split=0"]
        : [];
      await succeed(["train", ...RUN, ...data, "--dry-run", "--device=cpu"], { cwd });
    }));
}

const RUN = ["--config=adopted/run.yaml", "--model=adopted/model.pt2"];

/** Where each one's data is read from here, and what of it stands in run.yaml. */
const MOVED = {
  folder: {
    said: /ImageFolder of 48 samples \(.*folder\.py:\d+\); ImageFolder, read here as it lies: .*photos$/m,
    settings: [
      /^ {2}type: "imagefolder" # \S*folder\.py:\d+$/m,
      /^ {2}resize: 18 /m,
      /RandomHorizontalFlip\(\), ToTensor/,
      /type: "multistep\(milestones=\[1, 3\], gamma=0\.5\)"/,
    ],
    trained: "12 to validate with",
  },
  table: {
    said: /Wine of 96 samples \(.*\); wine\.csv, read here as it lies: .*wine\.csv$/m,
    settings: [
      /^ {2}features: "alcohol,sugar,acid" /m,
      /^ {2}validation_path: ".*later\.csv"/m,
      /^ {2}shuffle: false/m,
    ],
    trained: "24 to validate with",
  },
  tokens: {
    said: /train\.bin, read here as it lies/,
    settings: [
      /^ {2}token_type: "uint16"/m,
      /^ {2}windows: "random"/m,
      /^ {2}context: 12 /m,
      /type: "linear".*\n.*warmup: "3steps"/,
    ],
    trained: "tokens",
  },
  drawn: {
    said:
      /Subset of 80 samples \(.*\); its samples are drawn again each time; read by Python in .*data_adopted\.py$/m,
    settings: [/^ {2}code: ".*data_adopted\.py"/m, /^ {2}type: "table\(|learning_rate: 0\.1/m],
    trained: "20 to validate with",
  },
} as const;

for (const [script, { said, settings, trained }] of Object.entries(MOVED)) {
  Deno.test(`the data of ${script}.py moves over with it, and is what the next line trains on`, () =>
    inTemp(async (cwd) => {
      const words = [PYTHON, join(SCRIPTS, `${script}.py`), ...(script === "drawn" ? ["--lr", "0.1"] : [])];
      const { code, stdout, stderr } = await run(["adopt", "--steps=8", "--", ...words], { cwd, env });
      assertEquals(code, 0, stdout + stderr);
      assertMatch(stdout, said);
      assertMatch(stdout, /^8 of 8 losses (have equal bits|are equal to 1e-6)\.$/m);
      const text = Deno.readTextFileSync(join(cwd, "adopted/run.yaml"));
      for (const setting of settings) assertMatch(text, setting);
      // The script's order is the table's own, and the proof reads it.
      const proof = Deno.readTextFileSync(join(cwd, "adopted/proof/logs/proof/events.jsonl"));
      assertEquals(proof.includes("steps.npz"), script !== "table");
      const flags = [
        ...RUN,
        "--max-steps=2",
        "--no-wandb",
        "--device=cpu",
        "--run-name=r",
        "--num-workers=1",
      ];
      assertStringIncludes((await succeed(["train", ...flags], { cwd, env })).stdout, trained);
    }));
}

Deno.test("what can be compared ends before a batch of another size, and it is said where", () =>
  inTemp(async (cwd) => {
    const { code, stdout, stderr } = await adopt(cwd, "uneven");
    assertEquals(code, 0, stdout + stderr);
    assertMatch(stdout, /^Not read: step 4 has batches of another size/m);
    assertMatch(stdout, /^3 of 3 losses have equal bits\.$/m);
  }));

Deno.test("weights that were trained here go back into the script's own model", () =>
  inTemp(async (cwd) => {
    await adopt(cwd, "recurrent");
    await succeed([
      "train",
      ...RUN,
      "--max-steps=3",
      "--no-wandb",
      "--device=cpu",
      "--run-name=r",
    ], { cwd });
    await succeed(["export", "checkpoints/r_latest.pt", "weights.safetensors"], { cwd });
    const { success, stderr } = peer([
      "-c",
      "import runpy, sys, torch, safetensors.torch as s; source = open(sys.argv[1]).read().split('torch.manual_seed')[0]; own = {}; " +
      "exec(source, own); print(own['Net']().load_state_dict(s.load_file('weights.safetensors'), strict=True))",
      join(SCRIPTS, "recurrent.py"),
    ], { cwd }).outputSync();
    assert(success, new TextDecoder().decode(stderr));
  }));

Deno.test("settings stand in run.yaml with the script's lines", () =>
  inTemp(async (cwd) => {
    await adopt(cwd, "plain");
    const text = Deno.readTextFileSync(join(cwd, "adopted/run.yaml"));
    const line = (code: string) =>
      1 + Deno.readTextFileSync(join(SCRIPTS, "plain.py")).split("\n").findIndex((one) => one.includes(code));
    assertMatch(text, new RegExp(`^ {4}type: "adadelta" # \\S*plain\\.py:${line("optim.Adadelta")}$`, "m"));
    assertMatch(
      text,
      new RegExp(
        `^ {4}type: "step\\(step_size=1, gamma=0\\.7\\)" # \\S*plain\\.py:${line("StepLR(optimizer")}$`,
        "m",
      ),
    );
    assertMatch(text, /^ {4}per: "epoch"/m);
    assertMatch(text, /^ {2}batch_size: 16 /m);
    assertMatch(text, new RegExp(`^ {2}epochs: 5 # \\S*plain\\.py:${line("for epoch in range")}$`, "m"));
    assertMatch(text, new RegExp(`^ {2}seed: 1 # \\S*plain\\.py:${line("torch.manual_seed")}$`, "m"));
  }));

Deno.test("samples are not copied where nobody wants it, nor where the disk is too small for them", () =>
  inTemp(async (cwd) => {
    const without = await adopt(cwd, "recurrent", "--no-copy", "--steps=2", "--out=without");
    assertMatch(without.stdout, /; read by Python in .*without\/data_adopted\.py$/m);
    Deno.writeTextFileSync(
      join(cwd, "sitecustomize.py"),
      "import collections, shutil\nshutil.disk_usage = lambda path: collections.namedtuple('U', 'total used free')(9, 9, 1000)\n",
    );
    const words = ["adopt", "--steps=2", "--out=small", "--", PYTHON, join(SCRIPTS, "recurrent.py")];
    const small = await run(words, { cwd, env: { ...env, PYTHONPATH: cwd } });
    assertMatch(small.stdout, /samples take \d+ MiB as arrays, and 0 MiB are free at .*; read by Python in/m);
    assertEquals([without.code, small.code], [0, 0], without.stderr + small.stderr);
    for (const out of ["without", "small"]) {
      assert(!filesIn(join(cwd, out)).some((name) => /\bdata\b/.test(name)));
    }
  }));

Deno.test("a run of losses that take turns has the same weights where it was stopped and resumed", () =>
  inTemp(async (cwd) => {
    assertEquals((await adopt(cwd, "gan", "--steps=2")).code, 0);
    const train = (name: string, ...more: string[]) =>
      succeed([
        "train",
        ...RUN,
        "--no-wandb",
        "--device=cpu",
        "--num-workers=0",
        `--run-name=${name}`,
        ...more,
      ], {
        cwd,
        env,
      });
    await train("whole", "--max-steps=6");
    await train("parts", "--max-steps=3");
    await train("parts", "--max-steps=6", "--resume=checkpoints/parts_latest.pt");
    const ends = await Promise.all(["whole", "parts"].map(async (name) => {
      await succeed(["export", `checkpoints/${name}_latest.pt`, `${name}.safetensors`], { cwd });
      return await Deno.readFile(join(cwd, `${name}.safetensors`));
    }));
    assertEquals(ends[0], ends[1]);
  }));

Deno.test("of two ranks that a script starts itself the first is watched, and its first step compared", () =>
  inTemp(async (cwd) => {
    const { code, stdout, stderr } = await adopt(cwd, "ranks");
    assertEquals(code, 0, stdout + stderr);
    assertMatch(stdout, /^Not read: the script has 2 ranks/m);
    assertMatch(stdout, /^1 of 1 losses have equal bits\.$/m);
  }));

Deno.test("what can't be moved over is told with the script's line, and the exit code says so", () =>
  inTemp(async (cwd) => {
    const turns = `import torch
actor, critic = torch.nn.Linear(3, 2), torch.nn.Linear(5, 1)
of_critic, of_actor = torch.optim.SGD(critic.parameters(), 0.1), torch.optim.Adam(actor.parameters())
for step in range(9):
    seen = torch.randn(4, 3)
    for optimizer, done in ((of_critic, torch.randn(4, 2)), (of_actor, actor(seen))):
        optimizer.zero_grad()
        (critic(torch.cat((seen, done), 1)) - optimizer.param_groups[0]["lr"]).pow(2).mean().backward()
        optimizer.step()
`;
    Deno.writeTextFileSync(join(cwd, "turns.py"), turns);
    const types = await run(["adopt", "--steps=2", "--", PYTHON, "turns.py"], { cwd, env });
    assertEquals(types.code, 2, types.stdout + types.stderr);
    assertSentence("integration/adopt: optimizers of two types", types.stderr);
    const critic = `import torch
critic, made = torch.nn.Linear(3, 1), torch.nn.Linear(2, 3)
of_critic, of_made = torch.optim.RMSprop(critic.parameters()), torch.optim.RMSprop(made.parameters())
for step in range(9):
    of_critic.zero_grad()
    (critic(made(torch.randn(4, 2)).detach()).mean() - critic(torch.randn(4, 3)).mean()).backward()
    of_critic.step()
    if step % 3 == 0:
        of_made.zero_grad()
        (-critic(made(torch.randn(4, 2))).mean()).backward()
        of_made.step()
`;
    Deno.writeTextFileSync(join(cwd, "critic.py"), critic);
    const several = await run(["adopt", "--steps=4", "--out=i", "--", PYTHON, "critic.py"], { cwd, env });
    assertSentence("integration/adopt: several steps one", several.stderr);
    assertEquals(several.code, 2);
    const again = await adopt(cwd, "plain");
    assertSentence("integration/adopt: exists already name", again.stderr);
    Deno.writeTextFileSync(join(cwd, "none.py"), "print('nothing to train')\n");
    const none = await run(["adopt", "--out=b", "--", PYTHON, "none.py"], { cwd, env });
    assertEquals(none.code, 2);
    assertSentence("integration/adopt: ended before step", none.stderr.replace(PYTHON, "python"));
    const missing = await run(["adopt", "--out=c", "--", "no-such-python", "none.py"], { cwd, env });
    assertStringIncludes(missing.stderr, "no-such-python");
    assertEquals(missing.code, 2);
    const own = `import torch
class Odd(torch.optim.Optimizer):
    def __init__(self, params): super().__init__(params, dict(lr=0.1))
    def step(self):
        for g in self.param_groups:
            for p in g["params"]: p.data -= g["lr"] * p.grad
net = torch.nn.Linear(3, 1); o = Odd(net.parameters())
while True: o.zero_grad(); net(torch.randn(4, 3)).pow(2).mean().backward(); o.step()
`;
    Deno.mkdirSync(join(cwd, "old/torch"), { recursive: true });
    Deno.writeTextFileSync(join(cwd, "old/torch/__init__.py"), '__version__ = "2.4.1+cu121"\n');
    Deno.writeTextFileSync(join(cwd, "old.py"), "import torch\nprint('it went on')\n");
    const old = await run(["adopt", "--out=e", "--", PYTHON, "old.py"], {
      cwd,
      env: { ...env, PYTHONPATH: join(cwd, "old") },
    });
    assertSentence("integration/adopt: older newer needed", old.stderr);
    assert(!old.stdout.includes("it went on"));
    const ending = `import sys, torch
print(sys.stdin.readline(), end="")
net = torch.nn.Linear(3, 1); o = torch.optim.SGD(net.parameters(), 0.1)
for size in ([4, 3], [4, 4])["uneven" in sys.argv]:
    if "uneven" in sys.argv: net(torch.randn(size - 1, 3)).pow(2).mean().backward()
    net(torch.randn(size, 3)).pow(2).mean().backward()
    torch.nn.utils.clip_grad_norm_([net.bias], 9.0); o.step(); o.zero_grad()
raise SystemExit(0 if "uneven" in sys.argv else "out of data")
`;
    Deno.writeTextFileSync(join(cwd, "ending.py"), ending);
    const early = await run(["adopt", "--out=f", "--", PYTHON, "ending.py"], { cwd, env });
    assertMatch(early.stdout, /^Not read: the script ended after 2 steps/m);
    assertMatch(early.stdout, /^Not read: the gradients of a part of the weights are clipped/m);
    assertMatch(early.stdout, /^1 of 1 losses have equal bits\.$/m);
    const uneven = await run(["adopt", "--out=g", "--", PYTHON, "ending.py", "uneven"], { cwd, env });
    assertSentence("integration/adopt: first several sizes", uneven.stderr);
    const wants =
      "import argparse, torch\np = argparse.ArgumentParser(); p.add_argument('data'); p.parse_args()\n";
    Deno.writeTextFileSync(join(cwd, "wants.py"), wants);
    const asked = await run(["adopt", "--out=h", "--", PYTHON, "wants.py"], { cwd, env });
    assertStringIncludes(asked.stderr, "the following arguments are required: data");
    assertStringIncludes(asked.stderr, "with the arguments that it wants");
    assertEquals([early.code, uneven.code, asked.code], [0, 2, 2]);
    Deno.writeTextFileSync(join(cwd, "own.py"), own);
    const odd = await run(["adopt", "--out=d", "--steps=2", "--", PYTHON, "own.py"], { cwd, env });
    assertSentence("integration/adopt: optimizer not here", odd.stderr);
  }));
