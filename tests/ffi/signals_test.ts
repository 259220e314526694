// What the system does with signals of a process that listens to some.
import { assertEquals } from "@std/assert";

const MODULE = new URL("../../ffi/signals.ts", import.meta.url).href;

/** How a script ends that uses this file and is started through a shell's line, and what it prints. */
async function ended(script: string, line = 'exec "$@"') {
  const source = `import { endOnInterrupt, heedInterrupts, isHangUpIgnored, onSignal } from "${MODULE}";
    const pause = (ms = 100) => new Promise((resolve) => setTimeout(resolve, ms));
    ${script}`;
  const args = ["-c", line, "sh", Deno.execPath(), "eval", "--no-check", source];
  const { code, signal, stdout } = await new Deno.Command("/bin/sh", { args }).output();
  return [new TextDecoder().decode(stdout).trim(), signal ?? code];
}

const NOHUP = 'trap "" HUP; exec "$@"';

Deno.test("who listens to one signal leaves SIGHUP to nohup, for the programs that it starts as well", async () => {
  const script = `const end = onSignal("SIGUSR1", () => {});
    const child = new Deno.Command("/bin/sh", { args: ["-c", "kill -HUP $$; echo alive"] }).outputSync();
    console.log(isHangUpIgnored(), new TextDecoder().decode(child.stdout).trim());
    end();
    Deno.kill(Deno.pid, "SIGHUP");
    await pause();
    Deno.exit(0);`;
  assertEquals(await ended(script, NOHUP), ["true alive", 0]);
  assertEquals(await ended(script), ["false", "SIGHUP"]);
});

Deno.test("SIGHUP is heard by who listens to it, even with nohup, and then nohup has it again", async () => {
  const script = `let heard = 0;
    const ends = [onSignal("SIGHUP", () => heard++), onSignal("SIGUSR1", () => {})];
    Deno.kill(Deno.pid, "SIGHUP");
    await pause();
    ends.forEach((end) => end());
    console.log(heard, isHangUpIgnored());
    Deno.exit(0);`;
  assertEquals(await ended(script, NOHUP), ["1 true", 0]);
  assertEquals(await ended(script), ["1 false", 0]);
});

Deno.test("Ctrl-C ends a process that computes, and comes to its listeners again when that is taken back", async () => {
  const script = `let heard = 0;
    onSignal("SIGINT", () => heard++);
    endOnInterrupt();
    heedInterrupts();
    Deno.kill(Deno.pid, "SIGINT");
    await pause();
    console.log(heard);
    endOnInterrupt();
    Deno.kill(Deno.pid, "SIGINT");
    for (const end = Date.now() + 20000; Date.now() < end;);`;
  assertEquals(await ended(script), ["1", "SIGINT"]);
});
