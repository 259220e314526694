// Checkpoints that can't be used: a sentence, exit code 8, and the run's files as they were.
import { assert, assertEquals, assertMatch, assertNotMatch } from "@std/assert";
import { join } from "paths";
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import { writePt } from "../../core/checkpoint/pt.ts";
import { memoryStorage, TensorData, type Value } from "../../core/checkpoint/value.ts";
import { python } from "../core/checkpoint/python.ts";
import { eventsOf, filesIn, inTemp, run, succeed, TINY } from "./program.ts";
import { assertSentence } from "../sentences.ts";

const RUN = [...TINY, "--run-name=r", "--hidden-size=8"];
const GOOD = "checkpoints/r_latest.pt";

/** What a user does with a checkpoint. */
const WAYS: [name: string, args: (path: string) => string[]][] = [
  ["--resume", (path) => [...RUN, "--epochs=2", "--resume", path]],
  ["--init-from", (path) => [...RUN, "--run-name=other", "--init-from", path]],
  ["eval", (path) => ["eval", path, "--device=cpu"]],
];

function snapshot(folder: string): string[] {
  return filesIn(folder).map((name) => {
    const { size, mtime } = Deno.statSync(join(folder, name));
    return `${name} ${size} ${mtime?.getTime()}`;
  });
}

/** Each way refuses `path` in a folder with a finished run, and leaves the folder alone. */
async function refused(cwd: string, path: string, says: RegExp[], ways = WAYS): Promise<void> {
  const before = snapshot(cwd);
  for (const [name, args] of ways) {
    const { code, stdout, stderr } = await run(args(path), { cwd });
    for (const sentence of says) assertMatch(stderr, sentence, name);
    assertEquals([code, stdout], [8, ""], `${name}: ${stderr}`);
    assertMatch(stderr, /^hpctrain: /);
    assertNotMatch(stderr, /internal|at .*\.ts:\d+/);
    assertEquals(snapshot(cwd), before, name);
  }
}

async function inRun(body: (cwd: string) => Promise<void> | void): Promise<void> {
  await inTemp(async (cwd) => {
    await succeed(RUN, { cwd });
    await body(cwd);
  });
}

Deno.test("a checkpoint that is missing, empty, cut off, no zip or a folder is refused in every use", () =>
  inRun(async (cwd) => {
    const good = Deno.readFileSync(join(cwd, GOOD));
    Deno.mkdirSync(join(cwd, "folder"));
    Deno.writeFileSync(join(cwd, "empty.pt"), new Uint8Array());
    Deno.writeFileSync(join(cwd, "cut.pt"), good.subarray(0, good.length / 2));
    Deno.writeTextFileSync(join(cwd, "text.pt"), "epoch,loss\n1,0.5\n");
    await refused(cwd, "missing.pt", [/missing\.pt: there is no such file/]);
    await refused(cwd, "empty.pt", [/empty\.pt: .*empty|0 bytes|not a PyTorch checkpoint/]);
    await refused(cwd, "cut.pt", [/cut\.pt: .*(truncated|cut off|cut-off|not complete|incomplete|end)/]);
    await refused(cwd, "text.pt", [/text\.pt: is not a PyTorch checkpoint/]);
    await refused(cwd, "folder", [/folder: is a folder/]);
  }));

Deno.test("a checkpoint whose pickle calls os.system is refused by that name, and calls nothing", () =>
  inRun(async (cwd) => {
    const written = join(cwd, "evil.pt"), proof = join(cwd, "called");
    python(
      `
import pickle, sys, zipfile
class Evil:
    def __reduce__(self):
        import os
        return os.system, ("touch " + sys.argv[2],)
with zipfile.ZipFile(sys.argv[1], "w") as z:
    z.writestr("archive/data.pkl", pickle.dumps({"model_state_dict": Evil()}, protocol=2))
    z.writestr("archive/byteorder", "little")
    z.writestr("archive/version", "3\\n")
`,
      written,
      proof,
    );
    await refused(cwd, "evil.pt", [/evil\.pt: .*(os|posix)[. ]system/]);
    assert(!filesIn(cwd).includes("called"));
  }));

/** The run's checkpoint, with other weights. */
function rewritten(cwd: string, name: string, change: (weights: Map<string, Value>) => void): string {
  using file = openCheckpoint(join(cwd, GOOD));
  const root = file.root as Map<string, Value>;
  change(root.get("model_state_dict") as Map<string, Value>);
  writePt(join(cwd, name), root as Value);
  return name;
}

const zeros = (...shape: number[]) =>
  new TensorData("f32", shape, memoryStorage(new Uint8Array(4 * shape.reduce((a, b) => a * b, 1))));

Deno.test("missing, extra and wrongly shaped tensors are all listed at once, with both shapes", () =>
  inRun(async (cwd) => {
    const path = rewritten(cwd, "odd.pt", (weights) => {
      const [first, second] = [...weights.keys()];
      weights.set(first, zeros(5, 3));
      weights.delete(second);
      weights.set("head.weight", zeros(2, 2));
    });
    await refused(cwd, path, [
      /1 of another shape, 1 missing, 1 extra/,
      /shape +\S+weight is \[5, 3\] in the file, \[8, 7\] in the model/,
      /missing +\S+bias \[8\]/,
      /extra +head\.weight \[2, 2\]/,
      /hpctrain inspect/,
    ]);
  }));

Deno.test("resuming with another model or optimizer is refused with the way to use the weights alone", () =>
  inRun(async (cwd) => {
    const resume = (flag: string) =>
      [["--resume", (p: string) => [...RUN, flag, "--resume", p]]] as typeof WAYS;
    const other = /can't have other settings .*--init-from checkpoints\/r_latest\.pt\. .*--force/;
    await refused(
      cwd,
      GOOD,
      [other, /model\.hidden_size 8 -> 32 \(--hidden-size\)/],
      resume("--hidden-size=32"),
    );
    await refused(cwd, GOOD, [other, /training\.optimizer\.type adamw -> sgd/], resume("--optimizer=sgd"));
    await refused(cwd, GOOD, [other, /training\.seed 0 -> 1 \(--seed\)/], resume("--seed=1"));
    // What does not fit can't be forced to.
    const forced = (
      flag: string,
    ): typeof WAYS => [["--force", (p) => [...RUN, flag, "--force", "--resume", p]]];
    await refused(cwd, GOOD, [/\[8, 7\] in the file, \[32, 7\] in the model/], forced("--hidden-size=32"));
    await refused(cwd, GOOD, [/missing/], forced("--layers=4"));
  }));

Deno.test("a checkpoint can't choose where the program writes, or hang it with settings that hold themselves", () =>
  inRun(async (cwd) => {
    using file = openCheckpoint(join(cwd, GOOD));
    const root = file.root as Map<string, Value>;
    const write = (name: string, key: string, value: Map<string, Value>) =>
      writePt(join(cwd, name), new Map(root).set(key, value as Value) as Value);
    const own = root.get("hpctrain") as Map<string, Value>;
    for (const run of ["../../outside", "a\nb", ""]) {
      write("run.pt", "hpctrain", new Map(own).set("run", run));
      await refused(cwd, "run.pt", [/run\.pt: its run has no name that files can have/], [WAYS[0]]);
    }
    const config = root.get("config") as Map<string, Value>;
    const training = config.get("training") as Map<string, Value>;
    write("wrong.pt", "config", new Map(config).set("training", new Map(training).set("seed", "x") as Value));
    await refused(cwd, "wrong.pt", [/checkpoint: training\.seed .*but got "x"/], [WAYS[0], WAYS[2]]);
    python(
      `
import sys, zipfile
text = lambda s: b"X" + len(s).to_bytes(4, "little") + s.encode()
pickle = b"\\x80\\x02}(" + text("config") + b"}q\\x01(" + text("model") + b"h\\x01u" + text("hpctrain") + b"}(" + text("run") + text("r") + b"uu."
with zipfile.ZipFile(sys.argv[1], "w") as z:
    z.writestr("archive/data.pkl", pickle)
`,
      join(cwd, "circle.pt"),
    );
    await refused(cwd, "circle.pt", [/circle\.pt.*(no training state|holds no state dict)/], [
      WAYS[0],
      WAYS[2],
    ]);
  }));

Deno.test("--resume auto starts afresh where there is nothing to resume, and goes on where there is", () =>
  inTemp(async (cwd) => {
    const first = await succeed([...RUN, "--resume=auto"], { cwd });
    assertNotMatch(first.stdout, /Resuming/);
    const second = await succeed([...RUN, "--epochs=2", "--resume=auto"], { cwd });
    assertSentence("integration/bad_checkpoints: resuming checkpoints r_latest", second.stdout);
    assertMatch(second.stdout, /\n\[Epoch 2\/2\] /);
    assertNotMatch(second.stdout, /\n\[Epoch 1\/2\] /);
  }));

Deno.test("--resume auto passes over a damaged checkpoint, and with no good one left touches nothing", () =>
  inTemp(async (cwd) => {
    const args = [...RUN, "--epochs=2", "--save-every-epoch", "--save-interval=3steps", "--resume=auto"];
    await succeed(args, { cwd });
    const damage = (name: string) => {
      const path = join(cwd, "checkpoints", name);
      const half = Deno.readFileSync(path).subarray(0, 2000);
      Deno.removeSync(path); // its bytes may have other names
      Deno.writeFileSync(path, half);
    };
    damage("r_latest.pt");
    damage("r_best.pt");
    damage("r_epoch_2.pt");
    const { stdout } = await succeed([...args, "--epochs=3"], { cwd });
    assertMatch(stdout, /^Passed over a damaged checkpoint\. checkpoints\/r_latest\.pt: .*truncated/m);
    assertMatch(stdout, /^Resuming from checkpoints\/r_epoch_1\.pt: epoch 1, step 4$/m);
    assertEquals(
      eventsOf(cwd, "r").findLast(({ kind }) => kind === "resume")?.path,
      "checkpoints/r_epoch_1.pt",
    );

    for (const { name } of [...Deno.readDirSync(join(cwd, "checkpoints"))]) damage(name);
    await refused(cwd, "auto", [/r_latest\.pt: .*truncated/], [["--resume auto", () => args]]);
  }));
