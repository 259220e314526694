import { assertEquals } from "@std/assert";

const WATCHDOG = new URL("../../../../../core/cluster/doctor/full/watchdog.ts", import.meta.url);

Deno.test("a process whose thread does not come back is ended, with the sentence and code 1", async () => {
  const program = `const thread = new Worker(${JSON.stringify(WATCHDOG.href)}, { type: "module" });
    thread.postMessage({ milliseconds: 500, sentence: "too long" });
    await new Promise((resolve) => setTimeout(resolve, 100));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 120_000);
    console.log("came back");`;
  const args = ["eval", "--quiet", "--no-check", "--ext=ts", program];
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), { args }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes).trim();
  assertEquals([code, text(stdout), text(stderr)], [1, "", "too long"]);
});
