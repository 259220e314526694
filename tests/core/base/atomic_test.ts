// What is on disk when a write fails: the old file, whole, and nothing else.
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { writeAll, writeAtomically } from "../../../core/base/atomic.ts";
import { UserError } from "../../../core/base/errors.ts";
import { inFolder } from "../checkpoint/python.ts";

const put = (content: string) => (file: Deno.FsFile) => writeAll(file, new TextEncoder().encode(content));
const names = (folder: string) => [...Deno.readDirSync(folder)].map(({ name }) => name).sort();

Deno.test(
  "a write replaces the file, makes the folders it needs and leaves nothing beside it",
  inFolder((folder) => {
    const path = `${folder}/new/deep/a.pt`;
    writeAtomically(path, put("one"));
    writeAtomically(path, put("two"));
    assertEquals(Deno.readTextFileSync(path), "two");
    assertEquals(names(`${folder}/new/deep`), ["a.pt"]);
  }),
);

Deno.test(
  "while a write goes on, and when it fails in any way, the old file is whole",
  inFolder((folder) => {
    const path = `${folder}/a.pt`;
    writeAtomically(path, put("old"));
    const failures: [string, () => void][] = [
      ["in the middle", () =>
        writeAtomically(path, (file) => {
          put("half")(file);
          assertEquals(Deno.readTextFileSync(path), "old");
          throw new Error("in the middle");
        })],
      ["in the check", () =>
        writeAtomically(path, put("bad"), {
          check: (temporary) => {
            assertEquals(Deno.readTextFileSync(temporary), "bad");
            throw new Error("in the check");
          },
        })],
    ];
    for (const [message, failing] of failures) {
      assertThrows(failing, Error, message);
      assertEquals([Deno.readTextFileSync(path), names(folder)], ["old", ["a.pt"]]);
    }
  }),
);

Deno.test(
  "a disk that fills up while writing gives a sentence, and the old file stays",
  inFolder((folder) => {
    const path = `${folder}/a.pt`;
    writeAtomically(path, put("old"));
    // The kernel's own "no space left on device".
    using full = Deno.openSync("/dev/full", { write: true });
    const error = assertThrows(
      () => writeAtomically(path, () => full.writeSync(new Uint8Array(9)), { needBytes: 2048 }),
      UserError,
      "the disk is full (2.0 KiB were to be written)",
    );
    assertEquals(error.kind, "checkpoint");
    assertStringIncludes(error.message, path);
    assertEquals([Deno.readTextFileSync(path), names(folder)], ["old", ["a.pt"]]);
  }),
);

Deno.test(
  "a used-up quota, and an error that Deno has no name for, give a sentence, and the old file stays",
  inFolder((folder) => {
    const path = `${folder}/a.pt`;
    writeAtomically(path, put("old"));
    const failing = (said: string) => () =>
      writeAtomically(path, (file) => {
        put("half")(file);
        throw new Error(said); // as Deno gives it: without a code
      });
    const refused = (said: string, sentence: string) => {
      assertEquals(assertThrows(failing(said), UserError, sentence).kind, "checkpoint");
    };
    refused("Disk quota exceeded (os error 122)", "your disk quota is used up; free some space");
    refused("Stale file handle (os error 116)", "the file server no longer knows this file");
    assertEquals([Deno.readTextFileSync(path), names(folder)], ["old", ["a.pt"]]);
  }),
);

Deno.test(
  "too little space is refused before anything is written",
  inFolder((folder) => {
    const path = `${folder}/a.pt`;
    const error = assertThrows(
      () => writeAtomically(path, put("x"), { needBytes: 2 ** 60 }),
      UserError,
      "1024.0 PiB are to be written",
    );
    assertStringIncludes(error.message, "are free there");
    assertEquals(names(folder), []);
  }),
);

Deno.test(
  "a folder in the way, a file in the way and a place that takes no files each give a sentence",
  inFolder((folder) => {
    Deno.writeTextFileSync(`${folder}/file`, "");
    const refused = (path: string, sentence: string) => {
      const error = assertThrows(() => writeAtomically(path, put("x")), UserError, sentence);
      assertEquals(error.kind, "checkpoint");
    };
    refused(folder, "is a folder");
    refused(`${folder}/file/a.pt`, "is a file, not a folder");
    refused("/proc/a.pt", "/proc/a.pt: ");
  }),
);

Deno.test(
  "a link keeps pointing at the file behind it, which is replaced",
  inFolder((folder) => {
    Deno.mkdirSync(`${folder}/scratch`);
    Deno.writeTextFileSync(`${folder}/scratch/a.pt`, "old");
    Deno.symlinkSync(`${folder}/scratch/a.pt`, `${folder}/a.pt`);
    writeAtomically(`${folder}/a.pt`, put("new"));
    assert(Deno.lstatSync(`${folder}/a.pt`).isSymlink);
    assertEquals([Deno.readTextFileSync(`${folder}/scratch/a.pt`), names(`${folder}/scratch`)], ["new", [
      "a.pt",
    ]]);
  }),
);

Deno.test(
  "the temporary file of a killed run is removed at once where that can be told, elsewhere after an hour",
  inFolder(async (folder) => {
    const path = (host: string, pid: number) => `${folder}/.a.pt.tmp-${host}-${pid}-0123abcd`;
    const ended = new Deno.Command("true").spawn();
    await ended.status;
    const [dead, alive] = [path(Deno.hostname(), ended.pid), path(Deno.hostname(), Deno.pid)];
    const [stale, fresh] = [path("other", 1), path("other", 2)];
    for (const file of [dead, alive, stale, fresh]) Deno.writeTextFileSync(file, "half");
    const past = new Date(Date.now() - 2 * 3600_000);
    Deno.utimeSync(stale, past, past);
    writeAtomically(`${folder}/a.pt`, put("x"));
    const left = [alive, fresh].map((file) => file.slice(folder.length + 1));
    assertEquals(names(folder), [...left, "a.pt"].sort());
  }),
);

Deno.test(
  "a name as long as a file system takes is written, a longer one gets a sentence, and both speak of no setting",
  inFolder((folder) => {
    const longest = `${folder}/${"n".repeat(252)}.pt`;
    writeAtomically(longest, put("x"));
    assertEquals(Deno.readTextFileSync(longest), "x");
    const error = assertThrows(() => writeAtomically(`${folder}/n${"n".repeat(255)}`, put("x")), UserError);
    assertMatch(error.message, /longer than file names may be \(255 bytes\)/);
    assert(!error.message.includes("untouched"), "nothing was there before");
    const full = () => writeAtomically(`${folder}/a.pt`, put("x"), { needBytes: 2 ** 60 });
    assertMatch(assertThrows(full, UserError).message, /free some space or name another folder\./);
  }),
);
