// A .txt is a text or a table of text: its words tell.

const LOOKED_AT = 1 << 16;
/** A table has more numbers among its cells, whatever its heads and comments say, and a text fewer among its words. */
const FEW = 0.1;
const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$/;

/** False where the file can't be read: who opens it says why. */
export function isProse(path: string): boolean {
  if (!/\.txt$/i.test(path)) return false;
  let head: string;
  try {
    using file = Deno.openSync(path);
    const bytes = new Uint8Array(LOOKED_AT);
    const count = file.readSync(bytes) ?? 0;
    head = new TextDecoder().decode(bytes.subarray(0, count));
  } catch {
    return false;
  }
  const cells = head.split(/[\s,;|]+/).filter(Boolean);
  return cells.length > 0 && cells.filter((cell) => NUMBER.test(cell)).length < FEW * cells.length;
}
