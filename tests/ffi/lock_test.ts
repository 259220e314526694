// Locks of folders: one process at a time, and free again however that process ends.
import { assertEquals } from "@std/assert";
import { lockFolder } from "../../ffi/lock.ts";

const MODULE = new URL("../../ffi/lock.ts", import.meta.url);

/** What another process is told; `hold` keeps it alive. */
function other(folder: string, hold = ""): Deno.ChildProcess {
  const code = `import { lockFolder } from "${MODULE}"; console.log(lockFolder("${folder}")); ${hold}`;
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
