// Regions of a graph (torch.no_grad, torch.autocast) that give nothing, such as those that move a buffer. PyTorch
// writes them without outputs, and torch.export.load refuses what it wrote: "Node.meta wrap_with_set_grad_enabled
// is missing val". An output that is None is taken.

const REGION =
  /"target":\s*"torch\.ops\.higher_order\.wrap_with_(?:set_grad_enabled|autocast)",\s*"inputs":\s*(?=\[)/g;
const NO_OUTPUTS = /,\s*"outputs":\s*\[/y;

/**
 * The graph's JSON, in which each such region has an output. All else stays as it is written, since JavaScript
 * has no 64-bit whole numbers.
 */
export function withOutputs(json: Uint8Array): Uint8Array {
  const text = new TextDecoder().decode(json), places: number[] = [];
  for (const { index, 0: { length } } of text.matchAll(REGION)) {
    NO_OUTPUTS.lastIndex = endOfList(text, index + length);
    if (NO_OUTPUTS.test(text) && text[NO_OUTPUTS.lastIndex] === "]") places.push(NO_OUTPUTS.lastIndex);
  }
  if (places.length === 0) return json;
  places.sort((a, b) => a - b);
  const parts = [0, ...places].map((from, i) => text.slice(from, places[i]));
  return new TextEncoder().encode(parts.join('{"as_none": true}'));
}

/** The place behind the list that begins at `from`. */
function endOfList(text: string, from: number): number {
  const mark = /"(?:[^"\\]|\\.)*"|[[\]]/gs;
  mark.lastIndex = from;
  for (let depth = 0;;) {
    const found = mark.exec(text);
    if (!found) return text.length;
    if (found[0] === "[") depth++;
    else if (found[0] === "]" && --depth === 0) return mark.lastIndex;
  }
}
