// The markers beside a .wandb file.
import { assert, assertEquals } from "@std/assert";
import { join } from "paths";
import { holdFolder } from "../../../../../core/base/files.ts";
import {
  isBeingWritten,
  isSynced,
  lockUpload,
  markSynced,
  readStart,
  uploadedStep,
  writeStart,
} from "../../../../../core/outputs/wandb/sync/state.ts";
import { inTemp } from "../../../../integration/program.ts";

const STATE = {
  to: "http://h e p r",
  base: { history: 1, events: 2, output: 3 },
  sent: { history: 4, events: 5, output: 6 },
  lastStep: 7,
  alerts: 8,
};

Deno.test("marks and starts are written as W&B's own program writes them", () =>
  inTemp((folder) => {
    const path = join(folder, "run-r.wandb");
    assertEquals([isSynced(path), readStart(path)], [false, null]);
    markSynced(path);
    writeStart(path, { step: 5, runtime: 1000 });
    assertEquals(Deno.readTextFileSync(`${path}.synced`), "");
    assertEquals(Deno.readTextFileSync(`${path}.syncstate`), '{"starting_step":5,"starting_runtime":1000}');
    assertEquals([isSynced(path), readStart(path)], [true, { step: 5, runtime: 1000 }]);
    Deno.writeTextFileSync(`${path}.syncstate`, '{"starting_step":2}');
    assertEquals(readStart(path), { step: 2, runtime: 0 }, "as an older one writes it");
    for (const text of ["", "{", "[]", "null", '{"starting_step":"x"}']) {
      Deno.writeTextFileSync(`${path}.syncstate`, text);
      assertEquals(readStart(path), null, text);
    }
  }));

Deno.test("one upload holds the file, and what it writes is read by the next; what is torn says nothing", () =>
  inTemp((folder) => {
    const path = join(folder, "run-r.wandb");
    assertEquals(uploadedStep(path), null);
    const first = lockUpload(path)!;
    assertEquals(first.known, null);
    assertEquals(lockUpload(path), null, "held");
    assert(first.write({ ...STATE, to: "longer".repeat(10) }));
    assert(first.write(STATE));
    first.close();
    const second = lockUpload(path)!;
    assertEquals(second.known, STATE);
    second.close();
    assertEquals(uploadedStep(path), 7);
    const text = Deno.readTextFileSync(`${path}.uploaded.json`);
    for (let size = 0; size < text.length - 1; size++) {
      Deno.writeTextFileSync(`${path}.uploaded.json`, text.slice(0, size));
      assertEquals(uploadedStep(path), null, `${size}`);
    }
    for (const wrong of ["[]", "3", '{"to":1}', '{"to":"","base":{"history":"x"}}']) {
      Deno.writeTextFileSync(`${path}.uploaded.json`, wrong);
      assertEquals(uploadedStep(path), null, wrong);
    }
  }));

Deno.test("a run is being written while somebody holds its folder", () =>
  inTemp((folder) => {
    const path = join(folder, "run-r.wandb");
    assertEquals(isBeingWritten(path), false);
    const release = holdFolder(folder)!;
    assertEquals(isBeingWritten(path), true);
    release();
    assertEquals(isBeingWritten(path), false);
  }));
