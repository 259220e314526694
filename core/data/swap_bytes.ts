// Big-endian numbers -> this machine's byte order, in place. May import nothing.

const LITTLE = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/** `bytes` begins at a multiple of `size` in its buffer. */
export function swapBytes(bytes: Uint8Array, size: number): void {
  if (!LITTLE || size === 1) return;
  const { buffer, byteOffset, byteLength } = bytes;
  if (size === 2) {
    const words = new Uint16Array(buffer, byteOffset, byteLength / 2);
    for (let i = 0; i < words.length; i++) words[i] = words[i] << 8 | words[i] >> 8;
    return;
  }
  const words = new Uint32Array(buffer, byteOffset, byteLength / 4);
  for (let i = 0; i < words.length; i++) {
    const w = words[i];
    words[i] = w << 24 | (w & 0xff00) << 8 | w >>> 8 & 0xff00 | w >>> 24;
  }
  if (size === 4) return;
  for (let i = 0; i < words.length; i += 2) {
    const first = words[i];
    words[i] = words[i + 1];
    words[i + 1] = first;
  }
}
