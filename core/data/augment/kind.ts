// A list knows of a transform its arguments, as torchvision has them, the shape that it makes, and how it is done.
import { type Arguments, fill, type Read, word } from "./arguments.ts";
import type { Draw, Sample } from "./sample.ts";

export type Shape = readonly [channels: number, height: number, width: number];

export interface Kind {
  readonly takes: Arguments;
  /** Other names in torchvision than this one, and "Random" before it. */
  readonly also?: readonly string[];
  /** Targets on the same pixels follow in places alone; a policy is both, and moves them as it moves the picture. */
  readonly acts: "places" | "values" | "both" | "colours";
  /** The shape that it makes, or why it can't be done. */
  readonly after?: (options: Options, from: Shape) => Shape | string;
  /** Evaluation does it, too: nothing of it is random. Or it does these instead, by name and options. */
  readonly still?: true | ((options: Options) => readonly (readonly [name: string, options: Options])[]);
  /** Points from outside come in, which are missing ones of maps. */
  readonly opens?: (options: Options) => boolean;
  /** Components of vectors can't follow. */
  readonly bends?: (options: Options) => boolean;
  /** It is a picture's own, whose targets are no maps. */
  readonly alone?: true;
  /** Series of [channels, time] have it, too. */
  readonly series?: true;
  readonly run: (sample: Sample, options: Options, draw: Draw) => void;
}

// deno-lint-ignore no-explicit-any
export type Options = any;

type Declared<A extends Arguments> = {
  readonly takes: A;
  readonly after?: (options: Read<A>, from: Shape) => Shape | string;
  readonly still?: true | ((options: Read<A>) => readonly (readonly [name: string, options: Options])[]);
  readonly opens?: (options: Read<A>) => boolean;
  readonly bends?: (options: Read<A>) => boolean;
  readonly run: (sample: Sample, options: Read<A>, draw: Draw) => void;
} & Pick<Kind, "also" | "acts" | "alone" | "series">;

export const kind = <A extends Arguments>(declared: Declared<A>): Kind => declared as unknown as Kind;

/** How places between pixels are looked up. */
export const look = (interpolation: "nearest" | "bilinear", otherwise: readonly number[] | null) => ({
  interpolation: word(["nearest", "bilinear"], interpolation),
  fill: fill(otherwise),
});

export const always = (): boolean => true;
