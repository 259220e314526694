// What a captured step asks of a GPU with groups of our own and without: kernels and copies within its graph, counted on
// the CUDA stand-in without numbers. fused_counts.json keeps the most of them; CUDA_COUNTS=write writes the file anew.
import { assert, assertEquals } from "@std/assert";
import { fromFileUrl } from "paths";
import { eventsOf, inTemp } from "../integration/program.ts";
import { overspent, type Row } from "./budgets.ts";
import { type Ended, runAll, violations } from "./runs.ts";
import { onStandin } from "./standin.ts";

const FILE = fromFileUrl(new URL("fused_counts.json", import.meta.url));
const MODELS: Readonly<Record<string, readonly string[]>> = {
  "mlp --batch-size 16": ["off", "bf16"],
  "simple-convnet --batch-size 16": ["bf16"],
  "gpt --batch-size 4": ["off", "bf16", "fp16"],
  "resnet18 --batch-size 4": ["off", "bf16"],
  "unet --batch-size 4": ["off"],
  "vit --batch-size 4": ["bf16"],
};
const WAYS = { fused: "--compile=fast", captured: "--compile=exact" };
/** Three steps come before the first graph. */
const STEPS = 4;

const perStep = ({ counts }: Ended): number =>
  counts["graph:launched"].bytes / counts["graph:launched"].count;

onStandin(
  "a step with groups of our own is no more work for a GPU than one without, of any model in any precision",
  () =>
    inTemp(async (cwd) => {
      const rows = Object.entries(MODELS).flatMap(([model, precisions]) =>
        precisions.map((amp) => ({ name: `--model ${model} --amp ${amp}` }))
      );
      const args = (row: typeof rows[0], compile: string, name: string) =>
        (`${row.name} ${compile} --device cuda --max-steps ${STEPS} --epochs 1 --train-samples 160 --val-samples 16 ` +
          `--threads 1 --num-workers 1 --clip-norm 1 --no-wandb --run-name ${name}`).split(" ");
      const runs = rows.flatMap((row, i) =>
        Object.entries(WAYS).map(([way, compile]) => ({ args: args(row, compile, `${way}${i}`) }))
      );
      const ends = await runAll(cwd, runs, { numbers: false, more: { CUDA_STANDIN_ZEROS: "1" } });
      const warnings = rows.flatMap(({ name }, i) =>
        eventsOf(cwd, `fused${i}`).filter(({ kind }) => kind === "warning").map(({ message }) =>
          `${name}: ${message}`
        )
      );
      assertEquals(warnings, []);
      const table = Object.fromEntries(rows.map(({ name }, i) => {
        const both = ends.slice(2 * i, 2 * i + 2);
        for (const end of both) {
          // Weights are what memory held, and may not be saved at the end.
          assert(end.code === 0 || /no longer finite/.test(end.error ?? ""), `${name}: ${end.error}`);
          assertEquals(violations(end), []);
        }
        return [name, Object.fromEntries(Object.keys(WAYS).map((way, k) => [way, perStep(both[k])]))];
      }));
      if (Deno.env.get("CUDA_COUNTS") === "write") {
        Deno.writeTextFileSync(FILE, JSON.stringify(table, null, 2) + "\n");
      }
      for (const [name, { fused, captured }] of Object.entries(table)) {
        assert(fused <= captured, `${name}: ${fused} with groups, ${captured} without`);
      }
      const budgets: Record<string, Row> = JSON.parse(Deno.readTextFileSync(FILE));
      assertEquals(Object.keys(table), Object.keys(budgets));
      for (const [name, row] of Object.entries(table)) assertEquals(overspent(row, budgets[name]), [], name);
    }),
);
