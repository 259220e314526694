// The type of weights, which is f32 but for --amp fp64: half precision computes with them, and keeps none.
import type { Config } from "./settings.ts";

export const weightsDtype = ({ amp }: Partial<Pick<Config["training"], "amp">>): "f32" | "f64" =>
  amp === "fp64" ? "f64" : "f32";
