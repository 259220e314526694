// Runs Python programs beside the code under test, the peer that must agree with it.

const here = (path: string) => new URL(`./peers/${path}`, import.meta.url).pathname;

/** `python ...args`, without the seconds that importing torch takes. HPCTRAIN_PYTHON names the Python. */
export function peer(args: string[], options: Deno.CommandOptions = {}): Deno.Command {
  const python = Deno.env.get("HPCTRAIN_PYTHON");
  if (!python) {
    throw new Error(
      "set HPCTRAIN_PYTHON to a Python with torch, torchvision, numpy, safetensors and scikit-learn: this test compares with it",
    );
  }
  return forked(python, args, options);
}

/** `python ...args` as a child of a Python that has imported what is slow. */
export function forked(python: string, args: string[], options: Deno.CommandOptions = {}): Deno.Command {
  return new Deno.Command(python, { ...options, args: ["-I", "-S", here("zygote.py"), ...args] });
}

/** What tests/peers/<program> answers to `input`, both as JSON. */
export async function askPeer<T>(program: string | URL, input: unknown): Promise<T> {
  const process = peer([program instanceof URL ? program.pathname : here(program)], {
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = process.stdin.getWriter();
  await writer.write(new TextEncoder().encode(JSON.stringify(input)));
  await writer.close();
  const { success, stdout, stderr } = await process.output();
  if (!success) throw new Error(`the Python peer failed:\n${new TextDecoder().decode(stderr)}`);
  return JSON.parse(new TextDecoder().decode(stdout));
}
