// What the system does for processes that belong together.
import { assert, assertEquals } from "@std/assert";
import { endWithPipe, makePipe } from "../../ffi/libc.ts";

const MODULE = new URL("../../ffi/libc.ts", import.meta.url).href;

async function inFolder(body: (folder: string) => Promise<void>): Promise<void> {
  const folder = Deno.makeTempDirSync();
  try {
    await body(folder);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

const child = (script: string) =>
  new Deno.Command(Deno.execPath(), {
    args: ["eval", "--no-check", script],
    stdout: "piped",
    stderr: "inherit",
  }).spawn();

Deno.test("a process that is busy is killed when the pipe that it hangs on loses its writer", () =>
  inFolder(async (folder) => {
    const pipe = `${folder}/leash`;
    makePipe(pipe);
    const held = Deno.openSync(pipe, { read: true, write: true });
    const process = child(
      `import { endWithPipe } from "${MODULE}";
       console.log(endWithPipe("${pipe}"));
       for (const end = Date.now() + 20000; Date.now() < end;);`,
    );
    const reader = process.stdout.getReader();
    const { value } = await reader.read();
    assertEquals(new TextDecoder().decode(value), "true\n");
    held.close();
    await reader.cancel();
    assertEquals((await process.status).signal, "SIGKILL");
  }));

Deno.test("a pipe that nobody holds any more, or that is not there, is told at once", () =>
  inFolder((folder) => {
    const pipe = `${folder}/leash`;
    assertEquals(endWithPipe(pipe), false);
    makePipe(pipe);
    assertEquals(endWithPipe(pipe), false);
    return Promise.resolve();
  }));

Deno.test("all threads of a process are put on the cores that it was given", async () => {
  const process = child(
    `import { runOnCores } from "${MODULE}";
     runOnCores([0]);
     console.log([...Deno.readDirSync("/proc/self/task")].map(({ name }) =>
       Deno.readTextFileSync("/proc/self/task/" + name + "/status").match(/Cpus_allowed_list:\\s*(\\S+)/)[1]).join());`,
  );
  const { stdout } = await process.output();
  const lists = new TextDecoder().decode(stdout).trim().split(",");
  assert(lists.length > 1);
  assertEquals([...new Set(lists)], ["0"]);
});

Deno.test("a quick end has its code, calls who waits for the end, and none of the libraries; one with a profiler calls both", async () => {
  const script = `import { exitQuickly } from "${MODULE}";
    const { symbols } = Deno.dlopen("libc.so.6", {
      __cxa_atexit: { parameters: ["pointer", "pointer", "pointer"], result: "i32" },
      abort: { type: "pointer" },
    });
    symbols.__cxa_atexit(symbols.abort, null, null); // a library's end that can be seen
    addEventListener("unload", () => console.log("unloaded"));
    exitQuickly(3);`;
  const end = async (preload: string) => {
    const args = ["eval", "--no-check", script];
    const command = new Deno.Command(Deno.execPath(), { args, env: { LD_PRELOAD: preload }, stderr: "null" });
    const { code, signal, stdout } = await command.output();
    return [new TextDecoder().decode(stdout), signal ?? code];
  };
  assertEquals(await end(""), ["unloaded\n", 3]);
  assertEquals(await end("libm.so.6"), ["unloaded\n", "SIGABRT"]);
});

Deno.test("a process gets room for as many open files as its hard limit allows", async () => {
  const script = `import { allowOpenFiles } from "${MODULE}";
    const { symbols } = Deno.dlopen("libc.so.6", {
      prlimit: { parameters: ["i32", "i32", "buffer", "buffer"], result: "i32" },
    });
    symbols.prlimit(0, 7, BigUint64Array.of(100n, 600n), null);
    console.log(allowOpenFiles(500), allowOpenFiles(50), allowOpenFiles(9000));`;
  const { stdout } = await child(script).output();
  assertEquals(new TextDecoder().decode(stdout), "500 500 600\n");
});
