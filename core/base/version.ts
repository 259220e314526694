import meta from "../../deno.json" with { type: "json" };

export const VERSION: string = meta.version;
