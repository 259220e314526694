// The folder of a search: several processes take its trials, each of them once, and what a dead one had is taken up.
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { join } from "paths";
import { endClaim, type Holder, takeClaim, thisHolder } from "../../../../core/cluster/sweep/claims.ts";
import { claimTrial, nextTrial, readTrials, takeTrial } from "../../../../core/cluster/sweep/trials.ts";
import { inSweep } from "./made_search.ts";

function worker(folder: string, dies = 0): Promise<number[]> {
  const file = new URL("./trials_worker.ts", import.meta.url).pathname;
  const args = ["run", "--quiet", "--allow-all", "--no-check", file, folder, String(dies)];
  return new Deno.Command(Deno.execPath(), { args, stderr: "inherit" }).output()
    .then(({ stdout }) => JSON.parse(new TextDecoder().decode(stdout)));
}

const elsewhere = (holder: Holder, host: string): Holder => ({ ...holder, host });

Deno.test("processes take each trial once, and what a killed one had is taken once more", () =>
  inSweep({ maxRuns: 60 }, async (folder, sweep) => {
    const taken = await Promise.all([worker(folder), worker(folder), worker(folder, 4)]);
    const all = taken.flat().sort((a, b) => a - b);
    const [lost] = taken[2].slice(-1);
    const expected = [...Array.from({ length: 60 }, (_, i) => i)];
    const left = readTrials(folder).filter(({ result }) => result === null).map(({ number }) => number);
    // The others may have ended before it died.
    assertEquals(all, left.length > 0 ? expected : [...expected, lost].sort((a, b) => a - b));
    assertEquals(left.length > 0 ? left : [lost], [lost]);
    if (left.length > 0) assertEquals(await worker(folder), [lost]);
    const trials = readTrials(folder);
    assert(trials.every(({ result }) => result?.state === "done"));
    assertEquals(new Set(trials.map(({ words }) => words.join())).size, 60);
    assertEquals(await takeTrial(folder, sweep, await thisHolder({})), null);
    assertEquals(
      [...Deno.readDirSync(join(folder, "trials"))].filter(({ name }) => name.includes("tmp")),
      [],
    );
  }));

Deno.test("a claim is its holder's until it ends, goes silent, or its job begins again", () =>
  inSweep({ maxRuns: 3 }, async (folder, sweep) => {
    const me = await thisHolder({}), other = elsewhere(me, "node7");
    const job = { SLURM_ARRAY_JOB_ID: "6", SLURM_ARRAY_TASK_ID: "2", HPCTRAIN_SECRET: "a" };
    const mine = await thisHolder(job), again = await thisHolder({ ...job, HPCTRAIN_SECRET: "b" });
    assert(!JSON.stringify(mine).includes('"a"'), "the secret is in a file");

    const first = (await takeTrial(folder, sweep, other))!;
    assertEquals([first.trial.number, (await takeTrial(folder, sweep, me))?.trial.number], [0, 1]);
    assertEquals(claimTrial(folder, sweep, 0, me), null);
    // Two that find it silent: one of them gets it.
    Deno.utimeSync(first.claim.path, new Date(0), new Date(Date.now() - 300_000));
    const claims = [me, elsewhere(me, "node8")].map((holder) =>
      takeClaim(join(folder, "trials"), "0000", holder)
    );
    assertEquals(claims.map((claim) => claim?.number), [2, undefined]);
    endClaim(claims[0]!);
    assertEquals(claimTrial(folder, sweep, 0, other)?.claim.number, 3);

    assertEquals((await takeTrial(folder, sweep, elsewhere(mine, "node1")))?.trial.number, 2);
    assertEquals(await nextTrial(folder, sweep, me), null);
    assertEquals((await takeTrial(folder, sweep, elsewhere(again, "node2")))?.trial.number, 2);
  }));

Deno.test("a trial whose process dies again and again has failed", () =>
  inSweep({ maxRuns: 1 }, async (folder, sweep) => {
    const me = await thisHolder({}), dead = { ...me, pid: 1, started: "never" };
    for (let i = 0; i < 5; i++) assertEquals((await takeTrial(folder, sweep, dead))?.trial.number, 0);
    assertEquals(await takeTrial(folder, sweep, dead), null);
    assertMatch(readTrials(folder)[0].result!.why, /died 5 times/);
  }));

Deno.test("a trial's file that is damaged is told in a sentence", () =>
  inSweep({ maxRuns: 2 }, async (folder, sweep) => {
    await takeTrial(folder, sweep, await thisHolder({}));
    Deno.writeTextFileSync(join(folder, "trials/0000.json"), '{"run": 7');
    assertThrows(() => readTrials(folder), Error, "is damaged: it names no run");
  }));
