// ATen schema strings, read twice: by the type checker (Fn<S> is the op's TypeScript signature) and once at
// start (parseSchema gives the argument list). There is no second description of an op.
import type { DType } from "./dtype.ts";
import type { Device, Tensor } from "./tensor.ts";

/** "(a!)" and "(a -> *)" mark aliasing; the signature does not depend on them. */
type DropAlias<S extends string> = S extends `${infer Head}(${string})${infer Tail}` ? `${Head}${Tail}` : S;

/** Splits at ", " but not inside a default such as [1, 1]. */
type Split<S extends string, Held extends string = ""> = S extends `${infer Head}, ${infer Tail}`
  ? OpenBracket<`${Held}${Head}`> extends true ? Split<Tail, `${Held}${Head}, `>
  : [`${Held}${Head}`, ...Split<Tail>]
  : `${Held}${S}` extends "" ? []
  : [`${Held}${S}`];

type OpenBracket<S extends string> = S extends `${string}=[${infer Inside}`
  ? Inside extends `${string}]${string}` ? false : true
  : false;

interface Scalars {
  Tensor: Tensor;
  int: number;
  SymInt: number;
  float: number;
  bool: boolean;
  str: string;
  ScalarType: DType;
  Device: Device;
  Layout: never;
  MemoryFormat: MemoryFormat;
  Generator: never;
}

/** How a tensor lies in memory: row-major order, as it was, or channels last. */
export type MemoryFormat = "contiguous" | "preserve" | "channels_last" | "channels_last_3d";

type ValueOf<S extends string> = S extends `${infer Base}?` ? ValueOf<Base> | null
  : S extends `${infer Base}[${string}]` ? readonly ValueOf<Base>[]
  : S extends keyof Scalars ? Scalars[S]
  : never;

type TypeOf<S extends string> = ValueOf<DropAlias<S>>;

type Params<Items extends readonly string[]> = Items extends
  readonly [infer Item extends string, ...infer Rest extends string[]] ? Item extends "*" ? Params<Rest>
  : Item extends `${infer Type} ${string}=${string}` ? [(TypeOf<Type>)?, ...Params<Rest>]
  : Item extends `${infer Type} ${string}` ? [TypeOf<Type>, ...Params<Rest>]
  : [never, ...Params<Rest>]
  : [];

type ResultOf<S extends string> = TypeOf<S> extends readonly Tensor[] ? Tensor[] : TypeOf<S>;

type Results<Items extends readonly string[]> = Items extends
  readonly [infer Item extends string, ...infer Rest extends string[]]
  ? [ResultOf<DropAlias<Item> extends `${infer Type} ${string}` ? Type : DropAlias<Item>>, ...Results<Rest>]
  : [];

type Returns<S extends string> = S extends "()" ? void
  : S extends `(${infer Inside}) ` ? Results<Split<Inside>>
  : S extends `(${infer Inside})` ? Results<Split<Inside>>
  : ResultOf<S>;

/** The arrow of "(a -> *)" must go before the arrow of the schema is searched for. */
type DropArrow<S extends string> = S extends `${infer Head}(a -> *)${infer Tail}` ? `${Head}${Tail}` : S;

export type Fn<S extends string> = DropArrow<S> extends `${infer Head} -> ${infer Ret}`
  ? Head extends `${string}(${infer Args})` ? (...args: Params<Split<Args>>) => Returns<Ret> : never
  : never;

export interface Argument {
  readonly name: string;
  /** "Tensor", "int", "float", "bool", "str", "ScalarType", "Device", "Layout", "MemoryFormat", "Generator". */
  readonly base: string;
  readonly list: boolean;
  readonly optional: boolean;
  readonly gaps: boolean;
  /** The default as schema text, or undefined when the argument must be given. */
  readonly fallback: string | undefined;
  /** The fixed length of "int[2]", so that one number may stand for all; 0 when free. */
  readonly length: number;
  readonly symbolic: boolean;
  /** Memory may be shared with a result ("Tensor(a)"), or written to ("Tensor(a!)"). */
  readonly memory: Memory;
  readonly alias: string;
}

type Memory = "own" | "shared" | "written";

interface Result {
  readonly base: string;
  readonly list: boolean;
  /** The index of the argument that comes back ("Tensor(a!)" on both sides); -1 for a new tensor. */
  readonly argument: number;
  readonly alias: string;
}

export interface Schema {
  readonly text: string;
  readonly name: string;
  readonly overload: string;
  readonly args: readonly Argument[];
  readonly returns: readonly Result[];
}

/** They move their running statistics, arguments 3 and 4, where argument 5 is true; their schemas don't show it. */
const NORMS = /^((native|cudnn|miopen)_)?batch_norm$|^instance_norm$/;

/** The arguments that an op writes to, though its schema does not show it. */
export const movedBy = ({ name }: Pick<Schema, "name">, args: readonly unknown[]): number[] =>
  NORMS.test(name) && args[5] === true ? [3, 4].filter((i) => args[i] !== null && args[i] !== undefined) : [];

const signature = /^([\w]+)(?:\.(\w+))?\((.*)\) -> (.*)$/;
const aliasMark = /\(([a-z|]+)(!?)[a-z!|> *-]*\)/g;
const argument = /^(\w+)(\?)?(\[(\d*)\])?(\?)? (\w+)(?:=(.*))?$/;

const dropAlias = (text: string) => text.replace(aliasMark, "");

export function parseSchema(text: string): Schema {
  const found = signature.exec(text);
  if (!found) throw new Error(`internal: not an ATen schema: ${text}`);
  const [, name, overload = "", list, returns] = found;
  const args = splitList(list).filter((item) => item !== "*").map((item) => parseArgument(item, text));
  const results = splitList(returns.startsWith("(") ? returns.slice(1, -1) : returns);
  return { text, name, overload, args, returns: results.map((item) => parseResult(item, args)) };
}

function parseResult(item: string, args: readonly Argument[]): Result {
  const type = dropAlias(item).split(" ")[0];
  const { memory, alias } = memoryOf(item);
  const argument = memory === "written"
    ? args.findIndex((a) => a.memory === "written" && a.alias === alias)
    : -1;
  return { base: type.replace("[]", ""), list: type.endsWith("[]"), argument, alias };
}

function memoryOf(item: string): { memory: Memory; alias: string } {
  const [found] = item.matchAll(aliasMark);
  if (!found) return { memory: "own", alias: "" };
  return { memory: found[2] === "!" ? "written" : "shared", alias: found[1] };
}

function parseArgument(item: string, schema: string): Argument {
  const found = argument.exec(dropAlias(item));
  if (!found) throw new Error(`internal: argument "${item}" of ${schema} is not understood.`);
  const [, base, mark, list, length, after, name, fallback] = found;
  return {
    name,
    base: base === "SymInt" ? "int" : base,
    symbolic: base === "SymInt",
    list: list !== undefined,
    optional: (list === undefined ? mark : after) !== undefined,
    gaps: list !== undefined && mark !== undefined,
    fallback,
    length: Number(length ?? 0),
    ...memoryOf(item),
  };
}

function splitList(text: string): string[] {
  return text === "" ? [] : text.split(/, (?![^[]*\])/);
}
