import { assert, assertEquals } from "@std/assert";
import { type ConsoleOptions, openConsole } from "../../../core/run/console.ts";
import { type EpochSummary, renderProgressLine } from "../../../core/run/live_line.ts";

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
  const line = ERASE + renderProgressLine({ state, curve: null }, 80, { colour: false, unicode: true });
  assertEquals(tell({ isTerminal: true, env: (name) => name === "NO_COLOR" ? "1" : undefined }), {
    out: `hello\n${line}${line}${ERASE}done\n`,
    err: "warning: hot\n",
  });
});

const epoch: EpochSummary = {
  ...{
    epoch: 1,
    epochs: 10,
    task: "regression",
    loss: 0.6923,
    score: 0.5123,
    valLoss: 0.6801,
    valScore: 0.5301,
  },
  ...{ learningRate: 3e-4, samplesPerSecond: 1234, memoryBytes: 2.1 * 2 ** 30 },
};

/** What a console of this width prints for one call, and what the log gets. */
function said(call: (console: ReturnType<typeof openConsole>) => void, options: Partial<ConsoleOptions>) {
  let out = "";
  const logged: string[] = [], write = (text: string) => out += text;
  const env = (name: string) => name === "NO_COLOR" ? "1" : undefined;
  call(openConsole({
    ...{ quiet: false, json: false, isTerminal: true, columns: () => 80, env, write, writeError: write },
    onLine: (text) => void logged.push(text),
    ...options,
  }));
  return { out, logged };
}

Deno.test("the line of an epoch is cut to a terminal's width, and whole in pipes and in the log", () => {
  const whole =
    "[Epoch 1/10] Loss: 0.6923 | R2: 0.5123 | Val Loss: 0.6801 | Val R2: 0.5301 | LR: 3.0e-4 | 1234 samples/s | 2.1 GiB";
  const shown = said((console) => console.epoch(epoch), {});
  assertEquals(shown, {
    out: "[Epoch 1/10] Loss: 0.6923 | Val Loss: 0.6801 | Val R2: 0.5301 | LR: 3.0e-4\n",
    logged: [whole],
  });
  assertEquals(said((console) => console.epoch(epoch), { isTerminal: false }).out, whole + "\n");
  assertEquals(said((console) => console.epoch(epoch), { columns: () => 200 }).out, whole + "\n");
  const worst = { name: "a\x1b[2Jname that is long", r2: -3 };
  for (let width = 30; width < 160; width++) {
    const { out } = said((console) => console.epoch({ ...epoch, worst }), { columns: () => width });
    assert(out.length - 1 <= Math.max(width, 44) && !out.includes("\x1b"), out);
  }
  const coloured = said((console) => console.epoch(epoch), { env: () => undefined }).out;
  assertEquals(coloured.includes("\x1b[33mVal Loss: 0.6801\x1b[0m"), true);
});

Deno.test("after an epoch the live line has its validation loss", () => {
  const { out } = said((console) => {
    console.epoch(epoch);
    console.progress({ ...state, learningRate: 1e-3, secondsLeft: 75 });
  }, {});
  assertEquals(
    out.split(ERASE)[1],
    "Epoch 1/2 3/4 | Loss: 0.5000 | Val Loss: 0.6801 | LR: 1.0e-3 | 1m 15s left",
  );
});

Deno.test("long sentences are folded between words on a terminal; commands and paths stay as they are", () => {
  const sentence = "word ".repeat(30).trim(), command = "  train on  " + "x ".repeat(60).trim();
  const { out, logged } = said((console) => {
    console.line(sentence);
    console.line(command);
    console.warn(sentence);
  }, { errorIsTerminal: true });
  const lines = out.trimEnd().split("\n");
  assertEquals(lines.filter((line) => line.length > 80), [command]);
  assertEquals(lines[1], "  " + "word ".repeat(14).trim());
  assertEquals(logged, [sentence, command, `warning: ${sentence}`]);
  assertEquals(said((console) => console.line(sentence), { isTerminal: false }).out, sentence + "\n");
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
