// `hpctrain watch` from outside: its screen in a real terminal, and its lines where there is none.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { terminalWidthOf } from "../../core/base/terminal_text.ts";
import { type MadeRun, makeRun } from "../core/run/made_run.ts";
import { inTerminal, terminalTest } from "./terminal.ts";
import { COMMAND, inTemp, run, start, succeed, TINY, until } from "./program.ts";

const WATCH = COMMAND.map((word) => `'${word}'`).join(" ") + " watch";

/** A run of this moment, so that it is no dead one. */
const going = (more: MadeRun = {}): MadeRun => ({
  name: "going",
  steps: 3000,
  epochs: 10,
  ranks: 4,
  gpus: true,
  exit: null,
  stepSeconds: 0.02,
  begun: Date.now() / 1000 - 63,
  warnings: ["The loss scale fell to 1024"],
  ...more,
});

const BRAILLE = /[\u2801-\u28ff]/;

terminalTest(
  "a terminal of 80 by 24 shows the run, its loss, the slowest rank, GPUs and warnings",
  async (cwd) => {
    makeRun(cwd, going());
    await inTerminal(cwd, { command: `${WATCH} going`, width: 80, height: 24 }, async (terminal) => {
      const lines = await terminal.shows("q leaves");
      const text = lines.join("\n");
      assertEquals(lines.length, 24);
      for (const line of lines) assert(terminalWidthOf(line) <= 80, line);
      assertMatch(lines[0], /^going {40,}.*● running$/);
      assertMatch(lines[1], /^gpt, 124\.4M parameters · 4 ranks on GPU · node001/);
      assertMatch(lines[3], /^█+ +100% +step 3000\/3000 +epoch 10\/10/);
      assertMatch(text, /loss 0\.\d{4} .*val loss 0\.\d{4} \(best/);
      assertMatch(text, /^Loss {2}train 0\.\d+ {2}val 0\.\d+/m);
      assert(lines.filter((line) => BRAILLE.test(line)).length >= 4, text);
      assertMatch(text, /^ {2}2 .*◀ slowest by 31%/m);
      assertMatch(text, /^GPUs .*1 throttled/m);
      assertStringIncludes(text, "The loss scale fell to 1024");
    });
  },
);

terminalTest(
  "a terminal of 200 by 60 shows more: every curve, each GPU, and follows a change of size",
  async (cwd) => {
    makeRun(cwd, going());
    await inTerminal(cwd, { command: WATCH, width: 200, height: 60 }, async (terminal) => {
      const lines = await terminal.shows("q leaves"), text = lines.join("\n");
      assertEquals(lines.length, 60);
      for (const line of lines) assert(terminalWidthOf(line) <= 200, line);
      for (const title of ["Loss", "perplexity", "accuracy", "Learning rate", "Gradient norm", "Samples/s"]) {
        assertStringIncludes(text, title);
      }
      assertMatch(text, /^ {2}1 .* 41% .* throttled: hardware thermal slowdown/m);
      assert(lines.filter((line) => BRAILLE.test(line)).length >= 20, text);
      await terminal.resize(90, 20);
      for (const end = performance.now() + 30_000; performance.now() < end;) {
        const small = await terminal.screen();
        if (small.length === 20 && small[19].startsWith("q leaves") && small[0].endsWith("running")) return;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      throw new Error(`the screen did not follow:\n${(await terminal.screen()).join("\n")}`);
    });
  },
);

terminalTest("the screen follows the file, and q gives the terminal back as it was", async (cwd) => {
  const logs = makeRun(cwd, going({ steps: 100, ranks: 1 }));
  const command = `echo before; ${WATCH} going --interval 0.1`;
  await inTerminal(cwd, { command, width: 100, height: 30 }, async (terminal) => {
    await terminal.shows("step 100/100");
    const step = { t: Date.now() / 1000, kind: "step", step: 101, epoch: 11, loss: 0.5432, lr: 1e-3 };
    const warning = { t: Date.now() / 1000, kind: "warning", message: "a tail\u001b[2Jwag" };
    // The last line has no end yet.
    const added = [step, warning, { ...step, step: 102 }].map((event) => JSON.stringify(event)).join("\n");
    Deno.writeTextFileSync(join(logs, "events.jsonl"), added, { append: true });
    const text = (await terminal.shows("step 101")).join("\n");
    assertStringIncludes(text, "0.5432");
    assertStringIncludes(text, "a tail [2Jwag");
    await terminal.press("q");
    const left = await terminal.shows("left with 0");
    assertEquals(left[0], "before");
    assert(!left.join("\n").includes("q leaves"));
  });
});

for (const [way, signal] of [["Ctrl-C", "C-c"], ["q", "q"]]) {
  terminalTest(`${way} leaves at once, though the run is long`, async (cwd) => {
    makeRun(cwd, going({ steps: 20_000, ranks: 1, gpus: false }));
    await inTerminal(cwd, { command: `${WATCH} going`, width: 80, height: 24 }, async (terminal) => {
      await terminal.shows("q leaves");
      await terminal.press(signal);
      await terminal.shows("left with 0");
    });
  });
}

terminalTest("NO_COLOR takes colours away, and a locale without Unicode its lines", async (cwd) => {
  makeRun(cwd, going());
  const size = { width: 80, height: 24 };
  await inTerminal(cwd, { command: `env -u NO_COLOR ${WATCH} going`, ...size }, async (terminal) => {
    await terminal.shows("q leaves");
    // deno-lint-ignore no-control-regex
    assertMatch((await terminal.screen(true)).join("\n"), /\x1b\[36m/);
  });
  await inTerminal(cwd, { command: `NO_COLOR=1 LC_ALL=C ${WATCH} going`, ...size }, async (terminal) => {
    await terminal.shows("q leaves");
    const text = (await terminal.screen(true)).join("\n");
    assertMatch(text, /^[\x20-\x7e\n]*$/);
  });
});

terminalTest(
  "a run whose process is gone, and one that has been silent for long, are said to be so",
  async (cwd) => {
    const gone = await new Deno.Command("true", {}).spawn();
    await gone.status;
    makeRun(cwd, going({ host: Deno.hostname(), pid: gone.pid }));
    await inTerminal(cwd, { command: `${WATCH} going`, width: 80, height: 24 }, async (terminal) => {
      const lines = await terminal.shows("q leaves");
      assertMatch(lines[0], /● gone$/);
      assertMatch(lines.join("\n"), /^Process \d+ is gone and left no end; the last event is \S+ s old/m);
    });
    makeRun(cwd, going({ begun: Date.now() / 1000 - 4000 }));
    const { stdout } = await succeed(["watch", "going", "--once"], { cwd });
    assertMatch(stdout, /● silent$/m);
    assertMatch(stdout, /^It seems dead: the last event is 1h 0\dm old$/m);
  },
);

terminalTest(
  "training in a terminal of 80 columns wraps no line but those to be copied, live or printed",
  async (cwd) => {
    const training = [
      ...COMMAND,
      ...TINY,
      "--run-name=r",
      "--hidden-size=8",
      "--epochs=30",
      "--train-samples=3200",
    ];
    const command = training.map((word) => `'${word}'`).join(" ");
    await inTerminal(cwd, { command, width: 80, height: 24 }, async (terminal) => {
      await terminal.shows(/^Epoch \d+\/30 (evaluating )?\d+\/\d+ \| .*Val Loss: \S+/);
      const live = await terminal.shows(
        /^Epoch \d+\/30 \d+\/\d+ \| Loss: .* \| Val Loss: .* \| LR: .* \| .* left$/,
      );
      for (const line of live) assert(terminalWidthOf(line) <= 80, line);
      await terminal.shows("left with 0");
      const printed = await terminal.printed();
      const long = printed.filter((line) => terminalWidthOf(line) > 80);
      assertEquals(long.filter((line) => !line.startsWith("  ")), []);
      assertEquals(printed.filter((line) => line.startsWith("[Epoch ")).length, 30);
      assertMatch(printed.join("\n"), /^Of that time: .*\n {2}\S/m);
    });
  },
);

Deno.test("--once is as wide in a pipe as COLUMNS says, or 80 columns", () =>
  inTemp(async (cwd) => {
    makeRun(cwd, going({ name: "n".repeat(200), warnings: ["w".repeat(300)] }));
    for (
      const [columns, env] of [[80, {}], [60, { COLUMNS: "60" }], [132, { COLUMNS: "132" }], [80, {
        COLUMNS: "0",
      }]] as const
    ) {
      const { stdout } = await succeed(["watch", "--once"], { cwd, env });
      const widths = stdout.trimEnd().split("\n").map(terminalWidthOf);
      assertEquals(Math.max(...widths), columns);
    }
  }));

Deno.test("without a terminal there are plain lines, each warning once, and it ends with the run", () =>
  inTemp(async (cwd) => {
    const logs = makeRun(cwd, going({ warnings: ["first", "second"] }));
    const child = start(["watch", "going", "--interval", "0.2"], { cwd });
    let stdout = "";
    const read = (async () => {
      for await (const part of child.stdout.pipeThrough(new TextDecoderStream())) stdout += part;
    })();
    await until("two lines of a run under way", () => stdout.split("going: running").length > 2);
    const t = Date.now() / 1000;
    const events = [
      { t, kind: "warning", message: "third" },
      { t, kind: "exit", code: 75, message: "Stopped on request", step: 3000, epoch: 10, seconds: 60 },
    ];
    Deno.writeTextFileSync(
      join(logs, "events.jsonl"),
      events.map((event) => JSON.stringify(event) + "\n").join(""),
      { append: true },
    );
    await read;
    await child.stderr.cancel();
    assertEquals((await child.status).code, 0);
    const lines = stdout.trimEnd().split("\n");
    assertEquals(
      lines.filter((line) => line.startsWith("warning: ")),
      ["first", "second", "third"].map((w) => `warning: ${w}`),
    );
    const said = lines.filter((line) => line.startsWith("going: running"));
    assert(said.length >= 2, stdout);
    assertMatch(
      said[0],
      /^going: running \| Step 3000\/3000 \| Epoch 10\/10 \| Loss: 0\.\d{4} \| Val Loss: .* \| rank 2 of 4 slowest by 31% \| Time: compute .*, rest \d+\.\d%$/,
    );
    assertEquals(lines.at(-1), "Stopped on request (exit code 75).");
    // deno-lint-ignore no-control-regex
    assert(!/\x1b/.test(stdout));
  }));

Deno.test("a run that is being trained is watched from beside it, by name, folder or as the newest", () =>
  inTemp(async (cwd) => {
    const training = start([
      ...TINY,
      "--run-name=r",
      "--hidden-size=8",
      "--log-interval=1",
      "--epochs=1000000",
    ], { cwd });
    try {
      await until("steps", () => {
        try {
          return Deno.readTextFileSync(join(cwd, "logs/r/events.jsonl")).includes(`"kind":"epoch"`);
        } catch {
          return false;
        }
      });
      for (const word of [["r"], [], [cwd + "/logs/r/"]]) {
        const { stdout } = await succeed(["watch", ...word, "--once"], { cwd });
        assertMatch(stdout, /^r .*● running\n/);
        assertMatch(stdout, /epoch \d+\/1000000/);
        assertMatch(stdout, BRAILLE);
      }
      const { stdout } = await succeed(["watch", "r", "--once", "--save-dir", cwd], { cwd: "/" });
      assertMatch(stdout, /● running/);
    } finally {
      training.kill("SIGKILL");
      await training.output();
    }
    const { stdout } = await succeed(["watch", "r", "--once"], { cwd });
    assertMatch(stdout, /● gone$/m);
  }));

Deno.test("what can't be watched is a sentence", () =>
  inTemp(async (cwd) => {
    makeRun(cwd, { name: "made", steps: 10 });
    for (
      const [args, said] of [
        [["nothing"], /^hpctrain: nothing is no run: .* The runs there are made\.$/m],
        [["made", "other"], /^hpctrain: watch takes one run, but got 2\. Usage: /m],
        [["made", "--interval", "soon"], /^hpctrain: --interval soon: give seconds between 0\.1 and 86400/m],
        [["made", "--onc"], /^hpctrain: Unknown flag --onc\. Did you mean "--once"\?/m],
      ] as const
    ) {
      const { code, stderr } = await run(["watch", ...args], { cwd });
      assertEquals(code, 2);
      assertMatch(stderr, said);
    }
  }));
