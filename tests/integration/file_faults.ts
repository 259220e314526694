// A run whose file calls fail while it trains and saves: each kind of call, on each part of its files, with one errno after
// the other, and from the outside. Test helper; `scripts/storm faults` runs it with every errno.
import { join } from "paths";
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import {
  buildFileFaults,
  type Call,
  COMMON,
  ERRNOS,
  type Fault,
  steerFaults,
} from "../native/file_faults.ts";
import { openMpi } from "../mpi.ts";
import { eventsOf, finish, start, until } from "./program.ts";

export interface Storm {
  /** Calls that were made to fail, and those that did not come to be. */
  readonly faults: number;
  readonly missed: readonly string[];
  readonly code: number;
  readonly stderr: string;
  /** The step that the last checkpoint has, and that of the run's end. */
  readonly saved: number;
  readonly ended: number;
}

const FLAGS = [
  ...["--data-type=synthetic", "--model=mlp", "--hidden-size=8", "--train-samples=64", "--val-samples=16"],
  ...["--batch-size=8", "--epochs=1000000", "--save-interval=1steps", "--save-every-epoch", "--keep-last=2"],
  ...["--log-interval=1", "--device=cpu", "--threads=1", "--system-interval=1", "--run-name=r"],
];
/** By the part of the paths: checkpoints, what the run tells, its W&B run. */
const CALLS_ON: Readonly<Record<string, readonly Call[]>> = {
  "/checkpoints": [
    ...[
      "open",
      "read",
      "write",
      "fsync",
      "lseek",
      "close",
      "stat",
      "rename",
      "unlink",
      "mkdir",
      "realpath",
    ] as const,
    ...["opendir", "readdir", "statfs"] as const,
  ],
  "/logs/r": ["open", "write", "close"],
  "/logs/wandb": ["write"],
};
/** For a call to come, and how long a disk refuses all of a kind. */
const PATIENCE_MS = 5000, GONE_MS = 40, LOOK_MS = 2;

/** `every`: all errnos, and not a few in turn. `refused`: the disk takes nothing more when the run is stopped. */
export async function faultStorm(
  cwd: string,
  { ranks, every = false, refused = false }: { ranks: number; every?: boolean; refused?: boolean },
): Promise<Storm> {
  const { env, file } = buildFileFaults(cwd);
  const mpi = ranks > 1 ? openMpi() : null;
  const through = mpi ? [...mpi.launcher, "-n", String(ranks)] : [];
  const path = `${mpi ? `${join(mpi.folder, "bin")}:` : ""}${Deno.env.get("PATH") ?? ""}`;
  const format = ranks > 1 ? "sharded" : "pt";
  const args = ["train", ...FLAGS, `--checkpoint-format=${format}`, "--save-dir", cwd];
  const child = start(args, { cwd, through, env: { ...env, PATH: path, OMP_NUM_THREADS: "1" } });
  const result = finish(child, 3000);
  let over = false;
  result.finally(() => over = true);
  using steer = steerFaults(file);
  const saves = () => eventsOf(cwd, "r").filter(({ kind }) => kind === "save").length;
  const saved = async () => {
    const before = saves();
    await until("saves", () => over || saves() > before + 1);
  };
  const often = Object.values(COMMON);
  const missed: string[] = [];
  let faults = 0, turn = 0;
  const fail = async (part: string, call: Call, errno: number, number: Fault["number"]) => {
    steer.begin({ call, errno, number, path: join(cwd, part) });
    for (
      const end = performance.now() + PATIENCE_MS;
      steer.failed() === 0 && performance.now() < end && !over;
    ) {
      await pause(LOOK_MS);
    }
    if (number !== 1) await pause(GONE_MS);
    const { failed } = steer.end();
    faults += failed;
    if (failed === 0) missed.push(`${part} ${call}`);
  };
  await saved();
  for (const [part, calls] of Object.entries(CALLS_ON)) {
    for (const call of calls) {
      for (const errno of every ? ERRNOS : [often[turn++ % often.length], often[turn++ % often.length]]) {
        await fail(part, call, errno, 1);
        await fail(part, call, errno, [1, Infinity]);
      }
    }
  }
  await saved(); // all is well again
  if (refused) {
    steer.begin({ call: "rename", errno: COMMON.EDQUOT, number: [1, Infinity], path: `${cwd}/checkpoints` });
  }
  Deno.writeTextFileSync(join(cwd, "logs/r/STOP"), "");
  const { code, stderr } = await result;
  const ended = Number(eventsOf(cwd, "r").at(-1)?.step);
  return {
    faults,
    missed,
    code,
    stderr,
    saved: stepIn(join(cwd, `checkpoints/r_latest.${mpi ? "ckpt" : "pt"}`)),
    ended,
  };
}

function stepIn(path: string): number {
  using checkpoint = openCheckpoint(path);
  checkpoint.verify();
  const own = (checkpoint.root as Map<string, Map<string, Map<string, number>>>).get("hpctrain")!;
  return Number(own.get("cursor")!.get("step"));
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
