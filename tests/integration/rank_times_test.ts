// What a run of several ranks tells of them while it trains.
import { assert, assertEquals } from "@std/assert";
import { ownWork, spentOfRank, type SpentOfRanks, TIME_PARTS } from "../../core/run/account.ts";
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
    for (const event of told) {
      const { slowest, spread } = event;
      const times = TIME_PARTS.map((name) => event[`${name}_s`] as number[]);
      assert(times.every((of) => of.length === 2 && of.every((seconds) => seconds >= 0 && seconds < most)));
      const own = [0, 1].map((rank) => ownWork(spentOfRank(event as unknown as SpentOfRanks, rank)));
      assertEquals(slowest, own[0] >= own[1] ? 0 : 1);
      assert(spread as number >= 0 && spread as number < 1);
    }
  }));
