// The parameters of a group's function: a pointer for each place in memory that its accesses begin at.
import { ELEMENT_BYTES, type SlotPlace, type StridedAccess } from "../kernel.ts";

const TYPES = {
  ...{ f32: "float", i64: "long long", bool: "unsigned char", bf16: "unsigned short", f16: "unsigned short" },
  ...{ philox: "long long", place: "long long" },
} as const;

export interface KernelArgument extends SlotPlace {
  readonly kind: StridedAccess["kind"];
}

/** The bytes of a slot that a parameter's accesses reach. */
interface Reach {
  written: boolean;
  begin: number;
  end: number;
}

export class Parameters {
  readonly list: KernelArgument[] = [];
  readonly #reaches: Reach[] = [];

  constructor(readonly sizes: readonly number[]) {}

  /** The name of a strided access's pointer. */
  of({ slot, offset, kind, strides }: StridedAccess, written = false): string {
    let at = this.list.findIndex((one) => one.slot === slot && one.offset === offset && one.kind === kind);
    if (at < 0) {
      at = this.list.push({ slot, offset, kind }) - 1;
      this.#reaches.push({ written: false, begin: Infinity, end: 0 });
    }
    const reach = this.#reaches[at], steps = strides.map((step, dim) => step * (this.sizes[dim] - 1));
    const sum = (some: readonly number[]) => some.reduce((all, one) => all + one, 0);
    const first = offset + sum(steps.filter((one) => one < 0)),
      last = offset + sum(steps.filter((one) => one > 0));
    reach.begin = Math.min(reach.begin, first * ELEMENT_BYTES[kind]);
    reach.end = Math.max(reach.end, (last + 1) * ELEMENT_BYTES[kind]);
    reach.written ||= written;
    return `p${at}`;
  }

  /** As the function declares them, when all accesses are known. */
  declared(): string[] {
    return this.list.map(({ kind }, i) => {
      const type = TYPES[kind];
      if (this.#reaches[i].written) return `${type} *p${i}`;
      return `const ${type} *${this.#staysAsItIs(i) ? "__restrict__ " : ""}p${i}`;
    });
  }

  /** No other parameter writes where this one reads: what was read once need not be read again. */
  #staysAsItIs(at: number): boolean {
    const own = this.#reaches[at];
    return this.#reaches.every(({ written, begin, end }, i) =>
      !written || this.list[i].slot !== this.list[at].slot || begin >= own.end || own.begin >= end
    );
  }
}
