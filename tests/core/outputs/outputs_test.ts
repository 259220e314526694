// A made-up output beside W&B's: it gets every event, every note it wants, and the end, whatever other outputs do.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl, join } from "paths";
import { openTrack } from "../../../core/run/writer/track.ts";
import { environment, eventsOf, finish, inTemp, TINY, until } from "../../integration/program.ts";
import { linesFile, madeOutput } from "./made_output/output.ts";
import { assertSentence } from "../../sentences.ts";

type Line = { opened?: number | null; event?: string; step?: number; note?: string; closed?: number | null };

const linesOf = (logs: string): Line[] =>
  Deno.readTextFileSync(linesFile(logs)).trim().split("\n").map((line) => JSON.parse(line));

const FLAGS = ["--model=mlp", "--data-type=synthetic", "--log-interval=1", "--run-name=r", "--device=cpu"];

/** The program of made_output/, which registers one more output. */
function start(cwd: string, args: string[]): Deno.ChildProcess {
  const program = fromFileUrl(new URL("made_output/program.ts", import.meta.url));
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "--allow-all", "--no-check", program, ...FLAGS, ...args],
    cwd,
    env: environment(),
    clearEnv: true,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

Deno.test("an output gets each event and each note in order, and the end with its code", () =>
  inTemp(async (logs) => {
    const closed: string[] = [], observed: string[] = [];
    const output = madeOutput({ logs, resumed: null }, {
      observe: ({ kind }) => observed.push(kind),
      closed: () => Promise.resolve(closed.push("closed")),
    });
    const unwanted = madeOutput({ logs: join(logs, "other"), resumed: null }, {
      wants: { histograms: 0, pictures: 0, confusion: 0 },
    });
    Deno.mkdirSync(join(logs, "other"));
    const log = openTrack(join(logs, "events.jsonl"), {
      warn: (message) => assert(false, message),
      outputs: [output, unwanted],
      observe: (event) => output.observe?.(event, () => {}),
    });
    for (let step = 1; step <= 3; step++) {
      log.emit({ kind: "step", step, epoch: 1, loss: 1, lr: 1 });
      log.note({ kind: "histograms", t: 0, step, of: {} });
    }
    log.note({ kind: "console", t: 0, stream: "stdout", text: "a line" });
    log.emit({ kind: "exit", code: 75, message: "", step: 3, epoch: 1, seconds: 1 });
    await log.close();
    const steps = [1, 2, 3].flatMap((step): Line[] => [{ event: "step", step }, { note: "histograms" }]);
    const end: Line[] = [{ note: "console" }, { event: "exit", step: 3 }, { closed: 75 }];
    assertEquals(linesOf(logs), [{ opened: null }, ...steps, ...end]);
    assertEquals(linesOf(join(logs, "other")).filter(({ note }) => note !== undefined), [{
      note: "console",
    }]);
    assertEquals([observed, closed], [["exit"], ["closed"]]);
  }));

Deno.test("an output that fails, or that can't be opened, costs the others nothing", () =>
  inTemp(async (logs) => {
    const warnings: string[] = [];
    const good = madeOutput({ logs, resumed: null }), path = join(logs, "failing.jsonl");
    const log = openTrack(join(logs, "events.jsonl"), {
      warn: (message) => warnings.push(message),
      outputs: [
        { ...good, name: "failing output", setup: { path, resumed: null, failing: true } },
        { ...good, name: "missing output", module: import.meta.resolve("./made_output/nowhere.ts") },
        good,
      ],
    });
    for (let step = 1; step <= 10; step++) log.emit({ kind: "step", step, epoch: 1, loss: 1, lr: 1 });
    await log.close();
    assertEquals(linesOf(logs).filter(({ event }) => event === "step").length, 10);
    assertEquals(linesOf(logs).at(-1), { closed: null });
    const [missing, first, tenth] = warnings;
    assertMatch(missing, /^No missing output is written \(.*\); training goes on without\.$/s);
    assertSentence("core/outputs/outputs: record failing output", first);
    assertSentence("core/outputs/outputs: records failing output", tenth);
  }));

Deno.test("a registered output sees a run, its resume, and what follows a kill, as events.jsonl does", () =>
  inTemp(async (cwd) => {
    const logs = join(cwd, "logs/r"), small = ["--train-samples=64", "--batch-size=16"];
    const whole = await finish(start(cwd, [...TINY, ...small, "--epochs=1"]));
    assertEquals(whole.code, 0, whole.stderr);
    assertMatch(whole.stdout, /made-up output +logs\/r\/made_output\.jsonl/);
    assertMatch(whole.stdout, /count +.*inspect logs\/r\/made_output\.jsonl/);
    const first = linesOf(logs);
    const kinds = (lines: Line[]) =>
      lines.flatMap(({ event }) => event ?? []).filter((kind) => kind !== "system");
    assertEquals([first[0], first.at(-1)], [{ opened: null }, { closed: 0 }]);
    assertEquals(
      kinds(first),
      eventsOf(cwd, "r").map(({ kind }) => kind).filter((kind) => kind !== "system"),
    );
    assertEquals(first.filter(({ note }) => note === "histograms").length, 2, "each second of four steps");
    assert(first.some(({ note }) => note === "console"));

    const killed = start(cwd, ["--resume=auto", "--epochs=100000", "--save-interval=50steps"]);
    await until(
      "step 60",
      () => eventsOf(cwd, "r").some(({ kind, step }) => kind === "step" && Number(step) >= 60),
    );
    killed.kill("SIGKILL");
    await finish(killed);
    const second = linesOf(logs).slice(first.length);
    assertEquals(second[0], { opened: 4 });
    assert(kinds(second).includes("resume"));
    assertEquals(second.filter(({ closed }) => closed !== undefined), [], "nobody closes what is killed");
    const steps = second.flatMap(({ event, step }) => event === "step" ? [step!] : []);
    assertEquals(steps, Array.from(steps, (_, i) => i + 5));

    const before = linesOf(logs).length;
    const last = await finish(start(cwd, ["--resume=auto", "--epochs=100000", "--max-steps=400"]));
    assertEquals(last.code, 0, last.stderr);
    const third = linesOf(logs).slice(before), { opened } = third[0];
    assert(opened! >= 50 && opened! <= steps.at(-1)!, `it went on from ${opened}`);
    assertEquals(
      third.flatMap(({ event, step }) => event === "step" ? [step!] : []),
      Array.from({ length: 400 - opened! }, (_, i) => opened! + 1 + i),
    );
    assertEquals(third.at(-1), { closed: 0 });
  }));
