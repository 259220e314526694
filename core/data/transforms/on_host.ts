// Images for a model on the CPU: loader threads write the floats that the model sees, while a row of them is in their
// cache. Bytes go to a GPU as they are, and become floats there. May import ffi, reading, source.
import { readBytes, tensor, uninitialised, zero_ } from "../../../ffi/make.ts";
import { scope } from "../../../ffi/tensor.ts";
import { readRows } from "../reading/threaded_source.ts";
import { type Batch, type Part, plainPart, type Source } from "../source.ts";

/** The source with a `host` beside it, where each byte's float hangs on its channel alone. */
export function onHost(source: Source): Source {
  const { threaded, bytewise } = source;
  if (!bytewise || threaded?.input.dtype !== "u8") return source;
  const levels = levelsOf(source, threaded.input.shape);
  const now = { ...threaded, levels, input: { ...threaded.input, dtype: "f32" as const } };
  const [channels, ...rest] = threaded.input.shape;
  const finish = ({ input, target }: Batch, part: Part): Batch => {
    // The targets are finished as ever, beside images of no pixels.
    const none = uninitialised([target.shape[0], channels, ...rest.map(() => 0)], { dtype: "u8" });
    return { input, target: source.finish({ input: none, target }, part).target };
  };
  return { ...source, host: { ...source, threaded: now, finish, ...readRows(now) } };
}

/** What `finish` makes of 256 images that have all pixels alike: so its own bits. In memory that threads share. */
function levelsOf(source: Source, [channels, ...rest]: readonly number[]): Float32Array {
  return scope(() => {
    const { shape, dtype } = source.threaded!.target;
    const ones = rest.map(() => 1);
    const bytes = tensor(Uint8Array.from({ length: 256 * channels }, (_, i) => Math.floor(i / channels)), [
      256,
      channels,
      ...ones,
    ]);
    const target = zero_(uninitialised([256, ...shape], { dtype }));
    const ids = new Int32Array(256);
    const { input } = source.finish({ input: bytes, target }, plainPart(ids));
    const found = new Float32Array(readBytes(input).buffer);
    const levels = new Float32Array(new SharedArrayBuffer(4 * found.length));
    for (let i = 0; i < found.length; i++) levels[i % channels * 256 + Math.floor(i / channels)] = found[i];
    return levels;
  });
}
