// What W&B's server says of a request that it refuses.
import { assertEquals, assertRejects } from "@std/assert";
import { UserError } from "../../../../../core/base/errors.ts";
import { openApi } from "../../../../../core/outputs/wandb/sync/api.ts";
import { findWandbServer } from "../../../../../core/outputs/wandb/sync/credentials.ts";

Deno.test("a server that explains itself with an object is quoted, and not as [object Object]", async () => {
  const server = findWandbServer({ WANDB_API_KEY: "0".repeat(40), WANDB_BASE_URL: "http://localhost:1" });
  const said = async (message: unknown) => {
    const send = () => Promise.resolve(JSON.stringify({ errors: [{ message }] }));
    const api = openApi(server, { send } as unknown as Parameters<typeof openApi>[1]);
    const asked = api.status({ entity: "e", project: "p", name: "n" } as Parameters<typeof api.status>[0]);
    return (await assertRejects(() => asked, UserError)).message.split(": ").slice(1).join(": ");
  };
  assertEquals(await said("it is closed"), 'the server says "it is closed".');
  assertEquals(await said({ code: 7 }), 'the server says "{"code":7}".');
});
