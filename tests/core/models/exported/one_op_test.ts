// Models of one operation each against PyTorch, bit by bit: those that are known to be hard and every fifteenth of the others;
// all of some 600 with HPCTRAIN_EXPORTED=all (scripts/exported ops).
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { setThreads } from "../../../../ffi/context.ts";
import { askPeer } from "../../../peer.ts";
import { open } from "../../train/rig.ts";
import { difference, type OneOp } from "./one_op.ts";

open();
setThreads(1);
const whole = Deno.env.get("HPCTRAIN_EXPORTED") === "all";
const folder = Deno.makeTempDirSync();
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));

interface Answers {
  readonly input: number[][];
  readonly answers: OneOp[];
}

const HARD = [
  ...[
    "clip(",
    "linalg.norm(",
    "matrix_norm",
    "torch.subtract(x, 2)",
    "x > 0",
    "n & 1",
    "n << 1",
    "1 << n",
    "(x > 0) & b",
  ],
  ...[
    "gradient(",
    "histc",
    "2.5j",
    "c + (1",
    "q + 0.1",
    "q / 3",
    "2 - q",
    "lerp(h",
    "x.clone().pow_",
    "__iand__",
    "celu(x.clone",
  ],
  ...[
    "fill_diagonal_",
    "searchsorted(v.sort().values, 0.3)",
    "vmap",
    "AUTOCAST",
    "NOGRAD",
    "correction=2",
    "multi_margin",
    "logspace",
  ],
];
const { input, answers } = await askPeer<Answers>("export_ops.py", {
  folder,
  ...(whole ? {} : { every: 15, with: HARD }),
});
const tried = answers.filter(({ failed }) => failed === undefined);

/** What does not have PyTorch's bits, and why. */
const MISSES: Readonly<Record<string, RegExp>> = {
  "x.std(1, correction=2)": /^output differs/, // a correction other than 0 and 1 is rounded once more
  "torch.std_mean(x, dim=1, correction=3)": /differs/,
  "torch.logspace(0, 1, 6) * x": /^refused: .*its arguments can't be passed/,
};

const misses = tried.map((one) => [one, difference(one, input)] as const).filter(([, what]) => what !== "");

Deno.test("models of one operation give PyTorch's bits, forward and backward, also in mixed precision", () => {
  const known = ({ op }: OneOp, what: string) => MISSES[op]?.test(what);
  const unknown = misses.filter(([one, what]) => !known(one, what));
  if (whole) console.log(`${tried.length} models of one operation: ${tried.length - misses.length} match`);
  assertEquals(unknown.map(([{ op }, what]) => `${op}: ${what}`), []);
  assert(tried.length >= (whole ? 560 : 90), `${tried.length} were tried`);
  const failed = answers.length - tried.length;
  assert(failed <= answers.length / 20, `PyTorch itself did not export ${failed}`);
});

Deno.test("what can't be run is refused with the line of Python, and what mends most of it", () => {
  const refused = misses.filter(([, what]) => what.startsWith("refused"));
  assert(refused.length >= 1);
  for (const [, what] of refused) {
    assertStringIncludes(what, "export_ops.py, line");
    assertStringIncludes(what, "run_decompositions()");
  }
});
