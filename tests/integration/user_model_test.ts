// Models, data, losses and metrics from users' TypeScript files, with the program alone: no Deno, no packages, no network.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { mpich } from "../mpi.ts";
import { launch } from "./launches.ts";
import { environment, EXE, inTemp, run, succeed, TINY } from "./program.ts";
import { numbers, tensors } from "./ranks.ts";
import { assertSentence } from "../sentences.ts";

const write = (folder: string, name: string, text: string) =>
  Deno.writeTextFileSync(join(folder, name), text);

/** The zoo's mlp, rewritten by hand. */
const MLP = `import type { ModelLibrary, MadeModel, Tensor } from "./hpctrain.d.ts";
import { product } from "./sizes.ts";
export default ({ nn, ops, facts, outputs, settings }: ModelLibrary): MadeModel => {
  class Net extends nn.Module {
    private first = this.child("0", new nn.Linear(product(facts.input.shape), settings.hidden_size));
    private second = this.child("2", new nn.Linear(settings.hidden_size, settings.hidden_size));
    private last = this.child("4", new nn.Linear(settings.hidden_size, outputs));
    forward(x: Tensor): Tensor {
      const hidden = ops.relu(this.first.forward(ops.flatten(x, 1)));
      return this.last.forward(ops.relu(this.second.forward(hidden)));
    }
  }
  return new Net();
};
`;
const SIZES =
  `export const product = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);\n`;
const SHORT = [...TINY, "--epochs=2", "--log-interval=1"];

function writeMlp(folder: string): void {
  write(folder, "net.ts", MLP);
  write(folder, "sizes.ts", SIZES);
}

Deno.test("the zoo's mlp, rewritten in TypeScript, has the zoo's losses and weights to the last bit", () =>
  inTemp(async (cwd) => {
    writeMlp(cwd);
    const { stdout } = await succeed([...SHORT, "--model=./net.ts", "--run-name=own"], { cwd });
    assertMatch(stdout, /net: 3 modules, [\d,]+ parameters/);
    await succeed([...SHORT, "--model=mlp", "--run-name=zoo"], { cwd });
    const own = numbers(cwd, "own");
    assert(own.length >= 8 && own.every(Number.isFinite), String(own));
    assertEquals(own, numbers(cwd, "zoo"));
    const weights = (name: string) =>
      [...tensors(cwd, name)].filter(([at]) => at.startsWith("/model_state_dict"));
    assertEquals(weights("own").length, 6);
    assertEquals(weights("own"), weights("zoo"));
  }));

Deno.test({
  name: `a TypeScript model trains and is evaluated by the executable alone, where no Deno is${
    EXE ? "" : " (needs the executable that HPCTRAIN_EXE names)"
  }`,
  ignore: !EXE,
  fn: () =>
    inTemp(async (cwd) => {
      writeMlp(cwd);
      Deno.mkdirSync(join(cwd, "home"));
      // Packages are for a script that runs the sources in the executable's place.
      const env = environment({ HOME: join(cwd, "home"), PATH: "" });
      const alone = async (...args: string[]) => {
        const done = await new Deno.Command(EXE!, { args, cwd, env, clearEnv: true }).output();
        const [stdout, stderr] = [done.stdout, done.stderr].map((bytes) => new TextDecoder().decode(bytes));
        assertEquals(done.code, 0, stdout + stderr);
        return stdout;
      };
      await alone(...TINY, "--model=net.ts", "--run-name=own");
      const said = await alone("eval", "checkpoints/own_latest.pt", "--json");
      assert(Number.isFinite(JSON.parse(said.trim().split("\n").at(-1)!).val_loss), said);
      await alone("new", "model");
      await alone(...TINY, "--model=my_model.ts", "--run-name=begun");
    }),
});

Deno.test("what hpctrain new writes trains as it is, and is not written over", () =>
  inTemp(async (cwd) => {
    const kinds = ["model", "data", "loss", "metric", "optimizer"];
    for (const kind of kinds) await succeed(["new", kind], { cwd });
    const { stdout: declarations } = await succeed(["types"], { cwd });
    write(cwd, "hpctrain.d.ts", declarations);
    const checked = await new Deno.Command(Deno.execPath(), {
      args: [
        "check",
        "--quiet",
        "--no-lock",
        ...kinds.map((kind) => `my_${kind}.ts`),
      ],
      cwd,
    }).output();
    assert(checked.success, new TextDecoder().decode(checked.stderr));
    const classes = [
      "--model=my_model.ts",
      "--data=my_data.ts",
      "--metric=my_metric.ts",
      "--optimizer=my_optimizer.ts",
      "--epochs=20",
      "--lr=1e-2",
    ];
    const more = ["--train-samples=512", "--val-samples=128"];
    const { stdout } = await succeed([...TINY, ...classes, ...more, "--run-name=a"], { cwd });
    assertStringIncludes(stdout, "my_data.ts, train");
    const last = numbers(cwd, "a", ["epoch"]);
    assert(last.at(-1)! < last[0] * 0.7, `it learns: ${last}`);
    const event = Deno.readTextFileSync(join(cwd, "logs/a/events.jsonl"));
    assertMatch(event, /"confidence":0\.\d+/);
    await succeed([
      ...TINY,
      "--model=my_model.ts",
      "--loss=my_loss.ts",
      "--metric=my_metric.ts",
      "--data-type=fields",
      "--run-name=b",
    ], { cwd });
    assertMatch(Deno.readTextFileSync(join(cwd, "logs/b/events.jsonl")), /"worst":\d/);
    const again = await run(["new", "model"], { cwd });
    assertEquals([again.code, again.stdout], [2, ""]);
    assertSentence("integration/user_model: hpctrain my_model already", again.stderr);
  }));

Deno.test("two ranks train a TypeScript model, and ranks whose files differ are refused by name", () =>
  inTemp(async (cwd) => {
    writeMlp(cwd);
    const flags = [...TINY, "--model=net.ts", "--run-name=r"];
    const { code, stderr } = await launch(cwd, mpich(), ["-n", "2", "--", ...flags]).result;
    assertEquals(code, 0, stderr);
    // Where a rank starts is its own file's folder: the launcher's wrapper gives each rank one.
    for (const rank of [0, 1]) {
      Deno.mkdirSync(join(cwd, String(rank)));
      writeMlp(join(cwd, String(rank)));
    }
    write(join(cwd, "1"), "sizes.ts", SIZES + "// edited on one node only\n");
    const mpi = mpich();
    const apart = await run(["train", ...flags, "--save-dir", cwd], {
      cwd,
      env: { PATH: `${join(mpi.folder, "bin")}:${Deno.env.get("PATH")}`, OMP_NUM_THREADS: "1" },
      through: [...mpi.launcher, "-n", "2", "/bin/sh", "-c", 'cd "$PMI_RANK" && exec "$0" "$@"'],
    });
    assert(apart.code !== 0, apart.stdout);
    assertMatch(apart.stderr, /model\.code/);
  }));

Deno.test("a run that goes on says that the file has changed, and refuses one whose weights don't fit", () =>
  inTemp(async (cwd) => {
    writeMlp(cwd);
    const flags = [...TINY, "--model=net.ts", "--run-name=r"];
    await succeed(flags, { cwd });
    write(cwd, "net.ts", MLP.replaceAll("ops.relu", "ops.tanh"));
    const again = [...flags, "--resume=auto", "--epochs=2"];
    const { stdout } = await succeed(again, { cwd });
    assertMatch(stdout, /Changed since the checkpoint: .*model\.code \w+ -> \w+/);
    write(cwd, "net.ts", MLP.replaceAll("settings.hidden_size", "48"));
    const refused = await run([...again, "--epochs=3"], { cwd });
    assert(refused.code !== 0 && refused.code !== 70, refused.stdout + refused.stderr);
    assertMatch(
      refused.stderr,
      /its tensors do not fit the model: 5 of another shape[^]*\[48, 7\] in the model/,
    );
  }));

Deno.test("a file of data may read a path that tells nothing by its name, and is no data itself", () =>
  inTemp(async (cwd) => {
    write(cwd, "numbers", "1 2 3 4 5 6 7 8");
    write(
      cwd,
      "own.ts",
      `export default ({ tensor, settings }) => {
        const values = Deno.readTextFileSync(settings.data_path).split(" ").map(Number);
        const column = tensor(values, [values.length, 1]);
        return { task: "regression", outputs: 1, train: { input: column, target: column }, val: null };
      };\n`,
    );
    const { stdout } = await succeed([
      ...TINY,
      "--data=own.ts",
      "--data-path=numbers",
      "--batch-size=4",
      "--run-name=r",
    ], {
      cwd,
    });
    assertStringIncludes(stdout, "Samples: 8 to train with");
    const { code, stderr } = await run([...TINY, "--data-path=own.ts"], { cwd });
    assertEquals(code, 2);
    assertMatch(
      stderr,
      /^hpctrain: own\.ts is a program and not data: train with what it gives by --data own\.ts\.$/m,
    );
  }));

/** What stands in the file, and what is said of it. */
const MISTAKES: readonly (readonly [string, string, RegExp])[] = [
  [
    "an operation that there is not",
    MLP.replace("ops.relu(this.first", "ops.reloo(this.first"),
    /^hpctrain: net\.ts:9:26: TypeError: ops has no reloo\. `hpctrain types > hpctrain\.d\.ts` writes all names/m,
  ],
  [
    "shapes that don't fit",
    MLP.replace("new nn.Linear(settings.hidden_size, outputs)", "new nn.Linear(7, outputs)"),
    /^hpctrain: net\.ts:10:\d+: .*(shapes cannot be multiplied|mat1 and mat2)/m,
  ],
  [
    "an exception of its own",
    MLP.replace("class Net", 'throw new Error("no such layer");\n  class Net'),
    /^hpctrain: net\.ts:4:9: no such layer\.$/m,
  ],
  ["a broken line", MLP.replace("class Net extends", "class Net extend"), /^hpctrain: net\.ts:4:\d+: .+$/m],
  [
    "no default export",
    MLP.replace("export default", "export const net ="),
    /^hpctrain: net\.ts should export a function that makes the model, and it exports net and no default\./m,
  ],
  [
    "a forward that returns nothing",
    MLP.replace("return this.last", "this.last"),
    /^hpctrain: net\.ts: forward\(x\) of Net returned nothing: a return is missing\.$/m,
  ],
];

Deno.test("a mistake in the file is told in one sentence, with the file and the line", () =>
  inTemp(async (cwd) => {
    write(cwd, "sizes.ts", SIZES);
    for (const [what, text, said] of MISTAKES) {
      write(cwd, "net.ts", text);
      const { code, stderr } = await run([...TINY, "--model=net.ts"], { cwd });
      assertEquals(code, 2, `${what}: ${stderr}`);
      assertMatch(stderr, said, what);
      assert(!stderr.includes("data:text"), stderr);
    }
  }));
