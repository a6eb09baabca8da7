// Tables: sorted by their headers, and filtered by words and comparisons. Without scripts they stand as they are.
const collator = new Intl.Collator(undefined, { numeric: true });
const SIGNS = { "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b, "=": (a, b) => a === b };

const cellText = (cell) => (cell.dataset.sort ?? cell.textContent).trim();
// A cell with a number is sorted by it, an empty one comes last in either direction.
function compareCells(x, y, sign) {
  if (x === "" || y === "") return (x === "") - (y === "");
  const difference = Number(x) - Number(y);
  return sign * (Number.isNaN(difference) ? collator.compare(x, y) : difference);
}

// Buttons in the headers: ascending, descending, the order of the page.
function sortable(table) {
  const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const name = head.textContent.trim();
    if (!name) return;
    const button = html("button", name);
    button.type = "button";
    head.replaceChildren(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const order = { none: "ascending", ascending: "descending", descending: "none" }[head.getAttribute("aria-sort")];
      for (const other of heads) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const text = (row) => cellText(row.cells[column]);
      body.append(...(order === "none" ? rows : [...rows].sort((a, b) => compareCells(text(a), text(b), sign))));
    });
  });
}

// A field above the table. A row is shown that has every word and satisfies every comparison, such as tflops>40.
function filterable(table) {
  const rows = [...table.tBodies[0].rows], columns = new Map();
  [...table.tHead.rows[0].cells].forEach((head, at) => { if (head.dataset.name) columns.set(head.dataset.name, at); });
  const box = html("div", undefined, "controls"), label = html("label", "Filter "), status = html("span", "", "faint");
  const field = document.createElement("input");
  Object.assign(field, { type: "search", placeholder: [...columns.keys()].includes("speedup") ? "words, or speedup<1" : "words" });
  status.setAttribute("role", "status");
  label.append(field);
  box.append(label, status);
  const matches = (row, word) => {
    const [, name, sign, limit] = /^([a-z]+)([<>]=?|=)(-?[0-9.]+)$/.exec(word) ?? [];
    if (!columns.has(name)) return row.textContent.toLowerCase().includes(word);
    const text = cellText(row.cells[columns.get(name)]);
    return text !== "" && SIGNS[sign](Number(text), Number(limit));
  };
  const apply = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      row.hidden = !words.every((word) => matches(row, word));
      if (!row.hidden) shown++;
    }
    status.textContent = `${shown} of ${rows.length} rows`;
  };
  field.addEventListener("input", apply);
  apply();
  table.closest(".scroll").before(box);
}

for (const table of document.querySelectorAll("table.sortable")) sortable(table);
for (const table of document.querySelectorAll("table.filterable")) filterable(table);
