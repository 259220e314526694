// What a run says: the lines scripts match, --quiet, --json, the live line of a terminal, events.jsonl.
import { assert, assertEquals, assertMatch, assertNotMatch } from "@std/assert";
import { join } from "paths";
import { COMMAND, eventsOf, filesIn, inTemp, run, succeed, TINY } from "./program.ts";

const RUN = [...TINY, "--data-type=synthetic", "--run-name=r", "--epochs=2", "--log-interval=3"];
const NUMBER = String.raw`-?\d+(?:\.\d+)?(?:e[+-]?\d+)?`;

/** The contract's epoch line, for a regression. */
const EPOCH = new RegExp(
  `^\\[Epoch (\\d+)/(\\d+)\\] Loss: ${NUMBER} \\| R2: ${NUMBER} \\| Val Loss: ${NUMBER} \\| Val R2: ${NUMBER} ` +
    `\\| LR: \\d\\.\\de[+-]\\d+ \\| \\d+(?:\\.\\d)? samples/s \\| \\d+(?:\\.\\d)? [KMGT]iB$`,
);

Deno.test("a run says where it trains, one line an epoch, and at the end which files it made", () =>
  inTemp(async (cwd) => {
    const { stdout, stderr } = await succeed(RUN, { cwd });
    assertEquals(stderr, "");
    const lines = stdout.trimEnd().split("\n");
    assertEquals(lines[0], "Starting distributed training on 1 CPU");
    const before = lines.slice(1, lines.findIndex((line) => line.startsWith("[Epoch")));
    assertEquals(
      before.map((line) => line.split(/[ :]/)[0]),
      ["Data", "mlp", "Batch", "Run"],
      before.join("\n"),
    );
    const epochs = lines.filter((line) => line.startsWith("[Epoch"));
    assertEquals(
      epochs.map((line) => EPOCH.exec(line)?.slice(1)),
      [["1", "2"], ["2", "2"]],
      epochs.join("\n"),
    );
    const end = lines.indexOf("Made:");
    assertMatch(
      lines[end - 3],
      /^Finished after \S+ s: 2 epochs, 8 steps\. Best Val Loss: \S+ at epoch [12]\.$/,
    );
    const [, mean, last] = /^Training loss: (\S+) as the mean of epoch 2, (\S+) at step 8$/.exec(
      lines[end - 1],
    )!;
    assertMatch(epochs[1], new RegExp(`Loss: ${mean} `), "as the line of the epoch has it");
    assert(mean !== last);
    assertMatch(lines[end - 2], /^Of that time: (\d+\.\d% [a-z ]+, )+\d+\.\d% rest$/);
    const shares = [...lines[end - 2].matchAll(/(\d+)\.(\d)%/g)].map(([, whole, tenth]) =>
      10 * Number(whole) + Number(tenth)
    );
    assertEquals(shares.reduce((sum, share) => sum + share, 0), 1000, lines[end - 2]);
    const made = lines.slice(end + 1, lines.indexOf("Next:")).map((line) => line.trim().split(/ {2,}/));
    assertEquals(made.map(([what]) => what), ["checkpoint", "best", "events", "W&B run"]);
    for (const [what, path] of made) assertEquals(Deno.statSync(join(cwd, path)).isFile, what !== "W&B run");
    const [, folder] = made.at(-1)!;
    assert(filesIn(join(cwd, folder)).some((name) => name.endsWith(".wandb")), folder);
    const next = lines.slice(lines.indexOf("Next:") + 1).map((line) => line.trim().split(/ {2,}/)[1]);
    for (const command of next) {
      assertMatch(command, /^(\S*\/)?hpctrain /);
      const uploads = command.endsWith(` sync-wandb ${folder}`); // to no server of a test
      await succeed([...command.split(" ").slice(1), ...(uploads ? ["--dry-run"] : [])], { cwd });
    }
    // deno-lint-ignore no-control-regex
    assertNotMatch(stdout, /[\x1b\r]/, "no escape codes where there is no terminal");
  }));

/** What the last lines of a run tell to run next. */
async function next(args: string[], cwd: string): Promise<string[]> {
  const { stdout } = await succeed([...RUN, ...args], { cwd });
  return stdout.slice(stdout.indexOf("Next:\n") + 6).trimEnd().split("\n").map((line) => line.trim());
}

Deno.test("the commands to run next can be pasted, and each would do something", () =>
  inTemp(async (cwd) => {
    const [trainOn, evaluate, report, watch, inspect] = await next(["--save-dir=a b"], cwd);
    assertMatch(
      trainOn,
      /^train on .* '--save-dir=a b' --resume 'a b\/checkpoints\/r_latest.pt' --epochs 4$/,
    );
    assertMatch(evaluate, /^evaluate .*hpctrain eval 'a b\/checkpoints\/r_best.pt'$/);
    assertMatch(report, /^report .*hpctrain report 'a b\/logs\/r'$/);
    assertMatch(watch, /^watch .*hpctrain watch 'a b\/logs\/r'$/);
    assertMatch(inspect, /^look inside .*hpctrain inspect 'a b\/checkpoints\/r_latest.pt'$/);

    const words = (lines: string[]) => lines.map((line) => line.split(/ {2,}/)[0]);
    assertEquals(words(await next(["--val-samples=0"], cwd)), [
      "train on",
      "report",
      "watch",
      "look inside",
      "upload to W&B",
    ]);
    // A learning rate of nothing never gets better: it stops early, and would again.
    const early = await next(["--lr=0", "--early-stopping-patience=1", "--epochs=9"], cwd);
    assertEquals(words(early), ["evaluate", "report", "watch", "look inside", "upload to W&B"]);
    // Resumed under a limit that is behind it: twice that limit would do nothing either.
    const past = ["--resume=checkpoints/r_latest.pt", "--max-steps=1"];
    assertMatch((await next(past, cwd))[0], /--max-steps 16 --epochs 4$/);
    assertEquals(words(await next(["--no-wandb"], cwd)), [
      "train on",
      "evaluate",
      "report",
      "watch",
      "look inside",
    ]);
  }));

Deno.test("--quiet leaves the line that says how the run ended", () =>
  inTemp(async (cwd) => {
    const { stdout, stderr } = await succeed([...RUN, "--quiet"], { cwd });
    assertMatch(stdout, /^Finished after [^\n]+\n$/);
    assertEquals(stderr, "");
  }));

Deno.test("--json prints the events, each line a JSON object, and nothing else", () =>
  inTemp(async (cwd) => {
    const { stdout } = await succeed([...RUN, "--json"], { cwd });
    const printed = stdout.trimEnd().split("\n").map((line) => JSON.parse(line));
    assertEquals(printed, eventsOf(cwd, "r"));
    const stopped = await run([...RUN, "--json", "--save-dir=/proc/no"], { cwd });
    assertEquals([stopped.code, stopped.stdout], [2, ""]);
    const evaluated = await succeed(["eval", "checkpoints/r_best.pt", "--json"], { cwd });
    assertEquals(JSON.parse(evaluated.stdout).samples, 16);
  }));

Deno.test("events.jsonl tells the whole run, with a step each --log-interval", () =>
  inTemp(async (cwd) => {
    await succeed([...RUN, "--system-interval=0"], { cwd }); // the machine is told of by the clock
    const events = eventsOf(cwd, "r");
    const told = events.filter(({ kind }) => kind !== "times")
      .map(({ kind, step }) => step === undefined ? kind : `${kind} ${step}`);
    // A save is told when it is written, which goes on beside the steps after it.
    assertEquals(told.filter((one) => one!.startsWith("save")), ["save 4", "save 8"]);
    assertEquals(
      told.filter((one) => !one!.startsWith("save")),
      [
        "run",
        "config",
        "step 3",
        "eval 4",
        "epoch 4",
        "step 6",
        "step 8",
        "eval 8",
        "epoch 8",
        "exit 8",
      ],
    );
    for (const { t } of events) assert(Math.abs(t as number - Date.now() / 1000) < 300);
    for (const { loss, lr, grad_norm } of events.filter(({ kind }) => kind === "step")) {
      for (const value of [loss, lr, grad_norm]) assert(Number.isFinite(value));
    }
  }));

// A terminal of so many columns, as a Python program on the master side sees it.
const TERMINAL = `
import fcntl, os, pty, struct, sys, termios
pid, master = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
    os.execvp(sys.argv[2], sys.argv[2:])
out = b""
while True:
    try:
        chunk = os.read(master, 65536)
    except OSError:
        break
    if not chunk: break
    out += chunk
sys.stdout.buffer.write(out)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
`;

async function onTerminal(columns: number, args: string[], cwd: string, term = "xterm"): Promise<string> {
  const { code, stdout } = await new Deno.Command("python3", {
    args: ["-c", TERMINAL, `${columns}`, ...COMMAND, ...args],
    cwd,
    env: { TERM: term },
  }).output();
  const text = new TextDecoder().decode(stdout);
  assertEquals(code, 0, text);
  return text;
}

for (const columns of [40, 80]) {
  Deno.test(`on a terminal of ${columns} columns the live line is redrawn in place and never wraps`, () =>
    inTemp(async (cwd) => {
      const slow = [...RUN, "--train-samples=8000", "--hidden-size=256"];
      const coloured = await onTerminal(columns, slow, cwd);
      // deno-lint-ignore no-control-regex
      const text = coloured.replaceAll(/\x1b\[[\d;]*m/g, "");
      // deno-lint-ignore no-control-regex
      const drawn = [...text.matchAll(/\r\x1b\[2K([^\r\n]*)/g)].map(([, line]) => line);
      const live = drawn.filter((line) => /^Epoch \d\/2/.test(line));
      assert(live.length >= 2, `the live line was drawn ${live.length} times:\n${JSON.stringify(text)}`);
      for (const line of live) assert(line.length < columns, `${line.length} columns: ${line}`);
      // deno-lint-ignore no-control-regex
      const left = text.replaceAll("\r\n", "\n").replaceAll(/[^\n]*\r\x1b\[2K/g, "");
      assertEquals(left.match(/^\[Epoch \d\/2\] /gm), ["[Epoch 1/2] ", "[Epoch 2/2] "]);
      assertNotMatch(left, /^Epoch/m, "nothing of the live line is left behind");
    }));
}

Deno.test("a terminal that can't erase a line gets plain lines", () =>
  inTemp(async (cwd) => {
    // deno-lint-ignore no-control-regex
    assertNotMatch((await onTerminal(80, RUN, cwd, "dumb")).replaceAll("\r\n", "\n"), /[\x1b\r]/);
  }));
