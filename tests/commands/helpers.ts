// Runs the program as a user does.

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
