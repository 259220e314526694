// What the made universes are for: a network that reads sigma_8 off a map. Slow: half a minute.
import { assert } from "@std/assert";
import { eventsOf, inTemp, succeed } from "./program.ts";

Deno.test("cosmo-cnn infers sigma_8 of maps it has not seen from 1,000 generated 2LPT maps, with R2 > 0.6 (slow)", () =>
  inTemp(async (cwd) => {
    const data = ["--data-type=2lpt", "--train-samples=1000", "--val-samples=300", "--targets=sigma_8"];
    const model = ["--model=cosmo-cnn", "--set=model.image_size=32", "--scaling=log"];
    const training = ["--epochs=4", "--batch-size=32", "--lr=2e-3", "--device=cpu", "--run-name=sigma8"];
    await succeed([...data, ...model, ...training], { cwd, timeout: 1500 });
    const { metrics } = eventsOf(cwd, "sigma8").findLast(({ kind }) => kind === "eval")!;
    const { r2 } = metrics as { r2: number };
    console.log(`Val R2 of sigma_8: ${r2.toFixed(3)}`);
    assert(r2 > 0.6, `the last Val R2 is ${r2}`);
  }));
