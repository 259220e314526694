// A command from its process's start to its exit: what it took, what it said, and what others did meanwhile.
import { join } from "paths";
import { stolenSoFar } from "./contestant.ts";

const timer = new URL("peers/timed.py", import.meta.url).pathname;

export interface Timed {
  readonly seconds: number;
  /** Seconds of processor time. */
  readonly cpu: number;
  /** Most memory of one process, in bytes. */
  readonly peak: number;
  /** Cores that others kept busy meanwhile. */
  readonly others: number;
  readonly said: string;
}

/** Runs the command in `cwd`; one that fails is an error with its last words. */
export async function timed(
  python: string,
  [program, ...args]: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Promise<Timed> {
  const out = Deno.makeTempFileSync();
  try {
    const before = stolenSoFar().asked;
    const { success, stdout, stderr } = await new Deno.Command(python, {
      args: ["-I", "-S", timer, out, program, ...args],
      cwd,
      env,
      stdin: "null",
    }).output();
    const ticks = stolenSoFar().asked - before;
    const said = new TextDecoder().decode(stdout);
    if (!success) {
      const last = (said + new TextDecoder().decode(stderr)).trim().slice(-2000);
      throw new Error(`${[program, ...args].join(" ")} failed: ${last}`);
    }
    const took: Omit<Timed, "others" | "said"> = JSON.parse(Deno.readTextFileSync(out));
    return { ...took, others: coresOfOthers(ticks, took), said };
  } finally {
    Deno.removeSync(out);
  }
}

/** The kernel's clock ticks so often a second. */
const TICKS = 100;

/** `ticks`: what all of the machine's processes took meanwhile. */
export const coresOfOthers = (ticks: number, { seconds, cpu }: Pick<Timed, "seconds" | "cpu">): number =>
  Math.max(0, (ticks / TICKS - cpu) / seconds);

/** The events of the one run in this folder. */
// deno-lint-ignore no-explicit-any
export function eventsIn(folder: string): any[] {
  const logs = join(folder, "logs");
  const [run, ...more] = [...Deno.readDirSync(logs)].map(({ name }) => name).filter((name) =>
    name !== "wandb"
  );
  if (more.length > 0) throw new Error(`${logs} has several runs`);
  const lines = Deno.readTextFileSync(join(logs, run, "events.jsonl")).trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line));
}

/** Keeps one core busy until it is ended, as another user of the machine does; it does not outlive this process. */
export function neighbour(): Disposable {
  const script = `while kill -0 ${Deno.pid}; do i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; done`;
  const child = new Deno.Command("sh", { args: ["-c", script], stdin: "null", stderr: "null" }).spawn();
  return { [Symbol.dispose]: () => child.kill("SIGKILL") };
}
