// A long-lived process that does as many steps (or epochs) as it is told, whoever it is. May import nothing.

export interface Round {
  readonly seconds: number;
  readonly loss: number;
  /** Most memory the process ever held, in bytes. */
  readonly peak: number;
  /** Live tensors, where the process can tell. */
  readonly tensors?: number;
  /** Seconds of processor time that the process has used so far, where it tells. */
  readonly cpu?: number;
}

export interface Contestant {
  readonly pid: number;
  round(steps: number): Promise<Round>;
  end(): Promise<void>;
}

/** Starts it and waits until it is ready; what it says on stderr is part of the error if it ends before. */
export async function startContestant(program: string, args: readonly string[]): Promise<Contestant> {
  const child = new Deno.Command(program, {
    args: [...args],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const complaint = new Response(child.stderr).text();
  const input = child.stdin.getWriter();
  const lines = linesOf(child.stdout);
  const next = async () => {
    const { value, done } = await lines.next();
    if (done) {
      await input.close().catch(() => {}); // nobody reads it any more
      await child.status;
      throw new Error(`${[program, ...args].join(" ")} ended: ${(await complaint).trim().slice(-2000)}`);
    }
    return JSON.parse(value);
  };
  await next();
  return {
    pid: child.pid,
    async round(steps) {
      await input.write(new TextEncoder().encode(`${steps}\n`));
      return await next();
    },
    async end() {
      await input.close();
      await child.status;
    },
  };
}

export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string, void> {
  let held = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    held += text;
    const lines = held.split("\n");
    held = lines.pop()!;
    yield* lines;
  }
}
