// Runs a Python program of tests/peers beside the code under test.

/** What tests/peers/<program> answers to `input`, both as JSON. HPCTRAIN_PYTHON names the Python. */
export async function askPeer<T>(program: string, input: unknown): Promise<T> {
  const python = Deno.env.get("HPCTRAIN_PYTHON");
  if (!python) {
    throw new Error("set HPCTRAIN_PYTHON to a Python with torch, torchvision, numpy and scikit-learn");
  }
  const path = new URL(`./peers/${program}`, import.meta.url).pathname;
  const pipes = { stdin: "piped", stdout: "piped", stderr: "piped" } as const;
  const process = new Deno.Command(python, { args: ["-B", path], ...pipes }).spawn();
  const writer = process.stdin.getWriter();
  await writer.write(new TextEncoder().encode(JSON.stringify(input)));
  await writer.close();
  const { success, stdout, stderr } = await process.output();
  if (!success) throw new Error(`the Python peer failed:\n${new TextDecoder().decode(stderr)}`);
  return JSON.parse(new TextDecoder().decode(stdout));
}
