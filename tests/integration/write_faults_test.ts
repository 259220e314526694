// Disks that fail while checkpoints are written, and files that were damaged since: a sentence, and the checkpoint
// from before is whole and used.
import { assert, assertEquals, assertMatch, assertThrows, equal } from "@std/assert";
import { join } from "paths";
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import { readPt, writePt } from "../../core/checkpoint/pt.ts";
import { memoryStorage, type Storage, TensorData } from "../../core/checkpoint/value.ts";
import { UserError } from "../../core/base/errors.ts";
import { resumeFrom } from "../../core/train/resume.ts";
import { settings } from "../core/train/rig.ts";
import { contents } from "../core/train/started.ts";
import {
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

const needsRoot = ROOT_USER ? "" : " (needs root, to mount a disk)";
const RUN = [...TINY, "--hidden-size=64", "--run-name=r", "--log-interval=1"];
const ENDLESS = [...RUN, "--epochs=100000"];

async function system(command: string, ...args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(command, { args }).output();
  if (!success) throw new Error(`${[command, ...args].join(" ")}: ${new TextDecoder().decode(stderr)}`);
}

const savesOf = (cwd: string) => eventsOf(cwd, "r").filter(({ kind }) => kind === "save");
const warningsOf = (cwd: string) =>
  eventsOf(cwd, "r").filter(({ kind }) => kind === "warning").map(({ message }) => String(message));

/** Damages the run's newest checkpoint, under all its names, and looks what `--resume auto` takes and says. */
async function damaged(damage: (bytes: Uint8Array, at: number) => Uint8Array): Promise<number> {
  let harmless = 0;
  await inTemp(async (cwd) => {
    const args = [...RUN, "--epochs=2", "--save-every-epoch", "--resume=auto"];
    await succeed(args, { cwd });
    const [latest, before] = ["r_latest.pt", "r_epoch_1.pt"].map((name) => join(cwd, "checkpoints", name));
    const config = settings("--save-dir", cwd, "--run-name=r", "--resume=auto");
    const good = Deno.readFileSync(latest), whole = contents(latest);
    for (let part = 0; part < 50; part++) {
      const at = Math.floor(good.length * part / 50);
      Deno.writeFileSync(latest, damage(good.slice(), at)); // into the file that is there: its other names see it
      const { path, notices } = resumeFrom(config, null)!;
      if (path === latest) {
        assertEquals(contents(latest), whole, `damaged at ${at}`); // padding between entries, say
        harmless++;
        continue;
      }
      assertEquals(path, before, `damaged at ${at}`);
      assertMatch(notices![0], /^Passed over .*r_latest\.pt: [^\n]+\.$/, `damaged at ${at}`);
    }
    // The program does what the function says.
    Deno.writeFileSync(latest, damage(good.slice(), good.length >> 1));
    const { stdout } = await succeed(args, { cwd });
    assertMatch(stdout, /^Passed over .*r_latest\.pt: /m);
    assertMatch(stdout, /^Resuming from checkpoints\/r_epoch_1\.pt: epoch 1, step 4$/m);
    assert(equal(Deno.readFileSync(latest), good), "the run ends as it did before");
  });
  return harmless;
}

Deno.test("a checkpoint that is cut off at any fiftieth of its length is passed over, and the one before is used", async () => {
  assertEquals(await damaged((bytes, at) => bytes.subarray(0, at)), 0);
});

Deno.test("a checkpoint with a bit flipped at any fiftieth of its length is passed over, and the one before is used", async () => {
  const harmless = await damaged((bytes, at) => {
    bytes[at] ^= 1 << at % 8;
    return bytes;
  });
  assert(harmless < 10, `${harmless} of 50 flips hit bytes that mean nothing`);
});

/** A tensor whose second half is not read before `fault` has happened. */
function tensorWith(fault: () => void): TensorData {
  const bytes = memoryStorage(new Uint8Array(8 << 20).fill(1));
  let happened = false;
  const storage: Storage = {
    byteLength: bytes.byteLength,
    read(offset, length) {
      if (offset >= bytes.byteLength / 2 && !happened) {
        happened = true;
        fault();
      }
      return bytes.read(offset, length);
    },
  };
  return new TensorData("f32", [bytes.byteLength / 4], storage);
}

/** A write into `folder` fails with this sentence; what was there is whole, and nothing lies beside it. */
function refused(folder: string, fault: () => void, sentence: RegExp): void {
  const path = join(folder, "a.pt");
  const error = assertThrows(() => writePt(path, tensorWith(fault), { verify: true }), UserError);
  assertEquals(error.kind, "checkpoint");
  assertMatch(error.message, sentence);
  using file = readPt(path);
  file.verify();
  assertEquals(filesIn(folder).filter((name) => name.includes(".tmp-")), []);
}

Deno.test("a checkpoint larger than the process may write is told, and the one before is kept", () =>
  inTemp(async (cwd) => {
    await succeed(RUN, { cwd });
    const args = [...RUN, "--epochs=3", "--resume=auto"];
    const { code, stderr } = await run(args, {
      cwd,
      // Where the sources are run, Deno's cache of code would be the first file that is too large.
      through: ["bash", "-c", 'ulimit -f 40; exec "${@/#--quiet/--no-code-cache}"', "bash"],
    });
    const sentence =
      "a file of its size .* is more than this process may write; raise the limit .*untouched\\.";
    assertMatch(
      stderr,
      new RegExp(`^warning: The save at step 8 failed, and training goes on without it: .*${sentence}$`, "m"),
    );
    assertMatch(stderr, new RegExp(`^hpctrain: .*r_latest\\.pt: ${sentence}$`, "m"));
    assertEquals(code, 8);
    const { stdout } = await succeed(args, { cwd });
    assertMatch(stdout, /^Resuming from checkpoints\/r_latest\.pt: epoch 1, step 4$/m);
  }));

Deno.test({
  name:
    `a disk that is full in the middle of a write, after its space was looked at, keeps the old file${needsRoot}`,
  ignore: !ROOT_USER,
  fn: () =>
    onDisk(24, (disk) => {
      writePt(join(disk, "a.pt"), tensorWith(() => {}));
      const fill = () => {
        using file = Deno.openSync(join(disk, "filler"), { write: true, create: true });
        try {
          for (const block = new Uint8Array(1 << 20);;) file.writeSync(block);
        } catch {
          // Full, which was the aim.
        }
      };
      refused(disk, fill, /a\.pt: the disk is full \(8\.0 MiB were to be written\); .*untouched/);
      return Promise.resolve();
    }),
});

Deno.test({
  name: `a disk that takes no more files keeps the old one${needsRoot}`,
  ignore: !ROOT_USER,
  fn: () =>
    onDisk(24, async (disk) => {
      writePt(join(disk, "a.pt"), tensorWith(() => {}));
      await system("mount", "-o", "remount,nr_inodes=2", disk); // the folder and the file
      refused(
        disk,
        () => {},
        /a\.pt: the disk has space and takes no more files \(see: df -i .*\); .*untouched\.$/,
      );
    }),
});

/** A disk with ext4, which can be frozen: a file of `megabytes` in `folder` holds it. */
async function onBlocks(folder: string, megabytes: number, body: (disk: string) => Promise<void> | void) {
  const image = join(folder, "image"), disk = join(folder, "blocks");
  Deno.mkdirSync(disk);
  Deno.writeFileSync(image, new Uint8Array());
  Deno.truncateSync(image, megabytes << 20);
  await system("mkfs.ext4", "-q", "-F", "-O", "^has_journal", image);
  await system("mount", "-o", "loop", image, disk);
  try {
    await body(disk);
  } finally {
    await system("umount", "--lazy", disk);
  }
}

Deno.test({
  name: `a disk that loses what it took tells so before the new file takes the old one's place${needsRoot}`,
  ignore: !ROOT_USER,
  // The disk says that it has 60 MB, and what holds it has room for the first file and not for the second.
  fn: () =>
    onDisk(14, (holder) =>
      onBlocks(holder, 64, async (disk) => {
        writePt(join(disk, "a.pt"), tensorWith(() => {}));
        await system("sync", "-f", disk);
        refused(
          disk,
          () => {},
          /a\.pt: (it can't be written: .*Input\/output error|the disk is full).*untouched/,
        );
      })),
});

Deno.test({
  name: `a disk that turns read-only in mid-run is told once, and saving goes on when it is back${needsRoot}`,
  ignore: !ROOT_USER,
  fn: () =>
    onDisk(8, (disk) =>
      inTemp(async (cwd) => {
        const child = start([...ENDLESS, `--model-dir=${disk}`, "--save-interval=5steps"], { cwd });
        await until("two saves", () => savesOf(cwd).length >= 2);
        const turn = async (how: string) => {
          for (let busy = true; busy;) { // while a file is open for writing it can't be
            busy = await system("mount", "-o", `remount,${how}`, disk).then(() => false, () => true);
          }
        };
        await turn("ro");
        const before = savesOf(cwd).at(-1)!;
        await until("a warning", () => warningsOf(cwd).some((text) => text.includes("failed")));
        await new Promise((resolve) => setTimeout(resolve, 300)); // more saves fail
        {
          using file = readPt(join(disk, "r_latest.pt"));
          file.verify();
        }
        await turn("rw");
        await until("another save", () => Number(savesOf(cwd).at(-1)!.step) > Number(before.step));
        child.kill("SIGTERM");
        const { code, stderr } = await finish(child);
        assertEquals(code, 75, stderr);
        const told = warningsOf(cwd).filter((text) => text.includes("failed"));
        assertEquals(told.length, 1);
        assertMatch(
          told[0],
          /^The save at step \d+ failed, and training goes on without it: .*r_latest\.pt: the file system is read-only; .*untouched/,
        );
        using file = openCheckpoint(join(disk, "r_latest.pt"));
        file.verify();
      })),
});

Deno.test({
  name:
    `training goes on beside a disk that takes seconds for a save, and is held by none of them${needsRoot}`,
  ignore: !ROOT_USER,
  fn: () =>
    inTemp((cwd) =>
      onBlocks(cwd, 32, async (disk) => {
        // One long epoch: its end would wait for the disk, rightly.
        const long = ["--save-interval=5steps", "--train-samples=640000"];
        const child = start([...ENDLESS, `--model-dir=${disk}`, ...long], { cwd });
        const ended = finish(child);
        await until("two saves", () => savesOf(cwd).length >= 2);
        for (let times = 0; times < 3; times++) { // a disk that stands still now and then is a slow one
          await system("fsfreeze", "-f", disk);
          const steps = () => eventsOf(cwd, "r").filter(({ kind }) => kind === "step").length;
          const before = steps();
          await new Promise((resolve) => setTimeout(resolve, 1000));
          await system("fsfreeze", "-u", disk);
          assert(steps() > before + 20, "steps while the disk stands still");
        }
        child.kill("SIGTERM");
        const { code, stderr } = await ended;
        assertEquals(code, 75, stderr);
        const slow = savesOf(cwd).filter(({ seconds }) => Number(seconds) > 0.5);
        assert(slow.length > 0, "a save met the frozen disk");
        for (const { stall_s } of slow) assert(Number(stall_s) < 0.25, `held for ${stall_s} s`);
        assert(
          warningsOf(cwd).some((text) => /^Save at step \d+ left out: .*still being written$/.test(text)),
        );
        using file = openCheckpoint(join(disk, "r_latest.pt"));
        file.verify();
      })
    ),
});
