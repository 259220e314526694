// A search, looked at by the real optuna-dashboard while it runs.
import { assertEquals } from "@std/assert";
import { join } from "paths";
import { optunaPython } from "../../../tests/core/cluster/sweep/optuna_peer.ts";
import { rowsIn } from "../../../tests/integration/sweep_rows.ts";
import { inTemp, succeed, TINY } from "../../../tests/integration/program.ts";

const MLP = ["--model=mlp", ...TINY, "--no-wandb"];

Deno.test("the real optuna-dashboard shows a search, its runs and their evaluations", () =>
  inTemp(async (cwd) => {
    const journal = join(cwd, "sweeps/sweep/optuna.log");
    Deno.mkdirSync(join(cwd, "sweeps/sweep"), { recursive: true });
    Deno.writeTextFileSync(journal, ""); // the dashboard takes a while to start, and reads what comes later
    await using dashboard = startDashboard(journal);
    const words = ["--search=grid", "--lr=1e-2,1e-7", "--epochs=5", "--local"];
    await succeed(["sweep", ...MLP, ...words], { cwd });
    const [first] = await rowsIn(cwd);
    const { study_summaries: [study] } = await dashboard.get("studies");
    assertEquals([study.study_name, study.directions], ["sweep", ["minimize"]]);
    const { trials } = await dashboard.get(`studies/${study.study_id}?after=0`);
    assertEquals(trials.map(({ state }: { state: string }) => state), ["Complete", "Complete"]);
    assertEquals(trials[0].values, [first.metric]);
    assertEquals(trials[0].intermediate_values.length, 5);
    assertEquals(trials[1].params[0].param_external_value, "1e-7");
  }));

function startDashboard(journal: string) {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 }), { port } = listener.addr as Deno.NetAddr;
  listener.close();
  const program = ["-c", "from optuna_dashboard._cli import main; main()"]; // its script may name a folder it was moved from
  const args = [...program, journal, "--host", "127.0.0.1", "--port", String(port), "--server", "wsgiref"];
  const child = new Deno.Command(optunaPython(), { args, stdout: "null", stderr: "null" }).spawn();
  return {
    // deno-lint-ignore no-explicit-any
    async get(path: string): Promise<any> {
      const response = await asked(`http://127.0.0.1:${port}/api/${path}`);
      assertEquals(response.status, 200, await response.clone().text());
      return await response.json();
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await child.status;
    },
  };
}

/** Until the server is there. */
async function asked(url: string): Promise<Response> {
  for (let tries = 0;; tries++) {
    try {
      return await fetch(url);
    } catch (error) {
      if (tries > 600) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}
