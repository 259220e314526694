// The real Optuna, in its own environment: one process for what a test asks of it.

/** Runs Python with JSON on its standard input, and gives the JSON that it prints last. */
export async function optuna<Answer>(program: string, question: unknown, cwd = "."): Promise<Answer> {
  const python = optunaPython();
  const child = new Deno.Command(python, {
    args: ["-c", `import json, sys\nasked = json.load(sys.stdin)\n${program}`],
    cwd,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(JSON.stringify(question)));
  await writer.close();
  const { code, stdout, stderr } = await child.output();
  if (code !== 0) throw new Error(new TextDecoder().decode(stderr));
  return JSON.parse(new TextDecoder().decode(stdout).trim().split("\n").at(-1)!);
}

export function optunaPython(): string {
  const python = Deno.env.get("HPCTRAIN_VIEWERS_PYTHON");
  if (!python) {
    throw new Error(
      "HPCTRAIN_VIEWERS_PYTHON is not set: it names a Python with Optuna. ./scripts/test sets it.",
    );
  }
  return python;
}
