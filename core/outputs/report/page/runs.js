// The part of the page of all runs that runs in a browser: sorts by a column, and shows what the filter and the states leave.
(() => {
  "use strict";
  const table = document.querySelector("#runs table"), body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells], rows = [...body.rows];
  const filter = document.getElementById("filter"), order = document.getElementById("order");
  const states = [...document.querySelectorAll("#controls .pick input")];
  const count = document.getElementById("count");
  /** A column's names: its own, and for a setting its path and the end of it. */
  const names = heads.map((head) => head.dataset.name.split(" "));
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const collator = new Intl.Collator("en", { numeric: true });

  const valueOf = (row, column) => row.cells[column].dataset.value;

  function sort(column, down) {
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
    order.value = `${column}${down ? "-" : "+"}`;
    const number = heads[column].classList.contains("number");
    const keyed = rows.map((row) => ({ row, value: valueOf(row, column) }));
    keyed.sort((a, b) => {
      // Runs without a value come last in both orders.
      if (a.value === "" || b.value === "") return Number(a.value === "") - Number(b.value === "");
      const way = number ? Number(a.value) - Number(b.value) || 0 : collator.compare(a.value, b.value);
      return down ? -way : way;
    });
    body.append(...keyed.map(({ row }) => row));
  }

  const UNITS = { s: 1, sec: 1, min: 60, h: 3600, d: 86400 };

  /** Reads what a person types as the column has it: "2h" and a date are seconds. */
  function numberOf(typed) {
    const [, count, unit] = /^(\d+(?:\.\d*)?)(s|sec|min|h|d)$/.exec(typed) ?? [];
    if (unit) return Number(count) * UNITS[unit];
    const day = /^\d{4}-\d\d-\d\d$/.test(typed) ? `${typed}T00:00` : typed;
    return /^\d{4}-\d/.test(typed) ? Date.parse(day) / 1000 : Number(typed.replace(/%$/, ""));
  }

  function patternOf(typed) {
    const parts = typed.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
    return new RegExp(`^${parts.join(".*")}$`, "is");
  }

  /** "lr>=1e-4" compares a column; every other word is looked for in the row. */
  function testOf(word) {
    const [, name, sign, typed] = /^([\w.-]+?)(<=|>=|!=|=|<|>)(.+)$/.exec(word) ?? [];
    const column = names.findIndex((all) => all.includes(name));
    if (column < 0) return (_, text) => text.includes(word);
    const wanted = numberOf(typed), pattern = patternOf(typed === "finished" ? "done" : typed);
    return (row) => {
      const value = valueOf(row, column), found = Number(value);
      const both = value !== "" && !Number.isNaN(found) && !Number.isNaN(wanted);
      if (sign === "=" || sign === "!=") {
        const same = both ? found === wanted : value !== "" && pattern.test(value);
        return sign === "=" ? same : !same;
      }
      if (!both) return false;
      if (sign === "<") return found < wanted;
      if (sign === ">") return found > wanted;
      return sign === "<=" ? found <= wanted : found >= wanted;
    };
  }

  function show() {
    const tests = filter.value.toLowerCase().split(/\s+/).filter(Boolean).map(testOf);
    const kept = new Set(states.filter(({ checked }) => checked).map(({ value }) => value));
    let shown = 0;
    rows.forEach((row, i) => {
      const there = kept.has(row.dataset.state) && tests.every((test) => test(row, texts[i]));
      row.hidden = !there;
      if (there) shown++;
    });
    count.textContent = shown === rows.length ? "" : `${shown} of ${rows.length} shown`;
  }

  heads.forEach((head, column) => {
    const title = head.textContent;
    for (const [mark, way] of [["+", "up"], ["-", "down"]]) {
      order.append(new Option(`${title}, ${way}`, `${column}${mark}`));
    }
    head.querySelector("button").addEventListener(
      "click",
      () => sort(column, head.getAttribute("aria-sort") === "ascending"),
    );
  });
  const given = new Option("as listed", "");
  order.prepend(given);
  order.value = "";
  order.addEventListener("change", () => {
    if (order.value !== "") return sort(parseInt(order.value), order.value.endsWith("-"));
    for (const head of heads) head.removeAttribute("aria-sort");
    body.append(...rows);
  });
  filter.addEventListener("input", show);
  for (const state of states) state.addEventListener("change", show);
  document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());
  show();
})();
