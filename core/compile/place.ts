// Where the values of a plan lie: those that live at the same time lie apart, in one piece of memory; the others share.
import {
  type Buffer,
  buffersRead,
  buffersWritten,
  type Home,
  type Program,
  type ProgramPart,
} from "./program.ts";
import { hasPlaces } from "./recorded_calls.ts";
import { ELEMENT_BYTES, type GroupKernel, type Stage, type StridedAccess } from "./kernel.ts";
import { withAccesses } from "./strided_access.ts";

/** A slot of the table is the piece of memory itself, or a tensor from elsewhere. */
export type Slot =
  | { readonly from: "memory" }
  | Exclude<Home, { from: "arena" }>;

export interface Placed {
  /** Kernels name slots of the table now. */
  readonly parts: readonly ProgramPart[];
  readonly slots: readonly Slot[];
  /** f32 elements of the piece of memory. */
  readonly elements: number;
  /** They would be so many if no two values shared a place. */
  readonly unshared: number;
  /** Places of results of calls, by slot. */
  readonly results: ReadonlyMap<number, ResultPlace>;
}

interface ResultPlace {
  /** The first element in the piece of memory; or the number of the gradient that the result is. */
  readonly at: { readonly offset: number } | { readonly gradient: number };
  readonly bytes: number;
}

/** A cache line of 16 floats: vector code likes to begin there, and reads no neighbour's line. */
const ALIGN = 16;
const MEMORY = 0;

interface Life {
  readonly buffer: number;
  readonly size: number;
  readonly from: number;
  to: number;
  offset: number;
}

/** A smaller result lies where libtorch puts it. */
const LEAST_RESULT = 1 << 12;

/** `results`: whether results of calls have places, too. */
export function place({ parts, buffers }: Program, results = false): Placed {
  const elsewhere = new Set(
    parts.flatMap((part) =>
      part.kernel === "call" && !hasPlaces(part.schema) ? part.results.map(({ slot }) => slot) : []
    ),
  );
  const isPlaced = ({ home, elements, kind }: Buffer, buffer: number) =>
    home.from === "arena" ||
    results && home.from === "result" && elements * ELEMENT_BYTES[kind] >= LEAST_RESULT &&
      !elsewhere.has(buffer);
  const gradients = results ? resultsThatAreGradients(parts, buffers) : new Map<number, number>();
  const lives = livesOf(
    parts,
    buffers.map((one, buffer) => isPlaced(one, buffer) && !gradients.has(buffer)),
    buffers,
  );
  const elements = settle(parts, lives);
  const slots: Slot[] = [{ from: "memory" }];
  const known = new Map<string, number>();
  const placeOf = buffers.map(({ home }, buffer) => {
    if (home.from === "arena") return { slot: MEMORY, offset: lives.get(buffer)?.offset ?? 0 };
    const key = JSON.stringify(home);
    if (!known.has(key)) known.set(key, slots.push(home) - 1);
    return { slot: known.get(key)!, offset: 0 };
  });
  return {
    parts: parts.map((part) => moved(part, placeOf)),
    slots,
    elements,
    unshared: [...lives.values()].reduce((all, { size }) => all + size, 0),
    results: new Map(buffers.flatMap(({ home, elements, kind }, buffer) => {
      if (home.from !== "result") return [];
      const gradient = gradients.get(buffer), life = lives.get(buffer);
      if (gradient === undefined && life === undefined) return [];
      const at = gradient === undefined ? { offset: life!.offset } : { gradient };
      return [[placeOf[buffer].slot, { at, bytes: elements * ELEMENT_BYTES[kind] }]];
    })),
  };
}

/**
 * Results of calls that become a gradient as they are, by buffer: the gradient's number. They can lie there from the start,
 * and copying them changes nothing.
 */
function resultsThatAreGradients(
  parts: readonly ProgramPart[],
  buffers: readonly Buffer[],
): Map<number, number> {
  const touching = buffers.map((): ProgramPart[] => []), found = new Map<number, number>();
  const note = (part: ProgramPart) => {
    for (const buffer of buffersRead(part).union(buffersWritten(part))) touching[buffer].push(part);
  };
  for (const part of parts) note(part);
  buffers.forEach(({ home, elements, kind }, buffer) => {
    const [call, copy] = touching[buffer];
    if (home.from !== "result" || kind !== "f32" || touching[buffer].length !== 2) return;
    if (call.kernel !== "call" || copy.kernel !== "group" || copy.stages.length !== 1) return;
    const { instructions, stores } = copy.stages[0];
    const loads = instructions.flatMap((one, i) =>
      one.op === "load" && (one as { from: StridedAccess }).from.slot === buffer ? [i] : []
    );
    if (loads.length !== 1) return;
    const { from } = instructions[loads[0]] as { from: StridedAccess };
    for (const { value, to } of stores) {
      const into = buffers[to.slot];
      if (value !== loads[0] || into.home.from !== "gradient" || touching[to.slot].length !== 1) continue;
      const same = into.elements === elements && into.kind === kind && to.kind === kind &&
        from.kind === kind &&
        from.offset === 0 && to.offset === 0 && String(from.strides) === String(to.strides);
      if (same) found.set(buffer, into.home.index);
    }
  });
  return found;
}

function livesOf(
  parts: readonly ProgramPart[],
  placed: readonly boolean[],
  buffers: readonly Buffer[],
): Map<number, Life> {
  const lives = new Map<number, Life>();
  parts.forEach((part, at) => {
    for (const buffer of buffersWritten(part)) {
      if (!placed[buffer] || lives.has(buffer)) continue;
      const { elements, kind } = buffers[buffer];
      const size = Math.ceil(elements * ELEMENT_BYTES[kind] / ELEMENT_BYTES.f32 / ALIGN) * ALIGN;
      lives.set(buffer, { buffer, size, from: at, to: at, offset: -1 });
    }
    for (const buffer of [...buffersRead(part), ...buffersWritten(part)]) {
      const life = lives.get(buffer);
      if (life) life.to = at;
    }
  });
  return lives;
}

/** In the order of their making, each takes the first gap that is wide enough. */
function settle(parts: readonly ProgramPart[], lives: ReadonlyMap<number, Life>): number {
  /** Those that still live, by their places. */
  let placed: Life[] = [];
  let elements = 0, now = 0;
  for (const life of [...lives.values()].sort((a, b) => a.from - b.from || b.size - a.size)) {
    // A value that is read for the last time where this one is written is still in use.
    if (life.from > now) placed = placed.filter(({ to }) => to >= life.from);
    now = life.from;
    const over = overwritten(parts[life.from], life, lives, placed);
    if (over) life.offset = over.offset;
    else {
      let at = 0;
      for (const { offset, size } of placed) {
        if (offset - at >= life.size) break;
        at = Math.max(at, offset + size);
      }
      life.offset = at;
    }
    const behind = placed.findIndex(({ offset }) => offset > life.offset);
    placed.splice(behind < 0 ? placed.length : behind, 0, life);
    elements = Math.max(elements, life.offset + life.size);
  }
  return elements;
}

/** A value that a group reads element by element for the last time, where it writes this one. */
function overwritten(
  part: ProgramPart,
  life: Life,
  lives: ReadonlyMap<number, Life>,
  placed: readonly Life[],
): Life | null {
  if (part.kernel !== "group") return null;
  const [store, stage] = storeOf(part, life.buffer) ?? [];
  if (!store || stage === undefined) return null;
  for (const read of buffersRead(part)) {
    const old = lives.get(read);
    if (
      !old || old.to !== life.from || old.from === old.to || old.size < life.size || !placed.includes(old)
    ) continue;
    const same = part.stages.every(({ instructions }, i) =>
      instructions.every((one) => {
        if (one.op !== "load") return true;
        const { from } = one as { from: StridedAccess };
        if (from.slot !== read) return true;
        return i <= stage && from.kind === store.kind && from.offset === store.offset &&
          String(from.strides) === String(store.strides);
      })
    );
    // Another value may have taken its place already.
    const taken = placed.some((one) =>
      one !== old && one.offset < old.offset + old.size && one.offset + one.size > old.offset
    );
    if (same && !taken) return old;
  }
  return null;
}

function storeOf({ stages }: GroupKernel, buffer: number): [StridedAccess, number] | null {
  for (const [i, { stores, reductions }] of stages.entries()) {
    if (reductions.some(({ to }) => to?.slot === buffer)) return null;
    const store = stores.find(({ to }) => to.slot === buffer);
    if (store) return [store.to, i];
  }
  return null;
}

function moved(part: ProgramPart, placeOf: readonly { slot: number; offset: number }[]): ProgramPart {
  const at = <
    P extends { readonly slot: number; readonly offset: number; readonly kind?: StridedAccess["kind"] },
  >(
    one: P,
  ): P => {
    if (one.slot < 0) return one;
    const { slot, offset } = placeOf[one.slot], each = ELEMENT_BYTES.f32 / ELEMENT_BYTES[one.kind ?? "f32"];
    return { ...one, slot, offset: one.offset + offset * each };
  };
  const stage = (one: Stage) => withAccesses(one, at);
  switch (part.kernel) {
    case "group":
      return { ...part, stages: part.stages.map(stage) };
    case "gemm":
      return {
        ...part,
        a: at(part.a),
        b: at(part.b),
        c: at(part.c),
        epilogue: part.epilogue && stage(part.epilogue),
      };
    case "vector":
      return { ...part, from: at(part.from), to: at(part.to) };
    case "blas":
      return { ...part, a: at(part.a), b: at(part.b), c: at(part.c) };
    case "call":
      return {
        ...part,
        tensors: new Map([...part.tensors].map(([ref, tensor]) => [ref, at(tensor)])),
        results: part.results.map((result) => ({ ...result, slot: placeOf[result.slot].slot })),
      };
  }
}
