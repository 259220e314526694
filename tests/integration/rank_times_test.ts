// What a run of several ranks tells of them while it trains.
import { assert, assertEquals } from "@std/assert";
import { openMpi } from "../mpi.ts";
import { eventsOf, inTemp } from "./program.ts";
import { trained } from "./ranks.ts";

Deno.test("every hundred steps the events say which rank was the slowest, and what each did with its time", () =>
  inTemp(async (cwd) => {
    const flags = ["--model=mlp", "--data-type=synthetic", "--train-samples=3000", "--val-samples=8"];
    const began = performance.now();
    await trained(cwd, "r", 2, [...flags, "--batch-size=4", "--epochs=1", "--max-steps=250"], {
      mpi: openMpi(),
    });
    const most = (performance.now() - began) / 1000;
    const told = eventsOf(cwd, "r").filter(({ kind }) => kind === "ranks");
    assertEquals(told.map(({ step }) => step), [101, 201]);
    for (const { slowest, spread, loader_s, compute_s, communication_s } of told) {
      const times = [loader_s, compute_s, communication_s] as number[][];
      assert(times.every((of) => of.length === 2 && of.every((seconds) => seconds >= 0 && seconds < most)));
      const own = [0, 1].map((rank) => times[0][rank] + times[1][rank]);
      assertEquals(slowest, own[0] >= own[1] ? 0 : 1);
      assert(spread as number >= 0 && spread as number < 1);
    }
  }));
