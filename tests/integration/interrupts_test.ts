// Ctrl-C and its relatives: a save, a word about it, exit code 75, and a run that goes on as if nothing had been.
import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { join } from "paths";
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import { tensorBytes, type TensorData, type Value } from "../../core/checkpoint/value.ts";
import { eventsOf, filesIn, finish, inTemp, lastEventsOf, start, succeed, TINY, until } from "./program.ts";
import { within } from "../cpu_time.ts";
import { assertSentence } from "../sentences.ts";

const RUN = [...TINY, "--run-name=r", "--log-interval=1"];
const ENDLESS = [...RUN, "--epochs=1000000", "--train-samples=500000"];
const STOPPED = 75;

const steps = (folder: string) => eventsOf(folder, "r").filter(({ kind }) => kind === "step").length;
const training = (folder: string) => until("ten steps", () => steps(folder) >= 10);

/** Every weight's bytes. */
function weights(path: string): Map<string, string> {
  using file = openCheckpoint(path);
  const dict = (file.root as Map<string, Value>).get("model_state_dict") as Map<string, TensorData>;
  return new Map([...dict].map(([name, tensor]) => [name, tensorBytes(tensor).toString()]));
}

/** Each is a way to ask a run in this folder to stop, and what it then says. */
const ways: [name: string, ask: (child: Deno.ChildProcess, folder: string) => void, says: RegExp][] = [
  ...(["SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2"] as const).map((
    name,
  ): [string, (child: Deno.ChildProcess) => void, RegExp] => [
    name,
    (child) => child.kill(name),
    name === "SIGINT" ? /Ctrl-C/ : new RegExp(name),
  ]),
  ["a file STOP", (_, folder) => Deno.writeTextFileSync(join(folder, "logs/r/STOP"), ""), /the file STOP/],
];
for (const [name, ask, says] of ways) {
  Deno.test(`${name} stops a run after a save, with code 75 and the command to go on`, () =>
    inTemp(async (cwd) => {
      const child = start(ENDLESS, { cwd });
      await training(cwd);
      ask(child, cwd);
      const { code, stdout, stderr } = await finish(child, 30);
      assertEquals(code, STOPPED, stdout + stderr);
      assertMatch(stdout, new RegExp(`^Stopped on request \\(${says.source}\\) after .*`, "m"));
      assertMatch(
        stdout,
        /^ {2}go on +\S*hpctrain .*--epochs=1000000 .*--resume checkpoints\/r_latest\.pt$/m,
      );
      if (!/STOP/.test(name)) {
        assertSentence("integration/interrupts: warning stopping after", stderr);
      }
      assert(!filesIn(cwd).includes("logs/r/STOP"), "the request is used up, or the next run would stop too");
      const [save, exit] = lastEventsOf(cwd, "r", 2);
      assertEquals([save.kind, save.reason, exit.kind, exit.code], ["save", "stop", "exit", STOPPED]);
      await succeed(["eval", "checkpoints/r_latest.pt"], { cwd });
    }));
}

Deno.test("a file SAVE makes a run save now, and go on", () =>
  inTemp(async (cwd) => {
    const child = start(ENDLESS, { cwd });
    await training(cwd);
    Deno.writeTextFileSync(join(cwd, "logs/r/SAVE"), "");
    const saved = () =>
      eventsOf(cwd, "r").find(({ kind, reason }) => kind === "save" && reason === "request");
    await until("a save", () => saved() !== undefined);
    const before = steps(cwd);
    await until("steps after the save", () => steps(cwd) > before);
    assert(!filesIn(cwd).includes("logs/r/SAVE"));
    child.kill("SIGKILL");
    await finish(child);
  }));

Deno.test("a run that is interrupted and resumed ends with the weights of one that was not, to the last bit", () =>
  inTemp(async (folder) => {
    const [whole, parts] = ["whole", "parts"].map((name) => join(folder, name));
    for (const made of [whole, parts]) Deno.mkdirSync(made);
    const args = [
      ...RUN,
      "--train-samples=15000",
      "--epochs=4",
      "--dropout=0.2",
      "--hidden-size=128",
      "--ema=0.9",
    ];
    await succeed(args, { cwd: whole });
    const child = start(args, { cwd: parts });
    await until("the second epoch", () => steps(parts) >= 1000);
    child.kill("SIGINT");
    const stopped = await finish(child);
    assertEquals(stopped.code, STOPPED, `it ended before the interrupt: ${stopped.stdout}`);
    const path = (cwd: string) => join(cwd, "checkpoints/r_latest.pt");
    assertNotEquals(weights(path(parts)), weights(path(whole)));

    const resumed = await succeed([...args, "--resume=auto"], { cwd: parts });
    assertMatch(resumed.stdout, /^Resuming from checkpoints\/r_latest\.pt: epoch \d, step \d+$/m);
    assertEquals(weights(path(parts)), weights(path(whole)));
    const told = (cwd: string) =>
      eventsOf(cwd, "r").filter(({ kind }) => kind === "step" || kind === "epoch" || kind === "eval")
        .map(({ kind, step, epoch, loss, val_loss, lr, metrics }) => ({
          kind,
          step,
          epoch,
          loss,
          val_loss,
          lr,
          metrics,
        }));
    assertEquals(told(parts), told(whole), "the log reads as if the run had never stopped");
  }));

Deno.test("a stop does not wait for a long evaluation, and resuming begins with it", () =>
  inTemp(async (cwd) => {
    const args = [...RUN, "--val-samples=1000000", "--eval-batch-size=16"];
    const child = start(args, { cwd });
    await until("the last step of the epoch", () => steps(cwd) === 4);
    await new Promise((resolve) => setTimeout(resolve, 200));
    child.kill("SIGTERM");
    const { code, stdout, stderr } = await finish(child);
    assertEquals(code, STOPPED, stdout + stderr);
    assertEquals(eventsOf(cwd, "r").filter(({ kind }) => kind === "eval"), []);

    const resumed = await succeed([...args, "--resume=auto", "--eval-batch-size=10000"], { cwd });
    assertMatch(resumed.stdout, /^\[Epoch 1\/1\] Loss: \d.* \| Val Loss: \d/m);
    assertEquals(steps(cwd), 4, "no step was taken twice");
  }));

Deno.test("a second Ctrl-C stops at once, even in the middle of a save, and the checkpoint before is kept", () =>
  inTemp(async (cwd) => {
    // 110 MB of weights and moments: the save lasts far longer than the second signal takes to come.
    const big = [...RUN, "--hidden-size=3072", "--train-samples=16", "--val-samples=0"];
    await succeed(big, { cwd });
    const child = start([...big, "--epochs=1000", "--resume=auto"], { cwd });
    await until("another step", () => steps(cwd) >= 3);
    const reader = child.stderr.getReader();
    child.kill("SIGINT");
    const { value } = await reader.read();
    const began = performance.now();
    child.kill("SIGINT");
    reader.releaseLock();
    const { code, stderr } = await finish(child);
    assertMatch(new TextDecoder().decode(value), /Ctrl-C: stopping after a save/);
    assertEquals([code, stderr], [130, ""]);
    const seconds = (performance.now() - began) / 1000;
    assert(within(seconds, 2), `${seconds} s`);
    await succeed(["eval", "checkpoints/r_latest.pt", "--val-samples=10"], { cwd });
  }));
