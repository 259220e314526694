// Memory that is used again for one picture after another. Imports nothing.

/** At least so many bytes, holding anything; what it gave before may be overwritten. */
export type Room = (bytes: number) => Uint8Array<ArrayBuffer>;

export function openRoom(): Room {
  let bytes = new Uint8Array(0);
  return (wanted) => {
    if (bytes.length < wanted) bytes = new Uint8Array(Math.ceil(wanted * 1.25));
    return bytes;
  };
}
