// What is written down of a run while the disk for it is full, the folder is removed, or the process is killed.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { eventsOf, filesIn, finish, inTemp, onDisk, ROOT_USER, run, start, TINY, until } from "./program.ts";

const RUN = [...TINY, "--model=mlp", "--data-type=synthetic", "--log-interval=1", "--run-name=r"];
const needsRoot = ROOT_USER ? "" : " (needs root, to mount a small disk)";

Deno.test({
  name:
    `a log disk that is full from the first step on stops no step, and the lines it lacks are counted${needsRoot}`,
  ignore: !ROOT_USER,
  fn: () =>
    onDisk(1, (disk) =>
      inTemp(async (cwd) => {
        Deno.mkdirSync(join(disk, "logs"));
        const args = [
          ...RUN,
          "--train-samples=16000",
          "--save-dir",
          disk,
          "--model-dir",
          join(cwd, "checkpoints"),
        ];
        const child = start([...args, "--epochs=3"], { cwd });
        await until("the first step", () => eventsOf(disk, "r").some(({ kind }) => kind === "step"));
        {
          using filler = Deno.openSync(join(disk, "filler"), { write: true, create: true });
          try {
            for (const block = new Uint8Array(4096);;) filler.writeSync(block);
          } catch {
            // Full, which was the aim.
          }
        }
        const { code, stdout, stderr } = await finish(child);
        assertEquals(code, 0, stderr);
        assertMatch(stdout, /^Finished after .*: 3 epochs, 3000 steps\./m);
        assertMatch(
          stderr,
          /^warning: .* of \S+events\.jsonl could not be written \(No space left on device.*; training goes on without\.$/m,
        );
        const steps = eventsOf(disk, "r").filter(({ kind }) => kind === "step").length;
        assert(steps < 600, `${steps} steps were written, so the disk was not full`);
      })),
});

/** Whether a disk can be made of a file. */
const HAS_LOOPS = ROOT_USER && ["losetup", "mkfs.ext4"].every((program) => {
  try {
    // The first tells which device is free.
    return new Deno.Command(program, {
      args: [program === "losetup" ? "-f" : "-V"],
      stdout: "null",
      stderr: "null",
    })
      .outputSync().success;
  } catch {
    return false;
  }
});
const needsLoops = HAS_LOOPS ? "" : " (needs root, a loop device and mkfs.ext4)";

async function called(program: string, ...args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(program, { args }).output();
  if (!success) throw new Error(`${program} ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
}

Deno.test({
  name:
    `a log disk that becomes read-only while training stops no step, and what it lacks is counted${needsLoops}`,
  ignore: !HAS_LOOPS,
  fn: () =>
    inTemp(async (cwd) => {
      const image = join(cwd, "image"), disk = join(cwd, "disk");
      Deno.mkdirSync(disk);
      Deno.writeFileSync(image, new Uint8Array(32 * 2 ** 20));
      await called("mkfs.ext4", "-q", image);
      await called("mount", "-o", "loop", image, disk);
      try {
        const places = ["--save-dir", disk, "--model-dir", join(cwd, "checkpoints")];
        const child = start([...RUN, ...places, "--train-samples=16000", "--epochs=3"], { cwd });
        await until("the first step", () => eventsOf(disk, "r").some(({ kind }) => kind === "step"));
        // As the kernel does it when a disk fails: what is open for writing can't be written any more.
        await called("mount", "-o", "remount,abort", disk);
        const { code, stdout, stderr } = await finish(child);
        assertEquals(code, 0, stderr);
        assertMatch(stdout, /^Finished after .*: 3 epochs, 3000 steps\./m);
        const lost = (of: string) =>
          new RegExp(
            `^warning: (\\d+) \\w+ of ${of} could not be written \\(Read-only file system.*; training goes on without\\.$`,
            "m",
          );
        assertMatch(stderr, lost("\\S+events\\.jsonl"));
        assertMatch(stderr, lost("the W&B run"));
        assert(filesIn(join(cwd, "checkpoints")).some((name) => name.endsWith("r_latest.pt")));
      } finally {
        await called("umount", "--lazy", disk);
      }
    }),
});

Deno.test("a log folder that is removed while it is written costs what was in it, and training goes on", () =>
  inTemp(async (cwd) => {
    const child = start([...RUN, "--train-samples=32000", "--epochs=1000000", "--no-wandb"], { cwd });
    await until("the first step", () => eventsOf(cwd, "r").some(({ kind }) => kind === "step"));
    Deno.removeSync(join(cwd, "logs"), { recursive: true });
    await until("a new log", () => eventsOf(cwd, "r").filter(({ kind }) => kind === "step").length > 100);
    child.kill("SIGUSR1");
    const { code, stderr } = await finish(child);
    assertEquals(code, 75, stderr);
    assertMatch(stderr, /events\.jsonl was removed while the run writes it/);
    assertEquals(eventsOf(cwd, "r").at(-1)?.kind, "exit");
  }));

Deno.test("kill -9 takes a moment's lines with it at most", () =>
  inTemp(async (cwd) => {
    for (let round = 0; round < 3; round++) {
      const name = `r${round}`;
      const args = [...RUN, "--train-samples=32000", "--epochs=1000000", "--json", `--run-name=${name}`];
      const child = start(args, { cwd });
      await until("some steps", () =>
        eventsOf(cwd, name).filter(({ kind }) => kind === "step").length > 50 + 37 * round);
      child.kill("SIGKILL");
      const { stdout } = await finish(child);
      const said = stdout.split("\n").slice(0, -1).map((line) =>
        JSON.parse(line)
      ); // each line is said at once
      const written = eventsOf(cwd, name);
      const last = written.findLast(({ kind }) => kind === "step")!;
      const missing = said.filter(({ kind, step }) => kind === "step" && step > Number(last.step));
      const seconds = missing.length === 0 ? 0 : missing.at(-1).t - Number(last.t);
      // 50 ms is the aim; a machine that is very busy lets the thread wait for its turn.
      assert(seconds < 10, `${missing.length} steps of ${seconds.toFixed(3)} s are missing`);
    }
  }));

Deno.test("--system-interval has the machine noted as often, and 0 not at all", () =>
  inTemp(async (cwd) => {
    const often = [
      ...RUN,
      "--train-samples=32000",
      "--epochs=1000000",
      "--no-wandb",
      "--system-interval=0.2s",
      "--json",
    ];
    const child = start(often, { cwd });
    // In the first the program may still be getting ready.
    const seen = () => eventsOf(cwd, "r").filter(({ kind, step }) => kind === "system" && Number(step) > 0);
    await until("three of them between steps", () => seen().length >= 3);
    child.kill("SIGUSR1");
    const { code, stdout } = await finish(child);
    assertEquals(code, 75);
    assert(stdout.includes('"kind":"system"'), "--json prints them too");
    const [{ step, rss_bytes, cpu_percent }] = seen();
    assert(
      Number(step) > 0 && Number(rss_bytes) > 5e7 && Number(cpu_percent) > 0,
      `${step} ${rss_bytes} ${cpu_percent}`,
    );
    await run([...RUN, "--run-name=none", "--train-samples=3200", "--no-wandb", "--system-interval=0"], {
      cwd,
    });
    assertEquals(eventsOf(cwd, "none").filter(({ kind }) => kind === "system"), []);
  }));
