// From starting a program to its first training step done, with its files in the page cache and not. May import contestant.
import { linesOf } from "./contestant.ts";

export interface Starter {
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
  /** The line that says that the first step is done. */
  readonly says: RegExp;
  /** Files and folders that a cold start must read again. */
  readonly files: readonly string[];
}

/** Seconds until the line; the program is then left to end by itself. */
async function start({ program, args, says, name }: Starter): Promise<number> {
  const began = performance.now();
  const child = new Deno.Command(program, {
    args: [...args],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  })
    .spawn();
  const complaint = new Response(child.stderr).text();
  let seconds = NaN;
  for await (const line of linesOf(child.stdout)) {
    if (Number.isNaN(seconds) && says.test(line)) seconds = (performance.now() - began) / 1000;
  }
  const { success } = await child.status;
  if (!success || Number.isNaN(seconds)) {
    throw new Error(`${name} made no step: ${(await complaint).slice(-2000)}`);
  }
  return seconds;
}

export const COLD =
  "before each cold start every file of both programs was dropped from the page cache with posix_fadvise(DONTNEED); " +
  "pages that another process had mapped at the time stay";

/** Drops the files' pages from the cache, which needs no rights. */
async function forget(python: string, files: readonly string[]): Promise<void> {
  const program = `
import os, sys
def drop(path):
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
for top in sys.argv[1:]:
    drop(top) if os.path.isfile(top) else [drop(os.path.join(d, f)) for d, _, names in os.walk(top) for f in names]
`;
  const { success, stderr } = await new Deno.Command(python, { args: ["-S", "-c", program, ...files] })
    .output();
  if (!success) throw new Error(`the page cache could not be dropped: ${new TextDecoder().decode(stderr)}`);
}

/** Seconds of each start, by starter's name; the starters take turns. */
export async function startups(
  starters: readonly Starter[],
  python: string,
  rounds: number,
  cold: boolean,
): Promise<Record<string, number[]>> {
  const seconds: Record<string, number[]> = Object.fromEntries(starters.map(({ name }) => [name, []]));
  if (!cold) { for (const starter of starters) await start(starter); }
  for (let round = 0; round < rounds; round++) {
    for (const starter of starters) {
      if (cold) await forget(python, starters.flatMap(({ files }) => files));
      seconds[starter.name].push(await start(starter));
    }
  }
  return seconds;
}
