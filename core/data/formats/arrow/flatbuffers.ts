// Arrow's metadata are FlatBuffers: tables whose fields are found by a table of places, each checked against the end.

/** The metadata can't be right. */
export class BadTable extends Error {}

export interface FlatTable {
  /** A field without a value is 0. */
  byte(field: number): number;
  short(field: number): number;
  number(field: number): number;
  long(field: number): number;
  flag(field: number): boolean;
  text(field: number): string;
  table(field: number): FlatTable | null;
  tables(field: number): readonly FlatTable[];
  /** Numbers of 64 bits in a list of structs of `count` each. */
  longs(field: number, count: number): readonly (readonly number[])[];
}

const MOST = 2 ** 22;

export function openTable(view: DataView, at: number): FlatTable {
  const inside = (place: number, bytes: number): number => {
    if (!(place >= 0 && place + bytes <= view.byteLength)) throw new BadTable();
    return place;
  };
  const u32 = (place: number) => view.getUint32(inside(place, 4), true);
  const i64 = (place: number) => Number(view.getBigInt64(inside(place, 8), true));
  const table = at, fields = table - view.getInt32(inside(table, 4), true);
  const size = view.getUint16(inside(fields, 2), true);
  const placeOf = (field: number): number => {
    const entry = 4 + 2 * field;
    if (entry + 2 > size) return 0;
    const offset = view.getUint16(inside(fields + entry, 2), true);
    return offset === 0 ? 0 : table + offset;
  };
  const listAt = (field: number, bytes: number) => {
    const place = placeOf(field);
    if (place === 0) return { first: 0, count: 0 };
    const list = place + u32(place), count = u32(list);
    if (count > MOST) throw new BadTable();
    inside(list + 4, count * bytes);
    return { first: list + 4, count };
  };
  const each = <T>(field: number, bytes: number, read: (place: number) => T): T[] => {
    const { first, count } = listAt(field, bytes);
    return Array.from({ length: count }, (_, i) => read(first + i * bytes));
  };
  return {
    byte(field) {
      const place = placeOf(field);
      return place === 0 ? 0 : view.getUint8(inside(place, 1));
    },
    short(field) {
      const place = placeOf(field);
      return place === 0 ? 0 : view.getUint16(inside(place, 2), true);
    },
    number(field) {
      const place = placeOf(field);
      return place === 0 ? 0 : view.getInt32(inside(place, 4), true);
    },
    long(field) {
      const place = placeOf(field);
      return place === 0 ? 0 : i64(place);
    },
    flag(field) {
      const place = placeOf(field);
      return place !== 0 && view.getUint8(inside(place, 1)) !== 0;
    },
    text(field) {
      const { first, count } = listAt(field, 1);
      return new TextDecoder().decode(
        new Uint8Array(view.buffer as ArrayBuffer, view.byteOffset + first, count),
      );
    },
    table(field) {
      const place = placeOf(field);
      return place === 0 ? null : openTable(view, place + u32(place));
    },
    tables: (field) => each(field, 4, (place) => openTable(view, place + u32(place))),
    longs: (field, count) =>
      each(field, 8 * count, (place) => Array.from({ length: count }, (_, i) => i64(place + 8 * i))),
  };
}

export const rootOf = (bytes: Uint8Array): FlatTable => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 8) throw new BadTable();
  return openTable(view, view.getUint32(0, true));
};
