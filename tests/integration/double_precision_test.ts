// --amp fp64: weights, data and steps are f64, with the losses of a PyTorch script that is in float64, to the last bit.
import { assertAlmostEquals, assertEquals, assertMatch } from "@std/assert";
import { askPeer } from "../peer.ts";
import { eventsOf, inTemp, run, succeed } from "./program.ts";

const STEPS = 6, LR = 0.01;

/** All samples in one batch, in their order. */
const PLAIN = [
  ...["--amp=fp64", "--batch-size=48", `--epochs=${STEPS}`, "--val-samples=0", "--set", "data.shuffle=false"],
  ...["--scheduler=constant", `--lr=${LR}`, "--normalise=none", "--set", "data.normalise_targets=off"],
  ...["--threads=1", "--log-interval=1", "--validation-split=0"],
];
const ADAMW = ["--optimizer=adamw", "--weight-decay=0.1"];
const LBFGS = ["--optimizer=lbfgs", "--set", "training.optimizer.line_search_fn=strong_wolfe"];

const RUNS = [
  ["AdamW", { lr: LR, weight_decay: 0.1, fused: true }, STEPS],
  ["LBFGS", { lr: LR, line_search_fn: "strong_wolfe" }, STEPS],
];

const lossesOf = (cwd: string, name: string): number[] =>
  eventsOf(cwd, name).flatMap((event) => event.kind === "step" ? [Number(event.loss)] : []);

Deno.test("an exported program of float64 has the losses of its script, from text and from arrays, in memory or not", () =>
  inTemp(async (cwd) => {
    const [adamw, lbfgs] = await askPeer<number[][]>("train/double.py", { folder: cwd, runs: RUNS });
    const train = async (name: string, flags: string[]) => {
      await succeed(["--model=net.pt2", `--run-name=${name}`, ...PLAIN, ...flags], { cwd });
      return lossesOf(cwd, name);
    };
    assertEquals(await train("text", ["--data-path=data.csv", ...ADAMW]), adamw);
    assertEquals(await train("arrays", ["--data-path=data.npz", ...ADAMW]), adamw);
    assertEquals(await train("read", ["--data-path=data.npz", "--in-memory=no", ...ADAMW]), adamw);
    assertEquals(await train("newton", ["--data-path=data.npz", ...LBFGS]), lbfgs);

    await train("half", ["--data-path=data.csv", ...ADAMW, `--epochs=${STEPS / 2}`]);
    assertEquals(await train("half", ["--data-path=data.csv", ...ADAMW, "--resume=auto"]), adamw);

    for (const file of ["p.npz", "p.csv"]) {
      await succeed([
        "predict",
        "checkpoints/text_latest.pt",
        "--data-path=data.csv",
        "--all",
        `--out=${file}`,
      ], { cwd });
    }
    assertEquals(
      await askPeer("train/double.py", { folder: cwd, checkpoint: "checkpoints/text_latest.pt" }),
      {
        npz: ["float64", 0],
        csv: ["float64", 0],
      },
    );
  }));

Deno.test("ranks in double precision have one rank's losses to the last digits, with and without --zero 1", () =>
  inTemp(async (cwd) => {
    const flags = [
      ...[
        "--model=mlp",
        "--hidden-size=8",
        "--data-type=synthetic",
        "--train-samples=64",
        "--val-samples=16",
      ],
      ...["--global-batch-size=16", "--epochs=2", "--log-interval=1", "--amp=fp64", "--clip-norm=0.5"],
    ];
    await succeed([...flags, "--run-name=one"], { cwd });
    const one = lossesOf(cwd, "one");
    for (const zero of [0, 1]) {
      await succeed(["launch", "-n", "2", "--", ...flags, `--zero=${zero}`, `--run-name=zero${zero}`], {
        cwd,
      });
      lossesOf(cwd, `zero${zero}`).forEach((loss, i) => assertAlmostEquals(loss, one[i], 1e-13));
    }
  }));

Deno.test("a program of another precision than --amp asks for is refused before the first step, by its parameter", () =>
  inTemp(async (cwd) => {
    await askPeer("train/double.py", { folder: cwd, runs: [] });
    const refused = async (...flags: string[]) => {
      const { code, stderr } = await run(["--data-path=data.csv", ...flags], { cwd });
      assertEquals(code, 2);
      return stderr;
    };
    assertMatch(await refused("--model=net.pt2"), /first\.weight is f64: .*--amp fp64.*model\.float\(\)/);
    assertMatch(
      await refused("--model=single.pt2", "--precision=64-true"),
      /first\.weight is f32.*model\.double\(\)/,
    );
  }));
