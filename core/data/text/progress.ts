// The line that tells how far the packing of text is.
const LIVE_MS = 100, PLAIN_MS = 10_000;

export function openTextProgress(quiet: boolean) {
  const live = Deno.stdout.isTerminal() && Deno.env.get("TERM") !== "dumb";
  const write = (text: string) => void Deno.stdout.writeSync(new TextEncoder().encode(text));
  let shown = live ? -Infinity : performance.now(), drawn = false;
  return {
    update(doing: string, characters: number, total: number): void {
      const now = performance.now();
      if (quiet || now - shown < (live ? LIVE_MS : PLAIN_MS)) return;
      shown = now;
      drawn = live;
      const line = `${doing}: ${Math.floor(100 * characters / total)}% of ${
        (total / 1e6).toFixed(1)
      } million characters`;
      write(live ? `\r\x1b[2K${line}` : `${line}\n`);
    },
    clear(): void {
      if (drawn) write("\r\x1b[2K");
      drawn = false;
    },
  };
}
