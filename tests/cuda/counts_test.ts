// What a step asks of a GPU: kernels, copies, waits, counted on the CUDA stand-in without numbers. counts.json keeps the most
// that a step may ask: a change that asks for more shows it there, and says why. CUDA_COUNTS=write writes the file anew.
import { assert, assertEquals } from "@std/assert";
import { fromFileUrl } from "paths";
import { inTemp } from "../integration/program.ts";
import { overspent, type Row } from "./budgets.ts";
import { type Ended, runAll, violations } from "./runs.ts";
import { onStandin } from "./standin.ts";

const FILE = fromFileUrl(new URL("counts.json", import.meta.url));
const MODELS = {
  mlp: "--batch-size 16",
  "simple-convnet": "--batch-size 16",
  gpt: "--batch-size 4",
  resnet18: "--batch-size 4",
};
const PRECISIONS = { fp32: "off", bf16: "bf16", fp16: "fp16" };
const WAYS = { captured: "--compile=exact", "op by op": "--no-compile" };
/** Steps of a short run and of a long one: what both do besides steps cancels out. */
const SHORT = 5, LONG = 9;

/** A captured step is no more than these. */
const MOST_CALLS = 9;

/**
 * Kinds of counts, as they are told in the table. Calls are all of CUDA's, of whatever kind; but what its cache of memory
 * asks for depends on the runs before, and the look at the memory on the time.
 */
const KINDS = {
  calls: /^call:(?!cudaMalloc$|cudaMemGetInfo$)/,
  launches: /^launch:/,
  copies: /^copy:/,
  "events and orders": /^order:/,
  "waits for an event": /^wait:event/,
  "other waits": /^wait:(?!event)/,
  graphs: /^graph:launched/,
};

function rowOf(short: Ended, long: Ended): Row {
  const sum = ({ counts }: Ended, kind: RegExp) =>
    Object.entries(counts).filter(([name]) => kind.test(name)).reduce((all, [, { count }]) => all + count, 0);
  const rows = Object.entries(KINDS).map((
    [name, kind],
  ) => [name, (sum(long, kind) - sum(short, kind)) / (LONG - SHORT)]);
  return Object.fromEntries(rows);
}

onStandin(
  "a step's launches, copies and waits on a GPU are no more than those of counts.json",
  () =>
    inTemp(async (cwd) => {
      const rows = Object.entries(MODELS).flatMap(([model, flags]) =>
        Object.entries(PRECISIONS).flatMap(([precision, amp]) =>
          Object.entries(WAYS).map(([way, compile]) => ({
            name: `${model}, ${precision}, ${way}`,
            flags: `--model ${model} ${flags} --amp ${amp} ${compile}`,
          }))
        )
      );
      // What a process does once for a kind of step, such as the search for cuDNN's fastest kernels, is done before.
      const steps = [LONG, SHORT, LONG];
      const runs = rows.map(({ flags }, i) =>
        steps.map((count, k) => ({
          args:
            (`${flags} --device cuda --max-steps ${count} --epochs 1 --train-samples 160 --val-samples 16 --threads 1 ` +
              `--num-workers 1 --no-wandb --run-name counts${i}-${k}`).split(" "),
        })).slice(i % 2) // the second way's work is the first's
      );
      const ends = await runAll(cwd, runs.flat(), { numbers: false, more: { CUDA_STANDIN_ZEROS: "1" } });
      for (const end of ends) assertEquals([end.code, end.error, ...violations(end)], [0, null]);
      let at = 0;
      const table = Object.fromEntries(rows.map(({ name }, i) => {
        const [short, long] = ends.slice(at, at += runs[i].length).slice(-2);
        return [name, rowOf(short, long)];
      }));
      if (Deno.env.get("CUDA_COUNTS") === "write") {
        Deno.writeTextFileSync(FILE, JSON.stringify(table, null, 2) + "\n");
      }
      const budgets: Record<string, Row> = JSON.parse(Deno.readTextFileSync(FILE));
      assertEquals(Object.keys(table), Object.keys(budgets));
      for (const [name, row] of Object.entries(table)) {
        assertEquals(overspent(row, budgets[name]), [], name);
        assertEquals(row.graphs, budgets[name].graphs, name); // what is captured is one launch, and nothing else is
        assert(row.calls <= MOST_CALLS || !name.endsWith("captured"), `${name}: ${row.calls} calls`);
      }
    }),
);
