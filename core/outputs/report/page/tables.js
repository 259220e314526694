// Tables of a report: they sort by the column whose head is pressed, and what is wider than the page scrolls by keys too.
(() => {
  "use strict";
  for (const table of document.querySelectorAll("table.sorts")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      head.querySelector("button")?.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const valueOf = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
        const rows = [...table.tBodies[0].rows].sort((a, b) => {
          const [x, y] = [valueOf(a), valueOf(b)];
          const [m, n] = [Number(x), Number(y)];
          // Rows without a value come last in both orders.
          if (x === "" || y === "") return x === y ? 0 : x === "" ? 1 : -1;
          const order = Number.isNaN(m) || Number.isNaN(n)
            ? x.localeCompare(y, undefined, { numeric: true })
            : m - n;
          return down ? -order : order;
        });
        table.tBodies[0].append(...rows);
      });
    });
  }

  // A table that scrolls can be reached by the keyboard and has a name.
  const reachable = (box) => {
    const scrolls = box.scrollWidth > box.clientWidth + 1;
    box.classList.toggle("scrolls", scrolls);
    if (!scrolls) return ["tabindex", "role", "aria-label"].forEach((name) => box.removeAttribute(name));
    const title = box.closest("section, details")?.querySelector("h2")?.textContent ?? "Table";
    box.setAttribute("tabindex", "0");
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", `${title}, scrolls sideways`);
  };
  const sizes = new ResizeObserver((entries) => entries.forEach(({ target }) => reachable(target)));
  for (const box of document.querySelectorAll(".wide")) {
    reachable(box);
    sizes.observe(box);
  }
})();
