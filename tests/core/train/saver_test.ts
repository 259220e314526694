import { assert, assertEquals, assertMatch, assertNotEquals, assertRejects } from "@std/assert";
import { openCheckpoint } from "../../../core/checkpoint/open.ts";
import { UserError } from "../../../core/base/errors.ts";
import { bestPath, latestPath } from "../../../core/train/run_folder.ts";
import { openLoop, save } from "../../../core/train/epoch.ts";
import { epochPath } from "../../../core/train/save.ts";
import { trainLoop } from "../../../core/train/loop.ts";
import type { Trainer } from "../../../core/train/trainer.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import { fill_ } from "../../../ffi/make.ts";
import { inFolder } from "../checkpoint/python.ts";
import { contents, eventsIn, started } from "./started.ts";
import { assertSentence } from "../../sentences.ts";

const MLP = "--data-type synthetic --model mlp --train-samples 64 --val-samples 16 --batch-size 8 --epochs 3"
  .split(" ");

const savesIn = async (prepared: Trainer) =>
  (await eventsIn(prepared)).filter(({ kind }) => kind === "save" || kind === "warning");

/** Keeps the disk from taking a checkpoint: where its file should go is a folder. */
const inTheWay = ({ paths: places }: Trainer) => Deno.mkdirSync(latestPath(places), { recursive: true });

Deno.test(
  "a checkpoint holds the state of its own step, whatever training does while it is written",
  inFolder((folder) =>
    started(folder, MLP, async (prepared) => {
      const { saver, paths: places, arena } = prepared;
      await saver.save("request", false);
      await saver.settle();
      const before = contents(latestPath(places));
      await saver.save("request", false);
      saver.hold(); // as the optimizer does
      fill_(arena.flat, 7); // the next steps
      await saver.settle();
      assertEquals(contents(latestPath(places)), before);
      await saver.save("request", false);
      await saver.settle();
      assertNotEquals(contents(latestPath(places)), before);
    })
  ),
);

Deno.test(
  "an update waits for the copy of a large state, and the copy's time is told as training's wait",
  inFolder((folder) =>
    started(folder, [...MLP, "--hidden-size", "2048", "--layers", "3", "--ema=0.5"], async (prepared) => {
      const { saver, ema, paths: places, arena } = prepared;
      await saver.save("request", false);
      await saver.settle();
      const before = contents(latestPath(places));
      const told = saver.stats.stallSeconds;
      await saver.save("request", false);
      const began = performance.now();
      saver.hold();
      const held = (performance.now() - began) / 1000;
      fill_(arena.flat, 7);
      fill_(ema!.average, 7);
      await saver.settle();
      assertEquals(contents(latestPath(places)), before);
      assert(saver.stats.stallSeconds - told >= held, "what it waited is in what was told");
    })
  ),
);

Deno.test(
  "every update, and every evaluation with averages, asks the saver first",
  inFolder((folder) =>
    started(folder, [...MLP, "--ema=0.5"], async (run) => {
      const calls: string[] = [];
      const note = <A extends unknown[], R>(name: string, call: (...args: A) => R) => (...args: A) => {
        calls.push(name);
        return call(...args);
      };
      const { saver, optimizer, ema } = run;
      Object.assign(saver, { hold: note("hold", saver.hold) });
      Object.assign(optimizer, { step: note("update", optimizer.step.bind(optimizer)) });
      Object.assign(ema!, { swap: note("swap", ema!.swap.bind(ema)) });
      await trainLoop(run);
      const before = (name: string) =>
        calls.filter((call, i) => call === name && calls[i - 1] === "hold").length;
      assertEquals([before("update"), before("swap")], [3 * 8, 3]); // the averages are swapped back without asking
    })
  ),
);

Deno.test(
  "an interval's save is left out while one is written; one that must be waits for it, at the same step, too",
  inFolder((folder) =>
    started(folder, MLP, async (prepared) => {
      const { saver, cursor } = prepared, loop = openLoop(prepared), savedAt: number[] = [];
      for (const reason of ["request", "interval", "stop"]) {
        cursor.step++;
        await save(loop, reason, false);
        savedAt.push(loop.savedAt);
      }
      assertEquals(savedAt, [1, 1, 3], "what is asked for at an interval's step is saved");
      await saver.settle();
      assertEquals(saver.stats.saves, 2);
      assert(saver.stats.stallSeconds > 0);
      const told = (await savesIn(prepared)).map(({ step, reason }) => [step, reason]);
      assertEquals(told, [[2, undefined], [1, "request"], [3, "stop"]]);
    })
  ),
);

Deno.test(
  "the best and an epoch's own checkpoint are the same file, and old epochs go after the new one is there",
  inFolder((folder) =>
    started(folder, [...MLP, "--save-every-epoch", "--keep-last", "2"], async (run) => {
      const { paths: places } = run;
      for (const epoch of [1, 2, 3]) {
        Object.assign(run.cursor, { epoch, stepInEpoch: 0 });
        await run.saver.save("epoch", epoch === 2);
      }
      await run.saver.settle();
      const there = (path: string) => {
        try {
          using file = openCheckpoint(path);
          file.verify();
          return (file.root as Map<string, number>).get("epoch");
        } catch {
          return null;
        }
      };
      assertEquals([1, 2, 3].map((epoch) => there(epochPath(places, epoch))), [null, 2, 3]);
      assertEquals([there(bestPath(places)), there(latestPath(places))], [2, 3]);
    })
  ),
);

const epochIn = (path: string): number => {
  using file = openCheckpoint(path);
  file.verify();
  return (file.root as Map<string, number>).get("epoch")!;
};

Deno.test(
  "an epoch that ends soon after a save is not saved, but the best state is held for the next one, and for the end",
  inFolder((folder) =>
    started(folder, MLP, async ({ saver, cursor, arena, paths: places }) => {
      const end = async (epoch: number, best: boolean): Promise<boolean> => {
        fill_(arena.flat, epoch);
        Object.assign(cursor, { epoch, step: 8 * epoch, stepInEpoch: 0 });
        const waits = await saver.putOff(best);
        if (!waits) await saver.save("epoch", best);
        return waits;
      };
      assertEquals([await end(1, true), await end(2, true), await end(3, false)], [false, true, true]);
      await saver.settle();
      assertEquals([epochIn(bestPath(places)), epochIn(latestPath(places))], [1, 1]);
      await saver.save("stop", false);
      await saver.settle();
      assertEquals([epochIn(bestPath(places)), epochIn(latestPath(places))], [2, 3]);
      assertNotEquals(contents(bestPath(places)), contents(latestPath(places)));
      assertEquals(saver.stats.saves, 3);
      assertEquals(await end(4, true), true);
      await saver.close(); // the run has failed
      assertEquals([epochIn(bestPath(places)), epochIn(latestPath(places))], [4, 4]);
    })
  ),
);

for (const more of [[], ["--lr-for=0.*=0.1"]]) {
  Deno.test(
    `a best state that is held has what a save of it has, the optimizer's own numbers too${
      more.length > 0 ? ", by group" : ""
    }`,
    inFolder((folder) =>
      started(folder, [...MLP, "--optimizer=nadam", "--ema=0.9", ...more], async (run) => {
        const { saver, paths: places, cursor } = run;
        await saver.save("epoch", true);
        await trainLoop(run);
        assertEquals(await saver.putOff(true), true);
        await saver.save("stop", false);
        await saver.settle();
        const of = (path: string) => [...contents(path)].filter(([at]) => at !== "/reason");
        assert(of(latestPath(places)).some(([at, value]) => at.endsWith("mu_product") && value !== "1"));
        assertEquals(of(bestPath(places)), of(latestPath(places)));
        assert(cursor.step > 0);
      })
    ),
  );
}

for (const asked of ["--save-every-epoch", "--keep-best=2", "--save-interval=1ep", "--on-spike=rewind"]) {
  Deno.test(
    `with ${asked} no save is put off`,
    inFolder((folder) =>
      started(folder, [...MLP, asked], async ({ saver }) => {
        await saver.save("epoch", true);
        assertEquals(await saver.putOff(true), false);
        await saver.settle();
      })
    ),
  );
}

Deno.test(
  "a save that the disk refuses is told, and the run goes on; at its end that is the run's error",
  inFolder((folder) =>
    started(folder, MLP, async (prepared) => {
      const { saver } = prepared;
      inTheWay(prepared);
      await saver.save("interval", false);
      await saver.save("epoch", false);
      const error = await assertRejects(() => saver.settle(), UserError);
      assertEquals(error.kind, "checkpoint");
      Deno.removeSync(latestPath(prepared.paths));
      await saver.save("interval", false);
      await saver.settle(); // the newest state is saved: nothing to complain about
      assertEquals(saver.stats.saves, 1);
      const [warning, ...more] = await savesIn(prepared);
      assertSentence("core/train/saver: save step failed", warning.message);
      assertEquals(more.map(({ kind }) => kind), ["save"], "the second failure is soon after the first");
    })
  ),
);

Deno.test(
  "weights that are not finite are never saved over good ones",
  inFolder((folder) =>
    started(folder, MLP, async ({ saver, paths: places, arena }) => {
      await saver.save("request", false);
      await saver.settle();
      const before = contents(latestPath(places));
      noGrad(() => fill_(arena.parameters[1], NaN));
      await saver.save("request", false);
      const error = await assertRejects(() => saver.settle(), UserError);
      assertEquals(error.kind, "numerics");
      assertMatch(
        error.message,
        new RegExp(`first such tensor: ${arena.names[1]}\\)\\. Nothing was saved over`),
      );
      assertEquals(contents(latestPath(places)), before);
    })
  ),
);
