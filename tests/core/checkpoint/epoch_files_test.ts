// Checkpoints of single epochs: whose name is whose, and what goes with --keep-last.
import { assert, assertEquals } from "@std/assert";
import { join } from "paths";
import {
  type EpochFiles,
  epochName,
  linkPlainName,
  readEpochName,
  removeOldEpochs,
  SHARED_NAME,
} from "../../../core/checkpoint/epoch_files.ts";
import { INDEX_FILE } from "../../../core/checkpoint/sharded_reader.ts";
import { inFolder } from "./python.ts";

const names = (folder: string) => [...Deno.readDirSync(folder)].map(({ name }) => name).sort();

/** A file, or a folder with an index, that holds this text. */
function write(folder: string, name: string, text: string): void {
  const path = join(folder, name);
  if (!name.endsWith(".ckpt")) return Deno.writeTextFileSync(path, text);
  Deno.mkdirSync(path);
  Deno.writeTextFileSync(join(path, "model-00001-of-00001.safetensors"), text);
  const weight_map = { w: "model-00001-of-00001.safetensors" };
  Deno.writeTextFileSync(join(path, INDEX_FILE), JSON.stringify({ metadata: {}, weight_map }));
}

function read(folder: string, name: string): string {
  const path = join(folder, name);
  return Deno.readTextFileSync(
    name.endsWith(".ckpt") ? join(path, "model-00001-of-00001.safetensors") : path,
  );
}

/** What the end of an epoch leaves of this run, under both names. */
function saved(folder: string, run: string, epoch: number, ending: string, more: Partial<EpochFiles> = {}) {
  const files = { folder, run, epoch, ending, keep: 0, older: [], ...more };
  write(folder, epochName(run, epoch, ending), `${run} ${epoch}`);
  linkPlainName(files);
  if (files.keep > 0) removeOldEpochs(files);
}

for (const ending of ["pt", "safetensors", "ckpt"]) {
  const all = (run: string, ...epochs: number[]) => epochs.map((epoch) => epochName(run, epoch, ending));

  Deno.test(
    `with .${ending} each run keeps its own last epochs, and the plain name leads to the first run's`,
    inFolder((folder) => {
      for (const epoch of [1, 2, 3, 4, 5]) {
        saved(folder, "r", epoch, ending, { keep: 2 });
        saved(folder, "r-2", epoch, ending);
        saved(folder, "s", epoch, ending, { keep: 1 });
      }
      assertEquals(
        names(folder),
        [...all(SHARED_NAME, 4, 5), ...all("r", 4, 5), ...all("r-2", 1, 2, 3, 4, 5), ...all("s", 5)].sort(),
      );
      assertEquals(all(SHARED_NAME, 4, 5).map((name) => read(folder, name)), ["r 4", "r 5"]);
    }),
  );

  Deno.test(
    `an older version's .${ending} of this run goes like its own, and another run's stays and keeps its name`,
    inFolder((folder) => {
      for (const name of all(SHARED_NAME, 1, 2, 3, 4)) write(folder, name, "older");
      const older = all(SHARED_NAME, 1, 3);
      for (const epoch of [3, 4, 5]) saved(folder, "r", epoch, ending, { keep: 2, older });
      assertEquals(names(folder), [...all(SHARED_NAME, 2, 4, 5), ...all("r", 4, 5)].sort());
      assertEquals(all(SHARED_NAME, 2, 4, 5).map((name) => read(folder, name)), ["older", "older", "r 5"]);
    }),
  );

  Deno.test(
    `an older version's .${ending} of this run becomes a link where the run comes to that epoch again`,
    inFolder((folder) => {
      const [plain] = all(SHARED_NAME, 3);
      write(folder, plain, "older");
      saved(folder, "r", 3, ending, { older: [plain] });
      assertEquals(Deno.readLinkSync(join(folder, plain)), epochName("r", 3, ending));
      assertEquals(read(folder, plain), "r 3");
    }),
  );
}

Deno.test(
  "a plain name whose file is gone is the next run's; a link of somebody's own stays, though it leads nowhere now",
  inFolder((folder) => {
    saved(folder, "r", 1, "pt");
    saved(folder, "r", 2, "pt");
    for (const epoch of [1, 2]) Deno.removeSync(join(folder, epochName("r", epoch, "pt")));
    const away = "/not/mounted/r_epoch_3.pt", mine = join(folder, epochName(SHARED_NAME, 3, "pt"));
    Deno.symlinkSync(away, mine);
    for (const epoch of [2, 3]) saved(folder, "s", epoch, "pt", { keep: 5 });
    assertEquals(read(folder, epochName(SHARED_NAME, 2, "pt")), "s 2");
    assertEquals(Deno.readLinkSync(mine), away);
    saved(folder, "s", 9, "pt", { keep: 1 });
    assertEquals(Deno.readLinkSync(mine), away);
    assert(
      Deno.lstatSync(join(folder, epochName(SHARED_NAME, 1, "pt"))).isSymlink,
      "r's is not s's to remove",
    );
  }),
);

Deno.test(
  "where the file system makes no links, an epoch has the run's own name alone",
  inFolder((folder) => {
    const { symlinkSync } = Deno;
    Deno.symlinkSync = () => {
      throw new Error("Operation not permitted (os error 1)");
    };
    try {
      for (const epoch of [1, 2]) saved(folder, "r", epoch, "pt", { keep: 1 });
    } finally {
      Deno.symlinkSync = symlinkSync;
    }
    assertEquals(names(folder), ["r_epoch_2.pt"]);
  }),
);

Deno.test("the last epoch in a name is the epoch, and the rest is the run", () => {
  assertEquals(readEpochName("r_epoch_1_epoch_12.safetensors"), { run: "r_epoch_1", epoch: 12 });
  for (const name of ["r_epoch_1", "r_epoch_x.pt", "r_latest.pt", "_epoch_1.pt", ".r_epoch_1.pt.tmp-a-1-x"]) {
    assertEquals(readEpochName(name), null, name);
  }
});
