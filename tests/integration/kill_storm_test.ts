// Runs that are killed at any moment, again and again, and resumed: nothing that was reported as saved is lost, no
// checkpoint is damaged, and the end has the bits of the run that was left alone. `scripts/storm` deals thousands.
import { assert, assertEquals } from "@std/assert";
import { inTemp } from "./program.ts";
import { killsOf, storm, STORMS, type Tally } from "./storm.ts";
import { IN_A_SAVE } from "./storm_checks.ts";

Deno.test("40 kills, many of them within a save, lose nothing that was saved and change no bit of the run", async () => {
  const tallies = await Promise.all(STORMS.map(async ({ flags, seed }): Promise<Tally> => {
    let tally: Tally;
    await inTemp(async (folder) => {
      // A third of a storm's run outlasts its twenty kills.
      tally = await storm(folder, { flags: [...flags, `--epochs=${13 * seed}`], seed, kills: 20 });
    });
    return tally!;
  }));
  for (const { unreadable, lost, different } of tallies) {
    assertEquals({ unreadable, lost, different }, { unreadable: [], lost: [], different: [] });
  }
  const kills = (moment: typeof IN_A_SAVE[number]) =>
    tallies.reduce((sum, tally) => sum + tally.kills[moment], 0);
  const all = tallies.reduce((sum, tally) => sum + killsOf(tally), 0);
  const told = JSON.stringify(tallies);
  console.log(told);
  assertEquals(all, 40);
  assert(IN_A_SAVE.reduce((sum, moment) => sum + kills(moment), 0) > all / 3, told);
  assert(kills("renamed") > 0 && kills("writing") + kills("written") > 1, told);
});
