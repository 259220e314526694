import { assertEquals } from "@std/assert";
import { type ConsoleOptions, openConsole, renderProgressLine } from "../../../core/run/console.ts";

const state = { epoch: 1, epochs: 2, step: 3, steps: 4, loss: 0.5 };
const ERASE = "\r\x1b[2K";

/** Tells one small story on a console and gives back what came out of each descriptor. */
function tell(options: Partial<ConsoleOptions>) {
  let out = "", err = "", time = 0;
  const console = openConsole({
    quiet: false,
    json: false,
    isTerminal: false,
    write: (text) => out += text,
    writeError: (text) => err += text,
    columns: () => 80,
    now: () => time,
    env: () => undefined,
    ...options,
  });
  console.line("hello");
  console.progress(state);
  time += 10_000;
  console.progress(state);
  console.progress(state);
  console.event('{"kind":"step"}');
  console.warn("hot");
  console.final("done");
  console.close();
  return { out, err };
}

Deno.test("without a terminal there are plain lines, a step line every ten seconds, and no escape code", () => {
  assertEquals(tell({}), {
    out: "hello\n[Epoch 1/2] Step 3/4 | Loss: 0.5000\ndone\n",
    err: "warning: hot\n",
  });
});

Deno.test("on a terminal the live line is drawn, and erased before anything else is printed", () => {
  const line = ERASE + renderProgressLine(state, 80);
  assertEquals(tell({ isTerminal: true }), {
    out: `hello\n${line}${line}${ERASE}done\n`,
    err: "warning: hot\n",
  });
});

Deno.test("a dumb terminal gets plain lines", () => {
  assertEquals(tell({ isTerminal: true, env: (name) => name === "TERM" ? "dumb" : undefined }), tell({}));
});

Deno.test("quiet keeps the final line and the warnings", () => {
  for (const isTerminal of [false, true]) {
    assertEquals(tell({ quiet: true, isTerminal }), { out: "done\n", err: "warning: hot\n" });
  }
});

Deno.test("json puts the events on stdout and nothing else", () => {
  for (const isTerminal of [false, true]) {
    assertEquals(tell({ json: true, isTerminal }), { out: '{"kind":"step"}\n', err: "warning: hot\n" });
  }
});

Deno.test("a reader that has gone away does not end the run", () => {
  const gone = () => {
    throw new Deno.errors.BrokenPipe("Broken pipe");
  };
  for (const isTerminal of [false, true]) tell({ isTerminal, write: gone, writeError: gone });
  tell({ json: true, write: gone, writeError: gone });
});

Deno.test("a real closed pipe does not end the process", async () => {
  const program = new URL("../../../core/run/console.ts", import.meta.url).href;
  const code = `const { openConsole } = await import(${JSON.stringify(program)});
    const c = openConsole({ quiet: false, json: false });
    for (let i = 0; i < 2000; i++) c.line("a line that nobody reads any more ".repeat(8));
    Deno.stderr.writeSync(new TextEncoder().encode("trained on"));`;
  const { code: rc, stderr } = await new Deno.Command("bash", {
    args: ["-c", `set -o pipefail; "$0" eval "$1" | head -n 1 >/dev/null`, Deno.execPath(), code],
    stderr: "piped",
  }).output();
  assertEquals({ rc, said: new TextDecoder().decode(stderr) }, { rc: 0, said: "trained on" });
});
