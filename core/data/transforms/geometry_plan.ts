// Which pixels of a stored image or map become a sample: the plan, as plain data that threads are sent. Imports nothing.

export interface Geometry {
  /** The shorter side becomes this long (bilinear, with Pillow's antialiasing); 0 leaves the size. */
  readonly resize: number;
  /** The middle square of this side; 0 for all of it. */
  readonly centreCrop: number;
  /** A square of this side from a random place, after `padding` zeros on every side; 0 for none. */
  readonly randomCrop: number;
  readonly padding: number;
  readonly flip: "none" | "horizontal" | "both";
  /** By 0, 90, 180 or 270 degrees. */
  readonly rotate: boolean;
}
