// What a pickle may name, and what each name builds: data only. Everything else is refused. Imports value, torch_names.
import { DTYPE_NAMES, STORAGE_DTYPES } from "./torch_names.ts";
import { DTYPE_BYTES, type Key, OrderedDict, TensorData, TorchName, Tuple, type Value } from "./value.ts";

/** Refuses the file with a sentence. */
export type Refuse = (what: string) => never;

type Builder = (args: Value[], refuse: Refuse) => Value;

const BUILDERS: ReadonlyMap<string, Builder> = new Map<string, Builder>([
  ["torch._utils._rebuild_tensor", rebuildTensor],
  ["torch._utils._rebuild_tensor_v2", rebuildTensor],
  ["torch._utils._rebuild_tensor_v3", rebuildTensor],
  ["torch._utils._rebuild_parameter", rebuildParameter],
  ["torch._utils._rebuild_parameter_with_state", rebuildParameter],
  ["collections.OrderedDict", orderedDict],
  ["collections.defaultdict", () => new Map()],
  ["builtins.set", ([items], refuse) => new Set(list(items, refuse))],
  ["builtins.frozenset", ([items], refuse) => new Set(list(items, refuse))],
  [
    "builtins.bytearray",
    ([bytes = new Uint8Array()], refuse) =>
      bytes instanceof Uint8Array ? bytes : refuse("has a bytearray of no bytes"),
  ],
  ["torch.Size", ([items = new Tuple([])], refuse) => new Tuple(list(items, refuse))],
  ["torch.device", device],
  ["_codecs.encode", encode],
  [
    "numpy.dtype",
    ([name], refuse) =>
      typeof name === "string" ? new TorchName(`numpy ${name}`) : refuse("has a numpy type without a name"),
  ],
  ["numpy.core.multiarray.scalar", numpyScalar],
  ["numpy._core.multiarray.scalar", numpyScalar],
]);

/** Types that stand in a pickle as plain values. */
const VALUES: ReadonlySet<string> = new Set([
  ...STORAGE_DTYPES.keys(),
  ...DTYPE_NAMES.keys(),
  "builtins.list",
  "builtins.dict",
  "builtins.int",
]);

/** A name met in a pickle, or a refusal that says what loading it elsewhere would run. */
export function lookUp(module: string, name: string, refuse: Refuse): TorchName {
  const full = `${module === "__builtin__" ? "builtins" : module}.${name}`;
  if (BUILDERS.has(full) || VALUES.has(full)) return new TorchName(full);
  if (/^torch\.\w+Storage$|^torch\.(float8|float4|bits|quint|qint)/.test(full)) {
    return refuse(
      `holds tensors of the type ${full}, which hpctrain can't read yet; convert them in PyTorch, e.g. with .float()`,
    );
  }
  const shown = JSON.stringify(full.slice(0, 120)).slice(1, -1);
  return refuse(
    `its pickle would call ${shown}, and hpctrain never executes a pickle: it reads tensors, numbers, text and containers only. ` +
      'If you trust the file, save just the weights in Python: torch.save(model.state_dict(), "weights.pt")',
  );
}

export function build(callee: Value, args: Value, refuse: Refuse): Value {
  const builder = callee instanceof TorchName ? BUILDERS.get(callee.name) : undefined;
  if (!builder || !(args instanceof Tuple)) {
    return refuse("its pickle calls something that is not a function hpctrain knows");
  }
  return builder(args.items, refuse);
}

/** State set on an object that was built: only kinds whose state adds nothing to the values are let through. */
export function setState(target: Value, state: Value, refuse: Refuse): void {
  // A state dict's _metadata, a Parameter's attributes.
  if (target instanceof OrderedDict || target instanceof TensorData) return;
  if (target instanceof TorchName && target.name.startsWith("numpy ")) {
    if (state instanceof Tuple && state.items[1] === ">") refuse("holds big-endian numpy numbers");
    return;
  }
  refuse(
    "its pickle sets the state of an object that hpctrain does not know, and it never executes a pickle",
  );
}

export function asKey(value: Value, refuse: Refuse): Key {
  if (value === null || typeof value !== "object" || value instanceof Tuple) return value as Key;
  return refuse("its pickle has a dict with a key that can't be one");
}

function rebuildTensor(args: Value[], refuse: Refuse): TensorData {
  const [base, offset, sizes, steps, requiresGrad, , type] = args;
  const shape = counts(sizes, refuse);
  const strides = counts(steps, refuse);
  if (!(base instanceof TensorData)) return refuse("its pickle has a tensor without a storage");
  if (shape.length !== strides.length || shape.length > 64) {
    return refuse("its pickle has a tensor whose shape and strides disagree");
  }
  const dtype = type instanceof TorchName ? DTYPE_NAMES.get(type.name) : base.dtype;
  if (dtype === undefined) return refuse("its pickle has a tensor of an unknown type");
  const tensor = new TensorData(
    dtype,
    shape,
    base.storage,
    strides,
    count(offset, refuse),
    requiresGrad === true,
  );
  const last = shape.reduce((sum, size, i) => sum + (size - 1) * strides[i], tensor.offset);
  if (tensor.numel > 0 && !((last + 1) * DTYPE_BYTES[dtype] <= base.storage.byteLength)) {
    return refuse(
      `its pickle has a tensor of shape [${shape}] that reaches beyond its ${base.storage.byteLength} bytes of storage`,
    );
  }
  return tensor;
}

function rebuildParameter([tensor, requiresGrad]: Value[], refuse: Refuse): TensorData {
  if (!(tensor instanceof TensorData)) return refuse("its pickle has a parameter without a tensor");
  const { dtype, shape, storage, strides, offset } = tensor;
  return new TensorData(dtype, shape, storage, strides, offset, requiresGrad === true);
}

function orderedDict([pairs]: Value[], refuse: Refuse): OrderedDict {
  const result = new OrderedDict();
  for (const pair of pairs === undefined ? [] : list(pairs, refuse)) {
    const [key, value] = list(pair, refuse);
    if (value === undefined) refuse("its pickle has an OrderedDict of something that is not pairs");
    result.set(asKey(key, refuse), value);
  }
  return result;
}

/** Of text and numbers only: a list would be written out, and one that holds itself many times has no end. */
function device(args: Value[], refuse: Refuse): TorchName {
  const plain = args.every((arg) => typeof arg === "string" || typeof arg === "number");
  return plain && args.length <= 2
    ? new TorchName(`device(${args.join(":")})`)
    : refuse("its pickle has a device that is not a name and a number");
}

/** Protocol 2 has no bytes: they are text in latin1, to be encoded back. */
function encode([text, encoding]: Value[], refuse: Refuse): Uint8Array {
  if (typeof text !== "string" || encoding !== "latin1") {
    return refuse("its pickle has bytes in an encoding other than latin1");
  }
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

function numpyScalar([type, bytes]: Value[], refuse: Refuse): Value {
  const name = type instanceof TorchName ? type.name : "";
  if (bytes instanceof Uint8Array && name.startsWith("numpy ")) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const code = name.slice(6);
    const fits = Number(code.slice(1)) === bytes.length;
    if (fits && code === "f8") return view.getFloat64(0, true);
    if (fits && code === "f4") return view.getFloat32(0, true);
    if (fits && code === "i8") return plain(view.getBigInt64(0, true));
    if (fits && code === "i4") return view.getInt32(0, true);
    if (fits && code === "b1") return view.getUint8(0) !== 0;
  }
  return refuse("holds a numpy number of a kind that hpctrain can't read; save it as a Python float or int");
}

/** An integer as a number where a number holds it exactly. */
export function plain(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function list(value: Value, refuse: Refuse): Value[] {
  if (value instanceof Tuple) return value.items;
  return Array.isArray(value) ? value : refuse("its pickle has something else where a list should stand");
}

function count(value: Value, refuse: Refuse): number {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return value;
  return refuse("its pickle has a tensor with a size that is not a count");
}

function counts(value: Value, refuse: Refuse): number[] {
  return list(value, refuse).map((item) => count(item, refuse));
}
