// Output folders that can't be written, or fill up: a sentence, and what was there before is kept.
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import {
  COMMAND,
  environment,
  eventsOf,
  filesIn,
  finish,
  inTemp,
  onDisk,
  ROOT_USER,
  run,
  start,
  succeed,
  TINY,
  until,
} from "./program.ts";
import { assertSentence, sentenceNamed } from "../sentences.ts";

async function refused(args: string[], says: RegExp, cwd: string): Promise<void> {
  const before = filesIn(cwd);
  const { code, stdout, stderr } = await run([...TINY, ...args], { cwd });
  assertMatch(stderr, says);
  assertEquals([code, stdout], [2, ""], stderr);
  assertMatch(stderr, /^hpctrain: [^\n]+\.\n$/, "one line, a whole sentence");
  assertEquals(filesIn(cwd), before);
}

Deno.test("an output folder that no one may write to is refused before the first step", () =>
  inTemp(async (cwd) => {
    await refused(
      ["--save-dir=/proc/runs"],
      /can't be written to \/proc\/runs\/checkpoints: .*--save-dir/,
      cwd,
    );
    await refused(["--model-dir=/proc/runs"], /can't be written to \/proc\/runs: .*--model-dir/, cwd);
  }));

Deno.test("an output folder that is a file is refused before the first step", () =>
  inTemp(async (cwd) => {
    Deno.writeTextFileSync(join(cwd, "file"), "mine");
    await refused(["--save-dir=file"], /can't be written to file\/checkpoints: .*--save-dir/, cwd);
    assertEquals(Deno.readTextFileSync(join(cwd, "file")), "mine");
    Deno.writeTextFileSync(join(cwd, "logs"), "mine");
    await refused([], /The event log logs\/\S+ can't be opened for writing/, cwd);
  }));

function fill(disk: string): void {
  using file = Deno.openSync(join(disk, "filler"), { write: true, create: true, append: true });
  const block = new Uint8Array(4096);
  try {
    for (;;) file.writeSync(block);
  } catch {
    // Full, which was the aim.
  }
}

const needsRoot = ROOT_USER ? "" : " (needs root, to mount a small disk)";

Deno.test({
  name: `a full disk is refused before the first step${needsRoot}`,
  ignore: !ROOT_USER,
  fn: () =>
    onDisk(1, async (disk) => {
      fill(disk);
      const { code, stdout, stderr } = await run([...TINY, "--save-dir", disk]);
      assertSentence("integration/bad_output: hpctrain checkpoints written", stderr);
      assertEquals([code, stdout], [2, ""]);
      assertEquals(filesIn(disk), ["filler"]);
    }),
});

Deno.test({
  name:
    `a disk that fills up in mid-run is told, and ends the run only at its last save; the checkpoint before is kept whole${needsRoot}`,
  ignore: !ROOT_USER,
  fn: () =>
    onDisk(4, async (disk) => {
      // A checkpoint of 0.8 MB: two fit beside each other, so saving works until the filler comes.
      const args = [...TINY, "--hidden-size=256", "--save-dir", disk, "--run-name=r", "--log-interval=1"];
      const more = ["--save-interval=20steps", "--epochs=100000"];
      const child = start([...args, ...more]);
      const saves = () => eventsOf(disk, "r").filter(({ kind }) => kind === "save").length;
      await until("two saves", () => saves() >= 2);
      fill(disk);
      await new Promise((resolve) => setTimeout(resolve, 1500)); // some saves fail, and training goes on
      child.kill("SIGTERM");
      const { code, stdout, stderr } = await finish(child);
      assertEquals(code, 8, stdout + stderr);
      assertMatch(stderr, /^warning: The save at step \d+ failed, and training goes on without it: /m);
      assertMatch(
        stderr,
        /^hpctrain: .*r_(latest|best)\.pt: .*(the disk is full|are free there).*--save-dir/m,
      );
      assertEquals(filesIn(disk).filter((name) => /tmp/.test(name)), [], "no half-written file is left");
      Deno.removeSync(join(disk, "filler"));
      await succeed(["eval", join(disk, "checkpoints/r_latest.pt")]);
    }),
});

Deno.test("standard output that is full or closed does not end a run", () =>
  inTemp(async (cwd) => {
    for (const redirect of [">/dev/full", "| head -n 1 >/dev/null"]) {
      const script = `set -o pipefail; "$@" ${redirect}`;
      const { code, stderr } = await run([...TINY, "--run-name=r"], {
        cwd,
        through: ["bash", "-c", script, "bash"],
      });
      assertEquals(code, 0, `${redirect}: ${stderr}`);
      assertEquals(eventsOf(cwd, "r").at(-1)?.kind, "exit");
      Deno.removeSync(join(cwd, "logs"), { recursive: true });
      Deno.removeSync(join(cwd, "checkpoints"), { recursive: true });
    }
  }));

Deno.test("what a command prints onto a full disk is an error in one sentence", () =>
  inTemp(async (cwd) => {
    for (const command of [["config"], ["presets"], ["--version"]]) {
      const through = ["bash", "-c", '"$@" >/dev/full', "bash"];
      const { code, stderr } = await run(command, { cwd, through });
      assertEquals([code, stderr], [
        2,
        sentenceNamed("integration/bad_output: hpctrain standard output"),
      ]);
    }
  }));

Deno.test("a reader that has seen enough, such as head, ends the program without a sentence", () =>
  inTemp(async (cwd) => {
    await succeed(["generate-data", "--data-type", "des", "--samples", "8", "--out", "maps"], { cwd });
    const [program, ...words] = COMMAND;
    const script = `"$0" "$@" inspect maps | true; echo "\${PIPESTATUS[0]}"`;
    const { stdout, stderr } = await new Deno.Command("bash", {
      args: ["-c", script, program, ...words],
      cwd,
      env: environment(),
      clearEnv: true,
    }).output();
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    assertEquals([text(stdout), text(stderr)], ["0\n", ""]);
  }));
