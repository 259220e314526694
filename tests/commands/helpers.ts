// Runs the program as a user does.
import { main } from "../../main.ts";

const MAIN = new URL("../../main.ts", import.meta.url).pathname;

export interface Said {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** `hpctrain ARGV` from the sources, with no HPCTRAIN_* variable but those in `env`. */
export async function hpctrain(argv: string[], env: Record<string, string> = {}): Promise<Said> {
  const kept = Object.entries(Deno.env.toObject())
    .filter(([name]) => !name.startsWith("HPCTRAIN_") && !name.startsWith("WANDB_"));
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", MAIN, ...argv],
    clearEnv: true,
    env: { ...Object.fromEntries(kept), NO_COLOR: "1", ...env },
  }).output();
  const decoder = new TextDecoder();
  return { code, out: decoder.decode(stdout), err: decoder.decode(stderr) };
}

/** What a command prints that only prints, without the start of a process; code 1 and the error where it is refused. */
export async function inProcess(
  words: string[],
  { cwd = Deno.cwd(), env = {} }: { cwd?: string; env?: Record<string, string> } = {},
): Promise<{ code: number; said: string }> {
  const { log, error } = console, before = Deno.cwd(), said: string[] = [];
  console.log = console.error = (...words: unknown[]) => void said.push(words.join(" "));
  for (const [name, value] of Object.entries(env)) Deno.env.set(name, value);
  Deno.chdir(cwd);
  try {
    const code = await main(words);
    return { code, said: said.join("\n") };
  } catch (cause) {
    return { code: 1, said: `${said.join("\n")}\n${cause}` };
  } finally {
    Deno.chdir(before);
    for (const name of Object.keys(env)) Deno.env.delete(name);
    Object.assign(console, { log, error });
  }
}
