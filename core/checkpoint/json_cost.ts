// What a JSON text takes of memory once it is read, without reading it. Imports nothing.

/** Bytes by what begins there: an object, an array, one more item or key. All else is a character of text. */
const COST = new Uint8Array(256).fill(2);
COST["{".charCodeAt(0)] = 120;
COST["[".charCodeAt(0)] = 64;
COST[",".charCodeAt(0)] = 12;
COST[":".charCodeAt(0)] = 24;

/** An estimate from above, in bytes: two characters of JSON can be an array. */
export function costOfJson(json: Uint8Array): number {
  let cost = 0;
  for (let i = 0; i < json.length; i++) cost += COST[json[i]];
  return cost;
}
