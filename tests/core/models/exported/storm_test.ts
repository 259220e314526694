// A storm of programs whose graphs were changed: each is run or refused in a sentence, none ends the process, none makes a
// file. HPCTRAIN_STORM says how many; `./scripts/storm exported` takes 3,000 and more.
import { assert, assertEquals } from "@std/assert";
import { join } from "paths";
import { askPeer } from "../../../peer.ts";
import { addOutcome, type Outcome, startWorker } from "./storm_worker.ts";

const CASES = Number(Deno.env.get("HPCTRAIN_STORM") ?? 150);
const SEED = Number(Deno.env.get("HPCTRAIN_STORM_SEED") ?? 1);
const WORKER = new URL("storm.ts", import.meta.url);

Deno.test(`${CASES} programs with changed graphs: run or refused, no signal, no file made or changed`, async () => {
  const folder = Deno.makeTempDirSync(), work = join(folder, "work");
  Deno.mkdirSync(work);
  const kept = join(work, "kept.bin");
  Deno.writeTextFileSync(kept, "as it was");
  try {
    const { programs } = await askPeer<{ programs: Record<string, number[][]> }>("export_storm.py", {
      folder,
    });
    Deno.writeTextFileSync(join(folder, "shapes.json"), JSON.stringify(programs));
    const names = Object.keys(programs);
    const sum: Outcome = { ran: 0, refused: 0, odd: [] };
    const ended: string[] = [];
    for (let from = 0; from < CASES;) {
      const note = join(folder, "note");
      const words = [folder, names.join(), SEED, from, CASES, note];
      const { signal, code, stdout, stderr } = await startWorker(WORKER, words, { cwd: work }).output();
      if (code === 0) {
        addOutcome(sum, stdout);
        break;
      }
      const at = Deno.readTextFileSync(note);
      ended.push(`${signal ?? code} at case ${at}: ${new TextDecoder().decode(stderr).slice(-600)}`);
      from = parseInt(at) + 1;
      assert(ended.length < 60, ended.join("\n"));
    }
    assertEquals([ended.join("\n"), sum.odd.join("\n")], ["", ""]);
    assert(sum.ran > CASES / 20 && sum.refused > CASES / 4, `${sum.ran} ran, ${sum.refused} were refused`);
    assertEquals([...Deno.readDirSync(work)].map(({ name }) => name), ["kept.bin"]);
    assertEquals(Deno.readTextFileSync(kept), "as it was");
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});
