// Runs a command and keeps what it prints. Test helper.

/** The command's result, and its lines on standard output. */
export async function printed<T>(command: () => Promise<T>): Promise<[T, string]> {
  const lines: string[] = [];
  const log = console.log;
  console.log = (line: unknown) => void lines.push(String(line));
  try {
    return [await command(), lines.join("\n")];
  } finally {
    console.log = log;
  }
}
