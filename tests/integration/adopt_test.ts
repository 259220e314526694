// Scripts of PyTorch's in the habits that they are written in: each is adopted as it is, and its first steps are trained here.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
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
  gpt: [/^ {2}batches +2 for each step/m, /AdamW, 2 groups/, /how the learning rate goes on/, "close"],
  segmentation: [/one_hot/, /^ {2}optimizer +RMSprop, 1 group/m, /list of 64 samples/, "close"],
  siamese: [/binary_cross_entropy/, /Adadelta/, /361 parameters/, "bits"],
  contrastive: [/Sequential, .*Sequential, .*cross_entropy/, /SGD, 1 group/, /^ {2}dropout +off/m, "bits"],
  recurrent: [/Net, nll_loss/, /Adam, 1 group/, /TensorDataset of 200 samples/, "close"],
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
          ? /^8 of 8 losses have equal bits\.$/m
          : /^8 of 8 losses (have equal bits|are equal to 1e-6)\.$/m,
      );
      const made = filesIn(join(cwd, "adopted"));
      for (const name of ["model.pt2", "run.yaml", "steps.npz"]) assert(made.includes(name), name);
      // What was written is a run's: another one begins from it.
      const flags = [
        "--config=adopted/run.yaml",
        "--model=adopted/model.pt2",
        "--data-path=adopted/steps.npz",
        "--dry-run",
        "--validation-split=0",
      ];
      await succeed(["train", ...flags, "--device=cpu"], { cwd });
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
    const flags = ["--config=adopted/run.yaml", "--model=adopted/model.pt2", "--data-path=adopted/steps.npz"];
    await succeed([
      "train",
      ...flags,
      "--validation-split=0",
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
  }));

Deno.test("what can't be moved over is told with the script's line, and the exit code says so", () =>
  inTemp(async (cwd) => {
    const gan = await adopt(cwd, "gan");
    assertEquals(gan.code, 2, gan.stdout + gan.stderr);
    assertSentence("integration/adopt: second optimizer turns", gan.stderr);
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
    Deno.writeTextFileSync(join(cwd, "own.py"), own);
    const odd = await run(["adopt", "--out=d", "--steps=2", "--", PYTHON, "own.py"], { cwd, env });
    assertSentence("integration/adopt: optimizer not here", odd.stderr);
  }));
