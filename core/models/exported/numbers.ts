// What a graph does with sizes: Python's arithmetic on whole numbers, and symbolic expressions. Imports nothing.

type Numbers = (...args: number[]) => number;

const floorDiv: Numbers = (a, b) => Math.floor(a / b);
const mod: Numbers = (a, b) => a - b * Math.floor(a / b);

/** Targets in a graph that are functions of Python and take numbers. */
export const FUNCTIONS: Readonly<Record<string, Numbers>> = {
  "_operator.add": (a, b) => a + b,
  "_operator.sub": (a, b) => a - b,
  "_operator.mul": (a, b) => a * b,
  "_operator.floordiv": floorDiv,
  "_operator.truediv": (a, b) => a / b,
  "_operator.mod": mod,
  "_operator.pow": (a, b) => a ** b,
  "_operator.neg": (a) => -a,
  "_operator.pos": (a) => a,
  "_operator.eq": (a, b) => Number(a === b),
  "_operator.ne": (a, b) => Number(a !== b),
  "_operator.le": (a, b) => Number(a <= b),
  "_operator.ge": (a, b) => Number(a >= b),
  "_operator.lt": (a, b) => Number(a < b),
  "_operator.gt": (a, b) => Number(a > b),
  "_operator.and_": (a, b) => a & b,
  "_operator.or_": (a, b) => a | b,
  "_operator.lshift": (a, b) => a * 2 ** b,
  "_operator.rshift": (a, b) => Math.floor(a / 2 ** b),
  "math.trunc": Math.trunc,
  "math.ceil": Math.ceil,
  "math.floor": Math.floor,
  "torch.sym_int": Math.trunc,
  "torch.sym_float": (a) => a,
  "torch.sym_max": Math.max,
  "torch.sym_min": Math.min,
  "torch.sym_sqrt": Math.sqrt,
  "torch._sym_sqrt": Math.sqrt,
  "torch.sym_not": (a) => Number(!a),
  "torch.sym_ite": (c, a, b) => c ? a : b,
};

/** Python's functions by any of their names. */
export function numberFunction(target: string): Numbers | null {
  const name = target.replace(/^operator\./, "_operator.");
  return Object.hasOwn(FUNCTIONS, name) ? FUNCTIONS[name] : null;
}

/**
 * One symbol, or a multiple of one; null for anything that has to be worked out. Expressions are written as "2*s77", and
 * by later versions as "Mul(Integer(2), Symbol('s77', positive=True, integer=True))".
 */
export function symbolIn(expression: string): { symbol: string; times: number } | null {
  const plain = expression.replaceAll(/Symbol\('(\w+)'[^()]*\)/g, "$1")
    .replace(/^Mul\(Integer\((\d+)\), (\w+)\)$/, "$1*$2");
  const found = /^(?:(\d+)\*)?([a-z_]\w*)$/i.exec(plain);
  return found && { symbol: found[2], times: Number(found[1] ?? 1) };
}
