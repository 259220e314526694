// Runs that save at every step, two beside each other on purpose: each must end. What `scripts/storm saves [RUNS]` runs.
import { finish, inTemp, start } from "./program.ts";

const RUNS = Number(Deno.args[0] ?? 300);
/** A run takes some five seconds beside another. */
const PATIENCE_S = 60;
const SAVING = [
  ...["--device=cpu", "--threads=1", "--quiet", "--no-wandb", "--data-type=synthetic", "--model=mlp"],
  ...["--hidden-size=1024", "--layers=8", "--train-samples=640", "--val-samples=64", "--batch-size=64"],
  ...["--epochs=3", "--save-interval=1steps"],
];

let begun = 0, failed = 0;
async function runOn(): Promise<void> {
  while (begun < RUNS) {
    const number = ++begun;
    try {
      await inTemp(async (cwd) => {
        const { code, stderr } = await finish(start(SAVING, { cwd }), PATIENCE_S);
        if (code !== 0) throw new Error(`it ended with ${code}: ${stderr}`);
      });
    } catch (error) {
      failed++;
      console.log(`Run ${number}: ${error}`);
    }
  }
}
await Promise.all([runOn(), runOn()]);
console.log(`${RUNS} runs that save at every step: ${failed} did not end well.`);
Deno.exit(failed > 0 ? 1 : 0);
