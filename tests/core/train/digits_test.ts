// Real accuracy on real data: the 8x8 handwritten digits of scikit-learn, trained by the real command.
import { assert, assertEquals } from "@std/assert";
import { inFolder } from "../checkpoint/python.ts";
import { peer } from "./peer.ts";
import { childrenSeconds } from "../../cpu_time.ts";

const MAIN = new URL("../../../main.ts", import.meta.url).pathname;
const SECONDS = 60, ACCURACY = 0.98;

/** The executable under test, or the program from its sources. */
function hpctrain(): [string, string[]] {
  const exe = Deno.env.get("HPCTRAIN_EXE");
  return exe ? [exe, []] : [Deno.execPath(), ["run", "-A", "--no-check", MAIN]];
}

Deno.test(
  "simple-convnet reads 98% of handwritten digits that it never saw, in under a minute",
  inFolder(async (folder) => {
    const held = await peer<number>("digits.py", folder);
    const [program, args] = hpctrain();
    const flags =
      `--data-type mnist --data-path ${folder} --model simple-convnet --epochs 60 --batch-size 32 ` +
      "--lr 2e-3 --warmup 1ep --dropout 0.5 --label-smoothing 0.1 --seed 1 --threads 1 " +
      `--no-wandb --json --save-dir ${folder}`;
    const began = performance.now(), before = childrenSeconds();
    const { code, stdout, stderr } = await new Deno.Command(program, { args: [...args, ...flags.split(" ")] })
      .output();
    // On one thread, so what it computes is what it takes where nothing else runs.
    const seconds = Math.min((performance.now() - began) / 1000, childrenSeconds() - before);
    assertEquals(code, 0, new TextDecoder().decode(stderr));
    const events = new TextDecoder().decode(stdout).trim().split("\n").map((line) => JSON.parse(line));
    const evaluation = events.findLast(({ kind }) => kind === "eval");
    assertEquals(evaluation.samples, held);
    const { accuracy } = evaluation.metrics;
    assert(accuracy >= ACCURACY, `${(100 * accuracy).toFixed(2)}% of ${held} digits`);
    assert(seconds < SECONDS, `${seconds.toFixed(1)} s`);
  }),
);
