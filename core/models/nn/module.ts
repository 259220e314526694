// A module: named parameters, buffers and children, registered by hand in PyTorch's order; and sizes per dimension as
// layers take them.
import { requireGrad } from "../../../ffi/autograd.ts";
import { keep, type Tensor } from "../../../ffi/tensor.ts";
import { type ForwardContext, PLAIN_CONTEXT } from "./forward_context.ts";

/** @internal */
type Named<T> = [name: string, value: T];

/** Modules hold Tensor objects for life, never native handles: a trainer may move a parameter into an arena. */
export abstract class Module {
  /** True while it behaves as in training; `train` sets it. */
  training = true;
  /**
   * It behaves as in evaluation whatever `train` says, as a frozen batch norm does.
   * @internal
   */
  held = false;
  /** @internal */
  forwardContext: ForwardContext = PLAIN_CONTEXT;
  readonly #parameters: Named<Tensor>[] = [];
  readonly #buffers: Named<Tensor>[] = [];
  readonly #children: Named<Module>[] = [];

  /** Registers a trainable tensor. */
  protected parameter(name: string, tensor: Tensor): Tensor {
    this.#parameters.push([name, requireGrad(keep(tensor))]);
    return tensor;
  }
  /** Registers a tensor that is saved with the weights but not trained. */
  protected buffer(name: string, tensor: Tensor): Tensor {
    this.#buffers.push([name, keep(tensor)]);
    return tensor;
  }
  /** Registers a module under this name, and gives it back. */
  protected child<M extends Module>(name: string, module: M): M {
    this.#children.push([name, module]);
    return module;
  }
  /** Puts another module's parameter in the place of an own one, which is freed. */
  protected share(name: string, tensor: Tensor): Tensor {
    const entry = this.#parameters.find(([known]) => known === name)!;
    if (entry[1] !== tensor) entry[1].free();
    return entry[1] = tensor;
  }

  /** Switches dropout and batch statistics on or off, here and below. */
  train(on = true): void {
    this.training = on && !this.held;
    for (const [, child] of this.#children) child.train(on);
  }

  /** Own parameters, then the children's, depth first; a shared tensor once, under its first name. */
  namedParameters(): Named<Tensor>[] {
    return distinct(this.#collect("", (m) => m.#parameters));
  }
  /** Those that `buffer` registered, here and in all children, with their names. */
  namedBuffers(): Named<Tensor>[] {
    return distinct(this.#collect("", (m) => m.#buffers));
  }
  /**
   * All that a forward pass may write to: buffers, and tensors that no state_dict has.
   * @internal
   */
  namedState(): Named<Tensor>[] {
    return distinct(this.#collect("", (m) => [...m.#buffers, ...m.unsaved()]));
  }
  /**
   * Tensors that are neither trained nor saved.
   * @internal
   */
  protected unsaved(): Named<Tensor>[] {
    return [];
  }
  /** Lists what PyTorch's state_dict does, in its order: shared tensors under each of their names. */
  stateDict(): Named<Tensor>[] {
    return this.#collect("", (m) => [...m.#parameters, ...m.#buffers]);
  }
  /** This module and all below it, parents first. */
  modules(): Module[] {
    return [this, ...this.#children.flatMap(([, child]) => child.modules())];
  }

  /**
   * The modules below this one with their names, parents first; one that has two names is there once.
   * @internal
   */
  namedModules(): Named<Module>[] {
    return distinct(this.#children.flatMap(([name, child]): Named<Module>[] => [
      [name, child],
      ...child.namedModules().map(([below, module]): Named<Module> => [`${name}.${below}`, module]),
    ]));
  }

  /** Frees all parameters and buffers, here and in all children. */
  free(): void {
    for (const [, tensor] of this.stateDict()) tensor.free();
  }

  #collect(prefix: string, own: (m: Module) => Named<Tensor>[]): Named<Tensor>[] {
    const ownTensors = own(this).map(([name, tensor]): Named<Tensor> => [prefix + name, tensor]);
    return ownTensors.concat(
      this.#children.flatMap(([name, child]) => child.#collect(`${prefix}${name}.`, own)),
    );
  }
}

/**
 * LoRA puts it beside a layer: modules under names of their own, which add something to the layer's output.
 * @internal
 */
export interface Adapter {
  readonly parts: Readonly<Record<string, Module>>;
  /** The layer's output `y` for its input `x`, and what the adapter adds. */
  added(y: Tensor, x: Tensor): Tensor;
}

/**
 * A layer that may have an adapter.
 * @internal
 */
export abstract class Adaptable extends Module {
  #adapter: Adapter | null = null;

  adapt(adapter: Adapter): void {
    for (const [name, part] of Object.entries(adapter.parts)) this.child(name, part);
    this.#adapter = adapter;
  }
  protected adapted(y: Tensor, x: Tensor): Tensor {
    return this.#adapter === null ? y : this.#adapter.added(y, x);
  }
}

/** A module that only gives names to others: PyTorch's Sequential and ModuleDict, or the modules of one block. */
export class Group extends Module {
  /** In the order of the names' mention. */
  constructor(children: Readonly<Record<string, Module>> = {}) {
    super();
    for (const [name, child] of Object.entries(children)) this.child(name, child);
  }
  /** Adds a module under this name, and gives it back. */
  add<M extends Module>(name: string | number, module: M): M {
    return this.child(String(name), module);
  }
}

function distinct<T>(named: Named<T>[]): Named<T>[] {
  const seen = new Set<T>();
  return named.filter(([, one]) => !seen.has(one) && seen.add(one));
}

/** One number for all dimensions, or one each. */
export type Size = number | readonly number[];

/** A list of `dims` numbers, made once so that forward allocates none. */
export function perDimension(size: Size, dims: number): readonly number[] {
  return typeof size === "number" ? new Array<number>(dims).fill(size) : size;
}
