// The steps of an epoch: what comes after what in each, which is what ranks rely on that meet there. Whole runs: loop_test.ts.
import { assertEquals } from "@std/assert";
import { beginEpoch, type Loop, openLoop, settleEpoch } from "../../../core/train/epoch.ts";
import { trainSteps } from "../../../core/train/loop.ts";
import type { Trainer } from "../../../core/train/trainer.ts";
import { openRankGroup } from "../../../core/train/rank_group.ts";
import type { Control } from "../../../core/ranks/control/control.ts";
import type { Team } from "../../../core/ranks/team.ts";
import type { Loss } from "../../../core/models/losses.ts";
import { zeros } from "../../../ffi/make.ts";
import { scope } from "../../../ffi/tensor.ts";
import { COMMUNICATION, COMPUTE, COPY, DATA, OPTIMIZER, REST, SAVE } from "../../../core/run/account.ts";
import { inFolder } from "../checkpoint/python.ts";
import { oneOfMany } from "./one_of_many.ts";
import { started } from "./started.ts";

/** Three steps an epoch, the last with a part of its samples; two micro-batches a step. */
const FLAGS =
  ("--data-type synthetic --model mlp --hidden-size 16 --epochs 2 --train-samples 40 --val-samples 0 " +
    "--batch-size 8 --grad-accum 2").split(" ");

function loopOf(run: Trainer): Loop {
  const loop = openLoop(run);
  beginEpoch(loop);
  return loop;
}

/** The same run as one of many, and what it does with the others and with the saver, in order. */
function watched(run: Trainer): { run: Trainer; did: string[] } {
  const did: string[] = [];
  const ranks = oneOfMany(run, {
    phase: (name) => void did.push(name),
    step: (n) => void did.push(`step ${n}`),
  });
  const { control, request } = ranks;
  const here: typeof control.agreed = () => (did.push("here"), control.agreed());
  const saver = { ...run.saver, save: (why: string) => (did.push(`saved: ${why}`), Promise.resolve()) };
  return {
    run: {
      ...run,
      saver,
      ranks: {
        ...ranks,
        control: { ...control, agreed: here },
        request: (requests, due) => (did.push("wish"), request(requests, due)),
        shares: (...given) => (did.push("items"), ranks.shares(...given)),
        stepped: () => void did.push("reports"),
        sumsOf: (running) => (did.push("sums"), ranks.sumsOf(running)),
      },
    },
    did,
  };
}

/** Two places in a step: before it, when its items are known, and between its micro-batches; one after it. */
const step = (n: number) => [
  ...["data.next", "forward", "items", "wish", "here", "wish", "here", `step ${n}`],
  ...["reports", "wish", "here"],
];

Deno.test(
  "every step goes through its places in one order, and an epoch ends without an ending",
  inFolder(async (folder) => {
    await started(folder, FLAGS, async (prepared) => {
      const { run, did } = watched(prepared);
      const epoch = loopOf(run);
      assertEquals(await trainSteps(epoch), null);
      assertEquals(did, [1, 2, 3].flatMap(step));
      assertEquals([run.cursor.stepInEpoch, run.cursor.samples], [3, 40]);
      await settleEpoch(epoch);
      assertEquals(epoch.metrics.running.result().items, 40);
    });
  }),
);

Deno.test(
  "a save that is due, and a stop, first take the sums of all ranks; --max-steps end the steps with them too",
  inFolder(async (folder) => {
    await started(folder, [...FLAGS, "--save-interval", "1steps", "--max-steps", "2"], async (prepared) => {
      const { run, did } = watched(prepared);
      assertEquals(await trainSteps(loopOf(run)), null);
      assertEquals(did, [...step(1), "sums", "save", "saved: interval", ...step(2), "sums"]);
      assertEquals(run.cursor.stepInEpoch, 2);
      did.length = 0;
      const asked = { ...run, requests: { ...run.requests, stop: () => "the test" } };
      const ending = await trainSteps(loopOf(asked));
      assertEquals(ending, { outcome: "Stopped on request (the test)", stopped: true, byHand: false });
      const left = ["data.next", "forward", "items", "wish", "here", "sums", "save", "saved: stop"];
      assertEquals([did, run.cursor.stepInEpoch], [left, 2]);
    });
  }),
);

Deno.test(
  "a step's time goes to reading, computing, updating, in laps that leave nothing out",
  inFolder(async (folder) => {
    await started(folder, FLAGS, async (run) => {
      const laps: number[] = [];
      run.account.onLap = (part) => void laps.push(part === DATA ? COPY : part); // memory is waited for a moment, too
      assertEquals(await trainSteps(loopOf(run)), null);
      run.account.onLap = null;
      const one = [REST, COPY, COMPUTE, OPTIMIZER, SAVE, OPTIMIZER, REST, COPY]; // the numbers of the step before are read
      const changes = laps.filter((part, i) => part !== laps[i - 1]); // who looks at the account ends a lap of rest
      assertEquals(changes, [...one, ...one, ...one]);
      assertEquals(laps.includes(COMMUNICATION), false);
    });
  }),
);

Deno.test("a step in which no rank has a target that counts is told by rank 0 alone", () => {
  for (const [items, rank, told] of [[0, 0, 1], [0, 1, 0], [3, 0, 0]]) {
    const collectives = { allReduce: () => 0, wait() {} };
    const { shares } = openRankGroup({ rank, collectives } as unknown as Team, {} as Control, [], {
      device: "cpu",
      dtype: "f32",
    });
    let times = 0;
    scope(() => {
      const input = zeros([3, 1]);
      shares(
        [{ input, target: input, items }],
        { validCount: () => items } as unknown as Loss,
        () => times++,
      );
    });
    assertEquals(times, told);
  }
});
