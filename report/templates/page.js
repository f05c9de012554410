// Sorting and filtering. The page is whole without it; nothing here makes markup from text.
"use strict";
(() => {
  const number = (text) => {
    const found = /^\s*[^\d\s-]?\s*(-?\d+(?:\.\d+)?)/.exec(text);
    return found ? Number(found[1]) : NaN;
  };
  const compare = (a, b) => {
    const [x, y] = [number(a), number(b)];
    if (!Number.isNaN(x) && !Number.isNaN(y) && x !== y) return x - y;
    return a.localeCompare(b, "en", { numeric: true });
  };
  const sortable = (table) => {
    const body = table.tBodies[0];
    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const text = (row) => row.cells[column]?.textContent.trim() ?? "";
        const rows = Array.from(body.rows).sort((a, b) => compare(text(a), text(b)) * (down ? -1 : 1));
        body.append(...rows);
      });
    });
  };
  const filter = (before, label, items) => {
    const field = document.createElement("label");
    field.className = "filter";
    const input = document.createElement("input");
    input.type = "search";
    const told = document.createElement("output");
    field.append(label + " ", input, " ", told);
    before.before(field);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const item of items) {
        const text = item.textContent.toLowerCase();
        item.hidden = !words.every((word) => text.includes(word));
        shown += item.hidden ? 0 : 1;
      }
      told.textContent = words.length ? `${shown} of ${items.length}` : "";
    });
  };
  for (const table of document.querySelectorAll("table:not(.grid)")) {
    const rows = table.tHead && table.tBodies.length ? Array.from(table.tBodies[0].rows) : [];
    if (rows.length > 1) sortable(table);
    if (rows.length > 5) filter(table.closest(".scroll") ?? table, "Filter rows", rows);
  }
  for (const part of document.querySelectorAll("main > section")) {
    const cells = Array.from(part.querySelectorAll(":scope > .cell"));
    if (cells.length > 1) filter(cells[0], "Filter cells", cells);
  }
  const target = () => {
    try {
      return decodeURIComponent(location.hash.slice(1));
    } catch {
      return ""; // what no link of this page leads to
    }
  };
  const reveal = () => {
    const id = target();
    for (let part = id ? document.getElementById(id) : null; part; part = part.parentElement) {
      part.hidden = false;
      if (part.tagName === "DETAILS") part.open = true;
    }
    if (id) document.getElementById(id)?.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();
})();
