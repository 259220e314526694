// One element, again and again. Imports nothing.

export function repeat(element: Uint8Array, into: Uint8Array, at: number, bytes: number): void {
  if (bytes === 0) return;
  into.set(element, at);
  for (let done = element.length; done < bytes;) {
    const more = Math.min(done, bytes - done);
    into.copyWithin(at + done, at, at + more);
    done += more;
  }
}
