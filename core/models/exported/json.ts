// Looks into parsed JSON that somebody else wrote: every step is checked, and what does not fit is one sentence.
// May import core/checkpoint (damaged).
import { damaged } from "../../checkpoint/file_bytes.ts";

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type Dict = { readonly [key: string]: Json };

/** What a file's JSON should hold and does not. */
export class Reader {
  constructor(readonly path: string) {}

  refuse(what: string): never {
    throw damaged(this.path, `is not an exported program that can be read: ${what}`);
  }
  dict(value: Json | undefined, where: string): Dict {
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Dict;
    return this.refuse(`${where} is no object`);
  }
  list(value: Json | undefined, where: string): readonly Json[] {
    return Array.isArray(value) ? value : this.refuse(`${where} is no list`);
  }
  text(value: Json | undefined, where: string): string {
    return typeof value === "string" ? value : this.refuse(`${where} is no text`);
  }
  /** A whole number. The largest that 64 bits hold stands for "to the end"; the largest that is exact here does, too. */
  int(value: Json | undefined, where: string): number {
    if (!Number.isInteger(value)) return this.refuse(`${where} is no whole number`);
    return Math.max(Number.MIN_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, value as number));
  }
  /** PyTorch writes what JSON lacks as text. */
  float(value: Json | undefined, where: string): number {
    if (typeof value === "number") return value;
    if (typeof value === "string") {
      const found = /^([+-]?)(inf|infinity|nan)$/i.exec(value);
      if (found) return /nan/i.test(found[2]) ? NaN : found[1] === "-" ? -Infinity : Infinity;
    }
    return this.refuse(`${where} is no number`);
  }
  bool(value: Json | undefined, where: string): boolean {
    return typeof value === "boolean" ? value : this.refuse(`${where} is neither true nor false`);
  }
  /** A union is an object of which one key counts; others are absent or null. */
  union(value: Json | undefined, where: string): [key: string, value: Json] {
    const found = Object.entries(this.dict(value, where)).filter(([, v]) => v !== null);
    return found.length === 1 ? found[0] : this.refuse(`${where} should be one of its kinds, and is not`);
  }
  parse(bytes: Uint8Array, where: string): Json {
    const text = new TextDecoder().decode(bytes);
    try {
      return JSON.parse(text);
    } catch {
      try { // Python writes numbers that JSON does not know
        return JSON.parse(text.replaceAll(/([:[,]\s*)(-?Infinity|NaN)(?=\s*[,\]}])/g, '$1"$2"'));
      } catch {
        return this.refuse(`${where} is no JSON`);
      }
    }
  }
}
