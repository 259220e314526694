// Simpson's rule. Imports nothing.

/** The integral of f from `from` to `to`, over an even number of panels. */
export function integrate(f: (x: number) => number, from: number, to: number, panels: number): number {
  const step = (to - from) / panels;
  let sum = f(from) + f(to);
  for (let i = 1; i < panels; i++) sum += (i % 2 === 1 ? 4 : 2) * f(from + i * step);
  return sum * step / 3;
}
