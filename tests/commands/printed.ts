// Runs a command and keeps what it prints. Test helper.

/** The command's result, and its lines on standard output. */
export async function printed<T>(command: () => Promise<T>): Promise<[T, string]> {
  const lines: string[] = [];
  const log = console.log, write = Deno.stdout.writeSync;
  console.log = (line: unknown) => void lines.push(String(line));
  Deno.stdout.writeSync = (bytes) => { // lines with colours
    lines.push(new TextDecoder().decode(bytes).replace(/\n$/, ""));
    return bytes.length;
  };
  try {
    return [await command(), lines.join("\n")];
  } finally {
    console.log = log;
    Deno.stdout.writeSync = write;
  }
}
