// The process in which a storm runs programs: it may end by a signal, and has a bound to its memory.

export interface Outcome {
  ran: number;
  refused: number;
  odd: string[];
}

/** Of memory that one process may fill: a program that asks for more is refused by libtorch, and nobody else is pushed out. */
const MEMORY = "6000000000";
const CONFIG = new URL("../../../../deno.json", import.meta.url).pathname;

export function startWorker(
  program: URL,
  words: readonly (string | number)[],
  place: Pick<Deno.CommandOptions, "cwd" | "env">,
): Deno.ChildProcess {
  const run = ["run", "--allow-all", "--no-check", "--quiet", "--config", CONFIG, program.pathname];
  return new Deno.Command("prlimit", {
    args: [`--data=${MEMORY}`, "--core=0", Deno.execPath(), ...run, ...words.map(String)],
    ...place,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

/** Adds what a worker that came to its end has printed last. */
export function addOutcome(sum: Outcome, stdout: Uint8Array): void {
  const found: Outcome = JSON.parse(new TextDecoder().decode(stdout).trim().split("\n").at(-1)!);
  sum.ran += found.ran;
  sum.refused += found.refused;
  sum.odd.push(...found.odd);
}
