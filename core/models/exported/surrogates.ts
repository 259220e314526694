// Finds weights that no gradient reaches, since all ways from them lead through steps (a comparison, sign, round).
// Spiking networks and quantised ones give such steps a gradient of their own by a torch.autograd.Function, and
// torch.export writes its forward alone.
import { type ExportedProgram, type GraphNode, sourceLineOf } from "./graph.ts";
import { valueNames } from "./inline.ts";

/** The gradient of these is zero. */
const STEP =
  /^torch\.ops\.aten\.(gt|ge|lt|le|eq|ne|greater|greater_equal|less|less_equal|not_equal|heaviside|sign|sgn|round|floor|ceil|trunc|fix)_?\./;
/** The user stops gradients by detach, and whole numbers have none. */
const STOP = /^torch\.ops\.aten\.(detach|argmax|argmin|argsort|one_hot)_?\./;
const VIEW =
  /^torch\.ops\.aten\.(select|slice|view|reshape|flatten|unflatten|transpose|permute|t|squeeze|unsqueeze|expand|narrow|diagonal|alias)\./;
const IN_PLACE = /[a-z0-9]_\.\w+$/;

/** Weights that learn nothing, with the steps that stop their gradients. */
export function stoppedBySteps(
  program: ExportedProgram,
): { readonly weights: string[]; readonly steps: GraphNode[] } {
  const outputs = program.outputs.filter(({ kind }) => kind === "user" || kind === "loss").flatMap((
    { value },
  ) => valueNames(value));
  const makers = makersOf(program), learns = reached(makers, outputs, (node) => !STEP.test(node.target));
  const looks = reached(makers, outputs, () => true);
  const stopped = program.inputs.filter((input) =>
    input.kind === "parameter" && program.tensors.get(input.name)?.requiresGrad !== false &&
    looks.has(input.name) && !learns.has(input.name)
  );
  const names = stopped.flatMap((input) => "name" in input ? [input.name] : []);
  if (names.length === 0) return { weights: [], steps: [] };
  const steps = program.nodes.filter((node) =>
    STEP.test(node.target) && node.outputs.flatMap(valueNames).some((name) => learns.has(name)) &&
    names.some((name) => reached(makers, given(node), () => true).has(name))
  );
  return { weights: stopped.flatMap((input) => "of" in input ? [input.of] : []), steps };
}

const given = ({ inputs }: GraphNode): string[] => inputs.flatMap(({ value }) => valueNames(value));

/** By its name, the nodes that a value comes from: the one that makes it, and those that write to it. */
function makersOf({ nodes }: ExportedProgram): ReadonlyMap<string, readonly GraphNode[]> {
  const makers = new Map<string, GraphNode[]>();
  const add = (name: string, node: GraphNode) => void makers.set(name, [...makers.get(name) ?? [], node]);
  for (const node of nodes) {
    for (const name of node.outputs.flatMap(valueNames)) add(name, node);
    if (!IN_PLACE.test(node.target)) continue;
    for (let name: string | undefined = given(node)[0]; name !== undefined;) {
      const view: GraphNode | undefined = makers.get(name)?.[0];
      add(name, node);
      name = view && VIEW.test(view.target) ? given(view)[0] : undefined;
    }
  }
  return makers;
}

/** The names that gradients of these come to, through the nodes that let them through. */
function reached(
  makers: ReadonlyMap<string, readonly GraphNode[]>,
  from: readonly string[],
  through: (node: GraphNode) => boolean,
): ReadonlySet<string> {
  const found = new Set(from), left = [...from];
  for (let name = left.pop(); name !== undefined; name = left.pop()) {
    for (const node of makers.get(name) ?? []) {
      if (node.mode?.grad === false || STOP.test(node.target) || !through(node)) continue;
      for (const next of given(node)) {
        if (!found.has(next)) left.push(next);
        found.add(next);
      }
    }
  }
  return found;
}

/** A warning, or none. */
export function surrogateWarnings(path: string, program: ExportedProgram): string[] {
  const { weights, steps } = stoppedBySteps(program);
  if (weights.length === 0) return [];
  const [first] = steps, place = first ? sourceLineOf(first) : "";
  const more = weights.length > 3 ? ` and ${weights.length - 3} more` : "";
  const what = first ? first.target.replace("torch.ops.", "") : "a step";
  return [
    `Warning: ${path}: no gradient reaches ${
      weights.slice(0, 3).join(", ")
    }${more}, since the gradient of ${what} is zero${
      place === "" ? "" : ` (${place})`
    }. torch.export writes the forward of a torch.autograd.Function without its backward: where such a one gives the step a ` +
    "gradient (a surrogate, straight through), write step.detach() + (soft - soft.detach()) instead: it has the gradient of soft.",
  ];
}
