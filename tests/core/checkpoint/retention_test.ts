// Second names of a checkpoint: what they hold when the first name gets other content.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { writeAll, writeAtomically } from "../../../core/base/atomic.ts";
import { linkOrCopy } from "../../../core/checkpoint/sharded_writer.ts";
import { UserError } from "../../../core/base/errors.ts";
import { inFolder } from "./python.ts";

const names = (folder: string) => [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
const write = (path: string, content: string) =>
  writeAtomically(path, (file) => writeAll(file, new TextEncoder().encode(content)));

Deno.test(
  "a second name keeps its content when the first gets a new one, also where the first is a link",
  inFolder((folder) => {
    Deno.mkdirSync(`${folder}/scratch`);
    Deno.writeTextFileSync(`${folder}/scratch/latest.pt`, "");
    Deno.symlinkSync(`${folder}/scratch/latest.pt`, `${folder}/latest.pt`);
    write(`${folder}/latest.pt`, "good");
    linkOrCopy(`${folder}/latest.pt`, `${folder}/best.pt`);
    write(`${folder}/latest.pt`, "worse");
    assert(Deno.lstatSync(`${folder}/best.pt`).isFile);
    assertEquals(Deno.readTextFileSync(`${folder}/best.pt`), "good");
    assertEquals(names(folder), ["best.pt", "latest.pt", "scratch"]);
  }),
);

Deno.test(
  "a second name on another disk is a copy",
  inFolder((folder) => {
    const elsewhere = Deno.makeTempDirSync({ dir: "/dev/shm" });
    try {
      write(`${folder}/latest.pt`, "good");
      linkOrCopy(`${folder}/latest.pt`, `${elsewhere}/best.pt`);
      assertEquals(Deno.readTextFileSync(`${elsewhere}/best.pt`), "good");
      assertEquals(names(elsewhere), ["best.pt"]);
    } finally {
      Deno.removeSync(elsewhere, { recursive: true });
    }
  }),
);

Deno.test(
  "a checkpoint that is gone when it should get a second name is a sentence, and the old one stays",
  inFolder((folder) => {
    write(`${folder}/best.pt`, "old");
    const error = assertThrows(() => linkOrCopy(`${folder}/latest.pt`, `${folder}/best.pt`), UserError);
    assertEquals(error.kind, "checkpoint");
    assertEquals([Deno.readTextFileSync(`${folder}/best.pt`), names(folder)], ["old", ["best.pt"]]);
  }),
);
