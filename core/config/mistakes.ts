// The mistakes of a configuration, collected, so that who made several sees them all at once.
import { UserError } from "../errors.ts";

/** More are no mistakes but another kind of file. */
const MOST = 20;

export class Mistakes {
  readonly #found: UserError[] = [];
  #full = false;

  /** What `read` gives; undefined where it was refused, which is noted. Other errors than of usage are not waited with. */
  try<T>(read: () => T): T | undefined {
    try {
      return read();
    } catch (error) {
      if (this.#full || !(error instanceof UserError) || error.kind !== "usage") throw error;
      if (!this.#found.some(({ message }) => message === error.message)) this.#found.push(error);
      this.#full = this.#found.length === MOST;
      if (this.#full) this.refuse();
    }
  }

  /** Throws where there were any. */
  refuse(): void {
    const [first, ...more] = this.#found;
    if (first === undefined) return;
    if (more.length === 0) throw first;
    const list = this.#found.map(({ message }) => `\n  ${message}`).join("");
    const many = `${this.#found.length} mistakes${this.#full ? ", or more" : ""}`;
    throw new UserError("usage", `The configuration has ${many}.${list}`);
  }
}
