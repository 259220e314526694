// The table of `./scripts/exported compiled [NAMES]`: exported programs trained with compiled steps beside ordinary ones.
// A step's rounding grows in training, more in some programs than in others: a third run of ordinary steps, whose weights
// begin one part in ten million off, each by a sign of its own, shows how much.
import { setThreads } from "../../../ffi/context.ts";
import { table } from "../../../bench/report.ts";
import { useLibtorch } from "../../libtorch.ts";
import { trainedInPython } from "../models/exported/training.ts";
import { ALL } from "./program_names.ts";
import { farthest, type Outcome, trained } from "./programs.ts";

const STEPS = 8;
/** Compiled losses may be so many times as far apart as those of slightly other weights. */
const FACTOR = 20;
const ROUNDING = 1e-6;

const names = Deno.args.length > 0 ? Deno.args : ALL;
useLibtorch();
setThreads(1);
const folder = Deno.makeTempDirSync();
let wrong = 0;
try {
  const rows: string[][] = [];
  for (const [i, t] of (await trainedInPython(names, folder, 1)).entries()) {
    const plain = trained(t, null, STEPS), nudged = trained(t, null, STEPS, 1e-7);
    const exact = trained(t, "exact", STEPS), fast = trained(t, "fast", STEPS);
    const own = farthest(nudged.losses, plain.losses), far = farthest(fast.losses, plain.losses);
    const equal = farthest(exact.losses, plain.losses) === 0, near = far <= FACTOR * own + ROUNDING;
    if (!equal || !near) wrong++;
    rows.push([
      names[i],
      `${wayOf(exact)}: ${equal ? "equal" : "**other losses**"}`,
      `${wayOf(fast)}${
        fast.compiled ? `: ${near ? "" : "**"}${far.toExponential(0)}${near ? "" : "**"}` : ""
      }`,
      own.toExponential(0),
    ]);
    console.error(names[i]);
  }
  console.log(table(["Program", "exact", "fast", "weights 1e-7 off"], rows));
  console.log(
    `\n${names.length} programs, ${STEPS} steps each; ${wrong} with other losses than they should have.`,
  );
} finally {
  Deno.removeSync(folder, { recursive: true });
}
Deno.exit(wrong > 0 ? 1 : 0);

function wayOf({ compiled, told }: Outcome): string {
  return compiled ? "compiled" : `op by op (${told})`;
}
