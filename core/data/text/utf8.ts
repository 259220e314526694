// Text comes in blocks of bytes; where they stop being UTF-8, the file and the place are named.
import { UserError } from "../../base/errors.ts";

const LONGEST = 4; // bytes of a character

export class Utf8 {
  readonly #text = new TextDecoder("utf-8", { fatal: true });
  /** A character may lie across two blocks: what came of it so far. */
  #begun: Uint8Array<ArrayBuffer> = new Uint8Array();
  #before = 0;

  /** `otherwise` is another way out, for the message. */
  constructor(readonly path: string, readonly otherwise = "") {}

  /** Leaves out a byte-order mark at the beginning. */
  decode(block: Uint8Array): string {
    const own = this.#before - this.#begun.length;
    let text: string;
    try {
      text = this.#text.decode(block, { stream: true });
    } catch {
      throw this.#wrong(own + firstWrong(joined(this.#begun, block)));
    }
    this.#before += block.length;
    const last = joined(this.#begun, block.subarray(-LONGEST));
    this.#begun = last.slice(completeIn(last));
    return text;
  }

  /** A character has to be complete when all blocks were there. */
  end(): void {
    if (this.#begun.length > 0) throw this.#wrong(this.#before - this.#begun.length);
  }

  #wrong(at: number): UserError {
    return new UserError(
      "data",
      `${this.path} is not UTF-8 (byte ${at}, counted from 0): turn it into UTF-8 first, e.g. iconv -f latin1 -t utf-8` +
        `${this.otherwise}.`,
    );
  }
}

/** The bytes before an incomplete character at the end. */
function completeIn(bytes: Uint8Array): number {
  for (let back = 1; back < LONGEST && back <= bytes.length; back++) {
    const byte = bytes[bytes.length - back];
    if ((byte & 0xc0) === 0x80) continue; // goes on with a character
    const long = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return back < long ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

/** The longest beginning that may still become UTF-8 ends with the character that goes wrong, or before it. */
function firstWrong(bytes: Uint8Array): number {
  const mayBe = (end: number): boolean => {
    try {
      new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(0, end), { stream: true });
      return true;
    } catch {
      return false;
    }
  };
  let low = 0, high = bytes.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (mayBe(middle)) low = middle;
    else high = middle - 1;
  }
  return completeIn(bytes.subarray(0, low));
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(a.length + b.length);
  bytes.set(a);
  bytes.set(b, a.length);
  return bytes;
}
