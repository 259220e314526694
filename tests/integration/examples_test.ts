// Each file of examples/ does what it says, on little data.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import { findStateDict } from "../../core/checkpoint/state_dict.ts";
import { mpich } from "../mpi.ts";
import { peer } from "../peer.ts";
import { blocksOf } from "./docs_blocks.ts";
import { inTemp, ROOT, succeed, TINY } from "./program.ts";
import { numbers } from "./ranks.ts";

const example = (name: string) => join(ROOT, "examples", name);

/** Trains, and gives the mean losses of the epochs. */
async function epochs(cwd: string, flags: readonly string[]): Promise<number[]> {
  await succeed([...TINY, ...flags, "--run-name=r"], { cwd });
  const losses = numbers(cwd, "r", ["epoch"]);
  assert(losses.length > 0 && losses.every(Number.isFinite), String(losses));
  return losses;
}

function idx(dims: readonly number[], value: (i: number) => number): Uint8Array<ArrayBuffer> {
  const count = dims.reduce((a, b) => a * b, 1);
  const file = new Uint8Array(4 + 4 * dims.length + count);
  const view = new DataView(file.buffer);
  [0x0800 + dims.length, ...dims].forEach((word, i) => view.setUint32(4 * i, word));
  for (let i = 0; i < count; i++) file[4 + 4 * dims.length + i] = value(i);
  return file;
}

Deno.test("examples/mnist.ts learns digits from MNIST's files", () =>
  inTemp(async (cwd) => {
    Deno.mkdirSync(join(cwd, "mnist"));
    const digit = (sample: number) => sample % 10;
    // Each digit is a bright row at its own height.
    const pixel = (i: number) => Math.floor(i / 28) % 28 === 2 * digit(Math.floor(i / 784)) + 3 ? 250 : 10;
    for (const [name, count] of [["train", 300], ["t10k", 50]] as const) {
      Deno.writeFileSync(join(cwd, `mnist/${name}-images-idx3-ubyte`), idx([count, 28, 28], pixel));
      Deno.writeFileSync(join(cwd, `mnist/${name}-labels-idx1-ubyte`), idx([count], digit));
    }
    const data = ["--data-type=mnist", "--data-path=mnist", "--train-samples=300", "--val-samples=50"];
    const losses = await epochs(cwd, ["--model", example("mnist.ts"), ...data, "--epochs=5", "--lr=5e-3"]);
    assert(losses.at(-1)! < 0.5 * losses[0], String(losses));
  }));

const ICE = `export default ({ tensor, settings }) => {
  const samples = (count, first) => {
    const input = new Float32Array(count * 2 * 64), target = new BigInt64Array(count * 64);
    for (let i = 0; i < count; i++) for (let p = 0; p < 64; p++) {
      const [wind, cold] = [Math.sin(7 * (first + i) + p), Math.cos(3 * (first + i) + 2 * p)];
      input[i * 128 + p] = wind;
      input[i * 128 + 64 + p] = cold;
      target[i * 64 + p] = cold > 0.2 ? 1n : 0n;
    }
    return { input: tensor(input, [count, 2, 8, 8]), target: tensor(target, [count, 8, 8]) };
  };
  return { task: "segmentation", outputs: 2, train: samples(settings.train_samples, 0), val: samples(16, 5000) };
};
`;

Deno.test("examples/icenet.ts learns a class for each pixel, the same with checkpointing of its blocks", () =>
  inTemp(async (cwd) => {
    Deno.writeTextFileSync(join(cwd, "ice.ts"), ICE);
    const flags = ["--model", example("icenet.ts"), "--data=ice.ts", "--epochs=4", "--lr=1e-2"];
    const losses = await epochs(cwd, flags);
    assert(losses.at(-1)! < 0.6 * losses[0], String(losses));
    await succeed([...TINY, ...flags, "--gradient-checkpointing", "--run-name=c"], { cwd });
    assertEquals(numbers(cwd, "c", ["epoch"]), losses);
  }));

Deno.test("examples/cosmology.ts trains on maps with the loss of two numbers a target", () =>
  inTemp(async (cwd) => {
    const data = ["--data-type=fields", "--set=model.image_size=16", "--loss=gaussian_nll"];
    await epochs(cwd, ["--model", example("cosmology.ts"), ...data]);
  }));

Deno.test("examples/char_gpt.ts reads a text letter by letter for the zoo's gpt", () =>
  inTemp(async (cwd) => {
    Deno.writeTextFileSync(join(cwd, "text.txt"), "Shall I compare thee to a summer's day? ".repeat(300));
    const data = ["--data", example("char_gpt.ts"), "--data-path=text.txt"];
    const sizes = ["--layers=1", "--heads=2", "--embed=32", "--epochs=4", "--lr=1e-2", "--batch-size=8"];
    const losses = await epochs(cwd, ["--model=gpt", ...data, ...sizes]);
    assert(losses.at(-1)! < 0.7 * losses[0], String(losses));
  }));

Deno.test("examples/exported_resnet.py writes a program that trains", () =>
  inTemp(async (cwd) => {
    const args = [example("exported_resnet.py"), "resnet18.pt2", "2", "32"];
    const { success, stderr } = await peer(args, { cwd }).output();
    assert(success, new TextDecoder().decode(stderr));
    const data = `export default ({ ops }) => { const input = ops.randn([16, 3, 32, 32]);
      return { task: "classification", outputs: 2, train: { input, target: ops.randint(0, 2, [16]) } }; };\n`;
    Deno.writeTextFileSync(join(cwd, "noise.ts"), data);
    await epochs(cwd, ["--model=resnet18.pt2", "--data=noise.ts", "--batch-size=8"]);
  }));

Deno.test("examples/own_loop.ts is at most 60 lines, and learns the same on one rank and on two", () =>
  inTemp(async (cwd) => {
    assert(Deno.readTextFileSync(example("own_loop.ts")).trimEnd().split("\n").length <= 60);
    const mpi = mpich();
    const deno = [Deno.execPath(), "run", "--quiet", "--allow-all", "--no-check", example("own_loop.ts")];
    const last: number[] = [];
    for (const through of [[], [...mpi.launcher, "-n", "2"]]) {
      const [program, ...args] = [...through, ...deno];
      const env = { PATH: `${join(mpi.folder, "bin")}:${Deno.env.get("PATH")}`, OMP_NUM_THREADS: "1" };
      const done = await new Deno.Command(program, { args, cwd, env }).output();
      const [said, wrong] = [done.stdout, done.stderr].map((bytes) => new TextDecoder().decode(bytes));
      assertEquals(done.code, 0, said + wrong);
      const lines = said.trimEnd().split("\n").filter((line) => line.startsWith("epoch "));
      assertEquals(lines.length, 30);
      assertMatch(lines[29], /^epoch 30: \d+\.\d% right$/);
      last.push(Number(/([\d.]+)%/.exec(lines[29])![1]));
    }
    assert(last[0] > 97 && Math.abs(last[0] - last[1]) < 0.5, String(last));
    using file = openCheckpoint(join(cwd, "moons.pt"));
    assertEquals([...findStateDict(file.root, "moons.pt").tensors.keys()], [
      "in.weight",
      "in.bias",
      "out.weight",
      "out.bias",
    ]);
  }));

Deno.test("the model in docs/any-model.md trains", () =>
  inTemp(async (cwd) => {
    const blocks = blocksOf(Deno.readTextFileSync(join(ROOT, "docs/any-model.md")));
    const [model, ...more] = blocks.filter((block) => block.language === "ts");
    assertEquals(more.length, 0);
    Deno.writeTextFileSync(join(cwd, "my_model.ts"), model.text);
    await epochs(cwd, ["--model=my_model.ts"]);
  }));
