// The program, of which rank 1 falls asleep for good after some steps: its training thread alone. Run by tests.
import { main } from "../../main.ts";
import { eventsOf } from "./program.ts";

const STEPS = 5;
const folder = Deno.args[Deno.args.indexOf("--save-dir") + 1];

if (Deno.env.get("OMPI_COMM_WORLD_RANK") === "1") {
  setInterval(() => {
    if (eventsOf(folder, "r").filter(({ kind }) => kind === "step").length < STEPS) return;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  }, 20);
}
Deno.exit(
  await main(Deno.args).catch((error) => {
    console.error(`hpctrain: ${error.message}`);
    return error.exitCode ?? 70;
  }),
);
