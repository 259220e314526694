// What the save benchmark saves: a model of linear layers with AdamW's state, about 500 MB. Imports nothing.

/** bench/peers/save.py is given the same. */
export const SIZES = { features: 7, hidden: 2048, layers: 11, batch: 32 };

/** What a side answers of one save. `seconds` ends when the file is in place. */
export interface Saved {
  readonly seconds: number;
  /** How long training was held. */
  readonly stall: number;
  readonly bytes: number;
  /** Seconds of processor time of the process: in an answer since its start, in results of this save. */
  readonly cpu: number;
}
