// What the type checker must accept and refuse of functions that are typed by their schema. Never runs: schema_test.ts
// has it checked. An @ts-expect-error line without an error fails the check, so each line can fail.
import type { DType } from "../../ffi/dtype.ts";
import type { Fn } from "../../ffi/schema.ts";
import type { Device, Tensor } from "../../ffi/tensor.ts";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false;
const same = <A, B>(_: Same<A, B>) => {};

declare const t: Tensor;
declare function op<const S extends string>(schema: S): Fn<S>;

const linear = op("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor");
linear(t, t);
linear(t, t, null);
linear(t, t, t);
// @ts-expect-error a required argument is missing
linear(t);
// @ts-expect-error a number is no tensor
linear(t, 3);
// @ts-expect-error null only where the schema has a question mark
linear(t, null);
// @ts-expect-error one argument too many
linear(t, t, t, t);
same<ReturnType<typeof linear>, Tensor>(true);

const conv = op(
  "conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], int[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
);
conv(t, t, null, [2, 2], [1, 1], [1, 1], 3);
same<Parameters<typeof conv>["length"], 2 | 3 | 4 | 5 | 6 | 7>(true);
// @ts-expect-error a list, not a number
conv(t, t, null, 2);
// @ts-expect-error a number, not a list
conv(t, t, null, [2, 2], [1, 1], [1, 1], [3]);

const split = op("split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]");
same<ReturnType<typeof split>, Tensor[]>(true);
same<Parameters<typeof split>, [Tensor, number, number?]>(true);

const adam = op("_fused_adamw_(Tensor(a!)[] self, Tensor[] steps, *, float lr, bool amsgrad) -> ()");
same<typeof adam, (...args: [readonly Tensor[], readonly Tensor[], number, boolean]) => void>(true);
// @ts-expect-error a list of tensors, not one
adam(t, [t], 1, true);
// @ts-expect-error a flag is no number
adam([t], [t], 1, 1);

const topk = op("topk(Tensor self, SymInt k, int dim=-1) -> (Tensor values, Tensor indices)");
same<ReturnType<typeof topk>, [Tensor, Tensor]>(true);
const pair = op("f(Tensor(a!) x) -> (Tensor(a!), Tensor(b!), int)");
same<ReturnType<typeof pair>, [Tensor, Tensor, number]>(true);

const gelu = op('gelu(Tensor self, *, str approximate="none") -> Tensor');
gelu(t, "tanh");
// @ts-expect-error the mode is a text
gelu(t, true);

const zeros = op(
  "zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
);
zeros([2, 3], "bf16", null, "cuda:1", true);
same<Parameters<typeof zeros>[1], DType | null | undefined>(true);
same<Parameters<typeof zeros>[3], Device | null | undefined>(true);
// @ts-expect-error no such data type
zeros([2], "float32");
// @ts-expect-error no such device
zeros([2], "f32", null, "gpu");
// @ts-expect-error the layout is always libtorch's own choice
zeros([2], "f32", 1);

const fft = op("fft_fftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor");
fft(t, null, [0, 1], "ortho");
same<Parameters<typeof fft>[1], readonly number[] | null | undefined>(true);

const contiguous = op(
  "contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)",
);
contiguous(t, "channels_last");
// @ts-expect-error no such memory format
contiguous(t, "nhwc");

const pinned = op("is_pinned(Tensor self, Device? device=None) -> bool");
same<ReturnType<typeof pinned>, boolean>(true);
same<Fn<"f() -> float">, () => number>(true);

/** Every op in use has a signature: a schema that the types can't read gives never. */
type Ops = typeof import("../../ffi/ops.ts");
same<{ [K in keyof Ops]: [Ops[K]] extends [never] ? K : never }[keyof Ops], never>(true);
same<{ [K in keyof Ops]: [ReturnType<Ops[K]>] extends [never] ? K : never }[keyof Ops], never>(true);
