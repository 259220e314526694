// Locks of folders: one process at a time, and free again however that process ends.
import { assertEquals } from "@std/assert";
import { holdFolder, lockFolder } from "../../../core/base/files.ts";

const MODULE = new URL("../../../core/base/files.ts", import.meta.url);

/** What another process is told; `hold` keeps it alive. */
function other(folder: string, hold = ""): Deno.ChildProcess {
  const code =
    `import { holdFolder, lockFolder } from "${MODULE}"; console.log(lockFolder("${folder}")); ${hold}`;
  return new Deno.Command(Deno.execPath(), { args: ["eval", code], stdout: "piped" }).spawn();
}

const text = (bytes?: Uint8Array) => new TextDecoder().decode(bytes);

Deno.test("a folder is locked by one process, and free again when that is killed", async () => {
  const folder = Deno.makeTempDirSync();
  try {
    const holder = other(folder, "await new Promise((done) => setTimeout(done, 60000));");
    const reader = holder.stdout.getReader();
    assertEquals(text((await reader.read()).value), "true\n");
    assertEquals(lockFolder(folder), false);
    holder.kill("SIGKILL");
    await reader.cancel();
    await holder.status;
    assertEquals(lockFolder(folder), true);
    assertEquals(text((await other(folder).output()).stdout), "false\n");
    assertEquals([...Deno.readDirSync(folder)], [], "nothing is left in it");
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});

Deno.test("a folder that is not there can't be told to be in use", () => {
  assertEquals(lockFolder("/nowhere/at/all"), true);
});

Deno.test("a lock that is given back can be taken again", () => {
  const folder = Deno.makeTempDirSync();
  try {
    const release = holdFolder(folder);
    assertEquals(holdFolder(folder), null);
    release!();
    const open = [...Deno.readDirSync("/proc/self/fd")].length;
    for (let i = 0; i < 5; i++) holdFolder(folder)!();
    assertEquals([...Deno.readDirSync("/proc/self/fd")].length, open);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});
