// Images lie channels last where libtorch's convolutions are faster so: every value over [n, c, h, w] that such a call
// makes, and what is computed of it, is written as one over [n, h, w, c], whose row-major order is that of its memory.
// Whoever needs the other order reads it through a view.
import { isRef, refsIn, withRefs } from "./builder.ts";
import { FEW } from "./convs.ts";
import { followsImage, IMAGES } from "./strides.ts";
import { type Graph, nameOfCall, type Node, type Ref, withNodes } from "./graph.ts";
import { argsOf } from "./uses.ts";

const LAST = [0, 2, 3, 1], FIRST = [0, 3, 1, 2];
/** Dimension c of [n, c, h, w] is the last one of [n, h, w, c]. */
const PLACE = [0, 3, 1, 2];

/** `turned`: convolutions of images that come channels first are channels last, too, where that is faster. */
export function arranged(graph: Graph, turned: boolean): Graph {
  const found = graph.imagesLast || (turned || graph.exact) && graph.nodes.some(isMapConvolution);
  return found ? new Arranger(graph, turned).run() : graph;
}

const isMapConvolution = (node: Node): boolean =>
  node.op === "call" && nameOfCall(node.schema) === "convolution" && node.shape.length === 4;

/** A value of the old graph: how it lies, and its numbers in either order once somebody asks. */
interface Forms {
  readonly lies: "first" | "last";
  first: Ref | null;
  last: Ref | null;
}

class Arranger {
  readonly #nodes: Node[] = [];
  readonly #forms: Forms[] = [];
  readonly #copies = new Map<Ref, Ref>();

  constructor(readonly graph: Graph, readonly turned: boolean) {}

  run(): Graph {
    const { nodes, effects } = this.graph;
    nodes.forEach((node, ref) => this.#forms[ref] = this.#take(node));
    const own = effects.map((ref) => this.#own(ref)); // a call lies as it does, and is not turned for nobody
    return {
      ...withNodes({ ...this.graph, effects: [] }, this.#nodes, (ref) => this.#first(ref)),
      effects: own,
    };
  }

  #add(node: Node): Ref {
    return this.#nodes.push(node) - 1;
  }
  #asFirst(node: Node): Forms {
    return { lies: "first", first: this.#add(node), last: null };
  }
  /** The node is one over [n, h, w, c]. */
  #asLast(node: Node): Forms {
    return { lies: "last", first: null, last: this.#add(node) };
  }
  #turned(ref: Ref, dims: readonly number[]): Ref {
    const { shape, kind } = this.#nodes[ref];
    return this.#add({ op: "permute", args: [ref], dims, shape: dims.map((dim) => shape[dim]), kind });
  }
  #first(ref: Ref): Ref {
    const forms = this.#forms[ref];
    return forms.first ??= this.#turned(forms.last!, FIRST);
  }
  /** Values of fewer dimensions are stretched over the last ones of [n, c, h, w]. */
  #last(ref: Ref): Ref {
    const forms = this.#forms[ref];
    if (forms.last !== null) return forms.last;
    const { shape, kind } = this.#nodes[forms.first!];
    if (shape.length === 0) return forms.first!;
    const ranked = [...new Array<number>(4 - shape.length).fill(1), ...shape];
    const whole = shape.length === 4
      ? forms.first!
      : this.#add({ op: "reshape", args: [forms.first!], shape: ranked, kind });
    return forms.last = this.#turned(whole, LAST);
  }
  /** As it was made. */
  #own(ref: Ref): Ref {
    const { lies, first, last } = this.#forms[ref];
    return (lies === "last" ? last : first)!;
  }
  #liesLast(ref: Ref): boolean {
    return this.#forms[ref].lies === "last";
  }

  #take(node: Node): Forms {
    const image = node.shape.length === 4;
    switch (node.op) {
      case "tensor":
        return image && node.origin.from === "input" && this.graph.imagesLast
          ? this.#asLast({ ...node, shape: lastOf(node.shape) })
          : this.#asFirst(node);
      case "number":
        return this.#asFirst(node);
      case "call":
        return this.#call(node);
      case "result":
        return this.#result(node);
      case "permute":
        return this.#permute(node);
      case "reshape":
        return this.#reshape(node);
      case "cat":
        // Images that lie in both orders become one in row-major order in libtorch.
        return image && argsOf(node)[this.graph.exact ? "every" : "some"]((arg) => this.#liesLast(arg))
          ? this.#asLast(this.#movedDims(node))
          : this.#asFirst(this.#plain(node));
      case "sum":
      case "amax":
      case "slice":
      case "embed":
      case "expand":
      case "copy":
        if (this.graph.exact && (node.op === "copy" || node.op === "embed" && node.inRows)) {
          return this.#asFirst(this.#plain(node));
        }
        return image && argsOf(node).some((arg) => this.#liesLast(arg))
          ? this.#asLast(this.#movedDims(node))
          : this.#asFirst(this.#plain(node));
      case "gemm":
      case "stop":
        return this.#asFirst(this.#plain(node));
      default: {
        const whole = (arg: Ref) => String(this.graph.nodes[arg].shape) === String(node.shape);
        const inRows = "inRows" in node && node.inRows === true;
        return image && !inRows && argsOf(node).some((arg) => whole(arg) && this.#liesLast(arg))
          ? this.#asLast(this.#movedDims(node))
          : this.#asFirst(this.#plain(node));
      }
    }
  }

  #plain(node: Node): Node {
    return { ...node, args: argsOf(node).map((arg) => this.#first(arg)) } as Node;
  }

  #movedDims(node: Node): Node {
    const moved = { ...node, shape: lastOf(node.shape), args: argsOf(node).map((arg) => this.#last(arg)) };
    const dims = "dims" in node ? { dims: node.dims.map((dim) => PLACE[dim]).sort() } : {};
    const dim = "dim" in node ? { dim: PLACE[node.dim] } : {};
    return { ...moved, ...dims, ...dim } as Node;
  }

  /** A view that turns one order into the other is no work. */
  #permute(node: Node & { op: "permute" }): Forms {
    const [source] = node.args, { lies, last } = this.#forms[source];
    if (String(node.dims) === String(FIRST) && lies === "first") {
      return { lies: "last", first: null, last: this.#first(source) };
    }
    if (String(node.dims) === String(LAST) && lies === "last") {
      return { lies: "first", first: last, last: null };
    }
    return this.#asFirst(this.#plain(node));
  }

  /**
   * Images of one place, or of one channel, are the same in either order. [n, c, h, w] as [n, c, h w] and back are views
   * of [n, h w, c].
   */
  #reshape(node: Node & { op: "reshape" }): Forms {
    const [source] = node.args, { shape } = this.graph.nodes[source], { kind } = node;
    if (this.#liesLast(source) && isRow(shape, node.shape)) {
      const [count, channels, places] = node.shape;
      const made = {
        op: "reshape",
        args: [this.#last(source)],
        shape: [count, places, channels],
        kind,
      } as const;
      return { lies: "first", first: this.#turned(this.#add(made), [0, 2, 1]), last: null };
    }
    const from = this.#nodes[this.#own(source)];
    if (isRow(node.shape, shape) && from.op === "permute" && String(from.dims) === "0,2,1") {
      return this.#asLast({ op: "reshape", args: from.args, shape: lastOf(node.shape), kind });
    }
    const same = shape.length === 4 && (shape[1] === 1 || shape[2] * shape[3] === 1);
    return same && this.#liesLast(source)
      ? this.#asFirst({ ...node, args: [this.#last(source)] })
      : this.#asFirst(this.#plain(node));
  }

  #result(node: Node & { op: "result" }): Forms {
    const made = this.#own(node.args[0]);
    const moved: Node = { ...node, args: [made] };
    const { schema, last } = this.#nodes[made] as Node & { op: "call" };
    const lies = last && IMAGES[nameOfCall(schema)].results.includes(node.index) && node.shape.length === 4;
    return lies ? this.#asLast({ ...moved, last, shape: lastOf(node.shape) }) : this.#asFirst(moved);
  }

  #call(node: Node & { op: "call" }): Forms {
    const name = nameOfCall(node.schema), known = Object.hasOwn(IMAGES, name) ? IMAGES[name] : null;
    const at = known && node.values[known.image];
    const image = isRef(at) && this.graph.nodes[at.ref].shape.length === 4 ? at.ref : null;
    const last = known !== null && image !== null && this.#callsLast(name, node, image);
    const whole = (ref: Ref): boolean => {
      const { op, shape } = this.graph.nodes[ref];
      return image !== null && shape.length === 4 && op !== "tensor";
    };
    const to = (ref: Ref): Ref => {
      const laid = this.turned && (whole(ref) || ref === image);
      if (laid && last && !this.#liesLast(ref)) return this.#turned(this.#copy(this.#last(ref)), FIRST);
      if (laid && !last && this.#liesLast(ref)) return this.#copy(this.#first(ref));
      return this.#first(ref);
    };
    const values = withRefs(node.values, to), args = refsIn(values);
    const made = { ...node, values, args };
    // A call says by its first result how it lies, even if nobody reads that.
    return last && node.shape.length === 4 && (!this.graph.exact || followsImage(name, node.shape))
      ? this.#asLast({ ...made, last, shape: lastOf(node.shape) })
      : this.#asFirst(made);
  }

  #callsLast(name: string, node: Node & { op: "call" }, image: Ref): boolean {
    if (!this.turned || !name.startsWith("convolution")) return this.#liesLast(image);
    if (this.#breaksMemory(name, node)) return false;
    const result = name === "convolution" ? node.shape : this.graph.nodes[node.args[0]].shape;
    return result[2] * result[3] > FEW;
  }

  /**
   * oneDNN, as libtorch 2.15 has it, writes past its memory in the gradient of a kernel of one place that skips places of images
   * that lie channels last and have fewer channels than a vector.
   */
  #breaksMemory(name: string, { values }: Node & { op: "call" }): boolean {
    const back = name === "convolution" ? 0 : 1, kernel = values[1 + back], strides = values[3 + back];
    const [, channels, ...places] = isRef(kernel) ? this.graph.nodes[kernel.ref].shape : [];
    return channels < 8 && places.every((size) => size === 1) &&
      (strides as readonly number[]).some((step) => step > 1);
  }

  #copy(ref: Ref): Ref {
    const { shape, kind } = this.#nodes[ref];
    if (!this.#copies.has(ref)) this.#copies.set(ref, this.#add({ op: "copy", args: [ref], shape, kind }));
    return this.#copies.get(ref)!;
  }
}

/** [n, c, h, w] with all its places in a row. */
const isRow = (image: readonly number[], row: readonly number[]): boolean =>
  image.length === 4 && row.length === 3 && image[0] === row[0] && image[1] === row[1];

const lastOf = (shape: readonly number[]): number[] => LAST.map((dim) => shape[dim]);
